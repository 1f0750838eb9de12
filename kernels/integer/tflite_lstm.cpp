// TensorFlow Lite's LSTM of integers (engine/ops/tflite.h): weights and states of 8 bits, gates and
// cell of 16.
#include "engine/ops/tflite.h"
#include "engine/ops/tflite_fixed_point.h"
#include "kernels/integer/rows.h"
#include "kernels/integer/tflite_parts.h"

namespace etalon {
namespace {

using tflite::held;
using tflite::Multiplier;

// Gates have three bits before the point.
constexpr int kGateBits = 3;

struct Extents {
  std::int64_t steps, batch, inputs, hidden, outputs;
};

template <class T>
const T* data_of(const KernelCall& call, std::size_t i) {
  return call.has(i) ? call.input(i).data<T>().data() : nullptr;
}

class Lstm {
 public:
  explicit Lstm(const KernelCall& call)
      : p_(call.params<TfliteLstmParams>()),
        x_(data_of<std::int8_t>(call, 0)),
        w_(data_of<std::int8_t>(call, 1)),
        r_(data_of<std::int8_t>(call, 2)),
        bias_(data_of<std::int32_t>(call, 3)),
        peephole_(data_of<std::int16_t>(call, 4)),
        projection_(data_of<std::int8_t>(call, 5)),
        projection_bias_(data_of<std::int32_t>(call, 6)) {
    const Shape &x = call.input(0).shape(), &w = call.input(1).shape(), &r = call.input(2).shape();
    e_ = {x[0], x[1], x[2], w[1], r[2]};
    constexpr float kGate = 1.0F / 4096;
    for (std::size_t g = 0; g < 4; ++g) {
      by_x_[g] = Multiplier(static_cast<double>(p_.w_scales[g] * p_.x_scale / kGate));
      by_state_[g] = Multiplier(static_cast<double>(p_.r_scales[g] * p_.y_scale / kGate));
    }
    const double cell = std::ldexp(1.0, static_cast<int>(p_.cell_power));
    for (std::size_t i = 0; i < p_.peephole_scales.size(); ++i)
      by_cell_[i] = Multiplier(static_cast<double>(
          static_cast<float>(cell * static_cast<double>(p_.peephole_scales[i])) / kGate));
    by_hidden_ = Multiplier(static_cast<double>(
        static_cast<float>(0x1p-15 / static_cast<double>(p_.hidden_scale) * 0x1p-15)));
    by_projection_ =
        Multiplier(static_cast<double>(p_.projection_scale * p_.hidden_scale / p_.y_scale));
  }

  void run(std::int8_t* y, int threads) const {
    parallel_for(e_.batch, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) sequence(b, y);
    });
  }

 private:
  void sequence(std::int64_t b, std::int8_t* y) const {
    const auto hidden = static_cast<std::size_t>(e_.hidden);
    std::vector<std::int16_t> cell(hidden, 0), gates[4];
    std::vector<std::int8_t> state(static_cast<std::size_t>(e_.outputs),
                                   static_cast<std::int8_t>(p_.y_zero)),
        inner(hidden);
    for (auto& gate : gates) gate.resize(hidden);
    for (std::int64_t t = 0; t < e_.steps; ++t) {
      const std::int8_t* x = x_ + (t * e_.batch + b) * e_.inputs;
      for (std::size_t g = p_.coupled ? 1 : 0; g < 3; ++g) gate(g, x, state, cell, gates[g]);
      for (std::size_t j = 0; j < hidden; ++j) {
        const std::int16_t f = gates[1][j];
        const auto i = p_.coupled ? static_cast<std::int16_t>(32767 - f) : gates[0][j];
        const std::int32_t kept = Multiplier::divided_by_power(f * cell[j], 15);
        const std::int32_t taken =
            Multiplier::divided_by_power(i * gates[2][j], static_cast<int>(30 + p_.cell_power));
        cell[j] = held<std::int16_t>(std::int64_t{static_cast<std::int16_t>(kept)} +
                                     static_cast<std::int16_t>(taken));
      }
      gate(3, x, state, cell, gates[3]);
      for (std::size_t j = 0; j < hidden; ++j) {
        const std::int16_t squashed = tflite::tanh(cell[j], static_cast<int>(15 + p_.cell_power));
        const std::int32_t scaled = by_hidden_.scaled(std::int32_t{gates[3][j]} * squashed);
        inner[j] = held<std::int8_t>(std::int64_t{scaled} + p_.hidden_zero);
      }
      if (projection_ == nullptr)
        state = inner;
      else
        project(inner, state);
      std::copy(state.begin(), state.end(), y + (t * e_.batch + b) * e_.outputs);
    }
  }

