// f16 and bf16: arithmetic and conversion by way of f32, on AVX2.
#include "kernels/gemm/halves.h"

#include <algorithm>

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/backend/strided.h"
#include "engine/ops/elementwise.h"
#include "kernels/elementwise/broadcast_rows.h"
#include "kernels/elementwise/rows.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
#if defined(__x86_64__)

void combine_halves(const KernelCall& call, F32Op op, const Tensor* a, const Tensor& b) {
  const Shape& shape = call.output(0).shape();
  const DType type = call.output(0).dtype();
  std::byte* y = output_bytes(call, 0);
  const std::byte *pa = a == nullptr ? y : a->bytes().data(), *pb = b.bytes().data();
  const auto loop = broadcast_loop<2>(shape, {a == nullptr ? shape : a->shape(), b.shape()});
  const auto step = loop.step();
  loop.run(call.threads, [&](const std::array<std::int64_t, 3>& at, std::int64_t n) {
    constexpr std::int64_t kBlock = 1024;  // three of them stay in the first cache
    float wide_a[kBlock], wide_b[kBlock], result[kBlock];
    const bool a_varies = step[1] != 0, b_varies = step[2] != 0;
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const std::int64_t count = std::min(kBlock, n - i);
      if (a_varies || i == 0)
        avx2::widen_halves(type, pa + 2 * (at[1] + i * step[1]), wide_a, a_varies ? count : 1);
      if (b_varies || i == 0)
        avx2::widen_halves(type, pb + 2 * (at[2] + i * step[2]), wide_b, b_varies ? count : 1);
      f32_row_avx2(op, result, wide_a, wide_b, count, a_varies, b_varies);
      avx2::narrow_halves(type, result, y + 2 * (at[0] + i), count);
    }
  });
}

namespace {

template <F32Op Op>
void run_halves(const KernelCall& call) {
  if (!call.truth.empty()) return run_elementwise_definition(call);
  if (call.inputs.size() == 1) return combine_halves(call, Op, &call.input(0), call.input(0));
  combine_halves(call, Op, &call.input(0), call.input(1));
  for (std::size_t i = 2; i < call.inputs.size(); ++i)
    combine_halves(call, Op, nullptr, call.input(i));
}

// Bounds are rounded first: rounding keeps order, so that the nearest within the bounds is what the
// element within the unrounded ones is rounded to.
void run_clip(const KernelCall& call) {
  if (!call.truth.empty()) return run_elementwise_definition(call);
  const auto& p = call.params<ClipParams>();
  const DType type = call.output(0).dtype();
  const auto bound = [&](std::size_t i, float given) {
    if (call.has(i)) return call.input(i).share();
    Tensor t = Tensor::uninitialized(type, {});
    avx2::narrow_halves(type, &given, t.mutable_bytes().data(), 1);
    return t;
  };
  combine_halves(call, F32Op::max, &call.input(0), bound(1, p.low));
  combine_halves(call, F32Op::min, nullptr, bound(2, p.high));
}

template <F32Op Op>
KernelRow half_row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = Isa::avx2,
          .contracts = "any with round=rn, subnormals=keep, store=f16, bf16 or f32",
          .refuse = refuse_unless_nearest_halves,
          .run = run_halves<Op>};
}

// ---- conversion ---------------------------------------------------------------------------------

Refusal refuse_cast(const Problem& problem) {
  const DType from = problem.input(0).dtype, to = problem.outputs[0].dtype;
  const Contract& c = *problem.contract;
  if (!(from == DType::f32 && is_half(to)) && !(is_half(from) && to == DType::f32))
    return "converts f32 to f16 or bf16, or either to f32";
  if (c.round != Round::nearest_even || c.subnormals != Subnormals::keep ||
      stored_format(to, c) != to)
    return "promises round=rn, subnormals=keep and store=" + std::string(name(to)) + " or wider";
  return std::nullopt;
}

void run_cast(const KernelCall& call) {
  const Tensor& x = call.input(0);
  std::byte* y = output_bytes(call, 0);
  const std::byte* bytes = x.bytes().data();
  const bool widens = is_half(x.dtype());
  const DType half = widens ? x.dtype() : call.output(0).dtype();
  parallel_for(x.numel(), call.threads, 16384, [&](std::int64_t begin, std::int64_t end) {
    if (!widens) {
      avx2::narrow_halves(half, reinterpret_cast<const float*>(bytes) + begin, y + 2 * begin,
                          end - begin);
      return;
    }
    avx2::widen_halves_canonical(half, bytes + 2 * begin, reinterpret_cast<float*>(y) + begin,
                                 end - begin);
  });
  fill_truth_from_input(call);
}

KernelRow cast_row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = Isa::avx2,
          .contracts = "any with round=rn, subnormals=keep, store as wide as the output",
          .refuse = refuse_cast,
          .run = run_cast};
}

}  // namespace

std::span<const KernelRow> elementwise_half_rows() {
  static const KernelRow rows[] = {
      half_row<F32Op::add>("add", "add.half.avx2"),
      half_row<F32Op::sub>("sub", "sub.half.avx2"),
      half_row<F32Op::mul>("mul", "mul.half.avx2"),
      half_row<F32Op::div>("div", "div.half.avx2"),
      half_row<F32Op::max>("max", "max.half.avx2"),
      half_row<F32Op::min>("min", "min.half.avx2"),
      {.op = "clip",
       .name = "clip.half.avx2",
       .isa = Isa::avx2,
       .contracts = "any with round=rn, subnormals=keep, store=f16, bf16 or f32",
       .refuse = refuse_unless_nearest_halves,
       .run = run_clip},
      cast_row("cast", "cast.half.avx2"),
      cast_row("cast_like", "cast_like.half.avx2"),
  };
  return rows;
}
#else
std::span<const KernelRow> elementwise_half_rows() { return {}; }
#endif

}  // namespace etalon
