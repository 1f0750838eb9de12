// TensorFlow Lite's integer arithmetic (engine/ops/tflite.h), one text for every type.
#include "engine/ops/tflite.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/numerics/function.h"
#include "engine/ops/tflite_values.h"
#include "kernels/integer/rows.h"
#include "kernels/integer/tflite_parts.h"

namespace etalon {
namespace {

using tflite::between;
using tflite::between_f32;
using tflite::Multiplier;
using tflite::multipliers;
using tflite::of_sums;

// One weighted sum: its taps, its bias, its channel's factor; scaled with one rounding or in steps.
class WeightedSums {
 public:
  WeightedSums(const KernelCall& call, const TfliteConvParams& p, std::int64_t channels, bool once)
      : p_(p),
        once_(once),
        x_(call.input(0)),
        w_(call.input(1)),
        factors_(multipliers(p, channels, !once && call.output(0).dtype() == DType::u8)),
        ends_(call.output(0).dtype(), p.act_min, p.act_max),
        dtype_(call.output(0).dtype()),
        y_(output_bytes(call, 0)) {
    if (!call.has(2)) return;
    wide_ = call.input(2).dtype() == DType::i64;
    for (std::int64_t o = 0; o < channels; ++o)
      bias_.push_back(wide_ ? call.input(2).data<std::int64_t>()[static_cast<std::size_t>(o)]
                            : call.input(2).data<std::int32_t>()[static_cast<std::size_t>(o)]);
  }
  template <class Taps>
  void operator()(std::int64_t i, std::int64_t o, const Taps& taps) const {
    const auto x_zero = static_cast<std::int32_t>(p_.x_zero),
               w_zero = static_cast<std::int32_t>(p_.w_zero);
    std::int64_t sum = 0;
    taps([&](std::int64_t xi, std::int64_t wi) {
      sum += std::int64_t{x_[xi] - x_zero} * (w_[wi] - w_zero);
    });
    const auto c = static_cast<std::size_t>(o);
    if (!bias_.empty()) sum += bias_[c];
    std::int64_t scaled = 0;
    if (once_)
      scaled = factors_[c].scaled_once(sum);
    else if (wide_ || (dtype_ == DType::i16 && bias_.empty()))
      scaled = factors_[c].scaled(sum);
    else
      scaled = factors_[c].scaled(static_cast<std::int32_t>(static_cast<std::uint64_t>(sum)));
    store_integer(y_, dtype_, i, ends_.held(scaled + p_.y_zero));
  }

 private:
  const TfliteConvParams& p_;
  bool once_;
  SmallIntegers x_, w_;
  std::vector<Multiplier> factors_;
  TfliteEnds ends_;
  DType dtype_;
  std::byte* y_;
  std::vector<std::int64_t> bias_;
  bool wide_ = false;
};

void run_conv(const KernelCall& call) {
  const auto& p = call.params<TfliteConvParams>();
  const ConvGeometry g = conv_geometry(p, call.input(0).shape(), call.input(1).shape());
  for_each_output(g, call.threads, WeightedSums(call, p, g.out_channels, false));
}

void run_fully_connected(const KernelCall& call) {
  const auto& p = call.params<TfliteFullyConnectedParams>();
  const std::int64_t channels = call.input(1).shape()[0], k = call.input(1).shape()[1];
  const WeightedSums sums(call, p, channels, true);
  parallel_for(call.output(0).numel(), call.threads, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t o = i % channels, row = i / channels;
      sums(i, o, [&](const auto& tap) {
        for (std::int64_t j = 0; j < k; ++j) tap(row * k + j, o * k + j);
      });
    }
  });
}

template <int Sign>
void run_add(const KernelCall& call) {
  const auto& p = call.params<TfliteBinaryParams>();
  const DType dtype = call.output(0).dtype();
  const int left = dtype == DType::i16 ? 15 : 20;
  const double twice = 2 * static_cast<double>(std::max(p.a_scale, p.b_scale));
  const Multiplier ma(static_cast<double>(p.a_scale) / twice),
      mb(static_cast<double>(p.b_scale) / twice),
      my(twice / ((1 << left) * static_cast<double>(p.y_scale)));
  const TfliteEnds ends(dtype, p.act_min, p.act_max);
  const auto az = static_cast<std::int32_t>(p.a_zero), bz = static_cast<std::int32_t>(p.b_zero);
  for_each_pair(call, [&](std::int32_t a, std::int32_t b) {
    const std::int32_t sum =
        ma.scaled((a - az) * (1 << left)) + Sign * mb.scaled((b - bz) * (1 << left));
    return ends.held(std::int64_t{my.scaled(sum)} + p.y_zero);
  });
}

