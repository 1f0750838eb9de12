// Products of integers, and numbers of few bits.
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/onnx/whole.h"

namespace etalon::onnx_format {
namespace {

void conv_integer(NodeWriter& w) {
  pb::NodeProto& n = w.write("ConvInteger");
  const Ints weight = w.extents(1);
  write_window(w, n, Ints(weight.begin() + 2, weight.end()));
  set(n, "group", w.integer("groups"));
}

void encode(NodeWriter& w) {
  Code format = Code::f8e4m3fn;
  for (int i = 0; i <= static_cast<int>(Code::u2); ++i)
    if (name(static_cast<Code>(i)) == w.text("format")) format = static_cast<Code>(i);
  const bool integer = is_integer_code(format);
  if (!integer && code_bits(format) < 8)
    throw usage_error("encode to {} has no form in ONNX", name(format));
  const std::string codes = w.new_name("codes");
  pb::NodeProto& cast = w.write("Cast", {w.input(0)}, {codes});
  set(cast, "to", std::int64_t{onnx_of_code(format)});
  if (!w.flag("saturate")) set(cast, "saturate", std::int64_t{0});
  pb::NodeProto& n = w.write(integer ? "Cast" : "BitCast", {codes}, w.outputs());
  set(n, "to", std::int64_t{onnx_of_dtype(code_storage(format))});
  w.need_opset(integer ? 25 : 26);
}

// A table of the 256 values.
void decode(NodeWriter& w) {
  Code format = Code::f8e4m3fn;
  for (int i = 0; i <= static_cast<int>(Code::u2); ++i)
    if (name(static_cast<Code>(i)) == w.text("format")) format = static_cast<Code>(i);
  std::vector<float> values;
  for (int i = 0; i < 256; ++i) {
    const auto v = static_cast<float>(code_value(format, static_cast<std::uint8_t>(i)));
    values.push_back(v == v ? v : std::numeric_limits<float>::quiet_NaN());
  }
  const std::string table =
      w.constant("values", Tensor::of<float>({256}, std::span<const float>(values)));
  w.write("Gather", {table, w.step("Cast", {w.input(0)}, "to", 6)}, w.outputs());
}

constexpr WriterRow kRows[] = {
    {"encode", encode},
    {"decode", decode},
    {"conv_integer", conv_integer},
};

}  // namespace

std::span<const WriterRow> integer_writers() { return kRows; }

}  // namespace etalon::onnx_format
