// TensorFlow Lite's hybrid kernels (engine/ops/tflite_hybrid.h).
#include "engine/ops/tflite_hybrid.h"

#include <cmath>

#include "engine/numerics/function.h"
#include "engine/ops/matmul.h"
#include "engine/ops/tflite_fixed_point.h"
#include "kernels/integer/rows.h"
#include "kernels/integer/tflite_parts.h"

namespace etalon {
namespace {

std::int32_t nearest(float v) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(rounded_away(v), -512, 512));
}

// A run of numbers as integers: real = scale * (q - zero).
struct Run {
  float scale = 1;
  std::int32_t zero = 0;
};

Run quantised(std::span<const float> x, bool asymmetric, std::int8_t* q) {
  float least = 0, most = 0;
  for (const float v : x) {
    if (v < least) least = v;
    if (v > most) most = v;
  }
  std::fill(q, q + x.size(), std::int8_t{0});
  if (least == 0 && most == 0) return {};
  Run run;
  if (!asymmetric) {
    const float range = std::max(-least, most), finer = 127.0F / range;
    run.scale = range / 127.0F;
    for (std::size_t i = 0; i < x.size(); ++i)
      q[i] = static_cast<std::int8_t>(std::clamp(nearest(x[i] * finer), -127, 127));
    return run;
  }
  const auto low = static_cast<double>(least), high = static_cast<double>(most);
  const double step = static_cast<double>(most - least) / 255;
  const bool from_least = 128 + std::abs(low / step) < 127 + std::abs(high / step);
  const double zero = from_least ? -128 - low / step : 127 - high / step;
  // NaN where an end is infinite: the reference's conversion leaves it open.
  run.zero =
      zero == zero ? static_cast<std::int32_t>(std::round(std::clamp(zero, -128.0, 127.0))) : 0;
  run.scale = static_cast<float>(step);
  const float finer = 1.0F / run.scale;
  for (std::size_t i = 0; i < x.size(); ++i)
    q[i] = static_cast<std::int8_t>(
        std::clamp(nearest(static_cast<float>(run.zero) + x[i] * finer), -128, 127));
  return run;
}

float canonical(float v) { return v == v ? v : std::numeric_limits<float>::quiet_NaN(); }

std::int32_t product_sum(const std::int8_t* w, const std::int8_t* q, std::int64_t n,
                         std::int32_t zero) {
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < n; ++k) sum += std::int64_t{w[k]} * (q[k] - zero);
  return tflite::wrapped(sum);
}

bool all_zero(std::span<const float> x) {
  return std::ranges::all_of(x, [](float v) { return v == 0; });
}

// Rows as integers, and what a matrix makes of them.
class Rows {
 public:
  Rows(std::span<const float> x, std::int64_t columns, bool asymmetric)
      : columns_(columns), zeros_(all_zero(x)), q_(x.size()) {
    const auto k = static_cast<std::size_t>(columns);
    for (std::size_t at = 0; k > 0 && at < x.size(); at += k)
      runs_.push_back(quantised(x.subspan(at, k), asymmetric, q_.data() + at));
  }
  bool zeros() const { return zeros_; }
  const std::int8_t* row(std::int64_t i) const { return q_.data() + i * columns_; }
  const Run& run(std::int64_t i) const { return runs_[static_cast<std::size_t>(i)]; }
  float part(std::int64_t row, const std::int8_t* weights, float w_scale) const {
    if (columns_ == 0) return 0;
    const std::int32_t sum = product_sum(weights, this->row(row), columns_, run(row).zero);
    return static_cast<float>(sum) * (run(row).scale * w_scale);
  }

 private:
  std::int64_t columns_;
  bool zeros_;
  std::vector<std::int8_t> q_;
  std::vector<Run> runs_;
};

template <class T>
const T* given(const KernelCall& call, std::size_t i) {
  return call.has(i) ? call.input(i).data<T>().data() : nullptr;
}

