// One layer of a Core ML neural network after the other on its way to ops; import.cpp lists what
// the format is.
//   translator.cpp  the layers of the first version, weights, activations
//   layers.h        all other layers
//   control.cpp     branch and loop
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "importers/formats/coreml/layers.h"

namespace etalon::coreml {

class Translator {
 public:
  explicit Translator(GraphBuilder& graph) : g(graph) {}
  GraphBuilder& g;

  // `lead` is the extent in front: 1 of a state of a recurrent layer, otherwise free, or 0 for that
  // of the file.
  void input(const PbMessage& feature, bool exact, std::int64_t lead) {
    const std::string name = feature.text("name");
    const ErrorScope where(fmt::format("value {}", printable(name)));
    const PbMessage type = feature.message("type");
    Ints dims;
    if (type.has("multiArrayType")) {
      dims = type.message("multiArrayType").integers("shape");
      // Five extents are all there are, under either mapping.
      if (!exact && dims.size() != 5)
        dims.insert(dims.begin(), lead == 0 ? 1 : lead);
      else if (dims.size() > 1 && lead != 0)
        dims[0] = lead;
    } else if (type.has("imageType")) {
      const PbMessage image = type.message("imageType");
      dims = {-1, image.integer("colorSpace") == 10 ? 1 : 3, image.integer("height"),
              image.integer("width")};
      g.note(fmt::format(
          "input {} is an image: feed its channels as f32, as preprocessing gives them", name));
    } else {
      throw bad_input("an input that is neither an array nor an image");
    }
    for (const std::int64_t d : dims)
      if (d == 0 || d < -1) throw bad_input("an extent of {}", d);
    values_[name] = g.input(name, DType::f32, dims);
  }
  void layer(const PbMessage& l);
  // One network of a pipeline: of its values, only its outputs are seen outside.
  void begin() { outside_ = values_; }
  void end(const std::vector<std::string>& outputs) {
    for (const std::string& name : outputs)
      if (const auto at = values_.find(name); at != values_.end()) outside_[name] = at->second;
    values_ = outside_;
  }
  ValueId value(const std::string& name) const {
    const auto at = values_.find(name);
    if (at == values_.end()) throw bad_input("nothing makes the value '{}'", printable(name));
    return at->second;
  }

 private:
  // Weights as f32; `count` elements, the first axis of which is scaled by channel.
  ValueId weights(const PbMessage& w, const char* role, const Shape& shape) {
    Tensor t;
    if (w.has("floatValue")) {
      t = w.tensor("floatValue");
    } else if (w.has("float16Value")) {
      const Blob raw = w.blob("float16Value");
      t = as_f32(
          tensor_from_bytes({DType::f16, {static_cast<std::int64_t>(raw.bytes.size() / 2)}}, raw));
      g.note("f16 weights are widened to f32, which is exact");
    } else if (w.has("rawValue")) {
      t = dequantised(w, shape);
    } else {
      throw bad_input("{} is empty", role);
    }
    if (t.numel() != shape.numel())
      throw bad_input("{} has {} elements, expected {}", role, t.numel(), to_string(shape));
    return g.constant(name_ + "." + role, t.reshaped(shape));
  }
  Tensor dequantised(const PbMessage& w, const Shape& shape) {
    const PbMessage q = w.message("quantization");
    const auto bits = q.integer("numberOfBits", 8);
    const Blob raw = w.blob("rawValue");
    if (bits < 1 || bits > 8) throw bad_input("weights of {} bits", bits);
    const auto n = static_cast<std::uint64_t>(shape.numel());
    if (shape.numel() > static_cast<std::int64_t>(raw.bytes.size()) * 8 ||
        raw.bytes.size() < (n * static_cast<std::uint64_t>(bits) + 7) / 8)
      throw bad_input("{} bytes for {} weights of {} bits", raw.bytes.size(), n, bits);
    const std::vector<float> scale = q.message("linearQuantization").numbers("scale"),
                             bias = q.message("linearQuantization").numbers("bias"),
                             table = q.message("lookupTableQuantization").numbers("floatValue");
    Tensor out = Tensor::uninitialized(DType::f32, {shape.numel()});
    auto to = out.mutable_data<float>();
    const std::size_t per = to.size() / static_cast<std::size_t>(std::max<std::int64_t>(
                                            1, shape.rank() > 0 ? shape[0] : 1));
    for (std::size_t i = 0; i < to.size(); ++i) {
      unsigned v = 0;  // most significant bit first
      for (std::size_t b = 0; b < static_cast<std::size_t>(bits); ++b) {
        const std::size_t at = i * static_cast<std::size_t>(bits) + b;
        v = v << 1 | (std::to_integer<unsigned>(raw.bytes[at / 8]) >> (7 - at % 8) & 1U);
      }
      if (!table.empty()) {
        if (v >= table.size())
          throw bad_input("a table of {} values is asked for value {}", table.size(), v);
        to[i] = table[v];
        continue;
      }
      const std::size_t c = per == 0 ? 0 : i / per;
      if (scale.empty()) throw bad_input("quantised weights without a scale");
      const float s = scale[scale.size() == 1 ? 0 : std::min(c, scale.size() - 1)];
      const float o = bias.empty() ? 0 : bias[bias.size() == 1 ? 0 : std::min(c, bias.size() - 1)];
      to[i] = s * static_cast<float>(v) + o;
    }
    g.note(
        "quantised weights are read as scale * q + bias by output channel, or from their table, in "
        "f32");
    return out;
  }
  void padding(const PbMessage& p, Fields& f) {
    if (p.has("same")) {
      f.emplace_back("auto_pad",
                     std::string(p.message("same").integer("asymmetryMode") == 1 ? "same_lower"
                                                                                 : "same_upper"));
      g.note("SAME padding: the odd element stands where asymmetryMode says");
      return;
    }
    Ints begin, end;
    for (const PbMessage& b :
         p.message("valid").message("paddingAmounts").messages("borderAmounts")) {
      begin.push_back(b.integer("startEdgeSize"));
      end.push_back(b.integer("endEdgeSize"));
    }
    f.emplace_back("pads_begin", begin);
    f.emplace_back("pads_end", end);
  }
  ValueId activation(const PbMessage& a, ValueId x);
  // branch and loop (control.cpp): their networks read and write the values around them.
  void branch(const PbMessage& l);
  void loop(const PbMessage& l);
  static std::vector<ValueId> inside(GraphBuilder& graph, const PbMessage& net,
                                     const std::vector<std::string>& names,
                                     const std::vector<ValueId>& arguments,
                                     const std::vector<std::string>& results);

  std::string name_;
  std::map<std::string, ValueId> values_, outside_;
};

}  // namespace etalon::coreml
