// TensorFlow Lite's products of batches, quotients and fixed-point functions (engine/ops/tflite.h).
#include "engine/numerics/function.h"
#include "engine/ops/matmul.h"
#include "engine/ops/tflite.h"
#include "engine/ops/tflite_values.h"
#include "kernels/integer/rows.h"
#include "kernels/integer/tflite_parts.h"

namespace etalon {
namespace {

using tflite::Multiplier;

double factor(float above, float below) {
  return static_cast<double>(above) / static_cast<double>(below);
}

void run_batch_matmul(const KernelCall& call) {
  const auto& p = call.params<TfliteBinaryParams>();
  const MatMulGeometry g = matmul_geometry(call.input(0).shape(), call.input(1).shape());
  const SmallIntegers a(call.input(0)), b(call.input(1));
  const DType dtype = call.output(0).dtype();
  const TfliteEnds ends(dtype, p.act_min, p.act_max);
  const Multiplier m(factor(p.a_scale * p.b_scale, p.y_scale));
  const auto az = static_cast<std::int32_t>(p.a_zero), bz = static_cast<std::int32_t>(p.b_zero);
  std::byte* y = output_bytes(call, 0);
  parallel_for(g.batch.numel() * g.m, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t batch = r / g.m;
      const std::int64_t row = strided_offset(batch, g.batch, g.a_batch) + r % g.m * g.a_row;
      const std::int64_t first = strided_offset(batch, g.batch, g.b_batch);
      for (std::int64_t n = 0; n < g.n; ++n) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < g.k; ++k)
          sum +=
              std::int64_t{a[row + k * g.a_col] - az} * (b[first + k * g.b_row + n * g.b_col] - bz);
        const std::int32_t scaled =
            dtype == DType::i16 ? m.scaled(sum) : m.scaled(tflite::wrapped(sum));
        store_integer(y, dtype, r * g.n + n, ends.held(std::int64_t{scaled} + p.y_zero));
      }
    }
  });
}

void run_prod(const KernelCall& call) {
  const auto& p = call.params<TfliteMeanParams>();
  const std::vector<InferInput> known = known_inputs(call);
  const ReduceGeometry g = reduce_geometry(p, InferInputs(known));
  const SmallIntegers x(call.input(0));
  const DType dtype = call.output(0).dtype();
  const TfliteEnds ends(dtype, p.act_min, p.act_max);
  std::byte* y = output_bytes(call, 0);
  const std::int64_t n = g.reduced.numel();
  const auto f64 = [](Function f, double v) {
    return correctly_rounded_function(f, v, DType::f64);
  };
  const double root = f64(
      Function::exp, f64(Function::log, static_cast<double>(p.y_scale)) / static_cast<double>(n));
  const Multiplier m(static_cast<double>(p.x_scale) / root);
  parallel_for(g.kept.numel(), call.threads, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t at = strided_offset(o, g.kept, g.kept_strides);
      std::int64_t product = x[at + strided_offset(0, g.reduced, g.reduced_strides)] - p.x_zero;
      for (std::int64_t k = 1; k < n; ++k)
        product = m.scaled(product *
                           (x[at + strided_offset(k, g.reduced, g.reduced_strides)] - p.x_zero));
      store_integer(y, dtype, o, ends.held(m.scaled(product) + p.y_zero));
    }
  });
}

void run_squared_difference(const KernelCall& call) {
  const auto& p = call.params<TfliteBinaryParams>();
  constexpr int kLeft = 7;
  const double twice = 2 * static_cast<double>(std::max(p.a_scale, p.b_scale));
  const Multiplier ma(static_cast<double>(p.a_scale) / twice),
      mb(static_cast<double>(p.b_scale) / twice),
      my(twice * twice / ((1 << 2 * kLeft) * static_cast<double>(p.y_scale)));
  const TfliteEnds ends(call.output(0).dtype(), p.act_min, p.act_max);
  const auto az = static_cast<std::int32_t>(p.a_zero), bz = static_cast<std::int32_t>(p.b_zero);
  for_each_pair(call, [&](std::int32_t a, std::int32_t b) {
    const std::int32_t difference =
        ma.scaled((a - az) * (1 << kLeft)) - mb.scaled((b - bz) * (1 << kLeft));
    return ends.held(std::int64_t{my.scaled(difference * difference)} + p.y_zero);
  });
}