float* floats_out(const KernelCall& call) { return call.output(0).mutable_data<float>().data(); }

void run_fully_connected(const KernelCall& call) {
  const auto& p = call.params<TfliteHybridParams>();
  const std::int64_t outputs = call.input(1).shape()[0], k = call.input(1).shape()[1];
  const Rows rows(call.input(0).data<float>(), k, p.asymmetric);
  const auto* w = given<std::int8_t>(call, 1);
  const auto* bias = given<float>(call, 2);
  float* y = floats_out(call);
  parallel_for(call.output(0).numel(), call.threads, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t o = i % outputs;
      const float from = bias == nullptr ? 0 : bias[o];
      const float scale = p.w_scales[p.w_scales.size() == 1 ? 0 : static_cast<std::size_t>(o)];
      y[i] = canonical(rows.zeros() ? from : from + rows.part(i / outputs, w + o * k, scale));
    }
  });
}

void run_conv(const KernelCall& call) {
  const auto& p = call.params<TfliteHybridConvParams>();
  const ConvGeometry g = conv_geometry(p, call.input(0).shape(), call.input(1).shape());
  const auto x = call.input(0).data<float>();
  const std::size_t image = g.batch == 0 ? 0 : x.size() / static_cast<std::size_t>(g.batch);
  std::vector<std::int8_t> q(x.size());
  std::vector<Run> runs(static_cast<std::size_t>(g.batch));
  for (std::size_t n = 0; image > 0 && n < runs.size(); ++n)
    runs[n] = quantised(x.subspan(n * image, image), p.asymmetric, q.data() + n * image);
  const auto* w = given<std::int8_t>(call, 1);
  const auto* bias = given<float>(call, 2);
  float* y = floats_out(call);
  const std::int64_t per_image = g.batch == 0 ? 1 : call.output(0).numel() / g.batch;
  for_each_output(g, call.threads, [&](std::int64_t i, std::int64_t o, const auto& taps) {
    const Run& run = runs[static_cast<std::size_t>(i / per_image)];
    std::int64_t sum = 0;
    taps([&](std::int64_t xi, std::int64_t wi) {
      sum += std::int64_t{w[wi]} * (q[static_cast<std::size_t>(xi)] - run.zero);
    });
    const auto whole = static_cast<float>(tflite::wrapped(sum));
    const float scale = p.w_scales[p.w_scales.size() == 1 ? 0 : static_cast<std::size_t>(o)];
    const float v = p.in_turn ? whole * scale * run.scale : whole * (run.scale * scale);
    y[i] = canonical(bias == nullptr ? v : v + bias[o]);
  });
}

// Where the kernel looks for what belongs to a matrix: its batch axes' places are added up.
std::int64_t looked_up(std::int64_t batch, const Shape& axes,
                       const std::array<std::int64_t, kMaxRank>& strides) {
  std::int64_t sum = 0;
  for (int a = axes.rank(); a-- > 0;) {
    if (strides[static_cast<std::size_t>(a)] != 0) sum += batch % axes[a];
    batch /= axes[a];
  }
  return sum;
}

void run_batch_matmul(const KernelCall& call) {
  const auto& p = call.params<TfliteHybridParams>();
  const MatMulGeometry g = matmul_geometry(call.input(0).shape(), call.input(1).shape());
  const Rows rows(call.input(0).data<float>(), g.k, p.asymmetric);
  const auto* b = given<std::int8_t>(call, 1);
  float* y = floats_out(call);
  if (g.k == 0) {
    std::fill_n(y, call.output(0).numel(), 0.0F);
    return;
  }
  parallel_for(g.batch.numel() * g.m, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t batch = r / g.m, m = r % g.m;
      const std::int64_t first = strided_offset(batch, g.batch, g.b_batch);
      const std::int8_t* q = rows.row(strided_offset(batch, g.batch, g.a_batch) / g.k + m);
      const Run& run = rows.run(looked_up(batch, g.batch, g.a_batch) * g.m + m);
      for (std::int64_t n = 0; n < g.n; ++n) {
        std::int64_t sum = 0, of_b = 0;
        for (std::int64_t k = 0; k < g.k; ++k) {
          const std::int64_t v = b[first + k * g.b_row + n * g.b_col];
          sum += v * q[k];
          of_b += v;
        }
        const float less = static_cast<float>(tflite::wrapped(of_b)) * static_cast<float>(run.zero);
        const auto total =
            static_cast<std::int64_t>(static_cast<float>(tflite::wrapped(sum)) - less);
        const float scale = p.w_scales[p.w_scales.size() == 1 ? 0 : static_cast<std::size_t>(n)];
        y[r * g.n + n] = canonical(run.scale * scale * static_cast<float>(total) + 0.0F);
      }
    }
  });
}

