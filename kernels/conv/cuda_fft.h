// conv by the fast Fourier transform on a GPU, contract algo=fft:N: the bits of fft_definition.h.
//
// The definition makes every transform anew for each output channel; here each is made once:
//   1  rows of the kernels w[o,c] and of the tiles of x[n,c]: real transforms
//   2  their columns, in place: complex transforms; then spectra U and V lie in memory
//   3  S = sum over c of V * conj(U): a thread has 2 outputs by 2 tiles of one element, c ascending
//   4  columns of S backwards, in place
//   5  rows of S that outputs lie on, backwards; scale, bias, store
//
// Same bits: each butterfly is the definition's, on the same operands. The definition recurses: a
// transform of m at stride n/m from offset s has as halves those of m/2 at twice the stride from s
// and s + n/m. Here all transforms of one m are a level: element k of the one from s lies at
// k n/m + s, so level 1 is the input, level n the output, and nothing is permuted.
//
// A block transforms neighbouring lines together, line by line side by side in shared memory, which
// spreads a warp's accesses over the banks. Host and device: a phase is a function of the thread's
// number, `Threads` runs it for all threads of a block with a barrier behind.
//
// Limit: memory. Phases 1, 2, 4, 5 read and write spectra once, phase 3 reads them C times, mostly
// from the second cache. Its time has not been looked at.
#pragma once

#include "engine/backend/kernel.h"
#include "engine/numerics/seq_f32.h"
#include "kernels/backends/cuda/api.h"
#include "kernels/conv/fourier.h"
#include "kernels/conv/tiles.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

using FftNumber = ComplexOf<SeqF32>;
inline constexpr int kFftThreads = 128;
inline constexpr std::int64_t kFftMost = 512;  // largest transform
inline constexpr int kFftBuffer = 2560;        // numbers of each of a block's two buffers

struct FftTask {
  ConvTiles t;
  const float *x = nullptr, *w = nullptr, *b = nullptr;
  float* y = nullptr;
  FftNumber *u = nullptr, *v = nullptr, *s = nullptr;  // spectra [O, C/G], [tile, C], [tile, O]
  const double* roots = nullptr;  // cosines, then sines, of 2 pi k / n for k < n / 2
  std::int64_t n = 4;

  ETALON_HD std::int64_t half() const { return t.x.size / 2 + 1; }
  ETALON_HD std::int64_t spectrum() const { return t.y.size * half(); }
  ETALON_HD std::int64_t kernels() const { return t.g.out_channels * t.g.group_in(); }
  ETALON_HD std::int64_t images() const { return t.count() * t.g.in_channels; }
  ETALON_HD std::int64_t sums() const { return t.count() * t.g.out_channels; }
};

struct FftShared {
  FftNumber data[2][kFftBuffer];
};

// Which lines a launch transforms.
enum class FftPass { kernel_rows, image_rows, kernel_columns, image_columns, sum_columns, output };

struct FftLines {
  std::int64_t n = 1, count = 0;  // elements of a line, lines
  int together = 1;               // lines of a block
  ETALON_HD int pitch() const { return together + 1; }
  std::int64_t blocks() const { return (count + together - 1) / together; }
};
ETALON_HD inline FftLines fft_lines(const FftTask& t, FftPass pass) {
  FftLines l;
  const bool rows =
      pass == FftPass::kernel_rows || pass == FftPass::image_rows || pass == FftPass::output;
  l.n = rows ? t.t.x.size : t.t.y.size;
  const std::int64_t of =
      pass == FftPass::kernel_rows || pass == FftPass::kernel_columns ? t.kernels()
      : pass == FftPass::image_rows || pass == FftPass::image_columns ? t.images()
                                                                      : t.sums();
  l.count = of * (pass == FftPass::output ? t.t.y.step : rows ? t.t.y.size : t.half());
  // 32 lines of 64 or fewer, 4 of 512: with the pitch, at most kFftBuffer numbers.
  l.together = l.n <= 64 ? 32 : static_cast<int>(2048 / l.n);
  return l;
}

template <FftPass pass>
struct FftBlock {
  static constexpr bool kBack = pass == FftPass::sum_columns || pass == FftPass::output;
  static constexpr bool kRows =
      pass == FftPass::kernel_rows || pass == FftPass::image_rows || pass == FftPass::output;

