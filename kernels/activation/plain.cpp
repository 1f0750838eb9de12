// Activations without a function to approximate, by rows of plain_rows.h: on f32, and where each
// result is a number of the input's format, or +0, on f16 and bf16 by way of f32.
#include <algorithm>
#include <vector>

#include "engine/core/threads.h"
#include "engine/ops/activation.h"
#include "kernels/activation/fast.h"
#include "kernels/activation/plain_rows.h"
#include "kernels/activation/rows.h"
#include "kernels/elementwise/broadcast_rows.h"
#include "kernels/gemm/halves.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

PlainParams params_of(const KernelCall& call) {
  const Params& p = *call.problem->params;
  const std::string_view op = call.problem->op->name;
  if (op == "thresholded_relu") return {.p = p.as<ThresholdedReluParams>().alpha};
  if (op == "shrink") return {.p = p.as<ShrinkParams>().lambd, .q = p.as<ShrinkParams>().bias};
  if (op == "softshrink") {
    const float lambd = p.as<SoftshrinkParams>().lambd;
    return {.p = lambd, .q = lambd};
  }
  return {};
}

template <PlainRow Row, PlainOp Op>
void run_piece(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  Row(Op, params_of(call), call.input(0).data<float>().data() + begin,
      call.output(0).mutable_data<float>().data() + begin, count);
}

template <void (*Piece)(const KernelCall&, std::int64_t, std::int64_t)>
void run(const KernelCall& call) {
  if (!call.truth.empty()) return run_activation_definition(call);
  parallel_for(call.input(0).numel(), call.threads, 16384,
               [&](std::int64_t begin, std::int64_t end) { Piece(call, begin, end - begin); });
}

template <PlainRow Row, PlainOp Op>
KernelRow row(std::string_view op, std::string_view name, Isa isa) {
  return {.op = op,
          .name = name,
          .isa = isa,
          .contracts = "all of store=f32,round=rn,subnormals=keep",
          .refuse = refuse_unless_nearest_f32,
          .run = run<run_piece<Row, Op>>,
          .run_piece = run_piece<Row, Op>};
}

#if defined(__x86_64__)
template <PlainOp Op>
void run_piece_half(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  constexpr std::int64_t kBlock = 1024;
  const PlainParams params = params_of(call);
  const DType type = call.input(0).dtype();
  const std::byte* x = call.input(0).bytes().data();
  std::byte* y = call.output(0).mutable_bytes().data();
  float wide[kBlock];
  for (std::int64_t i = begin; i < begin + count; i += kBlock) {
    const std::int64_t n = std::min(kBlock, begin + count - i);
    avx2::widen_halves(type, x + 2 * i, wide, n);
    plain_row_avx2(Op, params, wide, wide, n);
    avx2::narrow_halves(type, wide, y + 2 * i, n);
  }
}
template <PlainOp Op>
KernelRow half_row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = Isa::avx2,
          .contracts = "all of round=rn,subnormals=keep",
          .refuse = refuse_unless_nearest_halves,
          .run = run<run_piece_half<Op>>,
          .run_piece = run_piece_half<Op>};
}

// As relu_f32_rows: max(+0, x).
void run_relu(const KernelCall& call) {
  if (!call.truth.empty()) return run_activation_definition(call);
  const Tensor zero = Tensor::zeros(call.input(0).dtype(), {});
  combine_halves(call, F32Op::max, &zero, call.input(0));
}
#endif

}  // namespace

std::span<const KernelRow> plain_activation_rows() {
#define ETALON_PLAIN_ROWS(place, op, row_of, set, isa) \
  row<row_of, PlainOp::place>(op, op ".f32." set, isa)
#if defined(__x86_64__)
#define ETALON_PLAIN(place, op)                                          \
  ETALON_PLAIN_ROWS(place, op, plain_row_avx512, "avx512", Isa::avx512), \
      ETALON_PLAIN_ROWS(place, op, plain_row_avx2, "avx2", Isa::avx2),   \
      ETALON_PLAIN_ROWS(place, op, plain_row_base, "sse2", Isa::sse2)
#define ETALON_PLAIN_HALF(place, op) \
  ETALON_PLAIN(place, op), half_row<PlainOp::place>(op, op ".half.avx2")
#else
#define ETALON_PLAIN(place, op) ETALON_PLAIN_ROWS(place, op, plain_row_base, "sse2", Isa::sse2)
#define ETALON_PLAIN_HALF ETALON_PLAIN
#endif
  static const KernelRow rows[] = {
      ETALON_PLAIN_HALF(abs, "abs"),
      ETALON_PLAIN_HALF(neg, "neg"),
      ETALON_PLAIN_HALF(sign, "sign"),
      ETALON_PLAIN_HALF(floor, "floor"),
      ETALON_PLAIN_HALF(ceil, "ceil"),
      ETALON_PLAIN_HALF(round, "round"),
      ETALON_PLAIN_HALF(thresholded_relu, "thresholded_relu"),
      ETALON_PLAIN(shrink, "shrink"),
      ETALON_PLAIN(shrink, "softshrink"),
#if defined(__x86_64__)
      {.op = "relu",
       .name = "relu.half.avx2",
       .isa = Isa::avx2,
       .contracts = "all of round=rn,subnormals=keep",
       .refuse = refuse_unless_nearest_halves,
       .run = run_relu},
#endif
  };
#undef ETALON_PLAIN_ROWS
#undef ETALON_PLAIN
#undef ETALON_PLAIN_HALF
  return rows;
}

}  // namespace etalon
