// batch_norm (inference) on a GPU, contract seq: blocks of neighbouring elements, which share the
// quotients of the channels that they meet.
//
// Same bits as the definition (definition.h): each element is fma(x - mean, scale / sqrt(var +
// eps), bias), and a channel's quotient is one number wherever it is computed.
// Limit: memory, while a plane has a good deal more elements than a root and a division cost; at
// one element a plane each has its own.
#pragma once

#include <cstdint>

#include "engine/numerics/seq_f32.h"
#include "kernels/normalization/definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kBatchNormThreads = 256, kBatchNormEach = 4,
                     kBatchNormElements = kBatchNormThreads * kBatchNormEach;

// Of the planes (a channel of an image) that a block's elements lie in; at most one for each.
struct BatchNormShared {
  float mean[kBatchNormElements], factor[kBatchNormElements], bias[kBatchNormElements];
};

struct BatchNormTask {
  const float *x = nullptr, *scale = nullptr, *bias = nullptr, *mean = nullptr, *var = nullptr;
  float* y = nullptr;
  std::uint32_t count = 0, channels = 1, inner = 1;
  float eps = 0;
  bool fours = false;  // x and y lie at multiples of 16 bytes

  std::uint32_t blocks() const { return (count + kBatchNormElements - 1) / kBatchNormElements; }
};

inline BatchNormTask batch_norm_task(const KernelCall& call) {
  const BatchNormDefinition::Plan p = BatchNormDefinition::plan(call);
  const auto floats = [&](std::size_t i) {
    return reinterpret_cast<const float*>(call.input(i).bytes().data());
  };
  BatchNormTask t{
      .x = floats(0),
      .scale = floats(1),
      .bias = floats(2),
      .mean = floats(3),
      .var = floats(4),
      .y = reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data())),
      .count = static_cast<std::uint32_t>(p.count),
      .channels = static_cast<std::uint32_t>(p.channels),
      .inner = static_cast<std::uint32_t>(p.inner),
      .eps = static_cast<float>(p.eps)};
  t.fours =
      (reinterpret_cast<std::uintptr_t>(t.x) | reinterpret_cast<std::uintptr_t>(t.y)) % 16 == 0;
  return t;
}

template <class Threads>
ETALON_HD void batch_norm_block(const BatchNormTask& t, std::uint32_t block, BatchNormShared& s,
                                const Threads& threads) {
  const std::uint32_t first = block * kBatchNormElements, left = t.count - first,
                      count = left < kBatchNormElements ? left : kBatchNormElements;
  const std::uint32_t plane0 = first / t.inner, planes = (first + count - 1) / t.inner - plane0 + 1;
  threads([&](int tid) {
    const SeqF32 a;
    for (auto p = static_cast<std::uint32_t>(tid); p < planes; p += kBatchNormThreads) {
      const std::uint32_t c = (plane0 + p) % t.channels;
      s.mean[p] = t.mean[c];
      s.factor[p] = t.scale[c] / a.sqrt(t.var[c] + t.eps);
      s.bias[p] = t.bias[c];
    }
  });
  threads([&](int tid) {
    struct alignas(16) Four {
      float v[kBatchNormEach];
    };
    const std::uint32_t i = first + static_cast<std::uint32_t>(tid) * kBatchNormEach;
    if (i >= first + count) return;
    const std::uint32_t own =
        first + count - i < kBatchNormEach ? first + count - i : kBatchNormEach;
    const bool whole = t.fours && own == kBatchNormEach;
    std::uint32_t plane = i / t.inner, rest = i - plane * t.inner;
    plane -= plane0;
    Four x;
    if (whole)
      x = *reinterpret_cast<const Four*>(t.x + i);
    else
      for (std::uint32_t j = 0; j < own; ++j) x.v[j] = t.x[i + j];
    for (std::uint32_t j = 0; j < own; ++j) {
      x.v[j] = canonical(fma_f32(x.v[j] - s.mean[plane], s.factor[plane], s.bias[plane]));
      if (++rest == t.inner) rest = 0, ++plane;
    }
    if (whole)
      *reinterpret_cast<Four*>(t.y + i) = x;
    else
      for (std::uint32_t j = 0; j < own; ++j) t.y[i + j] = x.v[j];
  });
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