float activated(HybridActivation function, float v) {
  if (function == HybridActivation::relu) return v < 0 || v == 0 ? 0.0F : canonical(v);
  return canonical(function == HybridActivation::tanh ? correctly_rounded_f32(Function::tanh, v)
                                                      : v);
}

void run_rnn(const KernelCall& call) {
  const auto& p = call.params<TfliteHybridRnnParams>();
  const Shape &xs = call.input(0).shape(), &ws = call.input(1).shape();
  const std::int64_t steps = xs[0], batch = xs[1], inputs = xs[2], hidden = ws[0];
  const auto x = call.input(0).data<float>();
  const auto *w = given<std::int8_t>(call, 1), *r = given<std::int8_t>(call, 2);
  const auto* bias = given<float>(call, 3);
  float* y = floats_out(call);
  const auto units = static_cast<std::size_t>(batch * hidden);
  const std::vector<float> none(units);
  std::span<const float> state = none;
  for (std::int64_t t = 0; t < steps; ++t) {
    const auto size = static_cast<std::size_t>(batch * inputs);
    const Rows of_x(x.subspan(static_cast<std::size_t>(t) * size, size), inputs, p.asymmetric),
        of_state(state, hidden, p.asymmetric);
    float* out = y + t * batch * hidden;
    parallel_for(batch * hidden, call.threads, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i / hidden, j = i % hidden;
        float v = bias == nullptr ? 0 : bias[j];
        if (!of_x.zeros()) v += of_x.part(row, w + j * inputs, p.w_scale);
        if (!of_state.zeros()) v += of_state.part(row, r + j * hidden, p.r_scale);
        out[i] = activated(p.activation, v);
      }
    });
    state = {out, units};
  }
}

class Lstm {
 public:
  explicit Lstm(const KernelCall& call)
      : p_(call.params<TfliteHybridLstmParams>()),
        threads_(call.threads),
        x_(call.input(0).data<float>()),
        w_(given<std::int8_t>(call, 1)),
        r_(given<std::int8_t>(call, 2)),
        bias_(given<float>(call, 3)),
        peephole_(given<std::int8_t>(call, 4)),
        projection_(given<std::int8_t>(call, 5)),
        projection_bias_(given<float>(call, 6)),
        steps_(call.input(0).shape()[0]),
        batch_(call.input(0).shape()[1]),
        inputs_(call.input(0).shape()[2]),
        hidden_(call.input(1).shape()[1]),
        outputs_(call.input(2).shape()[2]) {}

