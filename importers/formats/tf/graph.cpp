// Where the walk through a graph begins: inputs and outputs, as a signature says or as nodes do.
#include "importers/formats/tf/graph.h"

#include <algorithm>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/tf/importer.h"

namespace etalon::tf {
namespace {

// Nodes that hang on a placeholder and that nobody reads.
std::vector<Port> sinks(const Body& main) {
  std::set<std::string> read;
  std::unordered_map<std::string, std::vector<std::string>> readers;
  for (const PbMessage& n : main.nodes) {
    if (n.text("op") == "Assert") continue;
    for (const std::string& in : n.texts("input")) {
      const Reference r = reference(in);
      if (!r.control) read.insert(r.node);
      if (!r.control) readers[r.node].push_back(n.text("name"));
    }
  }
  std::set<std::string> reached;
  std::vector<std::string> open;
  for (const PbMessage& n : main.nodes)
    if (n.text("op") == "Placeholder") open.push_back(n.text("name"));
  while (!open.empty()) {
    const std::string at = open.back();
    open.pop_back();
    if (!reached.insert(at).second) continue;
    for (const std::string& next : readers[at]) open.push_back(next);
  }
  std::vector<Port> out, counters;
  for (const PbMessage& n : main.nodes) {
    const std::string name = n.text("name"), op = n.text("op");
    if (read.contains(name) || !reached.contains(name)) continue;
    if (op == "Placeholder" || op == "NoOp" || op == "Assert" || op.starts_with("Save") ||
        op.starts_with("Restore") || op.find("Summary") != std::string::npos)
      continue;
    // What a Switch lets through stands in a branch or loop, where controls alone read it.
    if (op == "Identity" && n.count("input") > 0 &&
        source_of(main, n.texts("input")[0]).text("op") == "Switch")
      continue;
    // What a loop counts with and nobody reads is no output where there are others.
    (op == "Exit" || op == "Switch" || op == "NextIteration" ? counters : out)
        .push_back({name, name});
  }
  if (out.empty()) out = std::move(counters);
  if (out.empty()) throw bad_input("nothing in it leads from an input to an output");
  return out;
}

}  // namespace

PbMessage attribute(const PbMessage& node, std::string_view key) {
  for (const PbMessage& entry : node.messages("attr"))
    if (entry.text("key") == key) return entry.message("value");
  return {};
}

Importer::Importer(GraphBuilder& graph, GraphSource source)
    : Importer(graph, std::make_shared<Library>(Library{std::move(source), {}, {}, 0})) {
  for (const PbMessage& f : lib_->source.graph.message("library").messages("function"))
    lib_->functions.emplace(f.message("signature").text("name"), f);
}

void Importer::run() {
  Body main(lib_->source.graph.messages("node"));
  std::vector<Port> outputs = lib_->source.outputs;
  if (outputs.empty()) outputs = sinks(main);
  for (const Port& p : lib_->source.inputs) {
    const Reference r = reference(p.tensor);
    input_names_[r.node] = p.name;
    ports_[r.node] = p;
  }
  std::vector<std::string> wanted;
  for (const Port& p : outputs) wanted.push_back(p.tensor);
  // Inputs in the sequence of the signature, or of the file.
  if (lib_->source.inputs.empty()) {
    std::set<std::string> read;
    for (const PbMessage& n : main.nodes)
      for (const std::string& in : n.texts("input")) read.insert(reference(in).node);
    for (const PbMessage& n : main.nodes)
      if (n.text("op") == "Placeholder" && read.contains(n.text("name"))) placeholder(n);
  } else {
    for (const Port& p : lib_->source.inputs) {
      const auto at = main.by_name.find(reference(p.tensor).node);
      if (at == main.by_name.end())
        throw bad_input("no node makes the input {}", printable(p.tensor));
      placeholder(main.nodes[at->second]);
    }
  }
  std::unordered_map<std::string, std::vector<ValueId>> made;
  for (const auto& [node, v] : inputs_) made[node] = {v};
  const std::vector<ValueId> values = evaluate(main, made, wanted, "", 0);
  for (std::size_t i = 0; i < outputs.size(); ++i) g_.output(values[i], outputs[i].name);
}

void Importer::placeholder(const PbMessage& n) {
  const std::string name = n.text("name");
  if (inputs_.contains(name)) return;
  const ErrorScope where(fmt::format("node {}", printable(name)));
  const PbMessage shape = attribute(n, "shape");
  std::int64_t type = attribute(n, "dtype").integer("type");
  PbMessage dims_message = shape.has("shape") ? shape.message("shape") : PbMessage();
  bool known = shape.has("shape");
  if (const auto port = ports_.find(name); port != ports_.end() && port->second.dtype != 0) {
    type = port->second.dtype;
    dims_message = port->second.shape;
    known = true;
  }
  if (type == 0) throw bad_input("an input without an element type");
  if (!known || dims_message.flag("unknown_rank"))
    throw bad_input("an input whose shape is not known; export the network with shapes");
  const Ints dims = dims_of(dims_message);
  Ints nominal;
  for (std::size_t i = 0; i < dims.size(); ++i)
    nominal.push_back(i == 0 ? 1 : i + 1 == dims.size() && dims.size() == 4 ? 3 : 224);
  const auto at = input_names_.find(name);
  inputs_[name] =
      g_.input(at == input_names_.end() ? name : at->second, dtype_of_number(type), dims, nominal);
}

void translate_graph(GraphBuilder& graph, GraphSource source) {
  Importer(graph, std::move(source)).run();
}

}  // namespace etalon::tf
