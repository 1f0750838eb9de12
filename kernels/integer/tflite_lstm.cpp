// TensorFlow Lite's LSTM and SVDF of integers (engine/ops/tflite_recurrent.h).
#include "engine/ops/tflite.h"
#include "engine/ops/tflite_lstm_factors.h"
#include "kernels/integer/rows.h"
#include "kernels/integer/tflite_parts.h"

namespace etalon {
namespace {

using tflite::held;
using tflite::Multiplier;

constexpr int kGateBits = tflite::LstmFactors::kGateBits;
constexpr auto kPeepholes = tflite::LstmFactors::kPeepholes;

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
        f_(p_),
        x_(data_of<std::int8_t>(call, 0)),
        w_(data_of<std::int8_t>(call, 1)),
        r_(data_of<std::int8_t>(call, 2)),
        bias_(data_of<std::int32_t>(call, 3)),
        peephole_(data_of<std::int16_t>(call, 4)),
        projection_(data_of<std::int8_t>(call, 5)),
        projection_bias_(data_of<std::int32_t>(call, 6)),
        norm_(data_of<std::int16_t>(call, 7)) {
    const Shape &x = call.input(0).shape(), &w = call.input(1).shape(), &r = call.input(2).shape();
    e_ = {x[0], x[1], x[2], w[1], r[2]};
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
        if (p_.cell_clip > 0)
          cell[j] = static_cast<std::int16_t>(
              std::clamp<std::int64_t>(cell[j], -p_.cell_clip, p_.cell_clip));
      }
      gate(3, x, state, cell, gates[3]);
      for (std::size_t j = 0; j < hidden; ++j) {
        const std::int16_t squashed = tflite::tanh(cell[j], static_cast<int>(15 + p_.cell_power));
        const std::int32_t scaled = f_.by_hidden.scaled(std::int32_t{gates[3][j]} * squashed);
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
    const auto at = static_cast<std::int64_t>(g) * e_.hidden;
    for (std::int64_t j = 0; j < e_.hidden; ++j) {
      const auto row = static_cast<std::size_t>(j);
      std::int64_t sum = bias_ == nullptr || norm_ != nullptr ? 0 : bias_[at + j];
      for (std::int64_t k = 0; k < e_.inputs; ++k)
        sum += std::int64_t{w_[(at + j) * e_.inputs + k]} * (x[k] - p_.x_zero);
      std::int16_t v = held<std::int16_t>(f_.by_x[g].scaled(tflite::wrapped(sum)));
      sum = 0;
      for (std::int64_t k = 0; k < e_.outputs; ++k)
        sum += std::int64_t{r_[(at + j) * e_.outputs + k]} *
               (state[static_cast<std::size_t>(k)] - p_.y_zero);
      v = held<std::int16_t>(std::int64_t{f_.by_state[g].scaled(tflite::wrapped(sum))} + v);
      if (peephole_ != nullptr && g != 2) {
        const std::size_t i = kPeepholes[g];
        const std::int32_t seen =
            peephole_[static_cast<std::int64_t>(i) * e_.hidden + j] * cell[row];
        v = held<std::int16_t>(std::int64_t{f_.by_cell[i].scaled(seen)} + v);
      }
      out[row] = v;
    }
    if (norm_ != nullptr && !out.empty()) normalise(g, out);
    for (std::int16_t& v : out)
      v = g == 2 ? tflite::tanh(v, kGateBits) : tflite::sigmoid(v, kGateBits);
  }

  void normalise(std::size_t g, std::vector<std::int16_t>& gate) const {
    const auto n = static_cast<std::int64_t>(gate.size());
    std::int64_t sum = 0, squares = 0;
    for (const std::int16_t v : gate) {
      sum += v;
      squares += v * v;
    }
    const auto mean = static_cast<std::int32_t>(sum * 1024 / n);
    const std::int64_t spread = squares * ((1 << 20) / n) - std::int64_t{mean} * mean;
    auto variance = static_cast<std::int32_t>(spread / (1 << 20));
    if (variance < 1) variance = f_.least_variance[g];
    const Multiplier inverse = tflite::inverse_root(variance);
    const auto at = static_cast<std::int64_t>(g) * e_.hidden;
    for (std::int64_t j = 0; j < n; ++j) {
      std::int16_t& v = gate[static_cast<std::size_t>(j)];
      const std::int32_t normal = inverse.scaled(1024 * v - mean);
      const std::int32_t biased = tflite::wrapped(std::int64_t{normal} * norm_[at + j] +
                                                  (bias_ == nullptr ? 0 : bias_[at + j]));
      const auto finer = std::int64_t{biased};
      const auto whole = static_cast<std::int32_t>((finer > 0 ? finer + 512 : finer - 512) / 1024);
      v = held<std::int16_t>(f_.by_norm[g].scaled(whole));
    }
  }