void run_mul(const KernelCall& call) {
  const auto& p = call.params<TfliteBinaryParams>();
  const TfliteEnds ends(call.output(0).dtype(), p.act_min, p.act_max);
  const Multiplier m(static_cast<double>(p.a_scale * p.b_scale / p.y_scale));
  const auto az = static_cast<std::int32_t>(p.a_zero), bz = static_cast<std::int32_t>(p.b_zero);
  for_each_pair(call, [&](std::int32_t a, std::int32_t b) {
    // Of 16 bits with zero points at an end the product wraps as the reference's would.
    const std::int32_t product = tflite::wrapped(std::int64_t{a - az} * (b - bz));
    return ends.held(std::int64_t{m.scaled(product)} + p.y_zero);
  });
}

void run_avg_pool(const KernelCall& call) {
  const auto& p = call.params<TfliteAvgPoolParams>();
  const PoolGeometry g = pool_geometry(p, call.input(0).shape());
  const SmallIntegers x(call.input(0));
  const DType dtype = call.output(0).dtype();
  const TfliteEnds ends(dtype, p.act_min, p.act_max);
  std::byte* y = output_bytes(call, 0);
  const auto& [d, h, w] = g.window.axes;
  parallel_for(g.planes(), call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane)
      for (std::int64_t point = 0; point < g.window.out_points(); ++point) {
        const std::int64_t ox = point % w.out, oy = point / w.out % h.out,
                           oz = point / (w.out * h.out);
        std::int64_t sum = 0, count = 0;
        for (std::int64_t rz = 0; rz < d.kernel; ++rz)
          for (std::int64_t ry = 0; ry < h.kernel; ++ry)
            for (std::int64_t rx = 0; rx < w.kernel; ++rx) {
              const std::int64_t iz = d.at(oz, rz), iy = h.at(oy, ry), ix = w.at(ox, rx);
              if (iz < 0 || iz >= d.in || iy < 0 || iy >= h.in || ix < 0 || ix >= w.in) continue;
              sum += x[((plane * d.in + iz) * h.in + iy) * w.in + ix];
              ++count;
            }
        const std::int64_t half = sum > 0 ? count / 2 : -(count / 2);
        store_integer(y, dtype, plane * g.window.out_points() + point,
                      ends.held(count == 0 ? 0 : (sum + half) / count));
      }
  });
}

template <bool Mean>
void run_reduction(const KernelCall& call) {
  const auto& p = call.params<TfliteMeanParams>();
  const std::vector<InferInput> known = known_inputs(call);
  const ReduceGeometry g = reduce_geometry(p, InferInputs(known));
  const SmallIntegers x(call.input(0));
  const DType dtype = call.output(0).dtype();
  const TfliteEnds ends(dtype, p.act_min, p.act_max);
  std::byte* y = output_bytes(call, 0);
  const std::int64_t n = g.reduced.numel();
  const Multiplier m = of_sums(p, n, Mean);
  parallel_for(g.kept.numel(), call.threads, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t at = strided_offset(o, g.kept, g.kept_strides);
      std::int64_t sum = -n * p.x_zero;
      for (std::int64_t k = 0; k < n; ++k)
        sum += x[at + strided_offset(k, g.reduced, g.reduced_strides)];
      store_integer(y, dtype, o,
                    ends.held(std::int64_t{m.scaled(static_cast<std::int32_t>(sum))} + p.y_zero));
    }
  });
}