  // Each sum is scaled by itself, held to 16 bits; the bias belongs to the first.
  void gate(std::size_t g, const std::int8_t* x, const std::vector<std::int8_t>& state,
            const std::vector<std::int16_t>& cell, std::vector<std::int16_t>& out) const {
    constexpr std::size_t kPeepholes[] = {0, 1, 3, 2};  // i, f, -, o
    const auto at = static_cast<std::int64_t>(g) * e_.hidden;
    for (std::int64_t j = 0; j < e_.hidden; ++j) {
      const auto row = static_cast<std::size_t>(j);
      std::int64_t sum = bias_ == nullptr ? 0 : bias_[at + j];
      for (std::int64_t k = 0; k < e_.inputs; ++k)
        sum += std::int64_t{w_[(at + j) * e_.inputs + k]} * (x[k] - p_.x_zero);
      std::int16_t v = held<std::int16_t>(by_x_[g].scaled(tflite::wrapped(sum)));
      sum = 0;
      for (std::int64_t k = 0; k < e_.outputs; ++k)
        sum += std::int64_t{r_[(at + j) * e_.outputs + k]} *
               (state[static_cast<std::size_t>(k)] - p_.y_zero);
      v = held<std::int16_t>(std::int64_t{by_state_[g].scaled(tflite::wrapped(sum))} + v);
      if (peephole_ != nullptr && g != 2) {
        const std::size_t i = kPeepholes[g];
        const std::int32_t seen =
            peephole_[static_cast<std::int64_t>(i) * e_.hidden + j] * cell[row];
        v = held<std::int16_t>(std::int64_t{by_cell_[i].scaled(seen)} + v);
      }
      out[row] = g == 2 ? tflite::tanh(v, kGateBits) : tflite::sigmoid(v, kGateBits);
    }
  }

  void project(const std::vector<std::int8_t>& inner, std::vector<std::int8_t>& state) const {
    for (std::int64_t o = 0; o < e_.outputs; ++o) {
      std::int64_t sum = projection_bias_ == nullptr ? 0 : projection_bias_[o];
      for (std::int64_t j = 0; j < e_.hidden; ++j)
        sum += std::int64_t{projection_[o * e_.hidden + j]} *
               (inner[static_cast<std::size_t>(j)] - p_.hidden_zero);
      state[static_cast<std::size_t>(o)] =
          held<std::int8_t>(std::int64_t{by_projection_.scaled(tflite::wrapped(sum))} + p_.y_zero);
    }
  }

  const TfliteLstmParams& p_;
  const std::int8_t *x_, *w_, *r_;
  const std::int32_t* bias_;
  const std::int16_t* peephole_;
  const std::int8_t* projection_;
  const std::int32_t* projection_bias_;
  Extents e_{};
  Multiplier by_x_[4], by_state_[4], by_cell_[3], by_hidden_, by_projection_;
};

void run_lstm(const KernelCall& call) {
  Lstm(call).run(reinterpret_cast<std::int8_t*>(output_bytes(call, 0)), call.threads);
}

}  // namespace

std::span<const KernelRow> tflite_lstm_rows() {
  static const KernelRow rows[] = {bits_row<run_lstm>("tflite_lstm", "tflite_lstm.definition")};
  return rows;
}

}  // namespace etalon