  void project(const std::vector<std::int8_t>& inner, std::vector<std::int8_t>& state) const {
    for (std::int64_t o = 0; o < e_.outputs; ++o) {
      std::int64_t sum = projection_bias_ == nullptr ? 0 : projection_bias_[o];
      for (std::int64_t j = 0; j < e_.hidden; ++j)
        sum += std::int64_t{projection_[o * e_.hidden + j]} *
               (inner[static_cast<std::size_t>(j)] - p_.hidden_zero);
      state[static_cast<std::size_t>(o)] = held<std::int8_t>(
          std::int64_t{f_.by_projection.scaled(tflite::wrapped(sum))} + p_.y_zero);
      if (p_.projection_clip > 0)
        state[static_cast<std::size_t>(o)] = static_cast<std::int8_t>(std::clamp<std::int64_t>(
            state[static_cast<std::size_t>(o)], -p_.projection_clip, p_.projection_clip));
    }
  }

  const TfliteLstmParams& p_;
  tflite::LstmFactors f_;
  const std::int8_t *x_, *w_, *r_;
  const std::int32_t* bias_;
  const std::int16_t* peephole_;
  const std::int8_t* projection_;
  const std::int32_t* projection_bias_;
  const std::int16_t* norm_;
  Extents e_{};
};

void run_lstm(const KernelCall& call) {
  Lstm(call).run(reinterpret_cast<std::int8_t*>(output_bytes(call, 0)), call.threads);
}

void run_svdf(const KernelCall& call) {
  const auto& p = call.params<TfliteSvdfParams>();
  const auto* x = data_of<std::int8_t>(call, 0);
  const auto* w = data_of<std::int8_t>(call, 1);
  const SmallIntegers last(call.input(2));
  const auto* bias = data_of<std::int32_t>(call, 3);
  const bool narrow = call.input(2).dtype() == DType::i8;
  const TfliteEnds ends(call.input(2).dtype(), kActLowest, kActHighest);
  const Multiplier by_x(static_cast<double>(p.x_scale * p.w_scale / p.state_scale)),
      by_time(static_cast<double>(p.state_scale * p.time_scale / p.y_scale));
  const std::int64_t inputs = call.input(1).shape()[1], units = call.output(0).shape()[1];
  auto* y = reinterpret_cast<std::int8_t*>(output_bytes(call, 0));
  const auto latest = [&](std::int64_t row, std::int64_t filter) {
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < inputs; ++k)
      sum += std::int64_t{w[filter * inputs + k]} * (x[row * inputs + k] - p.x_zero);
    const std::int64_t state = ends.held(by_x.scaled(tflite::wrapped(sum)));
    return narrow ? tflite::wrapped<std::int8_t>(state + p.state_zero) - p.state_zero : state;
  };
  parallel_for(call.output(0).numel(), call.threads, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / units, unit = i % units;
      std::int64_t sum = bias == nullptr ? 0 : bias[unit];
      for (std::int64_t f = unit * p.rank; f < (unit + 1) * p.rank; ++f)
        sum += last[f] * latest(row, f);
      y[i] = held<std::int8_t>(std::int64_t{by_time.scaled(tflite::wrapped(sum))} + p.y_zero);
    }
  });
}

}  // namespace

std::span<const KernelRow> tflite_lstm_rows() {
  static const KernelRow rows[] = {bits_row<run_lstm>("tflite_lstm", "tflite_lstm.definition"),
                                   bits_row<run_svdf>("tflite_svdf", "tflite_svdf.definition")};
  return rows;
}

}  // namespace etalon
