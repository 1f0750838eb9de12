#include "importers/formats/pytorch/input_guess.h"

#include "importers/formats/extents.h"

namespace etalon::pytorch_format {

std::vector<InputGuess> input_guesses(const Shape& w, FirstModule module) {
  const auto words = [](std::string_view what) {
    return fmt::format("The file does not say the shape of its input: {}.", what);
  };
  // Code that computes with the size of the batch wants it known.
  const auto single = [&](std::vector<InputGuess> free) {
    const std::size_t n = free.size();
    for (std::size_t i = 0; i < n; ++i) {
      InputGuess one = free[i];
      one.dims[0] = 1;
      one.said += " One sample: its code computes with the size of the batch.";
      free.push_back(std::move(one));
    }
    return free;
  };
  if (module == FirstModule::embedding)
    return {{DType::i64, {-1, -1}, {1, 4}, words("indices (batch, length), as for its embedding")}};
  if (module == FirstModule::recurrent)
    return {{DType::f32,
             {-1, -1, w[1]},
             {1, 4, w[1]},
             words(fmt::format("{} features, as for its recurrent layer", w[1]))}};
  if (w.rank() == 2)
    return {{DType::f32,
             {-1, w[1]},
             {1, w[1]},
             words(fmt::format("{} features, as for its first linear layer", w[1]))}};
  std::vector<InputGuess> out;
  const auto axes = static_cast<std::size_t>(w.rank() - 2);
  const auto image = [&](std::int64_t extent, bool fixed) {
    InputGuess in;
    in.dims = {-1, w[1]};
    in.nominal = {1, w[1]};
    for (std::size_t a = 0; a < axes; ++a) {
      in.dims.push_back(fixed ? extent : -1);
      in.nominal.push_back(extent);
    }
    in.said = words(
        fmt::format("{} channels as for its first convolution, {}", w[1],
                    fixed ? fmt::format("{} along each axis, which fits its linear layers", extent)
                          : std::string("any extent")));
    out.push_back(std::move(in));
  };
  image(224, false);
  image(32, false);
  for (const std::int64_t extent : kUsualExtents) image(extent, true);
  for (std::int64_t extent = 1; extent <= 40; ++extent) image(extent, true);
  return single(std::move(out));
}

}  // namespace etalon::pytorch_format
