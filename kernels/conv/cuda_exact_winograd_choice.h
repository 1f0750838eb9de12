// Which calls cuda_exact_winograd.h takes, by a model of their time, their tasks, and its form on a
// host. The bits are the correctly rounded ones with any choice.
#pragma once

#include "kernels/conv/cuda_exact_winograd.h"
#include "kernels/gemm/cuda_wide_choice.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// f<ExactWinograd>() of a task's form.
template <class F>
auto with_exact_winograd(const ExactWinogradTask& t, F&& f) {
  if (t.r == 5) return f.template operator()<ExactWinograd<2, 5>>();
  return f.template operator()<ExactWinograd<4, 3>>();
}

inline ExactWinogradFactors exact_winograd_factors(const ExactWinogradTask& t) {
  const WinogradForm& form = t.r == 5 ? kWinogradForms[3] : kWinogradForms[1];
  ExactWinogradFactors f{};
  const auto size = [](double x) { return x < 0 ? -x : x; };
  for (int i = 0; i < kExactPatch; ++i) {
    for (int j = 0; j < kExactPatch; ++j) f.input[i * kExactPatch + j] = form.bt[i][j];
    double sum = 0;
    for (int k = 0; k < t.r; ++k) {
      f.weights[i * t.r + k] = form.g[i][k];
      sum += size(form.g[i][k]);
    }
    for (int j = 0; j < t.m; ++j)
      for (int k = 0; k < t.r; ++k)
        f.weight_sizes[j * t.r + k] += form.at[j][i] * form.at[j][i] * size(form.g[i][k]) * sum;
    for (int j = 0; j < t.m; ++j) {
      f.output[j * kExactPatch + i] = form.at[j][i];
      f.output_squares[j * kExactPatch + i] = form.at[j][i] * form.at[j][i];
    }
    f.input_squares[i] = form.squares[i];
  }
  constexpr double kUnit = 0x1p-53 * (1 + 0x1p-10);
  const int ends = 2 * (5 + 1), transforms = 2 * (4 + t.r);
  f.sum_error = kUnit * static_cast<double>(f64_depth(t.group_in) + ends);
  f.transform_error = kUnit * static_cast<double>(transforms);
  return f;
}

// Of a geometry that refuse_exact_winograd lets pass: its extents.
inline ExactWinogradTask exact_winograd_extents(const ConvGeometry& g) {
  ExactWinogradTask t;
  const WindowAxis &ay = g.window.axes[1], &ax = g.window.axes[2];
  t.t.m = g.group_out(), t.t.n = g.batch * g.window.out_points(), t.t.k = g.k();
  t.r = static_cast<int>(ax.kernel);
  t.m = kExactPatch + 1 - t.r;
  t.groups = g.groups;
  t.group_in = g.group_in(), t.group_out = g.group_out();
  t.in_channels = g.in_channels, t.out_channels = g.out_channels;
  t.in_x = ax.in, t.in_y = ay.in, t.out_x = ax.out, t.out_y = ay.out;
  t.pad_x = ax.pad_begin, t.pad_y = ay.pad_begin;
  t.tiles_x = (ax.out + t.m - 1) / t.m, t.tiles_y = (ay.out + t.m - 1) / t.m;
  t.tiles = g.batch * t.tiles_x * t.tiles_y;
  t.row_u = (t.group_out + 1) / 2 * 2, t.row_v = (t.tiles + 1) / 2 * 2;
  return t;
}
// Of a call; without memory, only for its extents.
inline ExactWinogradTask exact_winograd_task(const KernelCall& call, double* memory) {
  ExactWinogradTask t = exact_winograd_extents(
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()));
  t.t = tile_task(call,
                  reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data())));
  t.together = t.out_x % t.m == 0 && reinterpret_cast<std::uintptr_t>(t.t.y) % (4 * t.m) == 0;
  if (memory == nullptr) return t;
  const auto take = [&](std::int64_t count) {
    double* const own = memory;
    memory += (count + 1) / 2 * 2;  // each at a multiple of 16 bytes
    return own;
  };
  t.u = take(kExactCells * t.plane_u());
  t.v = take(kExactCells * t.plane_v());
  t.s = take(kExactCells * t.plane_s());
  t.squares = take(2 * t.plane_v());
  t.norms = take(t.norm_count());
  t.parts = take(t.part_count());
  t.factors = take(t.factor_count());
  return t;
}
inline std::int64_t exact_winograd_bytes(const ExactWinogradTask& t) {
  return (kExactCells * (t.plane_u() + t.plane_v() + t.plane_s()) + 2 * t.plane_v() +
          t.norm_count() + t.part_count() + t.factor_count() + 16) *
         static_cast<std::int64_t>(sizeof(double));
}