  template <class F>
  ETALON_HD static void each(std::int64_t items, int tid, F&& f) {
    for (std::int64_t i = tid; i < items; i += kFftThreads) f(i);
  }

  // The element of x (zero outside) that is row y, column x of a tile.
  ETALON_HD static float image_at(const FftTask& t, std::int64_t image, std::int64_t y,
                                  std::int64_t x) {
    const std::int64_t c = image % t.t.g.in_channels, tile = image / t.t.g.in_channels;
    const std::int64_t tx = tile % t.t.x.count, ty = tile / t.t.x.count % t.t.y.count,
                       n = tile / t.t.per_image();
    const WindowAxis &ay = t.t.axis_y(), &ax = t.t.axis_x();
    const std::int64_t iy = ay.at(ty * t.t.y.step, y), ix = ax.at(tx * t.t.x.step, x);
    if (iy < 0 || iy >= ay.in || ix < 0 || ix >= ax.in) return 0;
    return t.x[((n * t.t.g.in_channels + c) * ay.in + iy) * ax.in + ix];
  }
  // Spectra that a pass over columns transforms in place.
  ETALON_HD static FftNumber* spectra(const FftTask& t) {
    return pass == FftPass::kernel_rows || pass == FftPass::kernel_columns ? t.u
           : pass == FftPass::image_rows || pass == FftPass::image_columns ? t.v
                                                                           : t.s;
  }

  ETALON_HD static void load(const FftTask& t, const FftLines& l, std::int64_t first, FftNumber* to,
                             int tid) {
    const int pitch = l.pitch();
    if constexpr (!kRows) {
      // Neighbouring lines lie side by side.
      each(l.n * l.together, tid, [&](std::int64_t i) {
        const std::int64_t line = i % l.together, k = i / l.together, at = first + line;
        if (at >= l.count) return;
        to[k * pitch + line] =
            spectra(t)[at / t.half() * t.spectrum() + k * t.half() + at % t.half()];
      });
    } else if constexpr (pass == FftPass::output) {
      each(t.half() * l.together, tid, [&](std::int64_t i) {
        const std::int64_t k = i % t.half(), line = i / t.half(), at = first + line;
        if (at >= l.count) return;
        to[k * pitch + line] = t.s[at / t.t.y.step * t.spectrum() + at % t.t.y.step * t.half() + k];
      });
    } else {
      each(l.n * l.together, tid, [&](std::int64_t i) {
        const std::int64_t k = i % l.n, line = i / l.n, at = first + line;
        if (at >= l.count) return;
        const std::int64_t row = at % t.t.y.size, of = at / t.t.y.size;
        float value = 0;
        if constexpr (pass == FftPass::kernel_rows) {
          const std::int64_t kh = t.t.axis_y().kernel, kw = t.t.axis_x().kernel;
          if (row < kh && k < kw) value = t.w[(of * kh + row) * kw + k];
        } else {
          value = image_at(t, of, row, k);
        }
        to[k * pitch + line] = {value, 0};
      });
    }
  }

