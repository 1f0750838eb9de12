#include "bench/compare/case.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/compare/library_accuracy.h"
#include "bench/micro/first_sample.h"
#include "engine/core/file.h"
#include "importers/containers/json.h"
#include "importers/formats/neutral.h"
#include "importers/importers.h"

namespace etalon {
namespace {

using nlohmann::json;

std::string label(const std::vector<std::string_view>& names, std::size_t i) {
  return i < names.size() ? std::string(names[i]) : std::to_string(i);
}

}  // namespace

void save_case(const std::string& folder, const Case& c) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw bad_input("{}: cannot make the folder ({}); name another", folder, failed.message());
  TensorList tensors;
  json inputs = json::array(), outputs = json::array();
  const auto in = c.layer.op->input_names(), out = c.layer.op->output_names();
  for (std::size_t i = 0; i < c.layer.inputs.size(); ++i) {
    if (!c.layer.inputs[i]) {
      inputs.push_back("");
      continue;
    }
    inputs.push_back(label(in, i));
    tensors.push_back({"input." + label(in, i), c.layer.inputs[i].share()});
  }
  for (std::size_t o = 0; o < c.outputs.size(); ++o) {
    if (!c.outputs[o]) {
      outputs.push_back("");
      continue;
    }
    outputs.push_back(label(out, o));
    tensors.push_back({"output." + label(out, o), c.outputs[o].share()});
  }
  const json text = {{"etalon_case", 1},
                     {"op", c.layer.op->name},
                     {"params", params_to_json(c.layer.params)},
                     {"contract", c.contract},
                     {"framework", c.framework},
                     {"inputs", inputs},
                     {"outputs", outputs},
                     {"origin", c.origin},
                     {"verdict", c.verdict},
                     {"cause", c.cause}};
  save_tensors(tensors, folder + "/tensors.safetensors");
  write_file(folder + "/case.json", text.dump(2) + "\n");
}

Case load_case(const std::string& folder) {
  const ErrorScope where(folder + "/case.json");
  const json text = parse_json(read_text_file(folder + "/case.json"));
  if (json_integer(json_member(text, "etalon_case"), "etalon_case") != 1)
    throw bad_input("etalon_case is not 1; this version reads cases of version 1");
  const TensorList tensors = load_tensors(folder + "/tensors.safetensors");
  Case c;
  c.layer.op = &get_op(json_string(text, "op"));
  c.layer.params = params_from_json(*c.layer.op, json_member(text, "params"));
  c.contract = json_string(text, "contract");
  const auto optional = [&](const char* key, std::string& to) {
    if (text.contains(key)) to = json_string(text, key);
  };
  optional("framework", c.framework);
  try {
    c.framework = named_library(c.framework).library;
  } catch (const Error& e) {
    throw bad_input("framework: {}", e.what());
  }
  optional("origin", c.origin);
  optional("verdict", c.verdict);
  optional("cause", c.cause);
  const auto read = [&](const char* list, const char* prefix, std::vector<Tensor>& to) {
    for (const json& name : json_array(text, list)) {
      if (!name.is_string()) throw bad_input("{} holds something that is no name", list);
      const auto& n = name.get_ref<const std::string&>();
      if (n.empty()) {
        to.emplace_back();
        continue;
      }
      const auto at = std::ranges::find(tensors, prefix + n, &NamedTensor::name);
      if (at == tensors.end())
        throw bad_input("tensors.safetensors holds no tensor '{}{}'", prefix, n);
      to.push_back(at->tensor.share());
    }
  };
  read("inputs", "input.", c.layer.inputs);
  read("outputs", "output.", c.outputs);
  return c;
}

Case smallest_case(const Case& c, std::size_t output, std::int64_t worst) {
  Case small{c.layer.share(), {}, c.contract, c.framework, c.origin, c.verdict, c.cause};
  for (const Tensor& t : c.outputs) small.outputs.push_back(t ? t.share() : Tensor());
  if (worst < 0 || output >= c.outputs.size() || !c.outputs[output] || c.layer.inputs.empty() ||
      !c.layer.inputs[0])
    return small;
  const Tensor& y = c.outputs[output];
  NamedShape shape{.op = c.layer.op, .params = c.layer.params, .outputs = {y.type()}};
  for (const Tensor& t : c.layer.inputs) shape.inputs.push_back(t ? t.type() : TensorType{});
  const std::vector<bool> cut = inputs_by_sample(shape);
  const std::string_view op = shape.op->name;
  if (cut.empty() || op == "lstm" || op == "gru" || op == "rnn")  // a step needs those before it
    return small;
  const std::int64_t row = worst / y.shape().product(1, y.shape().rank());
  for (std::size_t i = 0; i < cut.size(); ++i)
    if (cut[i]) small.layer.inputs[i] = row_of(c.layer.inputs[i], row);
  for (Tensor& t : small.outputs)
    if (t && t.shape().rank() > 0 && t.shape()[0] == y.shape()[0]) t = row_of(t, row);
  return small;
}

}  // namespace etalon
