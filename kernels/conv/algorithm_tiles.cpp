// Winograd's algorithm and fft (algorithms_fast.cpp): from an image to the spectra of its tiles, a
// lane for each tile, and from the products' spectra to outputs.
#include "kernels/conv/algorithm_tiles.h"

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace etalon {
namespace {

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

}  // namespace

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

void input_channel(const TileChunk& c, const TileBlock& b, std::int64_t group,
                   std::int64_t channel) {
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

void output_channel(const TileChunk& c, const TileBlock& b, std::int64_t group,
                    std::int64_t channel) {
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

}  // namespace etalon
