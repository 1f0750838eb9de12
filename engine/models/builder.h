// Builds a network layer by layer: a GraphBuilder that makes weights of the right spread.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/builder.h"

namespace etalon {

// A convolution of square windows, two spatial axes.
struct ConvLayer {
  std::int64_t out = 1, kernel = 1, stride = 1, pad = 0, groups = 1;
  bool bias = true;
};

class NetworkBuilder {
 public:
  explicit NetworkBuilder(std::string name) : graph_(std::move(name)) {}

  // Axis 0 is the batch and free.
  ValueId input(const std::string& name, DType dtype, const Ints& dims_of_a_sample);
  // A tensor uniform in [-bound, bound) around `centre`.
  ValueId weight(const std::string& name, const Shape& shape, double bound, double centre = 0);

  // One node; its value is named as the node.
  ValueId op(const std::string& op, const std::string& name, const std::vector<ValueId>& inputs,
             Params params);
  ValueId op(const std::string& op, const std::string& name, const std::vector<ValueId>& inputs);

  ValueId conv(const std::string& name, ValueId x, const ConvLayer& layer);
  // Statistics near those of unit variance; `scale` is the middle of the scales.
  ValueId batch_norm(const std::string& name, ValueId x, double scale = 1);
  ValueId relu(const std::string& name, ValueId x);
  ValueId max_pool(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                   std::int64_t pad = 0);
  ValueId flatten(const std::string& name, ValueId x);
  ValueId fully_connected(const std::string& name, ValueId x, std::int64_t out);

  const Shape& shape(ValueId value) const { return graph_.shape(value); }  // for a batch of one
  // Declares the output, checks the graph and gives it away.
  Graph finish(ValueId output);

 private:
  GraphBuilder graph_;
  std::uint64_t weights_ = 0;
};

}  // namespace etalon
