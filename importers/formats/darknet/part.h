// A connection or a convolution, with its batch norm and activation: read from the weights once and
// written where a section wants it, into the body of a loop or a second time (share_index) as well.
#pragma once

#include <optional>
#include <string>

#include "engine/graph/builder.h"
#include "importers/formats/darknet/file.h"

namespace etalon::darknet {

struct Layer;

struct Norm {
  Tensor scale, mean, var;
  float eps = 0;
};
// The fork adds 1e-5 to the variance; pjreddie adds 1e-6 to the deviation, which is written as the
// variance that has this deviation.
Norm norm_of(const Layer& l, std::int64_t channels);
ValueId normalised(GraphBuilder& g, const std::string& name, ValueId y, const Norm& norm,
                   const Tensor& bias);
// By the name of an activation in a .cfg.
ValueId activated(GraphBuilder& g, const std::string& name, const std::string& kind, ValueId v);

struct Window {
  std::int64_t filters, size, rows, columns, pad, dilation;  // rows, columns: strides
};

struct Part {
  Tensor bias, weight;
  std::optional<Norm> norm;
  Fields window;  // of a convolution
  bool transposed = false, binary = false;
  std::string activation;

  // The same weights as another convolution of its own window and activation.
  Part like(const Window& k, std::string kind, std::int64_t channels) const;
  // [N, inputs] of a connection, [N, C, H, W] of a convolution.
  ValueId write(GraphBuilder& g, const std::string& name, ValueId x) const;
};
// In the sequence of the file: a connection's batch norm stands behind its weights, a
// convolution's before them.
Part connection(const Layer& l, std::int64_t in, std::int64_t out, const std::string& activation);
Part convolution(const Layer& l, const Window& k, std::int64_t channels,
                 const std::string& activation);
// size, stride, pad, padding and dilation of a section; with `pad`, half its size.
Window window_of(const Section& s, std::int64_t filters, std::int64_t size);

}  // namespace etalon::darknet
