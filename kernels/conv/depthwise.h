// conv, f32, contract seq, one input channel a group: a sum has few terms and packing would cost
// more than adding them, so vectors of outputs read the image in place. Pools walk their windows
// the same way (kernels/pool/fast.cpp).
//
// All outputs of a channel are one run of positions q = row * columns + column, whatever the width
// of the image: a row of 7 does not leave 9 of 16 lanes idle. For that an output and its neighbours
// must lie at the same distance as the inputs under each of their taps. They do in place when the
// stride is 1 and input and output are equally wide; else the channel is copied first, as one plane
// for each remainder of a coordinate by the stride, all with rows of `columns`. Then the input
// under tap t of position q is x[q + offset[t]].
//
// Same bits: a lane is one output and takes its taps in order. Taps in the padding are masked out,
// by masks for each vector: they are no terms, and what lies there is not read.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/ops/conv.h"
#include "kernels/conv/plan.h"
#include "kernels/gemm/exact_lanes.h"

namespace etalon {

// Which lanes of one vector count: all of them under every tap; one mask for each column of taps,
// where no row of taps leaves the input; or one for each tap. `first`: where its masks begin.
struct VectorMasks {
  enum Kind : std::int32_t { none, by_column, by_tap };
  Kind kind = none;
  std::int32_t first = 0;
};

// What follows the sums of one channel before they are stored: normalisation, ReLU
// (engine/backend/pointwise.h).
struct ChannelEnding {
  float mean = 0, factor = 0, bias = 0;
  bool affine = false, fused = true, relu = false;
};

// One output channel of one image.
struct DepthwiseCall {
  const float* x = nullptr;  // the input channel, as WindowRows::channel gives it
  const float* w = nullptr;  // [taps]; nullptr for pools
  const float* bias = nullptr;
  float* y = nullptr;
  std::int64_t run = 0, pixels = 0;  // positions, of which so many are outputs
  std::int64_t columns = 0, out_rows = 0, out_width = 0;
  float* sums = nullptr;  // [run], whole vectors: where positions and outputs are not the same
  const std::int64_t* row_at = nullptr;         // then: position of each row of outputs
  std::int64_t tap_rows = 0, tap_columns = 0;   // rows of all planes
  const std::int64_t* row_offset = nullptr;     // [tap_rows]
  const std::int64_t* column_offset = nullptr;  // [tap_columns]
  const VectorMasks* masks = nullptr;           // of each vector
  const std::uint16_t* inside = nullptr;
  const float* divisor = nullptr;  // average pooling: of each output
  const ChannelEnding* ending = nullptr;
  // depthwise_exact: what every sum's error is below, and for each vector of positions which of
  // them are undecided.
  double bound = 0;
  std::uint16_t* open = nullptr;
  const ExactCells* cells = nullptr;
};

namespace avx512 {
void depthwise(const DepthwiseCall& call);
void depthwise_exact(const DepthwiseCall& call);
// The largest |x| but of NaN.
float largest(const float* x, std::int64_t count);
void max_pool(const DepthwiseCall& call);
void average_pool(const DepthwiseCall& call);
void split_pairs(const PairRows& rows);
}  // namespace avx512
namespace avx2 {
void depthwise(const DepthwiseCall& call);
void depthwise_exact(const DepthwiseCall& call);
float largest(const float* x, std::int64_t count);
void max_pool(const DepthwiseCall& call);
void average_pool(const DepthwiseCall& call);
void split_pairs(const PairRows& rows);
}  // namespace avx2

using SplitPairs = void (*)(const PairRows&);
// nullptr where the instruction set has none.
inline SplitPairs split_pairs([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::split_pairs;
  if (isa == Isa::avx2) return avx2::split_pairs;
#endif
  return nullptr;
}

// What a DepthwiseCall needs beyond pointers, for one geometry and vector length (16: AVX-512).
struct WindowRows {
  ConvGeometry g;
  std::int64_t k = 0;       // taps
  std::int64_t pixels = 0;  // outputs of one channel

  WindowRows(const ConvGeometry& geometry, int vector_lanes);
  // All but x, w, bias, y and divisor. Its memory for sums is this thread's.
  DepthwiseCall call() const;
  // Where one channel is read: `x` itself, or this thread's copy of it.
  const float* channel(const float* x) const;
  // Which lanes of vector v are outputs, and the output of such a position.
  std::uint16_t outputs_of(std::int64_t v) const { return outputs_[static_cast<std::size_t>(v)]; }
  std::int64_t output_at(std::int64_t position) const;

 private:
  // One remainder of each coordinate, and how many of its coordinates the input has.
  struct Plane {
    std::int64_t phase[3], count[3];
  };
  int lanes_;
  bool in_place_ = false;  // the input is read where it lies
  bool direct_ = false;    // positions are outputs
  std::int64_t rows_ = 0, columns_ = 0, run_ = 0, plane_size_ = 0;
  std::vector<Plane> planes_;
  std::vector<std::int64_t> row_offset_, column_offset_, row_at_;
  std::vector<VectorMasks> masks_;
  std::vector<std::uint16_t> inside_, outputs_;
};

template <Isa isa>
KernelRow depthwise_f32_row(std::string_view name);

}  // namespace etalon
