// Where the elements of w, r and b lie among cuDNN's weights of a cell, and the maps that carry
// tensors there and back: pure functions of a geometry, so that a test without the library shows
// every index (tests/cudnn_weights_test.cpp).
//
// The library has a matrix and a bias for each direction (its pseudo layer) and each linear layer:
// first the gates of w, then those of r, each in a sequence of its own: rnn h; gru r, z, h; lstm
// i, f, c, o. It says itself where in its space each begins; a matrix is row-major there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/error.h"
#include "engine/ops/recurrent.h"

namespace etalon::cuda {

struct CudnnWeight {
  std::int64_t direction = 0, linear = 0;
  bool bias = false;
  std::int64_t rows = 0, cols = 1;
  std::int64_t from = 0;  // its first element, counted through w, r and b in this sequence
  std::int64_t count() const { return rows * cols; }
};

// The library's gate q as the cell counts them (RecurrentGeometry::block_of).
inline std::int64_t cudnn_gate(CellKind kind, std::int64_t q) {
  constexpr std::int64_t kGru[] = {1, 0, 2}, kLstm[] = {0, 2, 3, 1};
  return kind == CellKind::rnn ? q : kind == CellKind::gru ? kGru[q] : kLstm[q];
}

inline std::vector<CudnnWeight> cudnn_weights(const RecurrentGeometry& g, bool biases) {
  std::vector<CudnnWeight> list;
  const std::int64_t rows = g.gates * g.hidden, r0 = g.directions * rows * g.inputs,
                     b0 = r0 + g.directions * rows * g.hidden;
  for (std::int64_t d = 0; d < g.directions; ++d)
    for (std::int64_t linear = 0; linear < 2 * g.gates; ++linear) {
      const bool state = linear >= g.gates;
      const std::int64_t gate = cudnn_gate(g.kind, linear % g.gates),
                         row = g.block_of[static_cast<std::size_t>(gate)] * g.hidden;
      const std::int64_t cols = state ? g.hidden : g.inputs;
      list.push_back({.direction = d,
                      .linear = linear,
                      .rows = g.hidden,
                      .cols = cols,
                      .from = (state ? r0 : 0) + (d * rows + row) * cols});
      if (biases)
        list.push_back({.direction = d,
                        .linear = linear,
                        .bias = true,
                        .rows = g.hidden,
                        .from = b0 + (2 * d + (state ? 1 : 0)) * rows + row});
    }
  return list;
}

// The map of a MoveTask (kernels/backends/cuda/api.h) that fills a space of `size` floats, weight i
// from at[i] on: an element's number, + 1, and 0 where no weight lies.
inline std::vector<std::uint32_t> cudnn_weight_map(std::span<const CudnnWeight> weights,
                                                   std::span<const std::int64_t> at,
                                                   std::int64_t size) {
  std::vector<std::uint32_t> map(static_cast<std::size_t>(size), 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const CudnnWeight& w = weights[i];
    if (at[i] < 0 || at[i] > size - w.count())
      throw internal_error("cuDNN's weight {} of direction {} lies at {}, outside {} floats",
                           w.linear, w.direction, at[i], size);
    for (std::int64_t k = 0; k < w.count(); ++k)
      map[static_cast<std::size_t>(at[i] + k)] = static_cast<std::uint32_t>(w.from + k + 1);
  }
  return map;
}

// [outer, a, b, inner] to [outer, b, a, inner], as such a map.
inline std::vector<std::uint32_t> exchange_map(std::int64_t outer, std::int64_t a, std::int64_t b,
                                               std::int64_t inner) {
  std::vector<std::uint32_t> map;
  map.reserve(static_cast<std::size_t>(outer * a * b * inner));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t j = 0; j < b; ++j)
      for (std::int64_t i = 0; i < a; ++i)
        for (std::int64_t k = 0; k < inner; ++k)
          map.push_back(static_cast<std::uint32_t>(((o * a + i) * b + j) * inner + k + 1));
  return map;
}

}  // namespace etalon::cuda
