// gemm of bf16 under seq, two terms of k an instruction (pairs.h). Loops, packing and blocks are
// those of f32 (fast.cpp) over words of two terms, so half of their steps and of their bytes.
// Limit: two of f32's peak; share reached: README.md.
#include "kernels/gemm/pairs.h"

#include "engine/ops/gemm.h"
#include "kernels/gemm/fast.h"
#include "kernels/gemm/halves_row.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/refuse.h"
#include "kernels/simd/machine.h"

#if defined(__x86_64__)
namespace etalon {

Refusal refuse_pairs() {
  static const Refusal refusal = []() -> Refusal {
    if (!has_avx512_bf16()) return "needs AVX512_BF16, which this processor lacks";
    if (!avx512bf16::adds_in_order())
      return "needs a VDPBF16PS that adds one product after the other, as this processor's does "
             "not";
    return std::nullopt;
  }();
  return refusal;
}

Refusal refuse_pairs(const Problem& problem) {
  if (Refusal r = refuse_unless(problem, {DType::bf16}, "bf16")) return r;
  return refuse_pairs();
}

const TileSet& pair_tiles() { return avx512bf16::tiles(); }

namespace {

constexpr std::int64_t kGrain = 8;  // rows

// An operand of `rows` by k in words: along k where its terms are neighbours, else as rows of k.
struct Words {
  MatrixView view;
  Magnitudes seen;
};
Words words(const Tensor& t, std::int64_t rows, std::int64_t k, std::int64_t k_stride, int threads,
            float* to) {
  const std::uint16_t* from = bf16_bits(t);
  const std::int64_t steps = pair_steps(k);
  if (k_stride == 1) {
    const Magnitudes seen =
        seen_by(rows, threads, kGrain, [&](std::int64_t begin, std::int64_t end, Magnitudes& all) {
          for (std::int64_t r = begin; r < end; ++r)
            avx512bf16::pair_along(from + r * k, k, to + r * steps, all);
        });
    return {{to, steps, 1}, seen};
  }
  const Magnitudes seen =
      seen_by(steps, threads, kGrain, [&](std::int64_t begin, std::int64_t end, Magnitudes& all) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::uint16_t* first = from + 2 * i * rows;
          avx512bf16::pair_across(first, 2 * i + 1 < k ? first + rows : nullptr, rows,
                                  to + i * rows, all);
        }
      });
  return {{to, 1, rows}, seen};
}

// A constant b, in strips of words.
struct PreparedPairs {
  AlignedBuffer b;
  Magnitudes seen;
};

Prepared prepare(const Problem& problem, int threads) {
  const Tensor* b = problem.inputs[1].value;
  if (b == nullptr) return nullptr;
  const GemmGeometry g = gemm_geometry(problem.params->as<GemmParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  if (g.n == 1) return nullptr;
  const TileSet& set = pair_tiles();
  const std::int64_t steps = pair_steps(g.k);
  AlignedBuffer plain;
  const Words all = words(*b, g.n, g.k, g.b_row, threads, plain.at_least<float>(g.n * steps));
  auto prepared = std::make_shared<PreparedPairs>();
  prepared->seen = all.seen;
  pack_vector(set, all.view, g.n, steps, threads,
              prepared->b.at_least<float>(vector_strips(g.n, set.lanes) * set.lanes * steps));
  return prepared;
}

void run(const KernelCall& call) {
  static const KernelRow f32 = gemm_f32_row<Isa::avx512>({});
  const auto& params = call.params<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, call.input(0).shape(), call.input(1).shape());
  const auto* prepared = static_cast<const PreparedPairs*>(call.prepared);
  const std::int64_t steps = pair_steps(g.k);
  const auto room = [](std::int64_t n) { return (n + 15) / 16 * 16; };
  const std::int64_t a_size = room(g.m * steps),
                     b_size = prepared == nullptr ? room(g.n * steps) : 0, y_size = room(g.m * g.n),
                     c_size = call.has(2) ? call.input(2).numel() : 0;
  float* to = thread_scratch<float>(ScratchSlot::halves, a_size + b_size + y_size + c_size);
  float* y = to + a_size + b_size;
  const Words a = words(call.input(0), g.m, g.k, g.a_col, call.threads, to);
  Words b;
  if (prepared == nullptr) b = words(call.input(1), g.n, g.k, g.b_row, call.threads, to + a_size);
  if (!keeps_order(a.seen, prepared == nullptr ? b.seen : prepared->seen)) {
    KernelCall wide = call;
    wide.prepared = nullptr;
    return run_widened(wide, f32.run);
  }
  GemmTask task{.m = g.m,
                .n = g.n,
                .k = steps,
                .a = a.view,
                .b = b.view,
                .alpha = params.alpha,
                .beta = params.beta,
                .y = y};
  if (prepared != nullptr) task.packed_b = prepared->b.data<float>();
  if (call.has(2)) {
    const auto strides = broadcast_strides(call.input(2).shape(), Shape{g.m, g.n});
    widen_halves_on(call.threads, call.input(2), y + y_size);
    task.c = y + y_size;
    task.c_row = strides[0];
    task.c_col = strides[1];
  }
  gemm_f32(pair_tiles(), task, call.threads);
  narrow_halves_on(call.threads, y, call, 0);
}

Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_unless_seq(problem)) return r;
  return refuse_pairs(problem);
}

}  // namespace

KernelRow gemm_pairs_row(std::string_view name) {
  return {.op = "gemm",
          .name = name,
          .isa = Isa::avx512,
          .contracts = "seq of bf16",
          .refuse = refuse,
          .run = run,
          .prepare = prepare};
}

}  // namespace etalon
#endif
