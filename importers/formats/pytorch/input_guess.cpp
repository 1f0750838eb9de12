#include "importers/formats/pytorch/input_guess.h"

#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/extents.h"
#include "importers/input_hints.h"

namespace etalon::pytorch_format {
namespace {

std::string words(std::string_view what) {
  return fmt::format("The file does not say the shape of its input: {}.", what);
}

// Code that computes with the size of the batch wants it known.
std::vector<InputGuesses> with_single(std::vector<InputGuesses> free) {
  const std::size_t n = free.size();
  for (std::size_t i = 0; i < n; ++i) {
    InputGuesses one = free[i];
    for (InputGuess& in : one.inputs) in.dims[0] = 1;
    one.said += " One sample: its code computes with the size of the batch.";
    free.push_back(std::move(one));
  }
  return free;
}

// As the caller says: all of it, or with the first extent, which all share, free.
std::vector<InputGuesses> hinted(std::span<const HintedInput> hints, const WantedInputs& wanted) {
  InputGuesses all;
  std::size_t required = 0, most = 0;
  std::vector<std::string> names;
  for (const ScriptParameter& p : wanted.arguments) {
    const std::size_t n = tensors_in(p.type);
    most += n;
    if (!p.has_default) required += n;
    for (std::size_t i = 0; i < n; ++i)
      names.push_back(n == 1 ? p.name : fmt::format("{}.{}", p.name, i));
  }
  if (hints.size() < required || hints.size() > most)
    throw AtenUnknown{fmt::format("{} inputs where forward takes {}{}", hints.size(), required,
                                  most == required ? "" : fmt::format(" to {}", most))};
  const bool named = std::ranges::all_of(
      hints, [&](const HintedInput& h) { return std::ranges::find(names, h.name) != names.end(); });
  for (std::size_t i = 0; i < hints.size(); ++i) {
    const HintedInput* h = &hints[i];
    if (named)
      for (const HintedInput& other : hints)
        if (other.name == names[i]) h = &other;
    if (named || most == 1) InputHints::took(named ? h->name : "input");
    const auto dims = h->type.shape.dims();
    const Ints extents(dims.begin(), dims.end());
    all.inputs.push_back({most == 1 ? "input" : names[i], h->type.dtype, extents, extents});
  }
  all.said = words("extents as of the inputs that were given");
  InputGuesses free = all;
  const std::int64_t batch = free.inputs[0].dims.empty() ? 0 : free.inputs[0].dims[0];
  for (InputGuess& in : free.inputs)
    if (!in.dims.empty() && in.dims[0] == batch) in.dims[0] = -1;
  if (batch < 1) return {all};
  free.said = words("extents as of the inputs that were given, but the first, which is free");
  return {free, all};
}

// Names that language models give to indices of (batch, length).
bool is_of_tokens(const ScriptParameter& p) {
  return p.name.ends_with("_ids") || p.name.ends_with("attention_mask") || p.name == "tokens";
}

std::string wanted_text(const WantedInputs& wanted) {
  std::string names;
  for (const ScriptParameter& p : wanted.arguments)
    if (!p.has_default) names += (names.empty() ? "" : ", ") + printable(p.name);
  return names;
}

}  // namespace

std::size_t tensors_in(std::string_view type) {
  if (type.find("Tuple[") == type.npos) return 1;
  std::size_t n = 0;
  for (std::size_t at = type.find("Tensor"); at != type.npos; at = type.find("Tensor", at + 6)) ++n;
  return std::max<std::size_t>(n, 1);
}

std::vector<InputGuesses> input_guesses(const WantedInputs& wanted) {
  if (const auto hints = InputHints::given(); !hints.empty()) return hinted(hints, wanted);
  const Shape& w = wanted.first_weight;
  const auto required = std::ranges::count_if(
      wanted.arguments, [](const ScriptParameter& p) { return !p.has_default; });
  const auto one = [&](DType dtype, Ints dims, Ints nominal, const std::string& said) {
    return InputGuesses{{{"input", dtype, std::move(dims), std::move(nominal)}}, words(said)};
  };
  if (required > 1 && std::ranges::all_of(wanted.arguments, [](const ScriptParameter& p) {
        return p.has_default || is_of_tokens(p);
      })) {
    InputGuesses tokens{{}, words("indices (batch, length), as its inputs' names say")};
    for (const ScriptParameter& p : wanted.arguments)
      if (!p.has_default) tokens.inputs.push_back({p.name, DType::i64, {-1, -1}, {1, 4}});
    return with_single({tokens});
  }
  if (required != 1 || w.rank() < 2)
    throw AtenUnknown{fmt::format(
        "inputs whose shapes the file does not say ({}); --input-shape NAME=f32[1,3,224,224] for "
        "each, or --input with their arrays, tells them",
        wanted_text(wanted))};
  if (wanted.first == FirstModule::embedding)
    return with_single(
        {one(DType::i64, {-1, -1}, {1, 4}, "indices (batch, length), as for its embedding")});
  if (wanted.first == FirstModule::recurrent)
    return {one(DType::f32, {-1, -1, w[1]}, {1, 4, w[1]},
                fmt::format("{} features, as for its recurrent layer", w[1]))};
  if (w.rank() == 2)
    return {one(DType::f32, {-1, w[1]}, {1, w[1]},
                fmt::format("{} features, as for its first linear layer", w[1]))};
  std::vector<InputGuesses> out;
  const auto axes = static_cast<std::size_t>(w.rank() - 2);
  const auto image = [&](std::int64_t extent, bool fixed) {
    Ints dims{-1, w[1]}, nominal{1, w[1]};
    for (std::size_t a = 0; a < axes; ++a) {
      dims.push_back(fixed ? extent : -1);
      nominal.push_back(extent);
    }
    out.push_back(one(
        DType::f32, std::move(dims), std::move(nominal),
        fmt::format("{} channels as for its first convolution, {}", w[1],
                    fixed ? fmt::format("{} along each axis, which fits its linear layers", extent)
                          : std::string("any extent"))));
  };
  image(224, false);
  image(32, false);
  for (const std::int64_t extent : kUsualExtents) image(extent, true);
  for (std::int64_t extent = 1; extent <= 40; ++extent) image(extent, true);
  return with_single(std::move(out));
}

}  // namespace etalon::pytorch_format
