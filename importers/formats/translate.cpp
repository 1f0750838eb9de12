#include "importers/formats/translate.h"

#include "engine/core/error.h"
#include "engine/numerics/element.h"

namespace etalon {

Tensor scalar_f32(float value) { return Tensor::of<float>({}, {value}); }

Tensor filled_f32(std::int64_t length, float value) {
  Tensor t = Tensor::uninitialized(DType::f32, {length});
  for (float& v : t.mutable_data<float>()) v = value;
  return t;
}

Tensor ints_tensor(const Ints& values) {
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

Tensor as_f32(const Tensor& tensor) {
  if (tensor.dtype() == DType::f32) return tensor.share();
  Tensor out = Tensor::uninitialized(DType::f32, tensor.shape());
  auto to = out.mutable_data<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    to[static_cast<std::size_t>(i)] = static_cast<float>(load_as_double(tensor, i));
  return out;
}

Fields window_fields(const WindowFields& w, bool with_kernel) {
  Fields f{{"strides", w.strides},
           {"dilations", w.dilations},
           {"pads_begin", w.pads_begin},
           {"pads_end", w.pads_end},
           {"auto_pad", w.auto_pad}};
  if (with_kernel) f.emplace_back("kernel", w.kernel);
  return f;
}

ValueId fully_connected(GraphBuilder& graph, const std::string& name, ValueId x, ValueId w,
                        ValueId b, bool transposed) {
  std::vector<ValueId> inputs{x, w};
  if (b != kAbsent) inputs.push_back(b);
  return graph.op("gemm", name, inputs, {{"trans_b", !transposed}});
}

Model finish_model(GraphBuilder& graph, const std::string& path, std::string format,
                   std::string version, std::string producer) {
  Model model;
  model.path = path;
  model.format = std::move(format);
  model.version = std::move(version);
  model.producer = std::move(producer);
  model.notes = graph.take_notes();
  *model.graph = graph.finish();
  if (model.graph->outputs.empty()) throw bad_input("the network gives no output");
  return model;
}

}  // namespace etalon
