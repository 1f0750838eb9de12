#include "importers/formats/pytorch/exported.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/graph/builder.h"
#include "importers/containers/json.h"

namespace etalon::pytorch_format {
namespace {

using nlohmann::json;

struct Unknown {
  std::string what;
};

DType dtype_of(const json& code) {
  constexpr std::pair<std::int64_t, DType> kTypes[] = {
      {1, DType::u8},  {2, DType::i8},  {3, DType::i16},      {4, DType::i32}, {5, DType::i64},
      {6, DType::f16}, {7, DType::f32}, {12, DType::boolean}, {8, DType::f64}, {13, DType::bf16}};
  const std::int64_t wanted = json_integer(code, "a dtype");
  for (const auto& [number, dtype] : kTypes)
    if (number == wanted) return dtype;
  throw bad_input("element type {} of PyTorch is not one this engine holds", wanted);
}

// Sizes; -1 where the program leaves one free.
Ints sizes_of(const json& meta) {
  Ints out;
  for (const json& s : json_array(meta, "sizes"))
    out.push_back(s.is_object() && s.contains("as_int") ? json_integer(s["as_int"], "a size") : -1);
  return out;
}

TensorList weights_of(const ZipReader& zip, const std::string& folder) {
  TensorList out;
  for (const char* part : {"weights", "constants"}) {
    const std::string base = folder + "data/" + part + "/";
    for (const ZipMember& m : zip.members()) {
      if (!m.name.starts_with(base) || !m.name.ends_with("_config.json")) continue;
      const json config = parse_json(zip.read(m).text());
      for (const auto& [name, entry] : json_member(config, "config").items()) {
        const ErrorScope scope("tensor " + printable(name));
        if (entry.contains("use_pickle") && entry["use_pickle"] == true)
          throw bad_input("a weight as a pickle of its own is not read; save the state_dict");
        const json& meta = json_member(entry, "tensor_meta");
        const Ints dims = sizes_of(meta);
        const TensorType type{dtype_of(json_member(meta, "dtype")), Shape(dims)};
        const ZipMember* data = zip.find(base + json_string(entry, "path_name"));
        if (data == nullptr) throw bad_input("its bytes are missing in the archive");
        Blob bytes = zip.view(*data);
        std::int64_t dense = 1;
        const json& strides = json_array(meta, "strides");
        for (std::size_t i = dims.size(); i-- > 0;) {
          if (i < strides.size() && dims[i] > 1 &&
              json_integer(json_member(strides[i], "as_int"), "a stride") != dense)
            throw bad_input(
                "a weight that is spread by strides; call contiguous() before exporting");
          dense = checked_mul(dense, dims[i]);
        }
        if (bytes.bytes.size() > claimed_bytes(type))
          bytes.bytes = bytes.bytes.first(claimed_bytes(type));
        out.push_back({name, tensor_from_bytes(type, bytes)});
      }
    }
  }
  return out;
}

// The arguments of a call, by name.
class Call {
 public:
  Call(const json& node, const std::map<std::string, ValueId>& values) : values_(values) {
    for (const json& input : json_array(node, "inputs"))
      args_.emplace(json_string(input, "name"), json_member(input, "arg"));
  }
  ValueId tensor(const char* name) const {
    const auto at = args_.find(name);
    if (at == args_.end() || !at->second.contains("as_tensor")) return kAbsent;
    const std::string value = json_string(at->second["as_tensor"], "name");
    const auto found = values_.find(value);
    if (found == values_.end()) throw bad_input("nothing makes '{}'", printable(value));
    return found->second;
  }
  std::int64_t integer(const char* name, std::int64_t missing) const {
    const json* v = get(name, "as_int");
    return v == nullptr ? missing : json_integer(*v, name);
  }
  bool flag(const char* name, bool missing) const {
    const json* v = get(name, "as_bool");
    return v == nullptr ? missing : *v == true;
  }
  float number(const char* name, float missing) const {
    const json* v = get(name, "as_float");
    if (v == nullptr) v = get(name, "as_int");
    return v == nullptr || !v->is_number() ? missing : v->get<float>();
  }
  Ints ints(const char* name, const Ints& missing) const {
    const json* v = get(name, "as_ints");
    if (v == nullptr || !v->is_array() || v->empty()) return missing;
    Ints out;
    for (const json& i : *v) out.push_back(json_integer(i, name));
    return out;
  }

