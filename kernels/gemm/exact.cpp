#include "kernels/gemm/exact.h"

#include <mutex>
#include <vector>

#include "engine/ops/gemm.h"
#include "kernels/gemm/definition.h"
#include "kernels/gemm/refuse.h"

namespace etalon {

ExactCounts& exact_counts() {
  static ExactCounts counts;
  return counts;
}

namespace {

std::vector<double> norms(const MatrixView& v, std::int64_t rows, std::int64_t k, int threads) {
  std::vector<double> n(static_cast<std::size_t>(rows));
  parallel_for(rows, threads, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      double s = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double x = static_cast<double>(v.data[r * v.row_stride + i * v.k_stride]);
        s += x * x;
      }
      n[static_cast<std::size_t>(r)] = std::sqrt(s);
    }
  });
  return n;
}

template <Isa isa>
void run(const KernelCall& call) {
  const TileSet<double>& set = *tile_set_f64(isa);
  const auto& params = call.params<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, call.input(0).shape(), call.input(1).shape());
  const MatrixView a{call.input(0).data<float>().data(), g.a_row, g.a_col};
  const MatrixView b{call.input(1).data<float>().data(), g.b_col, g.b_row};
  const float* c = call.has(2) ? call.input(2).data<float>().data() : nullptr;
  std::int64_t c_row = 0, c_col = 0;
  if (c != nullptr) {
    const auto strides = broadcast_strides(call.input(2).shape(), Shape{g.m, g.n});
    c_row = strides[0];
    c_col = strides[1];
  }
  float* y = call.output(0).mutable_data<float>().data();
  double* truth =
      call.truth.empty() || !call.truth[0] ? nullptr : call.truth[0].mutable_data<double>().data();
  const int lanes = set.lanes;
  const RowStrips strips(g.m, set.rows);
  const std::int64_t columns = vector_strips(g.n, lanes);
  double* packed_a = thread_scratch<double>(ScratchSlot::broadcast, g.m * g.k);
  double* packed_b = thread_scratch<double>(ScratchSlot::vector, columns * lanes * g.k);
  pack_broadcast(set, a, strips, g.k, call.threads, packed_a);
  pack_vector(set, b, g.n, g.k, call.threads, packed_b);
  const std::vector<double> a_norm = norms(a, g.m, g.k, call.threads),
                            b_norm = norms(b, g.n, g.k, call.threads);
  const double factor = exact_factor(g.k);
  std::vector<std::int64_t> undecided;
  std::mutex joining;
  constexpr int kWide = 2;
  parallel_for(
      (columns + kWide - 1) / kWide, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
        double* square = thread_scratch<double>(ScratchSlot::tile, kMaxTileRows * kWide * lanes);
        std::vector<std::int64_t> left;
        for (std::int64_t v = begin * kWide; v < std::min(columns, end * kWide); v += kWide) {
          const int w = static_cast<int>(std::min<std::int64_t>(kWide, columns - v));
          const std::int64_t n = std::min<std::int64_t>(w * lanes, g.n - v * lanes);
          for (std::int64_t s = 0; s < strips.count; ++s) {
            const int height = strips.height(s);
            const std::int64_t row = strips.first(s);
            set.plain[static_cast<std::size_t>(w)][static_cast<std::size_t>(height)](
                {.k = g.k,
                 .a = packed_a + row * g.k,
                 .a_step = height,
                 .b = packed_b + v * lanes * g.k,
                 .b_strip = g.k * lanes,
                 .b_step = lanes,
                 .c = square,
                 .c_row = kWide * lanes,
                 .last_lanes = lanes});
            for (int r = 0; r < height; ++r)
              for (std::int64_t i = 0; i < n; ++i) {
                const std::int64_t m = row + r, column = v * lanes + i, at = m * g.n + column;
                double t = square[r * kWide * lanes + i];
                const double e = factor * a_norm[static_cast<std::size_t>(m)] *
                                 b_norm[static_cast<std::size_t>(column)];
                if (c != nullptr) t += static_cast<double>(c[m * c_row + column * c_col]);
                if (!exact_decide(t, e, y[at], truth == nullptr ? nullptr : truth + at))
                  left.push_back(at);
              }
          }
        }
        const std::scoped_lock lock(joining);
        undecided.insert(undecided.end(), left.begin(), left.end());
      });
  exact_counts().outputs += g.m * g.n;
  exact_counts().undecided += static_cast<std::int64_t>(undecided.size());
  static const KernelRow definition = definition_row<GemmDefinition>("gemm.definition");
  if (!undecided.empty()) definition.run_slices(call, undecided);
}

}  // namespace

template <Isa isa>
KernelRow gemm_exact_row(std::string_view name) {
  return {.op = "gemm",
          .name = name,
          .isa = isa,
          .contracts = "exact",
          .refuse = [](const Problem& problem) -> Refusal {
            const auto& p = problem.params->as<GemmParams>();
            if (p.alpha != 1.0F || (p.beta != 1.0F && problem.has(2)))
              return "takes alpha = beta = 1";
            return refuse_unless_exact_f32(problem);
          },
          .run = run<isa>};
}
template KernelRow gemm_exact_row<Isa::avx512>(std::string_view name);
template KernelRow gemm_exact_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
