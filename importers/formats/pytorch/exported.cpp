#include "importers/formats/pytorch/exported.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/graph/builder.h"
#include "importers/containers/json.h"
#include "importers/formats/pytorch/aliases.h"
#include "importers/formats/pytorch/aten.h"
#include "importers/formats/pytorch/saved.h"

namespace etalon::pytorch_format {
namespace {

using nlohmann::json;

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

// Where an archive keeps what: a folder of parts from 2.8 on, four members side by side up to 2.7.
struct Layout {
  const ZipMember* program = nullptr;
  std::string folder;                   // of the parts; of the old layout nothing
  std::vector<const ZipMember*> saved;  // tensors as torch.save writes them
};

constexpr std::string_view kOldProgram = "serialized_exported_program.json";

Layout layout_of(const ZipReader& zip) {
  Layout out;
  if (const ZipMember* program = zip.find(kOldProgram)) {
    out.program = program;
    for (const char* part : {"serialized_state_dict.pt", "serialized_state_dict.json",
                             "serialized_constants.pt", "serialized_constants.json"})
      if (const ZipMember* m = zip.find(part); m != nullptr && m->bytes > 0) out.saved.push_back(m);
    return out;
  }
  constexpr std::string_view kMark = "archive_format";
  for (const ZipMember& m : zip.members())
    if (m.name == kMark || m.name.ends_with("/" + std::string(kMark)))
      out.folder = m.name.substr(0, m.name.size() - kMark.size());
  const std::string models = out.folder + "models/";
  for (const ZipMember& m : zip.members()) {
    if (m.name.starts_with(models) && m.name.ends_with(".json")) {
      if (out.program != nullptr)
        throw bad_input("the archive holds several programs, {} and {}; save each in its own file",
                        out.program->name, m.name);
      out.program = &m;
    }
    for (const char* part : {"data/weights/", "data/constants/"})
      if (m.name.starts_with(out.folder + part) && m.name.ends_with(".pt")) out.saved.push_back(&m);
  }
  if (out.program == nullptr)
    throw bad_input(
        "an exported program without its graph: expected a member {}NAME.json; fetch the file "
        "again, "
        "or save it by torch.export.save (a package of compiled code alone has no graph)",
        models);
  return out;
}

TensorList weights_of(const ZipReader& zip, const Layout& layout) {
  TensorList out;
  for (const ZipMember* m : layout.saved)
    for (NamedTensor& t : tensors_of_member(zip, *m)) out.push_back(std::move(t));
  for (const char* part : {"weights", "constants"}) {
    const std::string base = layout.folder + "data/" + part + "/";
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
        const Blob bytes = zip.view(*data);
        StridedView view{.type = type,
                         .element_bytes = static_cast<std::size_t>(size_bytes(type.dtype)),
                         .offset = 0,
                         .dims = dims,
                         .strides = {}};
        for (const json& stride : json_array(meta, "strides"))
          view.strides.push_back(json_integer(json_member(stride, "as_int"), "a stride"));
        if (meta.contains("storage_offset")) {
          const json& offset = meta["storage_offset"];
          view.offset = json_integer(offset.is_object() ? json_member(offset, "as_int") : offset,
                                     "a storage_offset");
        }
        std::size_t budget =
            std::numeric_limits<std::size_t>::max();  // MemoryBudget bounds the sum
        out.push_back({name, strided_view(bytes, view, budget)});
      }
    }
  }
  return out;
}

using Values = std::map<std::string, AtenValue>;

// A size of the schema: a number, or the name of one that the program computes.
AtenValue size_of(const json& v, const Values& values) {
  if (v.is_object() && v.contains("as_name")) {
    const auto at = values.find(json_string(v, "as_name"));
    if (at == values.end()) throw AtenUnknown{"a size that nothing here makes"};
    return at->second;
  }
  return AtenValue::of_integer(
      json_integer(v.is_object() ? json_member(v, "as_int") : v, "an argument"));
}

