#include "kernels/activation/glibc.h"

#include <cmath>
#include <vector>

#include "engine/core/threads.h"
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

namespace etalon {
#if defined(__GLIBC__)
namespace {

template <float (*F)(float)>
void run(const KernelCall& call) {
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  parallel_for(call.input(0).numel(), call.threads, 8192,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) y[i] = F(x[i]);
               });
}

Refusal refuse(const Problem& problem) {
  if (problem.input(0).dtype != DType::f32) return "this row takes f32";
  return std::nullopt;
}

template <float (*F)(float)>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .promise = Promise::vendor,
          .contracts = "none",
          .refuse = refuse,
          .run = run<F>,
          .version = [] { return "glibc " + std::string(gnu_get_libc_version()); }};
}

}  // namespace

std::span<const KernelRow> glibc_rows() {
#define ETALON_GLIBC(op) row<::op##f>(#op, "glibc." #op)
  static const std::vector<KernelRow> rows = {
      ETALON_GLIBC(exp),  ETALON_GLIBC(exp2),  ETALON_GLIBC(expm1), ETALON_GLIBC(log),
      ETALON_GLIBC(log2), ETALON_GLIBC(log10), ETALON_GLIBC(log1p), ETALON_GLIBC(cbrt),
      ETALON_GLIBC(sin),  ETALON_GLIBC(cos),   ETALON_GLIBC(tan),   ETALON_GLIBC(asin),
      ETALON_GLIBC(acos), ETALON_GLIBC(atan),  ETALON_GLIBC(sinh),  ETALON_GLIBC(cosh),
      ETALON_GLIBC(tanh), ETALON_GLIBC(asinh), ETALON_GLIBC(acosh), ETALON_GLIBC(atanh),
      ETALON_GLIBC(erf),  ETALON_GLIBC(erfc),  ETALON_GLIBC(sqrt)};
#undef ETALON_GLIBC
  return rows;
}
#else
std::span<const KernelRow> glibc_rows() { return {}; }
#endif

}  // namespace etalon
