// Winograd's algorithm and fft (algorithms_fast.cpp): sizes and layouts, coefficients of the
// transforms as floats, and the weights' spectra as rows of gemm's tile.
#include "kernels/conv/algorithm_tiles.h"
#include "kernels/conv/winograd_matrices.h"
#include "kernels/gemm/packed.h"

namespace etalon {
namespace {

template <class T>
Coefficients<T> coefficients(const FractionMatrix& m) {
  Coefficients<T> c;
  c.rows = static_cast<int>(m.rows);
  int n = 0;
  for (std::int64_t i = 0; i < m.rows; ++i) {
    c.start[i] = n;
    for (std::int64_t j = 0; j < m.cols; ++j) {
      const Fraction& f = m(i, j);
      if (f.is_zero()) continue;
      c.column[n] = static_cast<int>(j);
      c.value[n++] = static_cast<T>(f.p) / static_cast<T>(f.q);
    }
  }
  c.start[m.rows] = n;
  return c;
}

}  // namespace

std::shared_ptr<PreparedTiles> prepare_tiles(const Problem& problem) {
  auto p = std::make_shared<PreparedTiles>();
  p->algorithm = Algorithm::parse(problem.contract->algo);
  p->is_fft = p->algorithm.kind == Algorithm::Kind::fft;
  p->t = conv_tiles(conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                  problem.input(1).shape),
                    p->algorithm);
  const ConvTiles& t = p->t;
  const std::int64_t parts = p->is_fft ? 2 : 1;
  p->positions = t.y.size * (p->is_fft ? t.x.size / 2 + 1 : t.x.size);
  p->k = t.g.group_in() * parts;
  p->rows = t.g.group_out() * parts;
  if (p->is_fft) {
    p->roots = twiddles(std::max({t.y.size, t.x.size, std::int64_t{4}}), DType::f32);
  } else {
    p->run = p->algorithm.run;
    const WinogradMatrices m = winograd_matrices(p->algorithm);
    p->a_t = coefficients<float>(m.a_t);
    p->b_t = coefficients<float>(m.b_t);
    p->a_t_wide = coefficients<double>(m.a_t);
    p->b_t_wide = coefficients<double>(m.b_t);
    p->phases = t.x.step;
  }
  const std::int64_t columns = (t.x.count - 1) * t.x.step + t.x.size;
  p->phase_stride = (columns + p->phases - 1) / p->phases;
  p->row = p->phase_stride * p->phases;
  p->plane = p->row * ((t.y.count - 1) * t.y.step + t.y.size);
  return p;
}

void pack_tile_weights(PreparedTiles& p, const TileTransforms& set, int tile_rows, const float* w,
                       int threads) {
  const ConvGeometry& g = p.t.g;
  const std::int64_t in = g.group_in(), out = g.group_out(), taps = g.window.taps();
  const std::int64_t ny = p.t.y.size, nx = p.t.x.size;
  float* to = p.weights.at_least<float>(g.groups * p.positions * p.rows * p.k);
  const RowStrips strips(p.rows, tile_rows);
  const bool wide = p.algorithm.transform == DType::f64;
  Coefficients<float> narrow_g;
  Coefficients<double> wide_g;
  if (!p.is_fft) {
    const WinogradMatrices m = winograd_matrices(p.algorithm);
    narrow_g = coefficients<float>(m.g);
    wide_g = coefficients<double>(m.g);
  }
  // Where row `row` of a strip lies in it.
  const auto place = [&](std::int64_t group, std::int64_t position, std::int64_t row,
                         std::int64_t k) -> float& {
    std::int64_t s = row * strips.count / p.rows;
    while (strips.first(s) > row) --s;
    while (strips.first(s + 1) <= row) ++s;
    return to[((group * p.positions + position) * p.rows + strips.first(s)) * p.k +
              k * strips.height(s) + row - strips.first(s)];
  };
  parallel_for(g.out_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> u(static_cast<std::size_t>(2 * p.positions + 2 * ny * nx)),
        work(static_cast<std::size_t>(fft_work(ny, nx)));
    for (std::int64_t o = begin; o < end; ++o)
      for (std::int64_t c = 0; c < in; ++c) {
        const float* kernel = w + (o * in + c) * taps;
        const std::int64_t group = o / out, row = o % out;
        if (p.is_fft) {
          set.fft_weights({p.roots->cosine.data(), p.roots->sine.data(), p.roots->n}, ny, nx,
                          kernel, p.t.axis_y().kernel, p.t.axis_x().kernel, u.data(), work.data());
          for (std::int64_t i = 0; i < p.positions; ++i) {
            const float re = u[static_cast<std::size_t>(2 * i)],
                        im = u[static_cast<std::size_t>(2 * i + 1)];
            place(group, i, 2 * row, 2 * c) = re;
            place(group, i, 2 * row, 2 * c + 1) = im;
            place(group, i, 2 * row + 1, 2 * c) = -im;
            place(group, i, 2 * row + 1, 2 * c + 1) = re;
          }
        } else {
          const int r = static_cast<int>(p.algorithm.r);
          if (wide)
            set.weights_f64(wide_g, r, kernel, u.data());
          else
            set.weights_f32(narrow_g, r, kernel, u.data());
          for (std::int64_t i = 0; i < p.positions; ++i)
            place(group, i, row, c) = u[static_cast<std::size_t>(i)];
        }
      }
  });
  p.packed = true;
}

}  // namespace etalon
