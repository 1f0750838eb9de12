// conv, f32, algo=winograd and algo=fft: spectra of inputs (V) and weights (U), for each position
// of the spectrum a product of matrices, spectra of outputs (S) back to pixels. All bits are the
// definitions' (winograd_definition.h, fft_definition.h).
// Loops: block of tiles { channels: V; positions { strips of rows { vectors of tiles: S = U V } };
// output channels: Y }. A lane is a tile throughout.
// Same bits: transforms are the definition's program over registers; a sum over channels is one
// accumulator of gemm's tile, k ascending, or chains of `run` channels joined by halves.
// A product of complex spectra is one of real matrices: k = (channel, re or im), rows = (output
// channel, re or im), u[re][c] = (U.re, U.im), u[im][c] = (-U.im, U.re).
// Limit: two 512-bit fma a cycle in the products, which are (alpha / (M R))^2 of direct's; below
// about 64 channels the transforms weigh as much, and weights of many channels come from memory.
#include "kernels/conv/algorithms_fast.h"

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "kernels/conv/algorithms.h"
#include "kernels/conv/tile_transforms.h"
#include "kernels/conv/tiles.h"
#include "kernels/conv/twiddles.h"
#include "kernels/conv/winograd_matrices.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/refuse.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

const TileTransforms* tile_transforms([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::transforms();
  if (isa == Isa::avx2) return &avx2::transforms();
#endif
  return nullptr;
}

namespace {

constexpr std::int64_t kSerialFlops = 400000;
// V and S of a block of tiles should stay in the second cache, but weights are read once a block:
// fewer than kLeast vectors would wait for them.
constexpr std::int64_t kBlockBytes = 1280 << 10;
constexpr std::int64_t kLeast = 4;
constexpr std::int64_t kCopyBytes = 16 << 20;
constexpr std::int64_t kLine = 64 / sizeof(float);

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

struct PreparedTiles {
  ConvTiles t;
  Algorithm algorithm;
  bool is_fft = false, packed = false;
  std::int64_t positions = 0, k = 0, rows = 0;  // of a group; rows and k count re and im apart
  std::int64_t run = 0;                         // terms of a chain, 0: all of k
  Coefficients<float> a_t, b_t;
  Coefficients<double> a_t_wide, b_t_wide;
  std::shared_ptr<const Twiddles> roots;
  // How the padded copy of a channel is laid out: `phases` runs of columns equal by step.
  std::int64_t phases = 1, phase_stride = 0, row = 0, plane = 0;
  AlignedBuffer weights;  // [group][position][strip][k][height]
};

std::shared_ptr<PreparedTiles> make_plan(const Problem& problem) {
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

void pack_weights(PreparedTiles& p, const TileTransforms& set, int tile_rows, const float* w,
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

// One channel with its padding as zeros, columns of equal remainder by the step together.
void copy_plane(const PreparedTiles& p, const float* from, float* to) {
  const WindowAxis &ay = p.t.axis_y(), &ax = p.t.axis_x();
  const std::int64_t rows = p.plane / p.row, f = p.phases;
  for (std::int64_t i = 0; i < rows; ++i, to += p.row) {
    const std::int64_t y = i - ay.pad_begin;
    if (y < 0 || y >= ay.in) {
      std::fill_n(to, p.row, 0.0F);
      continue;
    }
    const float* source = from + y * ax.in;
    if (f == 1) {
      const std::int64_t count = std::min(ax.in, p.row - ax.pad_begin);
      std::fill_n(to, ax.pad_begin, 0.0F);
      std::memcpy(to + ax.pad_begin, source, static_cast<std::size_t>(count) * sizeof(float));
      std::fill(to + ax.pad_begin + count, to + p.row, 0.0F);
      continue;
    }
    std::int64_t j = 0;  // column of each phase
    const auto one = [&](std::int64_t column) {
      for (std::int64_t e = 0; e < f; ++e) {
        const std::int64_t x = column * f + e - ax.pad_begin;
        to[e * p.phase_stride + column] = x >= 0 && x < ax.in ? source[x] : 0;
      }
    };
#if defined(__SSE2__)
    if (f == 4) {
      for (; j < p.phase_stride && j * 4 < ax.pad_begin; ++j) one(j);
      for (; j + 4 <= p.phase_stride && (j + 4) * 4 - ax.pad_begin <= ax.in; j += 4) {
        const float* x = source + j * 4 - ax.pad_begin;
        __m128 a = _mm_loadu_ps(x), b = _mm_loadu_ps(x + 4), c = _mm_loadu_ps(x + 8),
               d = _mm_loadu_ps(x + 12);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        _mm_storeu_ps(to + j, a);
        _mm_storeu_ps(to + p.phase_stride + j, b);
        _mm_storeu_ps(to + 2 * p.phase_stride + j, c);
        _mm_storeu_ps(to + 3 * p.phase_stride + j, d);
      }
    }
#endif
    for (; j < p.phase_stride; ++j) one(j);
  }
}

// A run of images computed together, and the tiles [first, first + count) of them.
struct Chunk {
  const TileTransforms& set;
  const TileSet<float>& gemm;
  const PreparedTiles& p;
  const float* x;  // padded copies: [image][channel][plane]
  const float* bias;
  float* y;  // of the first image
  std::int64_t tiles;
};

struct Block {
  std::int64_t first = 0, count = 0, padded = 0;  // tiles; padded to whole vectors
  float* v = nullptr;
  float* s = nullptr;
  std::int64_t v_position = 0, s_position = 0;
};

// Consecutive tiles of one tile row.
template <class F>
void for_runs(const ConvTiles& t, std::int64_t first, std::int64_t count, F f) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t tile = first + done, tx = tile % t.x.count;
    const std::int64_t ty = tile / t.x.count % t.y.count, image = tile / t.per_image();
    const std::int64_t run = std::min(count - done, t.x.count - tx);
    f(image, ty, tx, done, run);
    done += run;
  }
}

void input_channel(const Chunk& c, const Block& b, std::int64_t group, std::int64_t channel) {
  const PreparedTiles& p = c.p;
  const ConvTiles& t = p.t;
  const std::int64_t all = group * t.g.group_in() + channel;
  const int lanes = c.set.lanes;
  const std::int64_t parts = p.is_fft ? 2 : 1;
  float* v = b.v + channel * parts * b.padded;
  if (p.is_fft) {
    float* work = thread_scratch<float>(ScratchSlot::tile, fft_work(t.y.size, t.x.size) * lanes);
    for (std::int64_t at = 0; at < b.count; at += lanes) {
      const float* tile[16];
      for (int i = 0; i < lanes; ++i) {
        const std::int64_t id = b.first + std::min<std::int64_t>(at + i, b.count - 1);
        const std::int64_t image = id / t.per_image();
        tile[i] = c.x + (image * t.g.in_channels + all) * p.plane +
                  id / t.x.count % t.y.count * t.y.step * p.row + id % t.x.count * t.x.step;
      }
      c.set.fft_input({.roots = {p.roots->cosine.data(), p.roots->sine.data(), p.roots->n},
                       .ny = t.y.size,
                       .nx = t.x.size,
                       .tile = tile,
                       .row = p.row,
                       .v = v + at,
                       .position = b.v_position,
                       .part = b.padded,
                       .work = work});
    }
    return;
  }
  std::int64_t column[kMaxAlpha];
  for (std::int64_t j = 0; j < t.x.size; ++j)
    column[j] = j % p.phases * p.phase_stride + j / p.phases;
  if (b.padded > b.count)
    for (std::int64_t i = 0; i < p.positions; ++i)
      std::fill_n(v + i * b.v_position + b.count, b.padded - b.count, 0.0F);
  const bool wide = p.algorithm.transform == DType::f64;
  const auto size = static_cast<std::size_t>(t.x.size);
  for_runs(
      t, b.first, b.count,
      [&](std::int64_t image, std::int64_t ty, std::int64_t tx, std::int64_t at, std::int64_t run) {
        const float* plane =
            c.x + (image * t.g.in_channels + all) * p.plane + ty * t.y.step * p.row + tx;
        for (std::int64_t i = 0; i < run; i += lanes) {
          const int count = static_cast<int>(std::min<std::int64_t>(lanes, run - i));
          const auto call = [&](const auto& b_t, auto function) {
            function({.b_t = &b_t,
                      .x = plane + i,
                      .row = p.row,
                      .column = column,
                      .v = v + at + i,
                      .position = b.v_position,
                      .count = count});
          };
          if (wide)
            call(p.b_t_wide, c.set.input_f64[size]);
          else
            call(p.b_t, c.set.input_f32[size]);
        }
      });
}

// S of rows [first, first + height) at one vector or more of tiles, over terms [k0, k1).
void product(const Chunk& c, const Block& b, const TileCall<float>& whole, int height,
             std::int64_t k0, std::int64_t k1, float* to, std::int64_t to_row) {
  const PreparedTiles& p = c.p;
  const int lanes = c.gemm.lanes;
  const int most = widest_tile(c.gemm, height);
  const std::int64_t vectors = b.padded / lanes;
  if (p.run == 0 || k1 - k0 <= p.run) {
    TileCall<float> t = whole;
    t.k = k1 - k0;
    t.a += k0 * height;
    t.c_row = to_row;
    for (std::int64_t v = 0; v < vectors;) {
      const int w = static_cast<int>(std::min<std::int64_t>(most, vectors - v));
      t.b = whole.b + k0 * b.padded + v * lanes;
      t.c = to + v * lanes;
      if (v > 0) t.next_step = 0;
      c.gemm.plain[static_cast<std::size_t>(w)][static_cast<std::size_t>(height)](t);
      v += w;
    }
    return;
  }
  std::int64_t half = 1;
  while (half * 2 < k1 - k0) half *= 2;
  product(c, b, whole, height, k0, k0 + half, to, to_row);
  // The right half goes behind the left, in memory that its caller does not use.
  std::vector<float> right(static_cast<std::size_t>(height * b.padded + lanes));
  product(c, b, whole, height, k0 + half, k1, right.data(), b.padded);
  for (int r = 0; r < height; ++r)
    c.set.add(to + r * to_row, right.data() + r * b.padded, b.padded);
}

void multiply(const Chunk& c, const Block& b, std::int64_t group, std::int64_t position,
              const RowStrips& strips, std::int64_t first_strip, std::int64_t last_strip) {
  const PreparedTiles& p = c.p;
  const float* u = c.p.weights.data<float>() + (group * p.positions + position) * p.rows * p.k;
  for (std::int64_t s = first_strip; s < last_strip; ++s) {
    const int height = strips.height(s);
    TileCall<float> t{.k = p.k,
                      .a = u + strips.first(s) * p.k,
                      .a_step = height,
                      .b = b.v + position * b.v_position,
                      .b_strip = c.gemm.lanes,
                      .b_step = b.padded,
                      .last_lanes = c.gemm.lanes};
    if (p.run == 0) {
      t.next = t.a + height * p.k;
      t.next_step = s + 1 < last_strip ? kLine : 0;
    }
    product(c, b, t, height, 0, p.k, b.s + position * b.s_position + strips.first(s) * b.padded,
            b.padded);
  }
}

// One row of outputs of `count` tiles, tile i's at y + i * m.
void scatter(const float* tile, int lanes, std::int64_t m, std::int64_t count, std::int64_t left,
             float* y) {
  std::int64_t i = 0;
#if defined(__SSE2__)
  if (m == 4)
    for (; i + 4 <= count && (i + 4) * 4 <= left; i += 4) {
      __m128 a = _mm_loadu_ps(tile + i), b = _mm_loadu_ps(tile + lanes + i),
             c = _mm_loadu_ps(tile + 2 * lanes + i), d = _mm_loadu_ps(tile + 3 * lanes + i);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      _mm_storeu_ps(y + i * 4, a);
      _mm_storeu_ps(y + i * 4 + 4, b);
      _mm_storeu_ps(y + i * 4 + 8, c);
      _mm_storeu_ps(y + i * 4 + 12, d);
    }
#endif
  for (; i < count; ++i)
    for (std::int64_t q = 0; q < m && i * m + q < left; ++q) y[i * m + q] = tile[q * lanes + i];
}

void output_channel(const Chunk& c, const Block& b, std::int64_t group, std::int64_t channel) {
  const PreparedTiles& p = c.p;
  const ConvTiles& t = p.t;
  const WindowAxis &ay = t.axis_y(), &ax = t.axis_x();
  const std::int64_t o = group * t.g.group_out() + channel;
  const int lanes = c.set.lanes;
  const std::int64_t plane = ay.out * ax.out;
  const float bias = c.bias == nullptr ? 0 : c.bias[o];
  if (p.is_fft) {
    float* work = thread_scratch<float>(ScratchSlot::tile, fft_work(t.y.size, t.x.size) * lanes);
    for (std::int64_t at = 0; at < b.count; at += lanes) {
      float* to[16] = {};
      std::int64_t rows[16] = {}, columns[16] = {};
      for (int i = 0; i < lanes && at + i < b.count; ++i) {
        const std::int64_t id = b.first + at + i, image = id / t.per_image();
        const std::int64_t y = id / t.x.count % t.y.count * t.y.step, x = id % t.x.count * t.x.step;
        to[i] = c.y + (image * t.g.out_channels + o) * plane + y * ax.out + x;
        rows[i] = ay.out - y;
        columns[i] = ax.out - x;
      }
      c.set.fft_output({.roots = {p.roots->cosine.data(), p.roots->sine.data(), p.roots->n},
                        .ny = t.y.size,
                        .nx = t.x.size,
                        .s = b.s + channel * 2 * b.padded + at,
                        .position = b.s_position,
                        .part = b.padded,
                        .scale = 1 / static_cast<float>(t.y.size * t.x.size),
                        .bias = bias,
                        .has_bias = c.bias != nullptr,
                        .step_y = t.y.step,
                        .step_x = t.x.step,
                        .y = to,
                        .rows = rows,
                        .columns = columns,
                        .y_row = ax.out,
                        .work = work});
    }
    return;
  }
  alignas(64) float tile[64 * 16];
  const bool wide = p.algorithm.transform == DType::f64;
  const auto size = static_cast<std::size_t>(t.x.size), m = static_cast<std::size_t>(t.x.step);
  for (std::int64_t at = 0; at < b.count; at += lanes) {
    const auto call = [&](const auto& a_t, auto function) {
      function({.a_t = &a_t,
                .s = b.s + channel * b.padded + at,
                .position = b.s_position,
                .bias = bias,
                .has_bias = c.bias != nullptr,
                .y = tile});
    };
    if (wide)
      call(p.a_t_wide, c.set.output_f64[size][m]);
    else
      call(p.a_t, c.set.output_f32[size][m]);
    for_runs(t, b.first + at, std::min<std::int64_t>(lanes, b.count - at),
             [&](std::int64_t image, std::int64_t ty, std::int64_t tx, std::int64_t lane,
                 std::int64_t run) {
               float* y = c.y + (image * t.g.out_channels + o) * plane + tx * t.x.step;
               for (std::int64_t q = 0; q < t.y.step && ty * t.y.step + q < ay.out; ++q)
                 scatter(tile + q * t.x.step * lanes + lane, lanes, t.x.step, run,
                         ax.out - tx * t.x.step, y + (ty * t.y.step + q) * ax.out);
             });
  }
}

void run_chunk(const Chunk& c, int threads) {
  const PreparedTiles& p = c.p;
  const ConvTiles& t = p.t;
  const int lanes = c.set.lanes;
  const std::int64_t vectors = vector_strips(c.tiles, lanes);
  const std::int64_t bytes = p.positions * (p.k + p.rows) * lanes * std::int64_t{sizeof(float)};
  std::int64_t block = std::clamp(kBlockBytes / bytes, kLeast, std::int64_t{64});
  std::int64_t blocks = (vectors + block - 1) / block;
  block = (vectors + blocks - 1) / blocks;
  block = std::min(vectors, (block + 1) / 2 * 2);
  blocks = (vectors + block - 1) / block;
  const RowStrips strips(p.rows, c.gemm.rows);

  const auto make_block = [&](std::int64_t i) {
    Block b;
    b.first = i * block * lanes;
    b.count = std::min(block * lanes, c.tiles - b.first);
    b.padded = vector_strips(b.count, lanes) * lanes;
    // A line more than a power of two, or all positions of a channel would fall into one set.
    b.v_position = p.k * b.padded + kLine;
    b.s_position = p.rows * b.padded + kLine;
    b.v = thread_scratch<float>(ScratchSlot::vector, p.positions * b.v_position + lanes);
    b.s = thread_scratch<float>(ScratchSlot::broadcast, p.positions * b.s_position + lanes);
    return b;
  };
  const std::int64_t in = t.g.group_in(), out = t.g.group_out();
  if (threads > 1 && blocks * t.g.groups >= 2 * threads) {
    parallel_for(blocks * t.g.groups, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t group = i / blocks;
        const Block b = make_block(i % blocks);
        for (std::int64_t k = 0; k < in; ++k) input_channel(c, b, group, k);
        for (std::int64_t k = 0; k < p.positions; ++k)
          multiply(c, b, group, k, strips, 0, strips.count);
        for (std::int64_t k = 0; k < out; ++k) output_channel(c, b, group, k);
      }
    });
    return;
  }
  for (std::int64_t i = 0; i < blocks * t.g.groups; ++i) {
    const std::int64_t group = i / blocks;
    const Block b = make_block(i % blocks);
    parallel_for(in, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) input_channel(c, b, group, k);
    });
    parallel_for(p.positions, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) multiply(c, b, group, k, strips, 0, strips.count);
    });
    parallel_for(out, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) output_channel(c, b, group, k);
    });
  }
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  auto p = make_plan(problem);
  if (const Tensor* w = problem.inputs[1].value)
    pack_weights(*p, *tile_transforms(isa), tile_set_f32(isa)->rows, w->data<float>().data(),
                 threads);
  return p;
}

