#include "kernels/ordering/arg.h"

#include <limits>

#include "engine/backend/bits_row.h"
#include "engine/core/threads.h"
#include "engine/ops/ordering.h"
#include "kernels/ordering/arg_lanes.h"

namespace etalon {
namespace {

#if defined(__x86_64__)

template <Isa kIsa, bool kLargest>
void run(const KernelCall& call) {
  const auto& p = call.params<ArgParams>();
  const Shape& shape = call.input(0).shape();
  const AxisView view = axis_view(shape, normalize_axis(p.axis, shape.rank()));
  const ArgLanes& lanes = kIsa == Isa::avx512 ? avx512::arg_lanes(kLargest, p.select_last_index)
                                              : avx2::arg_lanes(kLargest, p.select_last_index);
  const float* x = call.input(0).data<float>().data();
  auto* y = reinterpret_cast<std::int64_t*>(output_bytes(call, 0));
  parallel_for(view.outer * view.inner, call.threads,
               std::max<std::int64_t>(1, 65536 / view.extent),
               [&](std::int64_t begin, std::int64_t end) {
                 if (view.inner == 1) {
                   for (std::int64_t o = begin; o < end; ++o)
                     y[o] = lanes.row(x + o * view.extent, view.extent);
                   return;
                 }
                 for (std::int64_t o = begin, n = 0; o < end; o += n) {
                   const std::int64_t column = o % view.inner;
                   n = std::min(end - o, view.inner - column);
                   lanes.columns(x + o / view.inner * view.extent * view.inner + column, n,
                                 view.extent, view.inner, y + o);
                 }
               });
}

Refusal refuse(const Problem& problem) {
  const TensorType& x = problem.input(0);
  if (x.dtype != DType::f32) return "compares f32";
  const auto axis = normalize_axis(problem.params->as<ArgParams>().axis, x.shape.rank());
  if (x.shape[axis] > std::numeric_limits<std::int32_t>::max()) return "counts to 2^31 - 1";
  return std::nullopt;
}

template <Isa kIsa, bool kLargest>
KernelRow row(std::string_view op, std::string_view name) {
  KernelRow row = bits_row<run<kIsa, kLargest>>(op, name, refuse);
  row.isa = kIsa;
  return row;
}

#endif

}  // namespace

std::span<const KernelRow> arg_rows() {
#if defined(__x86_64__)
  static const KernelRow rows[] = {row<Isa::avx512, true>("arg_max", "arg_max.f32.avx512"),
                                   row<Isa::avx2, true>("arg_max", "arg_max.f32.avx2"),
                                   row<Isa::avx512, false>("arg_min", "arg_min.f32.avx512"),
                                   row<Isa::avx2, false>("arg_min", "arg_min.f32.avx2")};
  return rows;
#else
  return {};
#endif
}

}  // namespace etalon
