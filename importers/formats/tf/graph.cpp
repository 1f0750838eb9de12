// Where the walk through a graph begins: inputs and outputs, as a signature says or as nodes do.
#include "importers/formats/tf/graph.h"

#include <algorithm>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/importer.h"
#include "importers/formats/tf/inputs.h"
#include "importers/formats/tf/training.h"

namespace etalon::tf {
namespace {

constexpr std::int64_t kString = 7;

bool is_truth(const PbMessage& placeholder) {
  constexpr std::int64_t kBool = 10;
  return attribute(placeholder, "dtype").integer("type") == kBool;
}

// Nodes that hang on an input and that nobody reads, but for those of `training`.
std::vector<Port> sinks(const Body& main, const Training& training) {
  std::set<std::string> read;
  std::unordered_map<std::string, std::vector<std::string>> readers;
  for (const PbMessage& n : main.nodes) {
    // A summary reads what is an output all the same.
    if (n.text("op") == "Assert" || n.text("op").find("Summary") != std::string::npos) continue;
    const std::string name = n.text("name");  // a walk over the node
    const bool trains = training.nodes.contains(name);
    for (const std::string& in : n.texts("input")) {
      const Reference r = reference(in);
      if (!r.control) read.insert(r.node);
      if (!r.control && !trains) readers[r.node].push_back(name);
    }
  }
  std::set<std::string> reached;
  std::vector<std::string> open;
  for (const PbMessage& n : main.nodes)
    if ((n.text("op") == "Placeholder" && !is_truth(n)) || brings_data(n.text("op")))
      open.push_back(n.text("name"));
  if (open.empty())
    for (const PbMessage& n : main.nodes)
      if (n.text("op") == "PlaceholderWithDefault") open.push_back(n.text("name"));
  while (!open.empty()) {
    const std::string at = open.back();
    open.pop_back();
    if (!reached.insert(at).second) continue;
    for (const std::string& next : readers[at]) open.push_back(next);
  }
  std::vector<Port> out, counters;
  for (std::string score : training.scores) {
    // Losses flatten what they take.
    for (int step = 0; step < 16; ++step) {
      const PbMessage& n = source_of(main, score);
      if (n.text("op") != "Reshape" || n.count("input") < 1) break;
      score = n.texts("input")[0];
    }
    const std::string name = reference(score).node;
    const bool known = std::ranges::any_of(out, [&](const Port& p) { return p.name == name; });
    if (!known && reached.contains(name) && !training.nodes.contains(name))
      out.push_back({name, score});
  }
  const std::size_t scores = out.size();
  for (const PbMessage& n : main.nodes) {
    const std::string name = n.text("name"), op = n.text("op");
    if (read.contains(name) || !reached.contains(name) || training.nodes.contains(name)) continue;
    if (op.starts_with("Placeholder") || op == "NoOp" || op == "Assert" || brings_data(op) ||
        op.starts_with("Save") || op.starts_with("Restore") ||
        op.find("Summary") != std::string::npos)
      continue;
    // What a Switch lets through stands in a branch or loop, where controls alone read it.
    if (op == "Identity" && n.count("input") > 0 &&
        source_of(main, n.texts("input")[0]).text("op") == "Switch")
      continue;
    if (std::ranges::any_of(std::span(out).first(scores),
                            [&](const Port& p) { return p.name == name; }))
      continue;
    // What a loop counts with and nobody reads is no output where there are others.
    (op == "Exit" || op == "Switch" || op == "NextIteration" ? counters : out)
        .push_back({name, name});
  }
  if (out.empty()) out = std::move(counters);
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

// The outputs that a signature names, or that nobody reads.
std::vector<Port> Importer::ends(const Body& main) {
  std::vector<Port> outputs = lib_->source.outputs;
  if (!outputs.empty()) {
    if (std::ranges::all_of(outputs, [](const Port& p) { return p.dtype == kString; }))
      return outputs;
    for (const Port& p : outputs)
      if (p.dtype == kString)
        g_.note(fmt::format("output {} is text and left out", printable(p.name)));
    std::erase_if(outputs, [](const Port& p) { return p.dtype == kString; });
    return outputs;
  }
  const Training training = training_of(main);
  outputs = sinks(main, training);
  if (outputs.empty()) return sinks(main, {});
  if (!training.nodes.empty())
    g_.note(
        "what training alone needs (losses, gradients, optimisers, summaries, labels) is left out");
  return outputs;
}

void Importer::run() {
  const Body main(lib_->source.graph.messages("node"));
  const std::vector<Port> outputs = ends(main);
  if (outputs.empty()) throw bad_input("nothing in it leads from an input to an output");
  std::vector<std::string> wanted;
  for (const Port& p : outputs) wanted.push_back(p.tensor);
  std::unordered_map<std::string, std::vector<ValueId>> made;
  read_inputs(main, wanted, made);
  for (const auto& [node, v] : inputs_) made[node] = {v};
  const std::vector<ValueId> values = evaluate(main, made, wanted, "", 0);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    ops_.must_be_tensor(values[i], fmt::format("output {}", printable(outputs[i].name)));
    g_.output(values[i], outputs[i].name);
  }
}

// Inputs in the sequence of the signature, or of the file.
void Importer::read_inputs(const Body& main, const std::vector<std::string>& wanted, Values& made) {
  std::set<std::string> known;
  for (const Port& p : lib_->source.inputs) {
    const Reference r = reference(p.tensor);
    input_names_[r.node] = p.name;
    ports_[r.node] = p;
    const auto at = main.by_name.find(r.node);
    if (at == main.by_name.end())
      throw bad_input("no node makes the input {}", printable(p.tensor));
    if (p.dtype == kString) continue;  // an example that is parsed, whose features are inputs then
    known.insert(r.node);
    placeholder(main, main.nodes[at->second]);
  }
  std::size_t seen = 0;
  for (const auto& [name, value] : inference_switches(main, seen)) {
    if (known.contains(name)) continue;
    known.insert(name);
    made[name] = {g_.constant(name, scalar_of(DType::boolean, value ? 1 : 0))};
    g_.note(fmt::format("{} chooses between training and inference; it is {} here", printable(name),
                        value));
  }
  count(1 + seen / 16);
  const auto reached = reached_from(main, wanted, known);
  bool none = known.empty();
  for (const PbMessage& n : main.nodes) {
    const std::string name = n.text("name"), op = n.text("op");
    const auto at = reached.find(name);
    if (at == reached.end() || known.contains(name)) continue;
    if (op == "Placeholder" && (lib_->source.inputs.empty() || input_names_.contains(name)))
      placeholder(main, n);
    else if (brings_data(op))
      made[name] = brought(main, n, at->second);
    else
      continue;
    none = false;
  }
  // A network whose inputs have defaults: those of more than one number are inputs then.
  if (none && lib_->source.inputs.empty())
    for (const PbMessage& n : main.nodes)
      if (n.text("op") == "PlaceholderWithDefault" && reached.contains(n.text("name")) &&
          attribute(n, "shape").message("shape").count("dim") > 0)
        placeholder(main, n);
}

// What a node brings from elsewhere: an input for each of its outputs that is read.
std::vector<ValueId> Importer::brought(const Body& main, const PbMessage& n,
                                       const std::set<std::size_t>& read) {
  const ErrorScope where(fmt::format("node {}", printable(n.text("name"))));
  const std::vector<DataOutput> all = data_outputs(main, n);
  std::vector<ValueId> values(all.size(), kAbsent);
  for (const std::size_t i : read) {
    if (i >= all.size()) throw bad_input("output {} of {} is read", i, all.size());
    values[i] = declared(all[i].name, all[i].type, all[i].dims,
                         n.text("op").starts_with("Decode") && all[i].dims.size() == 3);
  }
  g_.note(fmt::format("what {} ({}) brings is an input", printable(n.text("name")), n.text("op")));
  return values;
}

ValueId Importer::declared(const std::string& name, std::int64_t type, const Ints& dims,
                           bool picture) {
  Ints nominal;
  // The batch is the first axis; behind a number of steps, the second.
  const bool time_first = dims.size() == 3 && dims[0] > 1 && dims[1] < 0 && dims[2] > 0;
  // Positions of words are few, points of pictures and sounds many.
  const std::int64_t usual = type == 3 || type == 9 ? 16 : 224;
  for (std::size_t i = 0; i < dims.size(); ++i)
    nominal.push_back((i == 0 && !picture) || time_first         ? 1
                      : i + 1 == dims.size() && dims.size() == 4 ? 3
                                                                 : usual);
  return g_.input(name, dtype_of_number(type), dims, nominal);
}

void Importer::placeholder(const Body& main, const PbMessage& n) {
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
  // Before version 24 of graphs no extents stood for extents that are not known.
  constexpr std::int64_t kScalarsAreKnown = 24;
  const bool old = lib_->source.graph.message("versions").integer("producer") < kScalarsAreKnown;
  known = known && !dims_message.flag("unknown_rank");
  Ints dims;
  if (known) dims = dims_of(dims_message);
  if (!known || (dims.empty() && old)) {
    std::size_t looked_at = 0;
    const auto read = dims_from_readers(main, name, type == 10, known, looked_at);
    count(looked_at / 16);
    if (!known && !read)
      throw bad_input("an input whose shape is not known; export the network with shapes");
    if (read && *read != dims) {
      dims = *read;
      g_.note(fmt::format("the shape of input {} is what its readers want", printable(name)));
    }
  }
  const auto at = input_names_.find(name);
  inputs_[name] = declared(at == input_names_.end() ? name : at->second, type, dims, false);
}

void translate_graph(GraphBuilder& graph, GraphSource source) {
  Importer(graph, std::move(source)).run();
}

}  // namespace etalon::tf
