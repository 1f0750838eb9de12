// The weights of a recurrent cell, from the three forms in which files hold them: (in, gates),
// (units, gates) and a bias; one array for each gate and part (Keras 1); as cuDNN takes them
// (CuDNNLSTM, CuDNNGRU), each gate's kernel transposed and read on in another order. Source:
// keras/layers/recurrent.py (1.2), keras/engine/saving.py (2.2).
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/formats/keras/translator.h"

namespace etalon::keras_format {
namespace {

constexpr std::int64_t kMostUnits = 1 << 20;

}  // namespace

const Tensor& Translator::constant_weight(std::size_t i) const {
  const Tensor* t = b_.constant_of(weight(i));
  if (t == nullptr || t->dtype() != DType::f32)
    throw UnknownLayer{"a recurrent weight that is not f32"};
  return *t;
}

// Keras 1 keeps i, c, f, o of an LSTM and z, r, h of a GRU apart: kernel, recurrent kernel, bias.
Translator::CellWeights Translator::joined_weights(const Cell& cell, const std::string& label) {
  const bool lstm = cell.type == "LSTM";
  constexpr std::array<std::size_t, 4> kLstm{0, 2, 1, 3};  // where i, f, c, o stand
  const std::size_t gates = lstm ? 4 : 3;
  CellWeights out;
  const auto joined = [&](const char* part, std::size_t offset) {
    std::vector<const Tensor*> parts;
    for (std::size_t g = 0; g < gates; ++g)
      parts.push_back(&constant_weight(cell.first_weight + 3 * (lstm ? kLstm[g] : g) + offset));
    const bool vector = offset == 2;
    const Shape& one = parts[0]->shape();
    const std::int64_t rows = vector ? 1 : one.rank() == 2 ? one[0] : 0, width = one.dim(-1);
    if (one.rank() != (vector ? 1 : 2) || width < 1 || width > kMostUnits)
      throw bad_input("a recurrent weight {}", to_string(parts[0]->type()));
    const auto all = static_cast<std::int64_t>(gates) * width;
    Tensor t = Tensor::uninitialized(DType::f32, vector ? Shape{all} : Shape{rows, all});
    auto to = t.mutable_data<float>();
    for (std::size_t g = 0; g < gates; ++g) {
      if (parts[g]->shape() != one)
        throw bad_input("gates of {} and {}", to_string(one), to_string(parts[g]->type()));
      const auto from = parts[g]->data<float>();
      for (std::int64_t r = 0; r < rows; ++r)
        std::ranges::copy(
            from.subspan(static_cast<std::size_t>(r * width), static_cast<std::size_t>(width)),
            to.begin() + r * all + static_cast<std::int64_t>(g) * width);
    }
    return b_.constant(label + "." + part, std::move(t));
  };
  b_.note("Keras 1 keeps the weights of each gate apart; they are put beside each other.");
  out.kernel = joined("kernel", 0);
  out.recurrent = joined("recurrent", 1);
  out.bias = joined("bias", 2);
  return out;
}

// Gate by gate: element (i, j) of a kernel [in, units] is the one at i + in * j of what is stored,
// row by row; recurrent kernels are transposed; the bias has two parts.
Translator::CellWeights Translator::cudnn_weights(const Cell& cell, const std::string& label) {
  const std::int64_t gates = cell.type == "LSTM" ? 4 : 3;
  const auto turned = [&](const char* part, std::size_t i, bool recurrent) {
    const Tensor& stored = constant_weight(cell.first_weight + i);
    if (stored.shape().rank() != 2 || stored.shape()[1] % gates != 0)
      throw bad_input("a recurrent weight {} of {} gates", to_string(stored.type()), gates);
    const std::int64_t rows = stored.shape()[0], all = stored.shape()[1], units = all / gates;
    // Rows of no units take no bytes, however many of them the file claims.
    if (units < 1 || (recurrent && rows != units))
      throw bad_input("a recurrent kernel {} of {} gates", to_string(stored.type()), gates);
    Tensor t = Tensor::uninitialized(DType::f32, stored.shape());
    const auto from = stored.data<float>();
    auto to = t.mutable_data<float>();
    for (std::int64_t g = 0; g < gates; ++g)
      for (std::int64_t i2 = 0; i2 < rows; ++i2)
        for (std::int64_t j = 0; j < units; ++j) {
          const std::int64_t place = recurrent ? j * units + i2 : i2 + rows * j;
          to[static_cast<std::size_t>(i2 * all + g * units + j)] =
              from[static_cast<std::size_t>(place / units * all + g * units + place % units)];
        }
    return b_.constant(label + "." + part, std::move(t));
  };
  CellWeights out;
  out.kernel = turned("kernel", 0, false);
  out.recurrent = turned("recurrent", 1, true);
  const Tensor& bias = constant_weight(cell.first_weight + 2);
  const std::int64_t units = b_.shape(out.recurrent)[0];
  if (bias.numel() != 2 * gates * units)
    throw bad_input("a bias {} of {} units", to_string(bias.type()), units);
  out.bias = b_.constant(label + ".bias", bias.reshaped({2, gates * units}));
  b_.note("cuDNN's form of a recurrent layer's weights is turned into Keras', gate by gate.");
  return out;
}

Translator::CellWeights Translator::cell_weights(const Cell& cell, const std::string& label) {
  if (cell.cudnn) return cudnn_weights(cell, label);
  const bool gated = cell.type == "LSTM" || cell.type == "GRU";
  // In the form for a GPU the gates stand beside each other there, too.
  const std::size_t directions = c_.type == "Bidirectional" ? 2 : 1;
  if (origin_.version == 1 && gated && c_.weights.size() > 3 * directions)
    return joined_weights(cell, label);
  CellWeights out{weight(cell.first_weight), weight(cell.first_weight + 1), kAbsent};
  if (flag_of(cell.config, "use_bias", true)) out.bias = weight(cell.first_weight + 2);
  return out;
}

}  // namespace etalon::keras_format