template <Isa isa>
void run(const KernelCall& call) {
  const TileTransforms& set = *tile_transforms(isa);
  const auto* p = static_cast<const PreparedTiles*>(call.prepared);
  std::shared_ptr<PreparedTiles> fresh;
  if (p == nullptr || !p->packed) {
    fresh = make_plan(*call.problem);
    pack_weights(*fresh, set, tile_set_f32(isa)->rows, call.input(1).data<float>().data(),
                 call.threads);
    p = fresh.get();
  }
  const ConvGeometry& g = p->t.g;
  const std::int64_t tiles = p->t.per_image();
  if (g.batch == 0 || g.out_channels == 0 || tiles == 0) return;
  const int threads =
      g.batch * tiles * p->positions * p->k * p->rows < kSerialFlops ? 1 : call.threads;
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const std::int64_t image_size = std::max<std::int64_t>(1, g.in_channels * p->plane);
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kCopyBytes / (image_size * std::int64_t{sizeof(float)}), 1, g.batch);
  for (std::int64_t image = 0; image < g.batch; image += at_once) {
    const std::int64_t images = std::min(at_once, g.batch - image);
    // Loads of whole vectors reach behind the last row.
    float* copy = thread_scratch<float>(ScratchSlot::padded, images * image_size + 4 * kLine);
    std::fill_n(copy + images * image_size, 4 * kLine, 0.0F);
    parallel_for(images * g.in_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        copy_plane(*p, x + (image * g.in_channels + i) * g.window.in_points(), copy + i * p->plane);
    });
    run_chunk({set, *tile_set_f32(isa), *p, copy,
               call.has(2) ? call.input(2).data<float>().data() : nullptr,
               y + image * g.out_channels * g.window.out_points(), images * tiles},
              threads);
  }
}