void run_div(const KernelCall& call) {
  const auto& p = call.params<TfliteBinaryParams>();
  const TfliteEnds ends(call.output(0).dtype(), p.act_min, p.act_max);
  const Multiplier m(factor(p.a_scale, p.b_scale * p.y_scale));
  const auto az = static_cast<std::int32_t>(p.a_zero), bz = static_cast<std::int32_t>(p.b_zero);
  for_each_pair(call, [&](std::int32_t a, std::int32_t b) {
    return tflite::quotient(a - az, b - bz, p, m, ends);
  });
}

// Rows of the last axis, each by itself.
template <class F>
void for_each_row(const KernelCall& call, const F& f) {
  const Shape& shape = call.input(0).shape();
  const std::int64_t k = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const std::int64_t rows = k == 0 ? 0 : call.input(0).numel() / k;
  parallel_for(rows, call.threads, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) f(r * k, k);
  });
}

void run_l2_normalize(const KernelCall& call) {
  const auto& p = call.params<TfliteUnaryParams>();
  const SmallIntegers x(call.input(0));
  const DType dtype = call.output(0).dtype();
  const TfliteEnds ends(dtype, p.act_min, p.act_max);
  const auto zero = static_cast<std::int32_t>(p.x_zero);
  std::byte* y = output_bytes(call, 0);
  for_each_row(call, [&](std::int64_t first, std::int64_t k) {
    std::int32_t squares = 0;
    for (std::int64_t j = first; j < first + k; ++j) squares += (x[j] - zero) * (x[j] - zero);
    Multiplier root = tflite::inverse_root(squares);
    if (dtype == DType::i8) root.shift += 7;
    for (std::int64_t j = first; j < first + k; ++j) {
      const std::int32_t v = (x[j] - zero) * (dtype == DType::i8 ? 1 : 128);
      store_integer(y, dtype, j, ends.held(root.scaled(v) + (dtype == DType::i8 ? 0 : 128)));
    }
  });
}

void run_log_softmax(const KernelCall& call) {
  const auto& p = call.params<TfliteUnaryParams>();
  const SmallIntegers x(call.input(0));
  const DType dtype = call.output(0).dtype();
  const TfliteEnds ends(dtype, kActLowest, kActHighest);
  const tflite::LogSoftmaxFactors f(p);
  std::byte* y = output_bytes(call, 0);
  for_each_row(call, [&](std::int64_t first, std::int64_t k) {
    std::int32_t most = x[first];
    for (std::int64_t j = first; j < first + k; ++j) most = std::max(most, x[j]);
    std::int64_t sum = 0;
    for (std::int64_t j = first; j < first + k; ++j) sum += f.term(x[j] - most);
    const std::int32_t log =
        tflite::logarithm(static_cast<std::int32_t>(std::min(sum, Multiplier::kMax)));
    const std::int32_t beyond =
        std::max(f.least - 1, f.back.scaled(tflite::wrapped(std::int64_t{log} + Multiplier::kMin)));
    for (std::int64_t j = first; j < first + k; ++j) {
      const std::int32_t v = x[j] - most;
      store_integer(
          y, dtype, j,
          v > beyond ? ends.held(tflite::moved(f.by.scaled(v) - log, -22) + ends.high) : ends.low);
    }
  });
}

}  // namespace

std::span<const KernelRow> tflite_fixed_rows() {
  static const KernelRow rows[] = {
      bits_row<run_batch_matmul>("tflite_batch_matmul", "tflite_batch_matmul.definition"),
      bits_row<run_prod>("tflite_prod", "tflite_prod.definition"),
      bits_row<run_squared_difference>("tflite_squared_difference",
                                       "tflite_squared_difference.definition"),
      bits_row<run_div>("tflite_div", "tflite_div.definition"),
      bits_row<run_l2_normalize>("tflite_l2_normalize", "tflite_l2_normalize.definition"),
      bits_row<run_log_softmax>("tflite_log_softmax", "tflite_log_softmax.definition"),
  };
  return rows;
}

}  // namespace etalon
