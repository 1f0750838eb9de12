// softmax and log_softmax on a GPU, contract seq: the largest element, then e^(x - m), its chain
// and the quotients, by blocks (kernels/backends/cuda/row_block.h).
//
// Same bits as the definition (definition.h): each element is the same steps; the largest is the
// same number in any sequence, and which of two zeros it is changes no term (e^0 and e^-0 are 1)
// and no difference from a logarithm that is not 0, which two largest elements make. exp is rounded
// correctly (kernels/activation/device_fine.h). Limit: row_block.h.
#pragma once

#include "kernels/activation/device_fine.h"
#include "kernels/backends/cuda/row_block.h"
#include "kernels/backends/cuda/row_warp.h"
#include "kernels/softmax/definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct SoftmaxRowsTask {
  const float* x = nullptr;
  float* y = nullptr;
  SoftmaxGeometry g{};
  bool log = false;
  RowShape shape() const { return {g.rows, g.length, g.stride == 1}; }
};

inline SoftmaxRowsTask softmax_rows_task(const KernelCall& call) {
  return {.x = reinterpret_cast<const float*>(call.input(0).bytes().data()),
          .y = reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data())),
          .g = softmax_geometry(call.params<SoftmaxParams>(), call.input(0).shape()),
          .log = call.problem->op->name == "log_softmax"};
}

// Which rows share a block: 32 short or interleaved ones (RowBlock), or none, or each has a warp.
enum class SoftmaxForm : std::uint8_t { warp, block, many };
inline constexpr int kWarpRow = 128, kRowsOfWarps = 4;  // elements; rows of a block
inline SoftmaxForm softmax_form(const SoftmaxRowsTask& t) {
  constexpr std::int64_t kFewRows = 8192;  // a warp has no lane to spare for very short ones
  const SoftmaxGeometry& g = t.g;
  if (g.stride == 1 && g.length <= kWarpRow && (g.length >= 32 || g.rows <= kFewRows))
    return SoftmaxForm::warp;
  return RowShape{g.rows, g.length, g.stride == 1}.many() ? SoftmaxForm::many : SoftmaxForm::block;
}
// Of a row that has a block.
inline int softmax_warps(const SoftmaxRowsTask& t) {
  return t.g.length <= 512 ? 4 : t.g.length <= 1024 ? 8 : t.g.length <= 4096 ? 16 : 32;
}

struct SoftmaxTerms {
  int undecided = 0;
  // e^(x - m) of each.
  template <int N>
  ETALON_HD void operator()(const float (&x)[N], float m, float (&e)[N]) {
    const bool finite = is_finite(static_cast<double>(m));
    bool open[N];
    ETALON_UNROLL
    for (int i = 0; i < N; ++i) {
      const bool none = !finite || x[i] == -__builtin_inff();
      open[i] = !DeviceQuick<LaneFunction::exp>::function({}, none ? 0 : x[i] - m, e[i]);
      e[i] = none ? 0 : e[i];
      open[i] = open[i] && !none;
    }
    ETALON_UNROLL
    for (int i = 0; i < N; ++i) {
      if (!open[i]) continue;
      FineFunctions f;
      e[i] = f.exp(x[i] - m);
      undecided |= f.undecided;
    }
  }
};
// y of x, or of its term, with the row's largest and sum, of log_softmax the sum's logarithm.
ETALON_HD inline float softmax_output(bool log, float x, float term, float m, float sum) {
  if (!is_finite(static_cast<double>(m))) return float_of(kNanF32);
  if (!log) return canonical(term / sum);
  return x == -__builtin_inff() ? x : canonical(x - m - sum);
}

// The chain of a row of few terms, which lie at a multiple of 16 bytes.
ETALON_HD inline float softmax_chain(const float* terms, int count, float chain) {
  return RowBlock<1>::walk(terms, count, chain, [](float sum, float e) { return sum + e; });
}

