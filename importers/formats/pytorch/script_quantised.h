// Quantised tensors in the code of TorchScript, as PyTorch's CPU kernels compute with them.
//
// A quantised tensor is its codes, whole numbers in f32, beside its scale and zero point: real = (q
// - zero) * scale. Sums of products of codes are whole, exact in f32 below 2^24; behind them stand
// (sum + bias / (sx * sw)) * (sx * sw / scale), rounded to even, plus zero, held in the range of
// the type, as fbgemm has it. Other engines scale in another order: where a result lies between two
// codes it may be the neighbour. Weights come from the states of quantised layers (tuples; sources:
// the __getstate__ of torch.ao.nn.quantized's classes).
#pragma once

#include <map>
#include <optional>

#include "importers/formats/pytorch/script_values.h"
#include "importers/formats/pytorch/tensors.h"

namespace etalon::pytorch_format {

class QuantisedCalls {
 public:
  QuantisedCalls(GraphBuilder& graph, Storages& storages) : b_(graph), storages_(storages) {}

  // What a quantised layer keeps under this name; none where `object` is none, or has it not.
  // Packed weights are the layer itself.
  static const PickleValue* kept(const PickleValue& object, std::string_view name);

  // The order of the arguments of calls of torch that it alone knows; empty where it is no such.
  static std::span<const std::string_view> arguments(std::string_view op);

  // A call of ops.quantized; AtenUnknown where it is not known.
  ScriptValue call(const std::string& op, const std::vector<ScriptValue>& args);
  // A call of torch, where no tensor is quantised that of translate_aten.
  std::vector<ValueId> aten(const std::string& op, const std::string& name, AtenCall& c);

 private:
  struct How {
    float scale = 1;
    std::int64_t zero = 0, low = 0, high = 255;
    bool operator==(const How&) const = default;
  };
  struct Layer {
    Tensor codes, bias;  // less their zero points; [out, in, ..]
    std::vector<float> scales;
    Ints stride, padding, dilation;
    std::int64_t groups = 1;
  };
  const How& how(ValueId v) const;
  How how_of(const AtenValue& scale, const AtenValue& zero, std::int64_t dtype) const;
  ValueId number(double v) const;
  ValueId shifted(ValueId codes) const;
  ValueId real(ValueId codes) const;
  ValueId keep(ValueId codes, const How& how);
  ValueId held(ValueId rounded, const How& how, std::int64_t low);
  ValueId quantised(ValueId x, const How& how, bool relu);
  const Layer& layer(const ScriptValue& packed);  // read once
  Layer read(const PickleValue& object) const;
  ValueId layered(ValueId x, const Layer& l, const How& out, bool relu, bool linear);
  ValueId joined(const std::vector<ValueId>& tensors, std::int64_t axis, const How& out, bool relu);

  GraphBuilder& b_;
  Storages& storages_;
  std::map<ValueId, How> hows_;
  std::map<const PickleValue*, Layer> layers_;
};

}  // namespace etalon::pytorch_format