 private:
  const json* get(const char* name, const char* kind) const {
    const auto at = args_.find(name);
    if (at == args_.end() || !at->second.contains(kind)) return nullptr;
    return &at->second[kind];
  }
  std::map<std::string, json> args_;
  const std::map<std::string, ValueId>& values_;
};

Ints spread(Ints v, std::size_t axes) {
  if (v.size() == 1) v.resize(axes, v[0]);
  return v;
}

ValueId translate(GraphBuilder& b, const std::string& op, const std::string& name, const Call& c) {
  ValueId x = c.tensor("self");
  if (x == kAbsent) x = c.tensor("input");
  if (x == kAbsent) throw Unknown{"a call of " + op + " without a tensor"};
  if (op == "conv1d" || op == "conv2d" || op == "conv3d") {
    const auto axes = static_cast<std::size_t>(op[4] - '0');
    const Ints pad = spread(c.ints("padding", {0}), axes);
    std::vector<ValueId> in{x, c.tensor("weight")};
    if (c.tensor("bias") != kAbsent) in.push_back(c.tensor("bias"));
    return b.op("conv", name, in,
                {{"strides", spread(c.ints("stride", {1}), axes)},
                 {"pads_begin", pad},
                 {"pads_end", pad},
                 {"dilations", spread(c.ints("dilation", {1}), axes)},
                 {"groups", c.integer("groups", 1)}});
  }
  if (op == "max_pool2d" || op == "avg_pool2d") {
    const Ints kernel = spread(c.ints("kernel_size", {1}), 2),
               pad = spread(c.ints("padding", {0}), 2);
    Fields fields{{"kernel", kernel},
                  {"strides", spread(c.ints("stride", kernel), 2)},
                  {"pads_begin", pad},
                  {"pads_end", pad},
                  {"ceil_mode", c.flag("ceil_mode", false)}};
    if (op == "max_pool2d") {
      fields.emplace_back("dilations", spread(c.ints("dilation", {1}), 2));
      return b.op("max_pool", name, {x}, fields);
    }
    fields.emplace_back("count_include_pad", c.flag("count_include_pad", true));
    fields.emplace_back("divisor_override", c.integer("divisor_override", 0));
    return b.op("avg_pool", name, {x}, fields);
  }
  if (op == "adaptive_avg_pool2d" && c.ints("output_size", {}) == Ints{1, 1})
    return b.op("global_avg_pool", name, {x});
  if (op == "batch_norm" && !c.flag("training", false)) {
    for (const char* part : {"weight", "bias", "running_mean", "running_var"})
      if (c.tensor(part) == kAbsent) throw Unknown{"batch_norm without " + std::string(part)};
    return b.op("batch_norm", name,
                {x, c.tensor("weight"), c.tensor("bias"), c.tensor("running_mean"),
                 c.tensor("running_var")},
                {{"eps", c.number("eps", 1e-5F)}});
  }
  if (op == "linear") {
    const ValueId w = c.tensor("weight"), bias = c.tensor("bias");
    if (b.rank(x) == 2) {
      std::vector<ValueId> in{x, w};
      if (bias != kAbsent) in.push_back(bias);
      return b.op("gemm", name, in, {{"trans_b", true}});
    }
    const ValueId y = b.op("matmul", name, {x, b.transpose(name + ".weight", w, {1, 0})});
    return bias == kAbsent ? y : b.op("add", name + ".bias", {y, bias});
  }
  if (op == "flatten") {
    if (c.integer("start_dim", 0) != 1 || c.integer("end_dim", -1) != -1)
      throw Unknown{"flatten of other axes than those behind the batch"};
    return b.op("flatten", name, {x});
  }
  if (op == "softmax" || op == "log_softmax")
    return b.op(op, name, {x}, {{"axis", c.integer("dim", -1)}});
  if (op == "dropout") return x;
  if (op == "leaky_relu")
    return b.op("leaky_relu", name, {x}, {{"alpha", c.number("negative_slope", 0.01F)}});
  for (const char* binary : {"add", "mul", "sub", "div"})
    if (op == binary && c.tensor("other") != kAbsent && c.number("alpha", 1) == 1)
      return b.op(op, name, {x, c.tensor("other")});
  for (const char* unary : {"relu", "tanh", "sigmoid", "exp", "sqrt", "abs", "neg", "erf", "silu"})
    if (op == unary) return b.op(op, name, {x});
  throw Unknown{"torch.ops.aten." + op};
}

}  // namespace

bool is_exported(const ZipReader& zip) {
  return std::ranges::any_of(zip.members(), [&](const ZipMember& m) {
    return m.name.ends_with("/archive_format") || m.name == "archive_format";
  });
}

Model open_exported(const ZipReader& zip, const std::string& path) {
  Model model;
  model.path = path;
  model.format = "pytorch";
  model.version = "pt2";
  std::string folder;
  const ZipMember* program = nullptr;
  for (const ZipMember& m : zip.members()) {
    if (m.name.ends_with("archive_format"))
      folder = m.name.substr(0, m.name.size() - std::string_view("archive_format").size());
    if (m.name.find("models/") != std::string::npos && m.name.ends_with(".json")) {
      if (program != nullptr) throw bad_input("several programs in one archive; save them apart");
      program = &m;
    }
  }
  if (program == nullptr) throw bad_input("no models/*.json in the archive; the file is damaged");
  TensorList weights = weights_of(zip, folder);
  const json root = parse_json(zip.read(*program).text());
  const json& module = json_member(root, "graph_module");
  const json& graph = json_member(module, "graph");
  if (root.contains("torch_version") && root["torch_version"].is_string())
    model.producer = "pytorch " + printable(root["torch_version"].get<std::string>());
  try {
    GraphBuilder b("exported");
    std::map<std::string, ValueId> values;
    const json& types = json_member(graph, "tensor_values");
    for (const json& spec : json_array(json_member(module, "signature"), "input_specs")) {
      bool held = false;
      for (const auto& [kind, key] :
           {std::pair{"parameter", "parameter_name"}, std::pair{"buffer", "buffer_name"},
            std::pair{"tensor_constant", "tensor_constant_name"}}) {
        if (!spec.contains(kind)) continue;
        const std::string name = json_string(spec[kind], key);
        const auto at = std::ranges::find(weights, name, &NamedTensor::name);
        if (at == weights.end()) throw bad_input("no weight '{}' in the archive", printable(name));
        values[json_string(json_member(spec[kind], "arg"), "name")] =
            b.constant(name, at->tensor.share());
        held = true;
      }
      if (held) continue;
      if (!spec.contains("user_input")) throw Unknown{"an input that is no tensor"};
      const json& arg = json_member(spec["user_input"], "arg");
      if (!arg.contains("as_tensor")) throw Unknown{"an input that is no tensor"};
      const std::string name = json_string(arg["as_tensor"], "name");
      const json& meta = json_member(types, name);
      const Ints dims = sizes_of(meta);
      Ints nominal;
      for (const std::int64_t d : dims) nominal.push_back(d < 0 ? 2 : d);
      values[name] = b.input(name, dtype_of(json_member(meta, "dtype")), dims, nominal);
    }
    for (const json& node : json_array(graph, "nodes")) {
      const std::string target = json_string(node, "target");
      const std::string_view prefix = "torch.ops.aten.";
      if (!target.starts_with(prefix)) throw Unknown{target};
      const std::string op =
          target.substr(prefix.size(), target.find('.', prefix.size()) - prefix.size());
      const json& outputs = json_array(node, "outputs");
      if (outputs.size() != 1 || !outputs[0].contains("as_tensor"))
        throw Unknown{target + " with other outputs than one tensor"};
      const std::string name = json_string(outputs[0]["as_tensor"], "name");
      const ErrorScope scope("node " + printable(name));
      values[name] = translate(b, op, name, Call(node, values));
    }
    for (const json& out : json_array(graph, "outputs")) {
      if (!out.contains("as_tensor")) throw Unknown{"an output that is no tensor"};
      const auto at = values.find(json_string(out["as_tensor"], "name"));
      if (at == values.end()) throw bad_input("nothing makes an output");
      b.output(at->second);
    }
    *model.graph = b.finish();
    model.notes = b.take_notes();
    model.notes.emplace_back("Sizes are those the program was exported with.");
  } catch (const Unknown& unknown) {
    model.graph = std::make_shared<Graph>();
    model.notes = {"Weights alone: " + printable(unknown.what) + " has no translation."};
    for (NamedTensor& t : weights)
      model.graph->initializers.emplace(model.graph->add_value(t.name), std::move(t.tensor));
  }
  return model;
}

}  // namespace etalon::pytorch_format