  // Level m from level m / 2, or the other way in a real transform backwards.
  ETALON_HD static void level(const FftTask& t, const FftLines& l, std::int64_t m,
                              const FftNumber* in, FftNumber* out, int tid) {
    SeqF32 a;
    const Roots roots{t.roots, t.roots + t.n / 2, t.n, true};
    const Fourier<SeqF32> f(a, roots);
    const int pitch = l.pitch();
    const std::int64_t subs = l.n / m;  // transforms of this level
    const std::int64_t steps = !kRows ? m / 2 : m == 2 ? 1 : m / 4 + 1;
    each(subs * steps * l.together, tid, [&](std::int64_t i) {
      const std::int64_t line = i % l.together, s = i / l.together % subs,
                         k = i / l.together / subs;
      // Element j of this level's transform from s; of the two halves.
      const auto whole = [&](std::int64_t j) { return (j * subs + s) * pitch + line; };
      const auto even = [&](std::int64_t j) { return (2 * j * subs + s) * pitch + line; };
      const auto odd = [&](std::int64_t j) { return (2 * j * subs + s + subs) * pitch + line; };
      if constexpr (!kRows) {
        const FftNumber e = in[even(k)], o = f.turn(in[odd(k)], k, m, kBack);
        out[whole(k)] = f.add(e, o);
        out[whole(k + m / 2)] = f.sub(e, o);
      } else if constexpr (!kBack) {
        const FftNumber e = in[even(k)], o = in[odd(k)];
        if (k == 0) {
          out[whole(0)] = {a.add(e.re, o.re), 0};
          out[whole(m / 2)] = {a.sub(e.re, o.re), 0};
        } else if (4 * k == m) {
          out[whole(k)] = {e.re, a.neg(o.re)};
        } else {
          const FftNumber turned = f.turn(o, k, m, false);
          out[whole(k)] = f.add(e, turned);
          out[whole(m / 2 - k)] = f.conj(f.sub(e, turned));
        }
      } else {
        const FftNumber x = in[whole(k)];
        if (k == 0) {
          const float last = in[whole(m / 2)].re;
          out[even(0)] = {a.add(x.re, last), 0};
          out[odd(0)] = {a.sub(x.re, last), 0};
        } else if (4 * k == m) {
          out[even(k)] = {a.add(x.re, x.re), 0};
          out[odd(k)] = {a.neg(a.add(x.im, x.im)), 0};
        } else {
          const FftNumber other = f.conj(in[whole(m / 2 - k)]);
          out[even(k)] = f.add(x, other);
          out[odd(k)] = f.turn(f.sub(x, other), k, m, true);
        }
      }
    });
  }

  ETALON_HD static void store(const FftTask& t, const FftLines& l, std::int64_t first,
                              const FftNumber* from, int tid) {
    const int pitch = l.pitch();
    if constexpr (!kRows) {
      each(l.n * l.together, tid, [&](std::int64_t i) {
        const std::int64_t line = i % l.together, k = i / l.together, at = first + line;
        if (at < l.count)
          spectra(t)[at / t.half() * t.spectrum() + k * t.half() + at % t.half()] =
              from[k * pitch + line];
      });
    } else if constexpr (pass != FftPass::output) {
      each(t.half() * l.together, tid, [&](std::int64_t i) {
        const std::int64_t k = i % t.half(), line = i / t.half(), at = first + line;
        if (at < l.count)
          spectra(t)[at / t.t.y.size * t.spectrum() + at % t.t.y.size * t.half() + k] =
              from[k * pitch + line];
      });
    } else {
      const WindowAxis &ay = t.t.axis_y(), &ax = t.t.axis_x();
      SeqF32 a;
      const float scale = a.ratio(1, t.t.y.size * t.t.x.size);
      each(t.t.x.step * l.together, tid, [&](std::int64_t i) {
        const std::int64_t px = i % t.t.x.step, line = i / t.t.x.step, at = first + line;
        if (at >= l.count) return;
        const std::int64_t py = at % t.t.y.step, sum = at / t.t.y.step,
                           o = sum % t.t.g.out_channels, tile = sum / t.t.g.out_channels;
        const std::int64_t tx = tile % t.t.x.count, ty = tile / t.t.x.count % t.t.y.count,
                           n = tile / t.t.per_image();
        const std::int64_t oy = ty * t.t.y.step + py, ox = tx * t.t.x.step + px;
        if (oy >= ay.out || ox >= ax.out) return;
        float y = a.mul(from[px * pitch + line].re, scale);
        if (t.b != nullptr) y = a.add(y, t.b[o]);
        t.y[((n * t.t.g.out_channels + o) * ay.out + oy) * ax.out + ox] = canonical(y);
      });
    }
  }

  // All phases of one block.
  template <class Threads>
  ETALON_HD static void run(const FftTask& t, std::int64_t block, FftShared& shared,
                            const Threads& threads) {
    const FftLines l = fft_lines(t, pass);
    const std::int64_t first = block * l.together;
    threads([&](int tid) { load(t, l, first, shared.data[0], tid); });
    int current = 0;
    const auto step = [&](std::int64_t m) {
      threads(
          [&](int tid) { level(t, l, m, shared.data[current], shared.data[1 - current], tid); });
      current = 1 - current;
    };
    if constexpr (kRows && kBack) {
      for (std::int64_t m = l.n; m >= 2; m /= 2) step(m);
    } else {
      for (std::int64_t m = 2; m <= l.n; m *= 2) step(m);
    }
    threads([&](int tid) { store(t, l, first, shared.data[current], tid); });
  }
};

