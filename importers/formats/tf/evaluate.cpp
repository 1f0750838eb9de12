// Nodes of a body, each behind what it reads, on a stack of its own.
#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/importer.h"
#include "importers/formats/tf/training.h"

namespace etalon::tf {
namespace {

constexpr std::size_t kMaxNodes = 1 << 18;

// A function's body calls outputs by their names; one of several would else be taken for the first.
void name_outputs(const std::string& op, const std::string& name,
                  const std::vector<ValueId>& values, Values& made) {
  using Names = std::vector<std::string_view>;
  static const Names kCell{"i", "cs", "f", "o", "ci", "co", "h"}, kUnique{"y", "idx", "count"};
  static const std::map<std::string_view, Names> kOutputs{
      {"NonMaxSuppressionV4", {"selected_indices", "valid_outputs"}},
      {"NonMaxSuppressionV5", {"selected_indices", "selected_scores", "valid_outputs"}},
      {"CombinedNonMaxSuppression",
       {"nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"}},
      {"Unique", kUnique},
      {"UniqueV2", kUnique},
      {"UniqueWithCounts", kUnique},
      {"UniqueWithCountsV2", kUnique},
      {"LSTMBlockCell", kCell},
      {"BlockLSTM", kCell},
      {"BlockLSTMV2", kCell},
      {"GRUBlockCell", {"r", "u", "c", "h"}},
      {"DecodeWav", {"audio", "sample_rate"}}};
  const auto names = kOutputs.find(op);
  if (names == kOutputs.end()) return;
  for (std::size_t k = 0; k < values.size() && k < names->second.size(); ++k)
    made[fmt::format("{}:{}", name, names->second[k])] = {values[k]};
}

bool leaf(const PbMessage& n) {
  const std::string op = n.text("op");
  return op == "Const" || op == "VariableV2" || op == "Variable" || op == "VarHandleOp" ||
         op == "Placeholder";
}

// A variable that is read behind an assignment has a value that is not in the file.
void refuse_assignment(const Body& body, const PbMessage& n) {
  for (const std::string& in : n.texts("input")) {
    const Reference r = reference(in);
    const auto at = r.control ? body.by_name.find(r.node) : body.by_name.end();
    if (at != body.by_name.end() && body.nodes[at->second].text("op").starts_with("Assign"))
      throw bad_input("node {}: it reads a variable behind an assignment, {}",
                      printable(n.text("name")), printable(r.node));
  }
}

}  // namespace

OpNode op_node(const PbMessage& node) {
  OpNode out{node.text("name"), node.text("op"), {}, {}};
  for (const PbMessage& entry : node.messages("attr")) {
    const std::string key = entry.text("key");
    const PbMessage v = entry.message("value");
    if (v.has("list")) {
      const PbMessage list = v.message("list");
      if (list.has("s"))
        out.attributes[key] = list.texts("s");
      else if (list.has("f"))
        out.attributes[key] = list.numbers("f");
      else
        out.attributes[key] = list.integers("i");
    } else if (v.has("s")) {
      out.attributes[key] = v.text("s");
    } else if (v.has("i")) {
      out.attributes[key] = v.integer("i");
    } else if (v.has("f")) {
      out.attributes[key] = v.number("f");
    } else if (v.has("b")) {
      out.attributes[key] = v.integer("b");
    } else if (v.has("func")) {
      out.attributes[key] = v.message("func").text("name");
    } else if (v.has("type") &&
               (key == "DstT" || key == "out_type" || key == "output_type" || key == "out_idx")) {
      out.attributes[key] = std::string(name(dtype_of_number(v.integer("type"))));
    }
  }
  return out;
}

// Values of `wanted`; `made` holds what is known of the body: arguments, then results.
std::vector<ValueId> Importer::evaluate(const Body& body, Values& made,
                                        const std::vector<std::string>& wanted,
                                        const std::string& prefix, int depth) {
  if (depth > kMaxCalls) throw bad_input("functions call each other without end");
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(body.nodes.size(), kNew);
  std::vector<std::size_t> stack;
  std::map<std::size_t, Branches> branches;  // of Merges
  const auto want = [&](const std::string& text) {
    const Reference r = reference(text);
    if (r.control || made.contains(r.node)) return;
    const auto at = body.by_name.find(r.node);
    if (at == body.by_name.end()) throw bad_input("nothing makes the tensor {}", printable(text));
    if (state[at->second] == kOpen)
      throw bad_input("node {}: it hangs on itself", printable(r.node));
    if (state[at->second] == kNew) stack.push_back(at->second);
  };
  std::vector<ValueId> out;
  for (const std::string& text : wanted) {
    want(text);
    while (!stack.empty()) {
      const std::size_t i = stack.back();
      const std::size_t before = stack.size();
      if (state[i] == kDone) {
        stack.pop_back();
        continue;
      }
      state[i] = kOpen;
      const std::string op = body.nodes[i].text("op");
      if (op == "Exit") {
        frame(body, made, i, prefix, depth);
        stack.pop_back();
        state[i] = kDone;
        continue;
      }
      std::optional<ValueId> taken;
      if (op == "RandomUniform") taken = dropout(body, i, prefix);
      if (op == "Merge") {
        taken = merged(body, made, branches, i, prefix, want);
      } else if (!taken && !leaf(body.nodes[i])) {
        for (const std::string& in : body.nodes[i].texts("input")) want(in);
      }
      if (stack.size() > before) continue;
      stack.pop_back();
      state[i] = kDone;
      if (op == "ReadVariableOp") refuse_assignment(body, body.nodes[i]);
      const std::string name = body.nodes[i].text("name");
      std::vector<ValueId> values =
          taken ? std::vector{*taken, kAbsent} : node(body.nodes[i], made, prefix, depth);
      name_outputs(op, name, values, made);
      // A function that is called by its own name gives its results by theirs.
      if (const auto f = lib_->functions.find(op); f != lib_->functions.end()) {
        const auto results = f->second.message("signature").messages("output_arg");
        for (std::size_t k = 0; k < results.size() && k < values.size(); ++k)
          made[name + ":" + results[k].text("name")] = {values[k]};
      }
      made[name] = std::move(values);
    }
    out.push_back(value(made, text));
  }
  return out;
}

// What a dropout draws, read as 0: nothing is dropped where it keeps all.
std::optional<ValueId> Importer::dropout(const Body& body, std::size_t i,
                                         const std::string& prefix) {
  const PbMessage& n = body.nodes[i];
  const ErrorScope where(fmt::format("node {}", printable(prefix + n.text("name"))));
  const Dropout kind = dropout_of(body, i);
  if (kind == Dropout::none) return std::nullopt;
  if (kind == Dropout::always)
    throw bad_input("a dropout that always drops; export the network for inference");
  if (kind == Dropout::given)
    g_.note(
        "dropout: its random numbers are read as 0, which is exact where nothing is dropped; give "
        "the share to keep as 1 (a rate as 0)");
  const DType type = dtype_of_number(attribute(n, "dtype").integer("type", 1));
  return g_.constant(prefix + n.text("name"), scalar_of(type, 0));
}

ValueId Importer::value(const Values& made, const std::string& text) const {
  const Reference r = reference(text);
  if (!r.name.empty() && r.output == 0)
    if (const auto named = made.find(r.node + ":" + r.name); named != made.end())
      return named->second[0];
  const auto at = made.find(r.node);
  if (at == made.end() || r.output >= at->second.size())
    throw bad_input("nothing makes the tensor {}", printable(text));
  return at->second[r.output];
}

std::vector<ValueId> Importer::node(const PbMessage& n, const Values& made,
                                    const std::string& prefix, int depth) {
  count(1);
  OpNode o = op_node(n);
  const ErrorScope where(fmt::format("node {}", printable(prefix + o.name)));
  if (o.op == "Placeholder") throw bad_input("a placeholder that is no input of the signature");
  if (o.op == "Const") {
    // A loop reads it in every iteration.
    const auto held = constants_.find(&n);
    if (held != constants_.end()) return {held->second};
    const PbMessage given = attribute(n, "value").message("tensor");
    constexpr std::int64_t kComplex64 = 8;
    if (given.integer("dtype") == kComplex64) {
      auto [real, imaginary] = complex_of(given);
      return {constants_[&n] =
                  ops_.complex_constant(prefix + o.name, std::move(real), std::move(imaginary))};
    }
    Tensor t = lib_->source.constant ? lib_->source.constant(o.name) : Tensor();
    if (!t) t = tensor_of(given, lib_->source.fill_budget);
    return {constants_[&n] = g_.constant(prefix + o.name, std::move(t))};
  }
  if (o.op == "VariableV2" || o.op == "Variable" || o.op == "VarHandleOp") {
    std::string key = o.text("shared_name");
    if (key.empty()) key = o.name;
    const auto known = variables_.find(key);
    if (known != variables_.end()) return {known->second};
    Tensor t = lib_->source.variable ? lib_->source.variable(key) : Tensor();
    if (!t && lib_->source.variable) t = lib_->source.variable(o.name);
    if (!t)
      throw bad_input("the checkpoint has no variable {}; name it with --with", printable(key));
    return {variables_[key] = g_.constant(key, std::move(t))};
  }
  for (const std::string& in : n.texts("input"))
    if (in.empty() || in[0] != '^') o.inputs.push_back(value(made, in));
  if (o.op == "PartitionedCall" || o.op == "StatefulPartitionedCall" ||
      lib_->functions.contains(o.op))
    return inlined(lib_->functions.contains(o.op) ? o.op : o.text("f"), o.inputs,
                   prefix + o.name + "/", depth);
  if (o.op == "While" || o.op == "StatelessWhile") return loop(o, prefix, depth);
  if (o.op == "If" || o.op == "StatelessIf") return branch(o, prefix, depth);
  if (o.op == "Enter" || o.op == "LoopCond") throw bad_input("{} outside a loop", o.op);
  if (o.op == "Switch") return {o.in(0), o.in(0)};  // both sides are computed
  o.name = prefix + o.name;
  return ops_.translate(o);
}

void Importer::count(std::size_t nodes) {
  lib_->nodes += nodes;
  if (lib_->nodes > kMaxNodes)
    throw bad_input("its functions and loops unfold to more than {} nodes", kMaxNodes);
}

}  // namespace etalon::tf