  void run(float* y) const {
    const auto units = static_cast<std::size_t>(batch_ * hidden_);
    std::vector<float> cell(units), inner(units),
        state(static_cast<std::size_t>(batch_ * outputs_));
    for (std::int64_t t = 0; t < steps_; ++t) {
      const auto size = static_cast<std::size_t>(batch_ * inputs_);
      const Rows of_x(x_.subspan(static_cast<std::size_t>(t) * size, size), inputs_, p_.asymmetric),
          of_state(state, outputs_, p_.asymmetric);
      parallel_for(batch_ * hidden_, threads_, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          inner[static_cast<std::size_t>(i)] =
              unit(of_x, of_state, i, cell[static_cast<std::size_t>(i)]);
      });
      if (projection_ == nullptr)
        state = inner;
      else
        project(inner, state);
      std::ranges::copy(state, y + t * batch_ * outputs_);
    }
  }

 private:
  static float sigmoid(float v) { return correctly_rounded_f32(Function::sigmoid, v); }

  // The argument of gate g; i, f, c, o.
  float argument(std::size_t g, const Rows& of_x, const Rows& of_state, std::int64_t i,
                 float cell) const {
    constexpr std::size_t kPeepholes[] = {0, 1, 3, 2};
    const std::int64_t row = i / hidden_, j = static_cast<std::int64_t>(g) * hidden_ + i % hidden_;
    float v = bias_[j];
    if (!of_x.zeros()) v += of_x.part(row, w_ + j * inputs_, p_.w_scales[g]);
    if (!of_state.zeros()) v += of_state.part(row, r_ + j * outputs_, p_.r_scales[g]);
    if (peephole_ == nullptr || g == 2) return v;
    const std::size_t at = kPeepholes[g];
    const float weight =
        static_cast<float>(peephole_[static_cast<std::int64_t>(at) * hidden_ + i % hidden_]);
    return v + weight * p_.peephole_scales[at] * cell;
  }

  // o * activation(cell), and the cell behind this step.
  float unit(const Rows& of_x, const Rows& of_state, std::int64_t i, float& cell) const {
    const float f = sigmoid(argument(1, of_x, of_state, i, cell));
    const float in = p_.coupled ? 1.0F - f : sigmoid(argument(0, of_x, of_state, i, cell));
    const float update = activated(p_.activation, argument(2, of_x, of_state, i, cell));
    cell = canonical(f * cell + update * in);
    if (p_.cell_clip > 0) cell = std::clamp(cell, -p_.cell_clip, p_.cell_clip);
    const float o = sigmoid(argument(3, of_x, of_state, i, cell));
    return canonical(o * activated(p_.activation, cell));
  }

  void project(const std::vector<float>& inner, std::vector<float>& state) const {
    const Rows rows(inner, hidden_, p_.asymmetric);
    for (std::int64_t i = 0; i < batch_ * outputs_; ++i) {
      const std::int64_t o = i % outputs_;
      float v = projection_bias_ == nullptr ? 0 : projection_bias_[o];
      if (!rows.zeros())
        v += rows.part(i / outputs_, projection_ + o * hidden_, p_.projection_scale);
      if (p_.projection_clip > 0) v = std::clamp(v, -p_.projection_clip, p_.projection_clip);
      state[static_cast<std::size_t>(i)] = canonical(v);
    }
  }

  const TfliteHybridLstmParams& p_;
  int threads_;
  std::span<const float> x_;
  const std::int8_t *w_, *r_;
  const float* bias_;
  const std::int8_t *peephole_, *projection_;
  const float* projection_bias_;
  std::int64_t steps_, batch_, inputs_, hidden_, outputs_;
};

void run_lstm(const KernelCall& call) { Lstm(call).run(floats_out(call)); }

}  // namespace

std::span<const KernelRow> tflite_hybrid_rows() {
  static const KernelRow rows[] = {
      bits_row<run_fully_connected>("tflite_hybrid_fully_connected",
                                    "tflite_hybrid_fully_connected.definition"),
      bits_row<run_conv>("tflite_hybrid_conv", "tflite_hybrid_conv.definition"),
      bits_row<run_batch_matmul>("tflite_hybrid_batch_matmul",
                                 "tflite_hybrid_batch_matmul.definition"),
      bits_row<run_rnn>("tflite_hybrid_rnn", "tflite_hybrid_rnn.definition"),
      bits_row<run_lstm>("tflite_hybrid_lstm", "tflite_hybrid_lstm.definition"),
  };
  return rows;
}

}  // namespace etalon
