#include "kernels/resize/fast.h"

#include <limits>

#include "kernels/elementwise/f32_rows.h"
#include "kernels/gemm/refuse.h"
#include "kernels/resize/definition.h"
#include "kernels/resize/held_taps.h"
#include "kernels/resize/passes.h"

namespace etalon {
namespace {

template <Isa kIsa>
void run(const KernelCall& call) {
  const ResizePass<float, float>& pass = resize_passes(kIsa)->f32;
  const ResizeDefinition::Plan p = ResizeDefinition::plan(call);
  const float* from = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  if (call.output(0).numel() == 0) return;
  if (p.moving.empty()) return resize_copy(call);
  Shape shape = p.x;
  Tensor held;
  for (auto level = p.moving.size(); level-- > 0;) {
    const int axis = p.moving[level];
    const HeldTaps<float> made(p, axis, [&](const ResizePlace& place) {
      ContractArithmetic<NativeF32Ops> a(call.contract());
      HeldTaps<float>::Found found;
      ResizeDefinition::taps(a, p, axis, place,
                             [&](std::int64_t i, float w) { found.emplace_back(i, w); });
      return found;
    });
    const ResizeTaps<float> taps = made.view();
    const std::int64_t in = shape[axis], inner = shape.product(axis + 1, shape.rank());
    shape = shape.with_dim(axis, taps.out);
    const bool ends = level == 0;
    Tensor next = ends ? Tensor() : Tensor::uninitialized(DType::f32, shape);
    float* to = ends ? y : next.mutable_data<float>().data();
    const std::int64_t outer = shape.product(0, axis);
    if (inner == 1)
      parallel_for(outer, call.threads, std::max<std::int64_t>(1, kResizeGrain / taps.out),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r)
                       pass.along(taps, from + r * in, to + r * taps.out, ends);
                   });
    else
      parallel_for(outer * taps.out, call.threads, std::max<std::int64_t>(1, kResizeGrain / inner),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r)
                       pass.across(taps, r % taps.out, from + r / taps.out * in * inner, inner,
                                   inner, to + r * inner, ends);
                   });
    held = std::move(next);
    from = held ? held.data<float>().data() : nullptr;
  }
}

Refusal refuse_seq(const Problem& problem) {
  if (Refusal why = refuse_resize_passes(problem)) return why;
  return refuse_unless_seq(problem);
}

template <Isa kIsa>
KernelRow row(std::string_view name) {
  return {.op = "resize",
          .name = name,
          .isa = kIsa,
          .contracts = "seq",
          .refuse = refuse_seq,
          .run = run<kIsa>};
}

}  // namespace

Refusal refuse_resize_passes(const Problem& problem) {
  const auto& params = problem.params->as<ResizeParams>();
  if (params.mode == ResizeMode::nearest) return "computes mode=linear and mode=cubic";
  if (params.coordinate_transformation_mode == ResizeCoordinates::tf_crop_and_resize)
    return "extrapolates nothing";
  if (problem.input(0).dtype != DType::f32) return "computes on f32";
  if (problem.input(0).shape.numel() > std::numeric_limits<std::int32_t>::max())
    return "takes inputs of fewer than 2^31 elements";
  return std::nullopt;
}

const ResizePasses* resize_passes([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::resize_passes;
  if (isa >= Isa::avx2) return &avx2::resize_passes;
#endif
  return nullptr;
}

void resize_copy(const KernelCall& call) {
  const float* from = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  parallel_for(call.output(0).numel(), call.threads, kResizeGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 f32_row_base(F32Op::max, y + begin, from + begin, from + begin, end - begin, true,
                              true);  // NaN canonical
               });
}

std::span<const KernelRow> resize_f32_rows() {
#if defined(__x86_64__)
  static const KernelRow rows[] = {row<Isa::avx512>("resize.f32.avx512"),
                                   row<Isa::avx2>("resize.f32.avx2")};
  return rows;
#else
  return {};
#endif
}

}  // namespace etalon
