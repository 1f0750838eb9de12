#include "bench/survey/functions.h"

#include <bit>
#include <mutex>

#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "kernels/activation/definition.h"

namespace etalon {
namespace {

double function_difference(Function f, double x, double m) {
  return correctly_rounded([&](auto& a) { return a.sub(a.call(f, a.input(x)), a.constant(m)); },
                           DType::f64);
}

template <Function F>
SurveyedFunction function(LaneFunction lane, Symmetry symmetry, Monotone monotone) {
  return {name(F),
          lane,
          {},
          symmetry,
          monotone,
          [](double x, DType to, Round mode) { return correctly_rounded_function(F, x, to, mode); },
          [](double x, double m) { return function_difference(F, x, m); },
          [](double x, bool& undecided) {
            RealF64 system;
            const auto v = system.call(F, {x, 0});
            undecided = system.undecided;
            return v;
          }};
}

template <class F>
typename F::Parameters default_parameters() {
  return {};
}
struct GeluTanh : Gelu {};
template <>
GeluParams default_parameters<GeluTanh>() {
  return {.approximate = GeluForm::tanh};
}

template <class F>
SurveyedFunction composition(std::string_view name, LaneFunction lane, Symmetry symmetry,
                             Monotone monotone, LaneParams params = {}) {
  return {name,
          lane,
          params,
          symmetry,
          monotone,
          [](double x, DType to, Round mode) {
            if (is_nan(x)) return kNan;
            const auto p = default_parameters<F>();
            return correctly_rounded([&](auto& a) { return F::value(a, p, x); }, to, mode);
          },
          [](double x, double m) {
            const auto p = default_parameters<F>();
            return correctly_rounded(
                [&](auto& a) { return a.sub(F::value(a, p, x), a.constant(m)); }, DType::f64);
          },
          [](double x, bool& undecided) {
            RealF64 system;
            if (is_nan(x)) return RealF64::V{kNan, 0};
            const auto p = default_parameters<F>();
            const auto v = F::value(system, p, x);
            undecided = system.undecided;
            return v;
          }};
}

const std::vector<SurveyedFunction>& table() {
  using S = Symmetry;
  using M = Monotone;
  static const std::vector<SurveyedFunction> rows = [] {
    constexpr SeluParams selu;
    constexpr HardSigmoidParams hard_sigmoid;
    const LaneParams selu_lanes{.alpha = static_cast<double>(selu.alpha),
                                .gamma = static_cast<double>(selu.gamma)};
    const LaneParams sigmoid_lanes{.alpha = static_cast<double>(hard_sigmoid.alpha),
                                   .beta = static_cast<double>(hard_sigmoid.beta)};
    const LaneParams leaky{.alpha = static_cast<double>(LeakyReluParams{}.alpha)};
#define ETALON_ROW(f, s, m) function<Function::f>(LaneFunction::f, s, m)
    return std::vector<SurveyedFunction>{
        ETALON_ROW(exp, S::none, M::rising),
        ETALON_ROW(exp2, S::none, M::rising),
        ETALON_ROW(expm1, S::none, M::rising),
        ETALON_ROW(log, S::none, M::rising),
        ETALON_ROW(log2, S::none, M::rising),
        ETALON_ROW(log10, S::none, M::rising),
        ETALON_ROW(log1p, S::none, M::rising),
        ETALON_ROW(sqrt, S::none, M::rising),
        ETALON_ROW(rsqrt, S::none, M::falling),
        ETALON_ROW(cbrt, S::odd, M::rising),
        ETALON_ROW(reciprocal, S::odd, M::no),
        ETALON_ROW(sin, S::odd, M::no),
        ETALON_ROW(cos, S::even, M::no),
        ETALON_ROW(tan, S::odd, M::no),
        ETALON_ROW(asin, S::odd, M::rising),
        ETALON_ROW(acos, S::none, M::falling),
        ETALON_ROW(atan, S::odd, M::rising),
        ETALON_ROW(sinh, S::odd, M::rising),
        ETALON_ROW(cosh, S::even, M::no),
        ETALON_ROW(tanh, S::odd, M::rising),
        ETALON_ROW(asinh, S::odd, M::rising),
        ETALON_ROW(acosh, S::none, M::rising),
        ETALON_ROW(atanh, S::odd, M::rising),
        ETALON_ROW(erf, S::odd, M::rising),
        ETALON_ROW(erfc, S::none, M::falling),
        ETALON_ROW(sigmoid, S::none, M::rising),
        ETALON_ROW(log_sigmoid, S::none, M::rising),
        ETALON_ROW(softplus, S::none, M::rising),
        composition<Silu>("silu", LaneFunction::silu, S::none, M::no),
        composition<Gelu>("gelu", LaneFunction::gelu, S::none, M::no),
        composition<GeluTanh>("gelu_tanh", LaneFunction::gelu_tanh, S::none, M::no),
        composition<Mish>("mish", LaneFunction::mish, S::none, M::no),
        composition<Softsign>("softsign", LaneFunction::softsign, S::odd, M::rising),
        composition<Elu>("elu", LaneFunction::elu, S::none, M::rising),
        composition<Selu>("selu", LaneFunction::selu, S::none, M::rising, selu_lanes),
        composition<Celu>("celu", LaneFunction::celu, S::none, M::rising),
        composition<HardSigmoid>("hard_sigmoid", LaneFunction::hard_sigmoid, S::none, M::rising,
                                 sigmoid_lanes),
        composition<HardSwish>("hard_swish", LaneFunction::hard_swish, S::none, M::no),
        composition<HardTanh>("hard_tanh", LaneFunction::hard_tanh, S::odd, M::rising),
        composition<LeakyRelu>("leaky_relu", LaneFunction::leaky_relu, S::none, M::rising, leaky),
    };
#undef ETALON_ROW
  }();
  return rows;
}

float scalar(const void* context, float x) {
  const auto& f = *static_cast<const SurveyedFunction*>(context);
  return canonical(
      static_cast<float>(f.value(static_cast<double>(x), DType::f32, Round::nearest_even)));
}

}  // namespace

std::span<const SurveyedFunction> surveyed_functions() { return table(); }

const SurveyedFunction& surveyed_function(std::string_view name) {
  std::string all;
  for (const SurveyedFunction& f : table()) {
    if (f.name == name) return f;
    all += (all.empty() ? "" : ", ");
    all += f.name;
  }
  throw usage_error("unknown function '{}'; the functions are {}", name, all);
}

std::int64_t correctly_rounded_block(const SurveyedFunction& f, Isa isa, const float* x, float* y,
                                     std::int64_t count) {
  const LaneFallback fallback{scalar, &f};
  if (const LaneKernel kernel = lane_kernel(isa))
    return kernel(f.lane, f.params, x, y, count, fallback);
  for (std::int64_t i = 0; i < count; ++i) y[i] = scalar(&f, x[i]);
  return count;
}

void fill_inputs(std::uint32_t first, std::span<float> x) {
  // Counts known to the compiler, so that it takes vectors at -O2.
  constexpr std::size_t kStep = 64;
  std::size_t i = 0;
  for (; i + kStep <= x.size(); i += kStep)
    for (std::size_t k = 0; k < kStep; ++k)
      x[i + k] = std::bit_cast<float>(first + static_cast<std::uint32_t>(i + k));
  for (; i < x.size(); ++i) x[i] = std::bit_cast<float>(first + static_cast<std::uint32_t>(i));
}

Hash128 hash_of_range(const SurveyedFunction& f, Isa isa, int threads,
                      void (*progress)(int done, int of)) {
  std::vector<Hash128> hashes(kRangeBlocks);
  std::mutex mutex;
  int done = 0;
  parallel_for(kRangeBlocks, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kPiece = 1 << 14;
    std::vector<float> x(kPiece), y(kPiece);
    for (std::int64_t block = begin; block < end; ++block) {
      HashStream stream;
      for (std::int64_t at = 0; at < kRangeBlock; at += kPiece) {
        fill_inputs(static_cast<std::uint32_t>(block * kRangeBlock + at), x);
        correctly_rounded_block(f, isa, x.data(), y.data(), kPiece);
        stream.update(std::as_bytes(std::span(y)));
      }
      hashes[static_cast<std::size_t>(block)] = stream.digest();
      const std::scoped_lock lock(mutex);
      ++done;
      if (progress != nullptr) progress(done, kRangeBlocks);
      check_interrupt();
    }
  });
  return hash_of_blocks(hashes);
}
Hash128 hash_of_blocks(std::span<const Hash128> blocks) {
  return hash_bytes(std::as_bytes(blocks));
}

}  // namespace etalon