Refusal refuse_common(const Problem& problem) {
  if (!problem.contract->is_seq()) return "promises f32, nearest even, fused, subnormals kept";
  return refuse_unless_f32(problem);
}

Refusal refuse_winograd(const Problem& problem) {
  if (Refusal r = winograd_definition_row().refuse(problem)) return r;
  if (Refusal r = refuse_common(problem)) return r;
  const Algorithm a = Algorithm::parse(problem.contract->algo);
  const std::int64_t size = a.alpha();
  if (problem.input(1).shape.rank() != 4 || problem.input(1).shape[2] == 1 ||
      problem.input(1).shape[3] == 1)
    return "transforms both axes; one alone is the definition's";
  if (!((size == 4 && a.m == 2) || (size == 6 && (a.m == 4 || a.m == 2)) ||
        (size == 8 && (a.m == 6 || a.m == 4))))
    return "is compiled for 2/3, 4/3, 6/3, 2/5 and 4/5";
  return std::nullopt;
}

Refusal refuse_fft(const Problem& problem) {
  if (Refusal r = fft_definition_row().refuse(problem)) return r;
  return refuse_common(problem);
}

}  // namespace

template <Isa isa>
KernelRow winograd_f32_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "seq with algo=winograd",
          .refuse = refuse_winograd,
          .run = run<isa>,
          .prepare = prepare<isa>};
}
template KernelRow winograd_f32_row<Isa::avx512>(std::string_view name);
template KernelRow winograd_f32_row<Isa::avx2>(std::string_view name);

template <Isa isa>
KernelRow fft_f32_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "seq with algo=fft",
          .refuse = refuse_fft,
          .run = run<isa>,
          .prepare = prepare<isa>};
}
template KernelRow fft_f32_row<Isa::avx512>(std::string_view name);
template KernelRow fft_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
