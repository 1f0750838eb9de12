// ONNX files written field by field: forms that the exporter never writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace etalon::test {

inline std::string onnx_varint(std::uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out += static_cast<char>((v & 0x7f) | 0x80);
  return out + static_cast<char>(v);
}
inline std::string onnx_number(unsigned field, std::int64_t v) {
  return onnx_varint(field << 3) + onnx_varint(static_cast<std::uint64_t>(v));
}
inline std::string onnx_text(unsigned field, std::string_view text) {
  return onnx_varint(field << 3 | 2) + onnx_varint(text.size()) + std::string(text);
}

// Extents of -1 are free, and go by the name "N".
inline std::string onnx_value(std::string_view name, int type,
                              const std::vector<std::int64_t>& dims) {
  std::string shape;
  for (const std::int64_t d : dims)
    shape += onnx_text(1, d < 0 ? onnx_text(2, "N") : onnx_number(1, d));
  return onnx_text(1, name) +
         onnx_text(2, onnx_text(1, onnx_number(1, type) + onnx_text(2, shape)));
}
inline std::string onnx_floats(std::string_view name, const std::vector<float>& values) {
  return onnx_number(1, static_cast<std::int64_t>(values.size())) + onnx_number(2, 1) +
         onnx_text(8, name) +
         onnx_text(9, {reinterpret_cast<const char*>(values.data()), 4 * values.size()});
}
inline std::string onnx_node(std::string_view type, const std::vector<std::string>& in,
                             std::string_view out, const std::string& attributes = "") {
  std::string node;
  for (const std::string& name : in) node += onnx_text(1, name);
  return node + onnx_text(2, out) + onnx_text(4, type) + attributes;
}
inline std::string onnx_string_attribute(std::string_view name, std::string_view text) {
  return onnx_text(5, onnx_text(1, name) + onnx_text(4, text) + onnx_number(20, 3));
}

struct OnnxParts {
  std::int64_t opset = 21;
  std::vector<std::string> nodes, weights, inputs, outputs;
  std::string more;  // further fields of the model
};
inline std::string onnx_bytes(const OnnxParts& p) {
  std::string graph;
  for (const std::string& n : p.nodes) graph += onnx_text(1, n);
  graph += onnx_text(2, "g");
  for (const std::string& t : p.weights) graph += onnx_text(5, t);
  for (const std::string& v : p.inputs) graph += onnx_text(11, v);
  for (const std::string& v : p.outputs) graph += onnx_text(12, v);
  return onnx_number(1, 8) + onnx_text(7, graph) + onnx_text(8, onnx_number(2, p.opset)) + p.more;
}

}  // namespace etalon::test