// As what settles open outputs wants it.
inline ConvDigitTask exact_winograd_open(const ExactWinogradTask& t) {
  ConvDigitTask open;
  open.p.t = t.t;
  open.groups = t.groups;
  return open;
}

inline F64Task exact_winograd_products(const ExactWinogradTask& t) {
  F64Task p;
  p.a = t.u, p.b = t.v, p.y = t.s;
  p.m = static_cast<int>(t.row_u), p.n = static_cast<int>(t.row_v);
  p.k = static_cast<int>(t.group_in);
  p.products = kExactCells * t.groups;
  choose_f64_tile(p);
  return p;
}

// Of the time that the sums of windows take, by a model of an H200 in us: those come at 9 million
// products (cuda_wide.h as it was measured: 8 to 9.5 of large layers), these at 20, and what goes
// to memory and back at 3 MB; 8 for the launches.
inline double exact_winograd_share(const ExactWinogradTask& t) {
  const F64Task p = exact_winograd_products(t);
  const auto of = [](auto n) { return static_cast<double>(n); };
  const double sums = of(t.t.m) * of(t.t.n) * of(t.t.k) * of(t.groups) / 9e6;
  const double products = of(p.products) * of(p.down * 64) * of(p.across * p.cols) * of(p.k) / 20e6;
  const double moved = 16.0 * kExactCells * of(t.plane_u() + t.plane_v() + t.plane_s()) / 3e6;
  return (8 + products + moved) / (sums + 2);
}

inline Refusal refuse_exact_winograd(const Problem& problem, double most_share) {
  if (Refusal r = refuse_digits(problem)) return r;
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  const WindowAxis &d = g.window.axes[0], &h = g.window.axes[1], &w = g.window.axes[2];
  const bool flat = d.in == 1 && d.kernel == 1 && d.out == 1;
  if (!flat || h.kernel != w.kernel || (w.kernel != 3 && w.kernel != 5) || h.stride != 1 ||
      w.stride != 1 || h.dilation != 1 || w.dilation != 1)
    return "computes 3x3 and 5x5 taps of stride 1, without dilation";
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 16;
  const std::int64_t tiles = g.batch * h.out * w.out;
  for (const std::int64_t n : {g.in_channels * (tiles + 1), g.out_channels * (tiles + 1),
                               g.in_channels * (g.group_out() + 1), h.in, w.in})
    if (n > kMost) return "takes fewer than 2^27 outputs of channels";
  const TensorType& y = problem.outputs[0];
  if (y.shape.numel() == 0 || g.group_in() == 0) return "takes sums of at least one term";
  const ExactWinogradTask t = exact_winograd_extents(g);
  if (exact_winograd_bytes(t) > std::int64_t{4} << 30)
    return "takes transforms of up to 4 GiB beside its tensors";
  if (exact_winograd_share(t) > most_share) return "so few channels or tiles are summed faster";
  return std::nullopt;
}

// ---- the host's form ----------------------------------------------------------------------------

#if !defined(__CUDACC__)
template <class Open>
void run_exact_winograd_on_host(const ExactWinogradTask& t, Open&& open) {
  const ExactWinogradFactors f = exact_winograd_factors(t);
  with_exact_winograd(t, [&]<class W>() {
    for (std::int64_t i = t.inputs(); i-- > 0;) W::input(t, f, i);
    std::vector<typename W::Sums> sums(kExactThreads);
    const auto kernels = std::make_unique<typename W::Kernels>();
    for (std::int64_t block = t.weight_blocks(); block-- > 0;) {
      std::memset(static_cast<void*>(kernels.get()), 0xA5, sizeof *kernels);
      W::weights(t, f, block, *kernels,
                 HostWideBlock<typename W::Sums, kExactThreads>{sums.data()});
    }
    struct None {};
    std::vector<None> none(kExactNormThreads);
    const auto norms = std::make_unique<typename W::Norms>();
    for (std::int64_t block = t.norm_blocks(); block-- > 0;)
      W::norms(t, block, *norms, HostWideBlock<None, kExactNormThreads>{none.data()});
    for (std::int64_t i = t.factor_count(); i-- > 0;) W::factor(t, f, i);
    const F64Task products = exact_winograd_products(t);
    with_f64_tile(products, [&]<class Tile>() {
      const auto shared = std::make_unique<typename Tile::Shared>();
      std::vector<typename Tile::Thread> threads(Tile::kThreads);
      for (std::int64_t block = products.blocks(); block-- > 0;) {
        std::memset(static_cast<void*>(shared.get()), 0xA5, sizeof *shared);
        Tile::run(products, static_cast<std::uint32_t>(block), *shared,
                  HostWideBlock<typename Tile::Thread, Tile::kThreads>{threads.data()});
      }
    });
    for (std::int64_t i = t.outputs(); i-- > 0;) W::output(t, f, i, open);
  });
}
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