// Phase 3, one thread: element `cell` of the sums of 2 output channels of a group by 2 tiles.
inline constexpr std::int64_t kFftShare = 2;
ETALON_HD inline std::int64_t fft_shares(std::int64_t n) { return (n + kFftShare - 1) / kFftShare; }
ETALON_HD inline std::int64_t fft_products(const FftTask& t) {
  return t.spectrum() * fft_shares(t.t.g.group_out()) * t.t.g.groups * fft_shares(t.t.count());
}
ETALON_HD inline void fft_product(const FftTask& t, std::int64_t i) {
  const std::int64_t cells = t.spectrum(), shares = fft_shares(t.t.g.group_out());
  const std::int64_t cell = i % cells, share = i / cells % shares,
                     group = i / (cells * shares) % t.t.g.groups,
                     tiles = i / (cells * shares * t.t.g.groups);
  const std::int64_t channels = t.t.g.group_in(), in_group = t.t.g.group_out();
  // One beyond the end is computed as the last, and stored as the last once more.
  const FftNumber *u[kFftShare], *v[kFftShare];
  FftNumber* to[kFftShare][kFftShare];
  FftNumber sum[kFftShare][kFftShare] = {};
  for (std::int64_t j = 0; j < kFftShare; ++j) {
    const std::int64_t in = share * kFftShare + j < in_group ? share * kFftShare + j : in_group - 1;
    const std::int64_t o = group * in_group + in;
    u[j] = t.u + o * channels * cells + cell;
    for (std::int64_t k = 0; k < kFftShare; ++k) {
      const std::int64_t last = t.t.count() - 1,
                         tile = tiles * kFftShare + k < last ? tiles * kFftShare + k : last;
      v[k] = t.v + (tile * t.t.g.in_channels + group * channels) * cells + cell;
      to[j][k] = t.s + (tile * t.t.g.out_channels + o) * cells + cell;
    }
  }
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t j = 0; j < kFftShare; ++j) {
      const FftNumber a = u[j][c * cells];
      for (std::int64_t k = 0; k < kFftShare; ++k) {
        const FftNumber b = v[k][c * cells];
        FftNumber& s = sum[j][k];
        s.re = fma_f32(b.im, a.im, fma_f32(b.re, a.re, s.re));
        s.im = fma_f32(b.im, a.re, fma_f32(b.re, -a.im, s.im));
      }
    }
  for (std::int64_t j = 0; j < kFftShare; ++j)
    for (std::int64_t k = 0; k < kFftShare; ++k) *to[j][k] = sum[j][k];
}

// The task of a call that refuse_fft lets pass; floating tensors lie on the device.
inline FftTask fft_task(const KernelCall& call, const cuda::FftMemory& memory) {
  FftTask t;
  t.t = conv_tiles(
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()),
      Algorithm::parse(call.contract().algo));
  const auto floats = [&](std::size_t i) {
    return call.has(i) ? reinterpret_cast<const float*>(call.input(i).bytes().data()) : nullptr;
  };
  t.x = floats(0);
  t.w = floats(1);
  t.b = floats(2);
  t.y = reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data()));
  t.u = static_cast<FftNumber*>(memory.spectra);
  t.roots = memory.roots;
  t.n = memory.roots_n;
  if (t.u == nullptr) return t;  // for its extents, which say how much memory it needs
  t.v = t.u + t.kernels() * t.spectrum();
  t.s = t.v + t.images() * t.spectrum();
  return t;
}

inline Refusal refuse_fft(const Problem& problem) {
  const Contract& c = *problem.contract;
  if (!c.algo.starts_with("fft")) return "computes algo=fft";
  Contract sums = c;
  sums.algo = "direct";
  if (!(sums == Contract::seq())) return "offers seq with algo=fft";
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             ", not f32";
  const Algorithm algorithm = Algorithm::parse(c.algo);
  if (Refusal r = refuse_tiles(problem, algorithm)) return r;
  const ConvTiles t = conv_tiles(conv_geometry(problem.params->as<ConvParams>(),
                                               problem.input(0).shape, problem.input(1).shape),
                                 algorithm);
  if (t.y.size > kFftMost || t.x.size > kFftMost)
    return "transforms at most " + std::to_string(kFftMost) + " inputs along an axis";
  return std::nullopt;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
