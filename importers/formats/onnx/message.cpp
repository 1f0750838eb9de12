#include "importers/formats/onnx/message.h"

#include <limits>
#include <string>

#include "engine/core/error.h"
#include "importers/containers/protobuf.h"

namespace etalon::onnx_format {
namespace {

// Field numbers of the schema.
constexpr std::uint32_t kModelGraph = 7, kGraphInitializer = 5, kTensorRaw = 9;
// Smaller weights are not worth a cut.
constexpr std::size_t kWorthCutting = 1024;

std::string_view text(std::span<const std::byte> bytes) { return Blob{bytes, nullptr}.text(); }

class Cutter {
 public:
  explicit Cutter(Message& message) : message_(message) {}

  std::string model(std::span<const std::byte> bytes) {
    std::string out;
    WireReader reader(bytes, 0);
    for (WireField f; reader.next(f);) {
      if (f.number == kModelGraph && f.type == 2) {
        const std::string inner = graph(f);
        put_length(out, kModelGraph, inner.size());
        out += inner;
      } else {
        out += text(f.whole);
      }
    }
    return out;
  }

 private:
  std::string graph(const WireField& field) {
    std::string out;
    WireReader reader(field.payload, field.offset);
    for (WireField f; reader.next(f);) {
      if (f.number == kGraphInitializer && f.type == 2)
        tensor(f, out);
      else
        out += text(f.whole);
    }
    return out;
  }

  void tensor(const WireField& field, std::string& out) {
    auto& raw = message_.raw.emplace_back();
    std::string rest;
    WireReader reader(field.payload, field.offset);
    for (WireField f; reader.next(f);) {
      if (f.number == kTensorRaw && f.type == 2 && f.payload.size() >= kWorthCutting)
        raw = f.payload;  // as in protobuf, the last one counts
      else
        rest += text(f.whole);
      if (f.number == kTensorRaw && f.type == 2 && f.payload.size() < kWorthCutting) raw.reset();
    }
    put_length(out, kGraphInitializer, rest.size());
    out += rest;
  }

  Message& message_;
};

// Finds the first field that breaks, by walking the messages that nest. Only called on damage.
enum class Kind { model, graph, node, attribute, tensor, value_info, type, tensor_type, shape };
struct Nested {
  Kind in;
  std::uint32_t number;
  Kind what;
};
constexpr Nested kNested[] = {
    {Kind::model, 7, Kind::graph},       {Kind::graph, 1, Kind::node},
    {Kind::graph, 5, Kind::tensor},      {Kind::graph, 11, Kind::value_info},
    {Kind::graph, 12, Kind::value_info}, {Kind::graph, 13, Kind::value_info},
    {Kind::node, 5, Kind::attribute},    {Kind::attribute, 5, Kind::tensor},
    {Kind::attribute, 6, Kind::graph},   {Kind::attribute, 10, Kind::tensor},
    {Kind::attribute, 11, Kind::graph},  {Kind::value_info, 2, Kind::type},
    {Kind::type, 1, Kind::tensor_type},  {Kind::tensor_type, 2, Kind::shape},
};
constexpr int kMaxDepth = 90;  // protobuf's own limit is 100

void walk(Kind kind, std::span<const std::byte> bytes, std::size_t offset, int depth) {
  if (depth > kMaxDepth)
    throw bad_input("byte {}: messages nest deeper than {} levels; no model does", offset,
                    kMaxDepth);
  WireReader reader(bytes, offset);
  for (WireField f; reader.next(f);)
    for (const Nested& n : kNested)
      if (f.type == 2 && n.in == kind && n.number == f.number)
        walk(n.what, f.payload, f.offset, depth + 1);
}

}  // namespace

Message parse_model(std::span<const std::byte> file) {
  if (file.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw bad_input(
        "{} bytes; protobuf holds at most 2147483647: keep the weights as external data",
        file.size());
  Message message;
  const std::string skeleton = Cutter(message).model(file);
  const bool cut = skeleton.size() < file.size() / 2;
  if (!cut) message.raw.clear();
  const bool parsed =
      cut ? message.model.ParseFromString(skeleton)
          : message.model.ParseFromArray(file.data(), static_cast<int>(file.size()));
  if (!parsed) {
    walk(Kind::model, file, 0, 0);
    throw bad_input(
        "its {} bytes do not follow the schema of ONNX; the file is damaged, fetch it again",
        file.size());
  }
  message.raw.resize(static_cast<std::size_t>(message.model.graph().initializer_size()));
  return message;
}

}  // namespace etalon::onnx_format