// JSON has no infinity and no NaN: texts stand for them.
double float_of(const json& v) {
  if (v.is_number()) return v.get<double>();
  if (v == "Infinity") return std::numeric_limits<double>::infinity();
  if (v == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (v == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw bad_input("an argument that should be a number");
}

// One argument as the schema writes it: {"as_int": 3}, {"as_tensor": {"name": "x"}}.
AtenValue value_of(const json& arg, const Values& values) {
  const auto tensor = [&](const json& named) {
    const std::string value = json_string(named, "name");
    const auto found = values.find(value);
    if (found == values.end()) throw bad_input("nothing makes '{}'", printable(value));
    return found->second;
  };
  if (!arg.is_object() || arg.empty()) return {};
  const std::string& kind = arg.begin().key();
  const json& v = arg.begin().value();
  if (kind == "as_tensor") return tensor(v);
  if (kind == "as_optional_tensor")
    return v.is_object() && v.contains("as_tensor") ? tensor(v["as_tensor"]) : AtenValue{};
  if (kind == "as_int") return AtenValue::of_integer(json_integer(v, "an argument"));
  if (kind == "as_bool") return AtenValue::of_flag(v == true);
  if (kind == "as_float") return {.kind = AtenValue::Kind::number, .number = float_of(v)};
  if (kind == "as_string" && v.is_string())
    return {.kind = AtenValue::Kind::text, .text = v.get<std::string>()};
  if (kind == "as_sym_int") return size_of(v, values);
  if (kind == "as_scalar_type") {
    // The schema counts from 1, and BF16 is its 13.
    const std::int64_t n = json_integer(v, "a type");
    return AtenValue::of_integer(n == 13 ? 15 : n - 1);
  }
  if (kind == "as_none" || kind == "as_memory_format" || kind == "as_layout" || kind == "as_device")
    return {};
  if (!v.is_array()) throw AtenUnknown{"an argument of kind " + printable(kind)};
  AtenValue list{.kind = AtenValue::Kind::list};
  for (const json& i : v) {
    if (kind == "as_ints")
      list.items.push_back(AtenValue::of_integer(json_integer(i, "an argument")));
    else if (kind == "as_floats")
      list.items.push_back({.kind = AtenValue::Kind::number, .number = float_of(i)});
    else if (kind == "as_bools")
      list.items.push_back(AtenValue::of_flag(i == true));
    else if (kind == "as_tensors")
      list.items.push_back(tensor(i));
    else if (kind == "as_optional_tensors")
      list.items.push_back(i.contains("as_tensor") ? tensor(i["as_tensor"]) : AtenValue{});
    else if (kind == "as_sym_ints")
      list.items.push_back(size_of(i, values));
    else
      throw AtenUnknown{"an argument of kind " + printable(kind)};
  }
  return list;
}

// What a program computes of sizes: known, or free.
AtenValue size_arithmetic(const std::string& target, const AtenCall& call, const json& node) {
  std::vector<AtenValue> v;
  for (const json& input : json_array(node, "inputs")) {
    const auto at = call.args.find(json_string(input, "name"));
    if (at == call.args.end() || at->second.kind != AtenValue::Kind::integer)
      throw AtenUnknown{target};
    v.push_back(at->second);
  }
  constexpr std::string_view kPrefix = "_operator.";
  if (v.size() != 2 || !target.starts_with(kPrefix)) throw AtenUnknown{target};
  return AtenValue::computed(target.substr(kPrefix.size()), v[0], v[1]);
}

AtenCall call_of(const json& node, const Values& values) {
  AtenCall call;
  for (const json& input : json_array(node, "inputs"))
    call.args.emplace(json_string(input, "name"), value_of(json_member(input, "arg"), values));
  // What the schema names otherwise: reshape's extents.
  if (const auto shape = call.args.find("shape"); shape != call.args.end()) {
    call.args.emplace("size", std::move(shape->second));
    call.args.erase(shape);
  }
  return call;
}

}  // namespace

bool is_exported(const ZipReader& zip) {
  return zip.find(kOldProgram) != nullptr ||
         std::ranges::any_of(zip.members(), [&](const ZipMember& m) {
           return m.name.ends_with("/archive_format") || m.name == "archive_format";
         });
}

Model open_exported(const ZipReader& zip, const std::string& path) {
  Model model;
  model.path = path;
  model.format = "pytorch";
  model.version = "pt2";
  const Layout layout = layout_of(zip);
  TensorList weights = weights_of(zip, layout);
  const json root = parse_json(zip.read(*layout.program).text());
  const json& module = json_member(root, "graph_module");
  const json& graph = json_member(module, "graph");
  if (root.contains("torch_version") && root["torch_version"].is_string())
    model.producer = "pytorch " + printable(root["torch_version"].get<std::string>());
  try {
    GraphBuilder b("exported");
    Aliases aliases(b);
    Values values;
    std::map<std::string_view, const NamedTensor*> by_name;
    for (const NamedTensor& t : weights) by_name.emplace(t.name, &t);
    const json& types = json_member(graph, "tensor_values");
    if (!json_member(module, "signature").contains("input_specs"))
      throw bad_input(
          "the program's signature has no input_specs, which PyTorch writes from 2.2 on; export it "
          "again with a later version");
    for (const json& spec : json_array(json_member(module, "signature"), "input_specs")) {
      bool held = false;
      for (const auto& [kind, key] :
           {std::pair{"parameter", "parameter_name"}, std::pair{"buffer", "buffer_name"},
            std::pair{"tensor_constant", "tensor_constant_name"}}) {
        if (!spec.contains(kind)) continue;
        const std::string name = json_string(spec[kind], key);
        const auto at = by_name.find(name);
        if (at == by_name.end())
          throw bad_input(
              "the program names a weight '{}' that the archive lacks; fetch the file again",
              printable(name));
        values[json_string(json_member(spec[kind], "arg"), "name")] =
            AtenValue::of(b.constant(name, at->second->tensor.share()));
        held = true;
      }
      if (held) continue;
      if (!spec.contains("user_input")) throw AtenUnknown{"an input that is no tensor"};
      const json& arg = json_member(spec["user_input"], "arg");
      if (!arg.contains("as_tensor")) throw AtenUnknown{"an input that is no tensor"};
      const std::string name = json_string(arg["as_tensor"], "name");
      const json& meta = json_member(types, name);
      const Ints dims = sizes_of(meta);
      Ints nominal;
      for (const std::int64_t d : dims) nominal.push_back(d < 0 ? 2 : d);
      values[name] =
          AtenValue::of(b.input(name, dtype_of(json_member(meta, "dtype")), dims, nominal));
    }
    for (const json& node : json_array(graph, "nodes")) {
      const std::string target = json_string(node, "target");
      const std::string_view prefix = "torch.ops.aten.";
      const json& outputs = json_array(node, "outputs");
      if (outputs.empty()) {
        if (target.find("assert") == target.npos && target.find("constrain") == target.npos)
          throw AtenUnknown{target + ", which gives nothing"};
        continue;
      }
      AtenCall call = call_of(node, values);
      aliases.resolve(call);
      if (outputs[0].contains("as_sym_int")) {
        const std::string name = json_string(outputs[0]["as_sym_int"], "as_name");
        if (!target.starts_with("torch.ops.aten.sym_size")) {
          values[name] = size_arithmetic(target, call, node);
          continue;
        }
        const ValueId x = call.tensor("self");
        if (x == kAbsent) throw AtenUnknown{target};
        values[name] = AtenValue::extent(b, x, call.integer("dim", 0));
        continue;
      }
      if (!target.starts_with(prefix)) throw AtenUnknown{target};
      const std::string op =
          target.substr(prefix.size(), target.find('.', prefix.size()) - prefix.size());
      std::vector<std::string> names;
      for (const json& out : outputs) {
        if (out.contains("as_tensor"))
          names.push_back(json_string(out["as_tensor"], "name"));
        else if (out.contains("as_tensors") && out["as_tensors"].is_array())
          for (const json& one : out["as_tensors"]) names.push_back(json_string(one, "name"));
        else
          throw AtenUnknown{target + " with other outputs than tensors"};
      }
      if (names.empty()) continue;
      const ErrorScope scope("node " + printable(names[0]));
      const std::vector<ValueId> made = translate_aten(b, op, names[0], call);
      if (made.size() < names.size()) throw AtenUnknown{target + " with more outputs"};
      aliases.called(op, call, made);
      for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = AtenValue::of(made[i]);
    }
    // Beside the outputs of the program the graph gives the states that it changes.
    const json& specs = json_array(json_member(module, "signature"), "output_specs");
    const json& all = json_array(graph, "outputs");
    for (std::size_t i = 0; i < all.size(); ++i) {
      const json& out = all[i];
      if (i < specs.size() && !specs[i].contains("user_output")) {
        b.note("States that the program changes are not kept from run to run.");
        continue;
      }
      if (!out.contains("as_tensor")) throw AtenUnknown{"an output that is no tensor"};
      const auto at = values.find(json_string(out["as_tensor"], "name"));
      if (at == values.end() || at->second.tensor == kAbsent)
        throw bad_input("nothing makes an output");
      b.output(aliases.now(at->second.tensor));
    }
    *model.graph = b.finish();
    model.notes = b.take_notes();
    model.notes.emplace_back("Sizes are those the program was exported with.");
  } catch (const AtenUnknown& unknown) {
    model.graph = std::make_shared<Graph>();
    model.notes = {"Weights alone: " + printable(unknown.what) + " has no translation."};
    for (NamedTensor& t : weights)
      model.graph->initializers.emplace(model.graph->add_value(t.name), std::move(t.tensor));
  }
  return model;
}

}  // namespace etalon::pytorch_format
