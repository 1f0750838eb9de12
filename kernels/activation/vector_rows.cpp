#include "kernels/activation/vector_rows.h"

#include <algorithm>

#include "engine/core/threads.h"
#include "kernels/activation/definition.h"
#include "kernels/activation/lane_params.h"
#include "kernels/activation/lanes.h"
#include "kernels/activation/rows.h"
#include "kernels/gemm/halves.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

// The scalar form of a function: its definition, rounded to nearest in f32, f16 or bf16.
struct Scalar {
  double (*value)(const void* params, double x, DType to);
  const void* params;
};
template <class F>
double value_of(const void* context, double x, DType to) {
  const auto& params = *static_cast<const typename F::Parameters*>(context);
  if (is_nan(x)) return kNan;
  return correctly_rounded([&](auto& a) { return F::value(a, params, x); }, to);
}
template <Function F>
double value_of_function(const void*, double x, DType to) {
  return correctly_rounded_function(F, x, to);
}
float scalar_f32(const void* context, float x) {
  const auto& s = *static_cast<const Scalar*>(context);
  return canonical(static_cast<float>(s.value(s.params, static_cast<double>(x), DType::f32)));
}

template <class F>
Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_unless_nearest_f32(problem)) return r;
  return refuse_lane_params(problem.params->as<typename F::Parameters>());
}
#if defined(__x86_64__)
template <class F>
Refusal refuse_half(const Problem& problem) {
  if (Refusal r = refuse_unless_nearest_halves(problem)) return r;
  return refuse_lane_params(problem.params->as<typename F::Parameters>());
}
#endif

template <class F, LaneFunction L>
struct Call {
  LaneFunction function = L;
  LaneParams lanes;
  Scalar scalar;
  explicit Call(const KernelCall& call) {
    const auto& params = call.params<typename F::Parameters>();
    if constexpr (L == LaneFunction::gelu)
      if (params.approximate != GeluForm::none) function = LaneFunction::gelu_tanh;
    lanes = lane_params(params);
    scalar = {F::scalar_value, &params};
  }
};

template <class F, LaneFunction L, Isa kIsa>
void run_piece(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  const Call<F, L> c(call);
  lane_kernel(kIsa)(c.function, c.lanes, call.input(0).template data<float>().data() + begin,
                    call.output(0).template mutable_data<float>().data() + begin, count,
                    {scalar_f32, &c.scalar});
}

#if defined(__x86_64__)
// Correct rounding to f16 and bf16 through the correctly rounded f32 value y: no boundary of the
// narrow format lies strictly between the real value and y, since boundaries (midpoints) are
// numbers of f32; so y decides unless it is a midpoint itself. Then the definition does.
void run_half(LaneKernel kernel, LaneFunction f, const LaneParams& lanes, const Scalar& scalar,
              DType type, const std::byte* x, std::byte* y, std::int64_t count) {
  constexpr std::int64_t kBlock = 512, kWord = 64;
  float wide[kBlock], result[kBlock];
  for (std::int64_t i = 0; i < count; i += kBlock) {
    const std::int64_t n = std::min(kBlock, count - i);
    avx2::widen_halves(type, x + 2 * i, wide, n);
    kernel(f, lanes, wide, result, n, {scalar_f32, &scalar});
    for (std::int64_t w = 0; w < n; w += kWord)
      for (std::uint64_t open = avx2::midpoints(type, result + w, std::min(kWord, n - w));
           open != 0; open &= open - 1) {
        const auto k = w + __builtin_ctzll(open);
        result[k] =
            static_cast<float>(scalar.value(scalar.params, static_cast<double>(wide[k]), type));
      }
    avx2::narrow_halves(type, result, y + 2 * i, n);
  }
}

template <class F, LaneFunction L, Isa kIsa>
void run_piece_half(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  const Call<F, L> c(call);
  run_half(lane_kernel(kIsa), c.function, c.lanes, c.scalar, call.input(0).dtype(),
           call.input(0).bytes().data() + 2 * begin,
           call.output(0).mutable_bytes().data() + 2 * begin, count);
}
#endif

template <void (*Piece)(const KernelCall&, std::int64_t, std::int64_t)>
void run(const KernelCall& call) {
  if (!call.truth.empty()) return run_activation_definition(call);
  parallel_for(call.input(0).numel(), call.threads, 8192,
               [&](std::int64_t begin, std::int64_t end) { Piece(call, begin, end - begin); });
}

