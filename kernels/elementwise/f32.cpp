// add, sub, mul, div, max, min, clip on f32 wherever one nearest rounding to f32 is all the
// contract asks: the bits of the definition, at the speed of memory.
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/backend/pointwise.h"
#include "engine/backend/strided.h"
#include "engine/core/error.h"
#include "engine/ops/elementwise.h"
#include "kernels/elementwise/broadcast_rows.h"
#include "kernels/elementwise/rows.h"
#include "kernels/elementwise/steps.h"
#include "kernels/gemm/refuse.h"
#include "kernels/movement/fill_run.h"

namespace etalon {

void combine_f32(const KernelCall& call, F32Row row, F32Op op, const Tensor* a, const Tensor& b) {
  const Shape& shape = call.output(0).shape();
  float* y = reinterpret_cast<float*>(output_bytes(call, 0));
  const float* pa = a == nullptr ? y : a->data<float>().data();
  const float* pb = b.data<float>().data();
  const auto loop = broadcast_loop<2>(shape, {a == nullptr ? shape : a->shape(), b.shape()});
  const auto step = loop.step();
  loop.run(call.threads, [&](const std::array<std::int64_t, 3>& at, std::int64_t n) {
    row(op, y + at[0], pa + at[1], pb + at[2], n, step[1] != 0, step[2] != 0);
  });
}

F32Op f32_op(std::string_view op) {
  for (std::size_t i = 0; i < std::size(kF32Ops); ++i)
    if (kF32Ops[i] == op) return static_cast<F32Op>(i);
  throw internal_error("{} has no f32 row", op);
}

namespace {

// Where the truth is asked for too, the definition gives both.
template <F32Row Row>
void run_binary(const KernelCall& call) {
  if (!call.truth.empty()) return run_elementwise_definition(call);
  const F32Op op = f32_op(call.problem->op->name);
  if (call.inputs.size() == 1)  // max or min of one operand: itself, a NaN canonical
    return combine_f32(call, Row, op, &call.input(0), call.input(0));
  combine_f32(call, Row, op, &call.input(0), call.input(1));
  for (std::size_t i = 2; i < call.inputs.size(); ++i)
    combine_f32(call, Row, op, nullptr, call.input(i));
}

using Piece = void (*)(const KernelCall&, std::int64_t, std::int64_t);

template <F32Row Row, F32Op Op>
void run_binary_piece(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  Row(Op, reinterpret_cast<float*>(output_bytes(call, 0)) + begin,
      call.input(0).data<float>().data() + begin, call.input(1).data<float>().data() + begin, count,
      true, true);
}
// By F32Op.
template <F32Row Row>
constexpr Piece kBinaryPieces[] = {
    run_binary_piece<Row, F32Op::add>, run_binary_piece<Row, F32Op::sub>,
    run_binary_piece<Row, F32Op::mul>, run_binary_piece<Row, F32Op::div>,
    run_binary_piece<Row, F32Op::max>, run_binary_piece<Row, F32Op::min>};

Refusal refuse_binary_piece(const Problem& problem, std::size_t) {
  if (problem.inputs.size() != 2 || problem.input(0).shape != problem.input(1).shape)
    return "by pieces it takes two operands of one shape";
  return std::nullopt;
}

// The carried operand is the output itself.
bool step_add(const KernelCall& call, PointwiseStep& to) {
  const std::byte* y = output_bytes(call, 0);
  const bool first = call.input(0).bytes().data() == y;
  if (first == (call.input(1).bytes().data() == y)) return false;
  to = {.kind = PointwiseStep::Kind::add, .other = call.input(first ? 1 : 0).data<float>().data()};
  return true;
}

template <F32Clip Clip>
void run_clip(const KernelCall& call) {
  if (!call.truth.empty()) return run_elementwise_definition(call);
  const auto& p = call.params<ClipParams>();
  const float low = call.has(1) ? call.input(1).data<float>()[0] : p.low;
  const float high = call.has(2) ? call.input(2).data<float>()[0] : p.high;
  const float* x = call.input(0).data<float>().data();
  float* y = reinterpret_cast<float*>(output_bytes(call, 0));
  parallel_for(call.input(0).numel(), call.threads, 16384,
               [&](std::int64_t begin, std::int64_t end) {
                 if (low != low || high != high)
                   fill_run(y + begin, end - begin, float_of(kNanF32));
                 else
                   Clip(y + begin, x + begin, low, high, end - begin);
               });
}

struct Set {
  Isa isa;
  void (*binary)(const KernelCall&);
  void (*clip)(const KernelCall&);
  const Piece* pieces;        // by F32Op
  std::string_view names[7];  // add, sub, mul, div, max, min, clip
};

}  // namespace

std::span<const KernelRow> elementwise_f32_rows() {
  static const std::vector<KernelRow> rows = [] {
    constexpr std::string_view kOps[] = {"add", "sub", "mul", "div", "max", "min", "clip"};
    const Set sets[] = {
#if defined(__x86_64__)
        {Isa::avx512,
         run_binary<f32_row_avx512>,
         run_clip<f32_clip_avx512>,
         kBinaryPieces<f32_row_avx512>,
         {"add.f32.avx512", "sub.f32.avx512", "mul.f32.avx512", "div.f32.avx512", "max.f32.avx512",
          "min.f32.avx512", "clip.f32.avx512"}},
        {Isa::avx2,
         run_binary<f32_row_avx2>,
         run_clip<f32_clip_avx2>,
         kBinaryPieces<f32_row_avx2>,
         {"add.f32.avx2", "sub.f32.avx2", "mul.f32.avx2", "div.f32.avx2", "max.f32.avx2",
          "min.f32.avx2", "clip.f32.avx2"}},
#endif
        {Isa::sse2,
         run_binary<f32_row_base>,
         run_clip<f32_clip_base>,
         kBinaryPieces<f32_row_base>,
         {"add.f32.sse2", "sub.f32.sse2", "mul.f32.sse2", "div.f32.sse2", "max.f32.sse2",
          "min.f32.sse2", "clip.f32.sse2"}},
    };
    std::vector<KernelRow> all;
    for (const Set& set : sets)
      for (std::size_t i = 0; i < std::size(kOps); ++i) {
        const bool binary = kOps[i] != "clip";
        all.push_back({.op = kOps[i],
                       .name = set.names[i],
                       .isa = set.isa,
                       .contracts = "any with round=rn, subnormals=keep, store=f32",
                       .refuse = refuse_unless_nearest_f32,
                       .run = binary ? set.binary : set.clip,
                       .run_piece = binary ? set.pieces[i] : nullptr,
                       .refuse_piece = binary ? refuse_binary_piece : nullptr,
                       .step = kOps[i] == "add" ? step_add : nullptr,
                       .run_steps = run_steps_of(set.isa)});
      }
    return all;
  }();
  return rows;
}

}  // namespace etalon
