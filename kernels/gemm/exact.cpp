#include "kernels/gemm/exact.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "engine/ops/gemm.h"
#include "kernels/gemm/exact_digits.h"
#include "kernels/gemm/exact_f64.h"
#include "kernels/gemm/exact_narrow.h"
#include "kernels/gemm/exact_pairs.h"
#include "kernels/gemm/exact_residues.h"
#include "kernels/gemm/exact_thin.h"
#include "kernels/gemm/rows.h"

namespace etalon {

ExactCounts& exact_counts() {
  static ExactCounts counts;
  return counts;
}

const ExactLanes* exact_lanes([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::exact_lanes();
  if (isa == Isa::avx2) return &avx2::exact_lanes();
#endif
  return nullptr;
}

const ExactProducts* exact_products([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::exact_products();
  if (isa == Isa::avx2) return &avx2::exact_products();
#endif
  return nullptr;
}

namespace {

// Whether a tile of digits pays, by a model of both passes in ns (one core of a Sapphire Rapids
// machine): strips of 16 are cut in steps of 64 terms, tiles multiplied and joined; the f64 pass
// packs, multiplies at 60 Gflop/s and rounds. Small products and short sums fill tiles badly. A
// choice of speed alone: the bits are the correctly rounded ones either way.
bool digits_pay(std::int64_t m, std::int64_t n, std::int64_t k, bool b_is_packed) {
  const auto strips = [](std::int64_t rows) {
    return static_cast<double>(vector_strips(rows, kDigitRows));
  };
  const double steps = static_cast<double>(vector_strips(k, kDigitStep)),
               rows = static_cast<double>(m), columns = static_cast<double>(n),
               terms = static_cast<double>(k);
  const double digits = 3000 + (strips(m) + (b_is_packed ? 0 : strips(n))) * (500 + 600 * steps) +
                        strips(m) * strips(n) * (500 + 300 * steps);
  const double f64 = 2000 + 1.2 * rows * terms + (b_is_packed ? 0 : 0.7 * columns * terms) +
                     rows * strips(n) * kDigitRows * terms / 30 + 1.5 * rows * columns;
  return digits < f64;
}
// Residues take eleven products of a tile for the digits' nineteen, but eleven bytes of memory for
// an element of b, not five: where few rows meet each, digits are faster (16x4096x4096 1.1 of
// oneDNN's time, with residues 2.3, in f64 2.2).
constexpr std::int64_t kResidueRows = 48;
ExactFirst first_for(Isa isa, const ExactShape& s) {
#if defined(__x86_64__)
  if (s.residues == nullptr && takes_words(isa, s.b_halves)) return ExactFirst::words;
#endif
  if (s.residues != nullptr && s.k <= kResidueTileMostK) return ExactFirst::residues;
  if (residue_set(isa) == nullptr) return ExactFirst::f64;
  if (std::min(s.m, s.n) >= kResidueRows && s.k <= kResidueTileMostK)
    return residues_pay(s) ? ExactFirst::residues : ExactFirst::f64;
  return digits_pay(s.m, s.n, s.k, s.b_is_constant) ? ExactFirst::digits : ExactFirst::f64;
}
const ResidueSet& residues_of(Isa isa, const ResidueSet* instead) {
  return instead == nullptr ? *residue_set(isa) : *instead;
}

// Rows contiguous in k, for dot products one at a time: where they lie, or a copy of 16 at once.
class RowsAlong {
 public:
  RowsAlong(Isa isa, const MatrixView& from, std::int64_t rows, std::int64_t k)
      : set_(residue_set(isa)),
        tiles_(*tile_set_f32(isa)),
        from_(from),
        rows_(rows),
        k_(k),
        stride_((k + 15) / 16 * 16) {}
  const float* of(std::int64_t row) {
    if (from_.k_stride == 1) return from_.data + row * from_.row_stride;
    const std::int64_t strip = row / kResidueTileRows;
    float* copy = copy_.at_least<float>(kResidueTileRows * stride_);
    if (strip != at_) {
      at_ = strip;
      const std::int64_t first = strip * kResidueTileRows;
      if (set_ != nullptr) {
        turn_rows(*set_, from_, first, rows_, k_, 1, copy);
      } else if (from_.row_stride == 1 && rows_ - first >= kResidueTileRows) {
        for (std::int64_t i = 0; i < k_; i += tiles_.lanes)
          for (std::int64_t r = 0; r < kResidueTileRows; r += tiles_.lanes)
            tiles_.store_transposed(from_.data + first + r + i * from_.k_stride, from_.k_stride,
                                    static_cast<int>(std::min<std::int64_t>(tiles_.lanes, k_ - i)),
                                    tiles_.lanes, copy + r * stride_ + i, stride_);
      } else {
        const std::int64_t count = std::min<std::int64_t>(kResidueTileRows, rows_ - first);
        for (std::int64_t i = 0; i < k_; ++i)
          for (std::int64_t r = 0; r < count; ++r)
            copy[r * stride_ + i] = from_.data[(first + r) * from_.row_stride + i * from_.k_stride];
      }
    }
    return copy + row % kResidueTileRows * stride_;
  }

 private:
  const ResidueSet* set_;
  const TileSet& tiles_;
  MatrixView from_;
  std::int64_t rows_, k_, stride_, at_ = -1;
  AlignedBuffer copy_;
};

// Settles what the first pass left, strips of 16 columns by strips of 16 rows; keeps the rest.
void settle(Isa isa, const ExactTask& task, int threads, std::vector<std::int64_t>& left) {
  const std::int64_t n = task.n;
  if (left.empty()) return;
  if (task.n > kThin) {
    // A key is divisions: made once. Strips of rows fit 31 bits.
    std::vector<std::pair<std::int64_t, std::int64_t>> keyed;
    keyed.reserve(left.size());
    for (const std::int64_t i : left)
      keyed.emplace_back((i % n / kResidueTileRows << 32) + i / n / kResidueTileRows, i);
    std::ranges::sort(keyed);
    std::ranges::transform(keyed, left.begin(), [](const auto& p) { return p.second; });
  }
  std::vector<std::int64_t> rest;
  std::mutex joining;
  parallel_for(static_cast<std::int64_t>(left.size()), threads, exact_settled(task.k),
               [&](std::int64_t begin, std::int64_t end) {
                 RowsAlong rows(isa, task.a, task.m, task.k), columns(isa, task.b, n, task.k);
                 std::vector<std::int64_t> mine;
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t at = left[static_cast<std::size_t>(i)];
                   ExactOutput output{.a = rows.of(at / n),
                                      .b = columns.of(at % n),
                                      .k = task.k,
                                      .scale = static_cast<double>(task.alpha),
                                      .cells = task.steps.cells};
                   if (task.c != nullptr) {
                     output.adds = true;
                     output.added =
                         static_cast<double>(task.beta) *
                         static_cast<double>(task.c[at / n * task.c_row + at % n * task.c_col]);
                   }
                   if (!exact_settle(*exact_lanes(isa), output, task.y[at],
                                     task.truth == nullptr ? nullptr : task.truth + at))
                     mine.push_back(at);
                 }
                 const std::scoped_lock lock(joining);
                 rest.insert(rest.end(), mine.begin(), mine.end());
               });
  left = std::move(rest);
}

}  // namespace

void pack_exact(Isa isa, const ExactShape& shape, const MatrixView& b, int threads,
                ExactOperand& to) {
  const std::int64_t n = shape.n, k = shape.k;
  if (exact_is_thin(shape.m, n)) {
    to.first = ExactFirst::f64;
    if (n >= shape.m) pack_thin(isa, shape, b, threads, to);
    return;
  }
  to.first = first_for(isa, shape);
#if defined(__x86_64__)
  if (to.first == ExactFirst::words) return pack_exact_words(shape, b, threads, to);
#endif
  if (to.first == ExactFirst::digits) {
    pack_digits(*digit_set(isa), b, n, k, true, threads, to.digits);
    return;
  }
  if (to.first == ExactFirst::residues) {
    pack_residues(residues_of(isa, shape.residues), b, n, k, true, threads, to.residues);
    return;
  }
  pack_f64(isa, shape, b, threads, to);
}

Prepared pack_exact_constant(Isa isa, const ExactShape& shape, const MatrixView& b, int threads) {
  auto prepared = std::make_shared<ExactOperand>();
  pack_exact(isa, shape, b, threads, *prepared);
  return prepared;
}

bool exact_is_thin(std::int64_t m, std::int64_t n) { return std::min(m, n) <= kThin; }

void gemm_exact(Isa isa, const ExactTask& task, int threads, std::vector<std::int64_t>& left) {
  if (task.m == 0 || task.n == 0) return;
  if (exact_is_thin(task.m, task.n)) {
    thin_pass(*exact_lanes(isa), task, threads, left);
    exact_counts().undecided += static_cast<std::int64_t>(left.size());
    if (task.steps.settle) settle(isa, task, threads, left);
    return;
  }
  thread_local ExactOperand fresh;  // as thread_scratch: fresh pages cost more than the packing
  ExactShape shape{.m = task.m,
                   .n = task.n,
                   .k = task.k,
                   .residues = task.steps.residues,
                   .b_halves = task.truth == nullptr ? task.b_halves : nullptr};
  const ExactOperand* b = task.packed_b;
  const auto pack = [&] {
    pack_exact(isa, shape, task.b, threads, fresh);
    b = &fresh;
  };
  if (b == nullptr || (b->first == ExactFirst::words && shape.b_halves == nullptr)) pack();
#if defined(__x86_64__)
  if (b->first == ExactFirst::words && !words_pass(task, *b, threads, left)) {
    shape.b_halves = nullptr;
    pack();
  }
#endif
  if (b->first == ExactFirst::digits)
    digits_pass(*digit_set(isa), *exact_lanes(isa), task, b->digits, threads, left);
  else if (b->first == ExactFirst::residues)
    residues_pass(residues_of(isa, task.steps.residues), *exact_lanes(isa), task, b->residues,
                  false, threads, left);
  else if (b->first == ExactFirst::f64)
    f64_pass(isa, task, *b, threads, left);
  exact_counts().undecided += static_cast<std::int64_t>(left.size());
  if (task.steps.settle) settle(isa, task, threads, left);
}

namespace {

// `call` in f32; `halves`: the call as it was.
void gemm_pass(const KernelCall& call, const KernelCall& halves, Isa isa, const ExactSteps& steps,
               std::vector<std::int64_t>& left) {
  const auto& params = call.params<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, call.input(0).shape(), call.input(1).shape());
  ExactTask task{.m = g.m,
                 .n = g.n,
                 .k = g.k,
                 .a = {call.input(0).data<float>().data(), g.a_row, g.a_col},
                 .b = {call.input(1).data<float>().data(), g.b_col, g.b_row},
                 .packed_b = static_cast<const ExactOperand*>(call.prepared),
                 .alpha = params.alpha,
                 .beta = params.beta,
                 .y = call.output(0).mutable_data<float>().data(),
                 .steps = steps};
  if (call.has(2)) {
    const auto strides = broadcast_strides(call.input(2).shape(), Shape{g.m, g.n});
    task.c = call.input(2).data<float>().data();
    task.c_row = strides[0];
    task.c_col = strides[1];
  }
  if (!call.truth.empty() && call.truth[0])
    task.truth = call.truth[0].mutable_data<double>().data();
  task.a_halves = bf16_or_null(halves.input(0));
  task.b_halves = bf16_or_null(halves.input(1));
  gemm_exact(isa, task, call.threads, left);
}

}  // namespace

void run_gemm_exact(const KernelCall& call, Isa isa, const ExactSteps& steps) {
  run_exact_pass(
      call, steps,
      [&](const KernelCall& wide, const ExactSteps& all, std::vector<std::int64_t>& left) {
        gemm_pass(wide, call, isa, all, left);
      },
      run_gemm_definition);
}

namespace {

// `problem` in f32; `halves`: the problem as it was.
Prepared pack_constant(const Problem& problem, const Problem& halves, Isa isa, int threads) {
  const Tensor* b = problem.inputs[1].value;
  if (b == nullptr) return nullptr;
  const auto& params = problem.params->as<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, problem.input(0).shape, problem.input(1).shape);
  return pack_exact_constant(isa,
                             {.m = g.m,
                              .n = g.n,
                              .k = g.k,
                              .b_is_constant = true,
                              .b_halves = bf16_or_null(*halves.inputs[1].value)},
                             {b->data<float>().data(), g.b_col, g.b_row}, threads);
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  return prepare_exact_pass(problem, threads, [&](const Problem& wide) {
    return pack_constant(wide, problem, isa, threads);
  });
}

}  // namespace

template <Isa isa>
KernelRow gemm_exact_row(std::string_view name) {
  return {.op = "gemm",
          .name = name,
          .isa = isa,
          .contracts = "exact",
          .refuse = refuse_unless_exact_narrow,
          .run = [](const KernelCall& call) { run_gemm_exact(call, isa, {}); },
          .prepare = prepare<isa>};
}
template KernelRow gemm_exact_row<Isa::amx>(std::string_view name);
template KernelRow gemm_exact_row<Isa::avx512>(std::string_view name);
template KernelRow gemm_exact_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