// An activation with its scalar form.
template <class F>
struct Defined : F {
  static double scalar_value(const void* params, double x, DType to) {
    return value_of<F>(params, x, to);
  }
};
template <Function F>
struct Defined<Elementary<F>> : Elementary<F> {
  static double scalar_value(const void* params, double x, DType to) {
    return value_of_function<F>(params, x, to);
  }
};

template <class F, LaneFunction L, Isa kIsa>
KernelRow row(std::string_view name) {
  return {.op = F::op,
          .name = name,
          .isa = kIsa,
          .contracts = "all of store=f32,round=rn,subnormals=keep",
          .refuse = refuse<F>,
          .run = run<run_piece<Defined<F>, L, kIsa>>,
          .run_piece = run_piece<Defined<F>, L, kIsa>};
}
#if defined(__x86_64__)
template <class F, LaneFunction L, Isa kIsa>
KernelRow half_row(std::string_view name) {
  return {.op = F::op,
          .name = name,
          .isa = kIsa,
          .contracts = "all of round=rn,subnormals=keep",
          .refuse = refuse_half<F>,
          .run = run<run_piece_half<Defined<F>, L, kIsa>>,
          .run_piece = run_piece_half<Defined<F>, L, kIsa>};
}
#endif

}  // namespace

const std::vector<KernelRow>& activation_vector_rows() {
#define ETALON_LANE_ROWS(F, L, op)                                  \
  row<F, LaneFunction::L, Isa::avx512>(op ".f32.avx512"),           \
      row<F, LaneFunction::L, Isa::avx2>(op ".f32.avx2"),           \
      half_row<F, LaneFunction::L, Isa::avx512>(op ".half.avx512"), \
      half_row<F, LaneFunction::L, Isa::avx2>(op ".half.avx2")
#define ETALON_FUNCTION_ROWS(f) ETALON_LANE_ROWS(Elementary<Function::f>, f, #f)
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      ETALON_FUNCTION_ROWS(exp),
      ETALON_FUNCTION_ROWS(exp2),
      ETALON_FUNCTION_ROWS(expm1),
      ETALON_FUNCTION_ROWS(log),
      ETALON_FUNCTION_ROWS(log2),
      ETALON_FUNCTION_ROWS(log10),
      ETALON_FUNCTION_ROWS(log1p),
      ETALON_FUNCTION_ROWS(sqrt),
      ETALON_FUNCTION_ROWS(rsqrt),
      ETALON_FUNCTION_ROWS(reciprocal),
      ETALON_FUNCTION_ROWS(cbrt),
      ETALON_FUNCTION_ROWS(sin),
      ETALON_FUNCTION_ROWS(cos),
      ETALON_FUNCTION_ROWS(tan),
      ETALON_FUNCTION_ROWS(asin),
      ETALON_FUNCTION_ROWS(acos),
      ETALON_FUNCTION_ROWS(atan),
      ETALON_FUNCTION_ROWS(sinh),
      ETALON_FUNCTION_ROWS(cosh),
      ETALON_FUNCTION_ROWS(tanh),
      ETALON_FUNCTION_ROWS(asinh),
      ETALON_FUNCTION_ROWS(acosh),
      ETALON_FUNCTION_ROWS(atanh),
      ETALON_FUNCTION_ROWS(erf),
      ETALON_FUNCTION_ROWS(erfc),
      ETALON_FUNCTION_ROWS(sigmoid),
      ETALON_FUNCTION_ROWS(log_sigmoid),
      ETALON_LANE_ROWS(LeakyRelu, leaky_relu, "leaky_relu"),
      ETALON_LANE_ROWS(Softplus, softplus, "softplus"),
      ETALON_LANE_ROWS(Softsign, softsign, "softsign"),
      ETALON_LANE_ROWS(Silu, silu, "silu"),
      ETALON_LANE_ROWS(Gelu, gelu, "gelu"),
      ETALON_LANE_ROWS(Mish, mish, "mish"),
      ETALON_LANE_ROWS(Elu, elu, "elu"),
      ETALON_LANE_ROWS(Selu, selu, "selu"),
      ETALON_LANE_ROWS(Celu, celu, "celu"),
      ETALON_LANE_ROWS(HardSigmoid, hard_sigmoid, "hard_sigmoid"),
      ETALON_LANE_ROWS(HardSwish, hard_swish, "hard_swish"),
      ETALON_LANE_ROWS(HardTanh, hard_tanh, "hard_tanh"),
#endif
  };
#undef ETALON_FUNCTION_ROWS
#undef ETALON_LANE_ROWS
  return rows;
}

}  // namespace etalon