// A row of at most kWarpRow neighbours, in a warp's registers, and its terms in shared memory.
struct alignas(16) SoftmaxTermsOfWarp {
  float e[kWarpRow];
};
template <class Warp, class Undecided>
ETALON_HD void softmax_in_warp(const SoftmaxRowsTask& t, std::int64_t row, SoftmaxTermsOfWarp& s,
                               const Warp& w, const Undecided& undecided) {
  constexpr int kLanes = Warp::kLanes, kEach = kWarpRow / 32;
  const auto n = static_cast<int>(t.g.length);
  const float* const from = t.x + row * t.g.length;
  float* const to = t.y + row * t.g.length;
  float x[kEach][kLanes], e[kEach][kLanes], most[kLanes];
  ETALON_UNROLL
  for (int j = 0; j < kEach; ++j) ETALON_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    const int k = 32 * j + w.lane(i);
    x[j][i] = k < n ? from[k] : -__builtin_inff();
    most[i] = j == 0 ? x[j][i] : larger_of(most[i], x[j][i]);
  }
  const float m = w.largest(most);
  bool open[kLanes];
  ETALON_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    SoftmaxTerms terms;
    float own[kEach], term[kEach];
    ETALON_UNROLL
    for (int j = 0; j < kEach; ++j) own[j] = x[j][i];
    terms(own, m, term);
    ETALON_UNROLL
    for (int j = 0; j < kEach; ++j) s.e[32 * j + w.lane(i)] = e[j][i] = term[j];
    open[i] = terms.undecided != 0;
  }
  w.meet();
  float sum = softmax_chain(s.e, n, 0);
  bool opens = w.ballot(open) != 0;
  if (t.log && is_finite(static_cast<double>(m))) {
    FineFunctions f;
    sum = f.log(sum);
    opens = opens || f.undecided != 0;
  }
  ETALON_UNROLL
  for (int j = 0; j < kEach; ++j) ETALON_UNROLL
  for (int i = 0; i < kLanes; ++i)
    if (const int k = 32 * j + w.lane(i); k < n)
      to[k] = softmax_output(t.log, x[j][i], e[j][i], m, sum);
  if (opens && w.first()) undecided(row);
}

inline constexpr int kMostSoftmaxWarps = 32, kSoftmaxBuffer = 4096;  // floats of a chunk
struct SoftmaxShared {
  alignas(16) float buffer[2][kSoftmaxBuffer];
  float part[kMostSoftmaxWarps], sum;
  int open;  // a rounding was left undecided
};
// A row by a block of `count` warps. Warps: a phase is a function of the warp, with a barrier
// behind. One warp has the chain, of the last chunk of terms, while the others make the next.
template <class Warps, class Undecided>
ETALON_HD void softmax_in_block(const SoftmaxRowsTask& t, std::int64_t row, int count,
                                SoftmaxShared& s, const Warps& warps, const Undecided& undecided) {
  constexpr int kChunk = kSoftmaxBuffer, kEach = 4;
  const std::int64_t n = t.g.length, chunks = (n + kChunk - 1) / kChunk;
  const std::int64_t step = t.g.stride, first = step == 1 ? row * n : t.g.first(row);
  const float* const from = t.x + first;
  float* const to = t.y + first;
  warps([&](const auto& w) {
    constexpr int kLanes = std::decay_t<decltype(w)>::kLanes;
    float most[kLanes];
    ETALON_UNROLL
    for (int i = 0; i < kLanes; ++i) {
      constexpr int kAhead = 8;
      const std::int64_t width = count * 32;
      most[i] = -__builtin_inff();
      for (std::int64_t k = w.index * 32 + w.lane(i); k < n; k += kAhead * width) {
        float x[kAhead];
        ETALON_UNROLL
        for (int j = 0; j < kAhead; ++j)
          x[j] = k + j * width < n ? from[(k + j * width) * step] : -__builtin_inff();
        ETALON_UNROLL
        for (const float v : x) most[i] = larger_of(most[i], v);
      }
    }
    const float m = w.largest(most);
    if (w.first()) s.part[w.index] = m;
    if (w.first() && w.index == 0) s.open = 0;
  });
  const auto largest = [&] {
    float m = s.part[0];
    for (int i = 1; i < count; ++i) m = larger_of(m, s.part[i]);
    return m;
  };
  // Warp `index` of `of` fills its share of a chunk.
  const auto fill = [&](const auto& w, std::int64_t chunk, int index, int of) {
    const float m = largest();
    const std::int64_t k0 = chunk * kChunk;
    const int length = static_cast<int>(n - k0 < kChunk ? n - k0 : kChunk);
    float* const buffer = s.buffer[chunk & 1];
    ETALON_UNROLL
    for (int i = 0; i < std::decay_t<decltype(w)>::kLanes; ++i)
      for (int k = index * 32 + w.lane(i); k < length; k += kEach * of * 32) {
        float x[kEach], e[kEach];
        ETALON_UNROLL
        for (int j = 0; j < kEach; ++j) {
          const int at = k + j * of * 32;
          x[j] = at < length ? from[(k0 + at) * step] : -__builtin_inff();
        }
        SoftmaxTerms terms;
        terms(x, m, e);
        if (terms.undecided != 0) s.open = 1;
        ETALON_UNROLL
        for (int j = 0; j < kEach; ++j) {
          const int at = k + j * of * 32;
          if (at >= length) continue;
          buffer[at] = e[j];
          if (chunks > 1 && !t.log) to[(k0 + at) * step] = e[j];
        }
      }
  };
  warps([&](const auto& w) { fill(w, 0, w.index, count); });
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    warps([&](const auto& w) {
      if (w.index != 0) {
        if (chunk + 1 < chunks) fill(w, chunk + 1, w.index - 1, count - 1);
        return;
      }
      const std::int64_t left = n - chunk * kChunk;
      const int length = static_cast<int>(left < kChunk ? left : kChunk);
      const float* const buffer = s.buffer[chunk & 1];
      float sum = softmax_chain(buffer, length, chunk == 0 ? 0 : s.sum);
      if (t.log && chunk + 1 == chunks && is_finite(static_cast<double>(largest()))) {
        FineFunctions f;
        sum = f.log(sum);
        if (f.undecided != 0) s.open = 1;
      }
      w.meet();
      if (w.first()) s.sum = sum;
    });
  warps([&](const auto& w) {
    const float m = largest(), sum = s.sum;
    ETALON_UNROLL
    for (int i = 0; i < std::decay_t<decltype(w)>::kLanes; ++i)
      for (std::int64_t k0 = w.index * 32 + w.lane(i); k0 < n; k0 += kEach * count * 32) {
        float x[kEach] = {}, term[kEach] = {};
        ETALON_UNROLL
        for (int j = 0; j < kEach; ++j) {
          const std::int64_t k = k0 + j * count * 32;
          if (k >= n) continue;
          if (t.log)
            x[j] = from[k * step];
          else
            term[j] = chunks > 1 ? to[k * step] : s.buffer[0][k];
        }
        ETALON_UNROLL
        for (int j = 0; j < kEach; ++j)
          if (const std::int64_t k = k0 + j * count * 32; k < n)
            to[k * step] = softmax_output(t.log, x[j], term[j], m, sum);
      }
    if (w.first() && w.index == 0 && s.open != 0) undecided(row);
  });
}