void run_resize_bilinear(const KernelCall& call) {
  const auto& p = call.params<TfliteResizeParams>();
  const Shape &from = call.input(0).shape(), &to = call.output(0).shape();
  const SmallIntegers x(call.input(0));
  const DType dtype = call.output(0).dtype();
  std::byte* y = output_bytes(call, 0);
  parallel_for(to[0] * to[1], call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane)
      for (std::int64_t i = 0; i < to[2]; ++i)
        for (std::int64_t j = 0; j < to[3]; ++j) {
          const auto sum = [&](const auto& v, const auto& h) {
            const auto line = [&](std::int64_t a, std::int64_t b) {
              return static_cast<decltype(v.to_lower)>(x[(plane * from[2] + a) * from[3] + b]);
            };
            return line(v.lower, h.lower) * v.to_lower * h.to_lower +
                   line(v.upper, h.lower) * v.to_upper * h.to_lower +
                   line(v.lower, h.upper) * v.to_lower * h.to_upper +
                   line(v.upper, h.upper) * v.to_upper * h.to_upper;
          };
          const std::int64_t at = (plane * to[2] + i) * to[3] + j;
          if (dtype == DType::u8) {
            const float v =
                sum(between_f32(i, from[2], to[2], p), between_f32(j, from[3], to[3], p));
            // As the reference does; lround would differ where the sum is rounded up.
            // NOLINTNEXTLINE(bugprone-incorrect-roundings)
            store_integer(y, dtype, at, static_cast<std::int64_t>(v + 0.5F));
          } else {
            const std::int64_t v =
                sum(between(i, from[2], to[2], p), between(j, from[3], to[3], p));
            store_integer(y, dtype, at, (v + (v > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
          }
        }
  });
}

void run_requantize(const KernelCall& call) {
  const auto& p = call.params<TfliteUnaryParams>();
  const SmallIntegers x(call.input(0));
  const TfliteEnds ends(call.output(0).dtype(), p.act_min, p.act_max);
  const Multiplier m(static_cast<double>(p.x_scale) / static_cast<double>(p.y_scale));
  for_each_element(call, [&](std::int64_t i) {
    const auto distance = static_cast<std::int32_t>(std::int64_t{x[i]} - p.x_zero);
    return ends.held(std::int64_t{m.scaled(distance)} + p.y_zero);
  });
}

void run_quantize(const KernelCall& call) {
  const auto& p = call.params<TfliteUnaryParams>();
  const auto x = call.input(0).data<float>();
  const TfliteEnds ends(call.output(0).dtype(), p.act_min, p.act_max);
  for_each_element(call, [&](std::int64_t i) {
    return ends.held(rounded_away(x[static_cast<std::size_t>(i)] / p.y_scale) + p.y_zero);
  });
}

void run_softmax(const KernelCall& call) {
  if (call.input(0).dtype() == DType::i16) return run_softmax_sixteen(call);
  const auto& p = call.params<TfliteUnaryParams>();
  const SmallIntegers x(call.input(0));
  const Shape& shape = call.input(0).shape();
  const std::int64_t k = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const TfliteEnds ends(call.output(0).dtype(), p.act_min, p.act_max);
  const std::array<float, 256> table = tflite::softmax_table(p);  // by the distance to the largest
  const std::int64_t rows = k == 0 ? 0 : call.input(0).numel() / k;
  std::byte* y = output_bytes(call, 0);
  parallel_for(rows, call.threads, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::int32_t most = x[r * k];
      for (std::int64_t j = 1; j < k; ++j) most = std::max(most, x[r * k + j]);
      const auto e = [&](std::int64_t j) {
        return table[static_cast<std::size_t>(most - x[r * k + j])];
      };
      float sum = 0;
      for (std::int64_t j = 0; j < k; ++j) sum += e(j);
      const float inverse = 1.0F / (sum * p.y_scale);
      for (std::int64_t j = 0; j < k; ++j) {
        // The reference adds a half and cuts; lround would differ where the sum is rounded up.
        const std::int64_t share = cut(e(j) * inverse + 0.5F);
        store_integer(y, call.output(0).dtype(), r * k + j, ends.held(share + p.y_zero));
      }
    }
  });
}

template <Function F>
void run_table(const KernelCall& call) {
  if (call.input(0).dtype() == DType::i16)
    return F == Function::tanh ? run_tanh_sixteen(call) : run_logistic_sixteen(call);
  const auto& p = call.params<TfliteUnaryParams>();
  const SmallIntegers x(call.input(0));
  const bool is_signed = call.input(0).dtype() == DType::i8;
  const std::array<std::int64_t, 256> table = tflite::function_table(F, p, call.input(0).dtype());
  for_each_element(call, [&](std::int64_t i) {
    return table[static_cast<std::size_t>(x[i] + (is_signed ? 128 : 0))];
  });
}

}  // namespace

std::span<const KernelRow> tflite_rows() {
  static const KernelRow rows[] = {
      bits_row<run_conv>("tflite_conv", "tflite_conv.definition"),
      bits_row<run_fully_connected>("tflite_fully_connected", "tflite_fully_connected.definition"),
      bits_row<run_add<1>>("tflite_add", "tflite_add.definition"),
      bits_row<run_add<-1>>("tflite_sub", "tflite_sub.definition"),
      bits_row<run_mul>("tflite_mul", "tflite_mul.definition"),
      bits_row<run_avg_pool>("tflite_avg_pool", "tflite_avg_pool.definition"),
      bits_row<run_reduction<true>>("tflite_mean", "tflite_mean.definition"),
      bits_row<run_reduction<false>>("tflite_sum", "tflite_sum.definition"),
      bits_row<run_resize_bilinear>("tflite_resize_bilinear", "tflite_resize_bilinear.definition"),
      bits_row<run_requantize>("tflite_requantize", "tflite_requantize.definition"),
      bits_row<run_quantize>("tflite_quantize", "tflite_quantize.definition"),
      bits_row<run_softmax>("tflite_softmax", "tflite_softmax.definition"),
      bits_row<run_table<Function::sigmoid>>("tflite_logistic", "tflite_logistic.definition"),
      bits_row<run_table<Function::tanh>>("tflite_tanh", "tflite_tanh.definition"),
  };
  return rows;
}

}  // namespace etalon
