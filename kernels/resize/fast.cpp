#include "kernels/resize/fast.h"

#include <limits>

#include "kernels/elementwise/f32_rows.h"
#include "kernels/gemm/refuse.h"
#include "kernels/resize/definition.h"
#include "kernels/resize/passes.h"

namespace etalon {
namespace {

// A ResizeTaps and what it points to.
struct HeldTaps {
  std::vector<std::int32_t> index;
  std::vector<float> weight;
  std::vector<std::uint32_t> copies;
  ResizeTaps view;

  HeldTaps(const ResizeDefinition::Plan& p, int axis, const Contract& contract) {
    ContractArithmetic<NativeF32Ops> a(contract);
    const std::vector<ResizePlace>& places = p.places[static_cast<std::size_t>(axis)];
    const std::size_t out = places.size();
    std::vector<std::vector<std::pair<std::int64_t, float>>> found(out);
    std::size_t most = 0;
    for (std::size_t o = 0; o < out; ++o) {
      copies.push_back(ResizeDefinition::copies(p, axis, places[o]) ? ~0U : 0U);
      ResizeDefinition::taps(a, p, axis, places[o],
                             [&](std::int64_t i, float w) { found[o].emplace_back(i, w); });
      most = std::max(most, found[o].size());
    }
    index.assign(out * most, -1);
    weight.resize(index.size());
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t k = 0; k < found[o].size(); ++k) {
        index[k * out + o] = static_cast<std::int32_t>(found[o][k].first);
        weight[k * out + o] = found[o][k].second;
      }
    view = {static_cast<std::int64_t>(out), static_cast<int>(most), index.data(), weight.data(),
            copies.data()};
  }
  HeldTaps(const HeldTaps&) = delete;
  HeldTaps& operator=(const HeldTaps&) = delete;
};

template <Isa kIsa>
void run(const KernelCall& call) {
  const ResizePasses& passes = kIsa == Isa::avx512 ? avx512::resize_passes : avx2::resize_passes;
  const ResizeDefinition::Plan p = ResizeDefinition::plan(call);
  const float* from = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  if (call.output(0).numel() == 0) return;
  constexpr std::int64_t kGrain = 8192;
  if (p.moving.empty()) {
    parallel_for(call.output(0).numel(), call.threads, kGrain,
                 [&](std::int64_t begin, std::int64_t end) {
                   f32_row_avx2(F32Op::max, y + begin, from + begin, from + begin, end - begin,
                                true, true);  // NaN canonical
                 });
    return;
  }
  Shape shape = p.x;
  Tensor held;
  for (auto level = p.moving.size(); level-- > 0;) {
    const int axis = p.moving[level];
    const HeldTaps made(p, axis, call.contract());
    const ResizeTaps& taps = made.view;
    const std::int64_t in = shape[axis], inner = shape.product(axis + 1, shape.rank());
    shape = shape.with_dim(axis, taps.out);
    const bool ends = level == 0;
    Tensor next = ends ? Tensor() : Tensor::uninitialized(DType::f32, shape);
    float* to = ends ? y : next.mutable_data<float>().data();
    const std::int64_t outer = shape.product(0, axis);
    if (inner == 1)
      parallel_for(outer, call.threads, std::max<std::int64_t>(1, kGrain / taps.out),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r)
                       passes.along(taps, from + r * in, to + r * taps.out, ends);
                   });
    else
      parallel_for(outer * taps.out, call.threads, std::max<std::int64_t>(1, kGrain / inner),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r)
                       passes.across(taps, r % taps.out, from + r / taps.out * in * inner, inner,
                                     to + r * inner, ends);
                   });
    held = std::move(next);
    from = held ? held.data<float>().data() : nullptr;
  }
}

Refusal refuse(const Problem& problem) {
  const auto& params = problem.params->as<ResizeParams>();
  if (params.mode == ResizeMode::nearest) return "computes mode=linear and mode=cubic";
  if (params.coordinate_transformation_mode == ResizeCoordinates::tf_crop_and_resize)
    return "extrapolates nothing";
  if (problem.input(0).dtype != DType::f32) return "computes on f32";
  if (problem.input(0).shape.numel() > std::numeric_limits<std::int32_t>::max())
    return "takes inputs of fewer than 2^31 elements";
  return refuse_unless_seq(problem);
}

template <Isa kIsa>
KernelRow row(std::string_view name) {
  return {.op = "resize",
          .name = name,
          .isa = kIsa,
          .contracts = "seq",
          .refuse = refuse,
          .run = run<kIsa>};
}

}  // namespace

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