// 32 rows. undecided(row): a row that the host computes.
template <class Threads, class Undecided>
ETALON_HD void softmax_rows(const SoftmaxRowsTask& t, std::int64_t block, int width, RowShared& s,
                            const Threads& threads, const Undecided& undecided) {
  constexpr int kRows = kRowsOfBlock;
  const std::int64_t row = block * kRows, left = t.g.rows - row;
  const RowBlock<kRows> b{s, static_cast<int>(left < kRows ? left : kRows), t.g.length, width,
                          t.g.stride == 1};
  const auto at = [&](int r, std::int64_t k) { return s.first[r] + k * t.g.stride; };
  b.rows_each(threads, [&](int r) {
    s.first[r] = t.g.first(row + r);
    s.open[r] = 0;
  });
  b.largest(threads, [&](int r, std::int64_t k) { return t.x[at(r, k)]; });
  const auto term = [&](int r, std::int64_t k) {
    const float x[1] = {t.x[at(r, k)]};
    float e[1];
    SoftmaxTerms terms;
    terms(x, s.a[r], e);
    if (terms.undecided != 0) s.open[r] = 1;
    return e[0];
  };
  b.chains(threads, term, [](float chain, float e) { return chain + e; });
  b.rows_each(threads, [&](int r) {
    s.b[r] = s.chain[r];
    if (!t.log || !is_finite(static_cast<double>(s.a[r]))) return;
    FineFunctions f;
    s.b[r] = f.log(s.chain[r]);
    if (f.undecided != 0) s.open[r] = 1;
  });
  const bool kept = b.chunks() == 1;  // the terms, in the first buffer
  for (std::int64_t chunk = 0; chunk < b.chunks(); ++chunk)
    threads([&](int tid) {
      b.each(chunk, tid, width, [&](int r, std::int64_t k, int place) {
        const std::int64_t i = at(r, k);
        const float e = t.log ? 0 : kept ? s.buffer[0][place] : term(r, k);
        t.y[i] = softmax_output(t.log, t.x[i], e, s.a[r], s.b[r]);
      });
    });
  b.rows_each(threads, [&](int r) {
    if (s.open[r] != 0) undecided(row + r);
  });
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
