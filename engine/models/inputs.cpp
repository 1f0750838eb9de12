#include "engine/models/inputs.h"

#include <cstring>

#include "engine/core/error.h"
#include "engine/core/philox.h"
#include "engine/core/threads.h"
#include "engine/models/models.h"
#include "engine/numerics/element.h"

namespace etalon {
namespace {

// The noise of one input; `stream` keeps two inputs apart.
Tensor noise(DType dtype, const Shape& shape, std::uint64_t seed, std::uint64_t stream) {
  Tensor out = Tensor::uninitialized(dtype, shape);
  const Philox random{seed, stream};
  std::uint64_t i = 0;
  if (dtype == DType::f32) {
    for (float& x : out.mutable_data<float>()) x = random.uniform(i++);
  } else if (dtype == DType::f64) {
    for (double& x : out.mutable_data<double>()) x = random.uniform(i++);
  } else if (is_floating(dtype)) {
    // The narrow ones: what f32 has, rounded.
    const auto bytes = out.mutable_bytes();
    for (; i < static_cast<std::uint64_t>(out.numel()); ++i)
      store_from_double(dtype, bytes.data(), static_cast<std::int64_t>(i), random.uniform(i));
  } else if (dtype == DType::boolean) {
    for (Bool& x : out.mutable_data<Bool>()) x.value = random.word(i++) & 1U;
  } else {
    // Zero bytes but for the lowest: 0 or 1, little-endian, for every width.
    const auto size = static_cast<std::size_t>(size_bytes(dtype));
    auto bytes = out.mutable_bytes();
    std::memset(bytes.data(), 0, bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += size)
      bytes[at] = static_cast<std::byte>(random.word(i++) & 1U);
  }
  return out;
}

}  // namespace

InputMap random_inputs(const Model& model, std::int64_t batch, std::uint64_t seed) {
  const DefaultFpEnvironment fp;
  const ModelRow* built = find_model(built_model_name(model.path));
  if (built != nullptr && built->inputs != nullptr) return built->inputs(batch, seed);
  const Graph& graph = *model.graph;
  InputMap inputs;
  std::uint64_t stream = 0;
  for (const Declaration& d : graph.inputs) {
    const std::string& name = graph.value_name(d.value);
    std::vector<std::int64_t> dims = d.dims;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis] >= 0) continue;
      if (axis != 0)
        throw usage_error("input '{}' has a free extent on axis {}; give it by --input", name,
                          axis);
      dims[axis] = batch;
    }
    if (!d.ranked) throw usage_error("input '{}' has no declared shape; give it by --input", name);
    inputs.emplace(name,
                   noise(d.dtype, Shape(std::span<const std::int64_t>(dims)), seed, stream++));
  }
  return inputs;
}

}  // namespace etalon
