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

// undecided(row): a row that the host computes.
template <int kRows, class Threads, class Undecided>
ETALON_HD void softmax_rows(const SoftmaxRowsTask& t, std::int64_t block, int width, RowShared& s,
                            const Threads& threads, const Undecided& undecided) {
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
    const float x = t.x[at(r, k)], m = s.a[r];
    if (!is_finite(static_cast<double>(m)) || x == -__builtin_inff()) return 0.0F;
    FineFunctions f;
    const float e = f.exp(x - m);
    if (f.undecided != 0) s.open[r] = 1;
    return e;
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
        const float m = s.a[r], sum = s.b[r];
        float y = float_of(kNanF32);
        if (is_finite(static_cast<double>(m))) {
          if (!t.log)
            y = canonical((kept ? s.buffer[0][place] : term(r, k)) / sum);
          else if (const float x = t.x[i]; x == -__builtin_inff())
            y = x;
          else
            y = canonical(x - m - sum);
        }
        t.y[i] = y;
      });
    });
  b.rows_each(threads, [&](int r) {
    if (s.open[r] != 0) undecided(row + r);
  });
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
