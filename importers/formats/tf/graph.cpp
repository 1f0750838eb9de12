#include "importers/formats/tf/graph.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "engine/core/error.h"
#include "importers/formats/control.h"
#include "importers/formats/tf/body.h"

namespace etalon::tf {
namespace {

constexpr int kMaxCalls = 64;

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

PbMessage attribute(const PbMessage& node, std::string_view key) {
  for (const PbMessage& entry : node.messages("attr"))
    if (entry.text("key") == key) return entry.message("value");
  return {};
}

// What every graph of a file shares: that of the network, and those that its loops own.
struct Library {
  GraphSource source;
  std::map<std::string, PbMessage> functions;
  std::map<std::string, std::shared_ptr<Body>> bodies;
  std::size_t nodes = 0;
};

class Importer {
 public:
  Importer(GraphBuilder& graph, GraphSource source)
      : Importer(graph, std::make_shared<Library>(Library{std::move(source), {}, {}, 0})) {
    for (const PbMessage& f : lib_->source.graph.message("library").messages("function"))
      lib_->functions.emplace(f.message("signature").text("name"), f);
  }
  Importer(GraphBuilder& graph, std::shared_ptr<Library> library)
      : g_(graph), lib_(std::move(library)), ops_(graph) {}

  void run() {
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

 private:
  using Values = std::unordered_map<std::string, std::vector<ValueId>>;

  // Nodes that hang on a placeholder and that nobody reads.
  static std::vector<Port> sinks(const Body& main) {
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

  void placeholder(const PbMessage& n) {
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
    inputs_[name] = g_.input(at == input_names_.end() ? name : at->second, dtype_of_number(type),
                             dims, nominal);
  }

  // Values of `wanted`; `made` holds what is known of the body: arguments, then results.
  std::vector<ValueId> evaluate(const Body& body, Values& made,
                                const std::vector<std::string>& wanted, const std::string& prefix,
                                int depth) {
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
        if (op == "Merge") {
          taken = merged(body, made, branches, i, prefix, want);
        } else if (!leaf(body.nodes[i])) {
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

  // A branch on data of TensorFlow 1: the predicate first; where it is known, the side that it
  // takes, else both, of which one is chosen. nullopt while something is wanted.
  template <class Want>
  std::optional<ValueId> merged(const Body& body, Values& made,
                                std::map<std::size_t, Branches>& branches, std::size_t i,
                                const std::string& prefix, const Want& want) {
    auto at = branches.find(i);
    if (at == branches.end()) {
      std::size_t seen = 0;
      at = branches.emplace(i, branches_of(body, i, seen)).first;
      count(1 + seen / 16);
    }
    const Branches& b = at->second;
    const auto has = [&](const std::string& text) {
      want(text);
      return made.contains(reference(text).node);
    };
    if (!has(b.predicate)) return std::nullopt;
    const ValueId holds = value(made, b.predicate);
    if (const auto known = ops_.known(holds)) {
      const std::string& side = *known != 0 ? b.yes : b.no;
      return has(side) ? std::optional(value(made, side)) : std::nullopt;
    }
    const bool both = has(b.yes);
    if (!has(b.no) || !both) return std::nullopt;
    const ErrorScope where(fmt::format("node {}", printable(prefix + body.nodes[i].text("name"))));
    g_.note("a branch on data: both sides are computed, one is taken");
    const ValueId yes = value(made, b.yes), no = value(made, b.no);
    return ops_.chosen(prefix + body.nodes[i].text("name"), holds, yes, no, no);
  }

  // Outputs that a function's body calls by names of which the operator says where they stand.
  static void name_outputs(const std::string& op, const std::string& name,
                           const std::vector<ValueId>& values, Values& made) {
    if (op == "NonMaxSuppressionV4" || op == "NonMaxSuppressionV5")
      made[name + ":valid_outputs"] = {values.back()};
    if (op == "NonMaxSuppressionV5") made[name + ":selected_scores"] = {values[1]};
    if (op.starts_with("Unique")) made[name + ":idx"] = {values[1]};
    if (op.starts_with("UniqueWithCounts")) made[name + ":count"] = {values[2]};
  }

  static bool leaf(const PbMessage& n) {
    const std::string op = n.text("op");
    return op == "Const" || op == "VariableV2" || op == "Variable" || op == "VarHandleOp" ||
           op == "Placeholder";
  }

  ValueId value(const Values& made, const std::string& text) const {
    const Reference r = reference(text);
    if (!r.name.empty() && r.output == 0)
      if (const auto named = made.find(r.node + ":" + r.name); named != made.end())
        return named->second[0];
    const auto at = made.find(r.node);
    if (at == made.end() || r.output >= at->second.size())
      throw bad_input("nothing makes the tensor {}", printable(text));
    return at->second[r.output];
  }

  std::vector<ValueId> node(const PbMessage& n, const Values& made, const std::string& prefix,
                            int depth) {
    count(1);
    OpNode o = op_node(n);
    const ErrorScope where(fmt::format("node {}", printable(prefix + o.name)));
    if (o.op == "Placeholder") throw bad_input("a placeholder that is no input of the signature");
    if (o.op == "Const") {
      // A loop reads it in every iteration.
      const auto held = constants_.find(&n);
      if (held != constants_.end()) return {held->second};
      Tensor t = lib_->source.constant ? lib_->source.constant(o.name) : Tensor();
      if (!t) t = tensor_of(attribute(n, "value").message("tensor"), lib_->source.fill_budget);
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

  void count(std::size_t nodes) {
    lib_->nodes += nodes;
    if (lib_->nodes > kMaxNodes)
      throw bad_input("its functions and loops unfold to more than {} nodes", kMaxNodes);
  }

  // A variable that is read behind an assignment has a value that is not in the file.
  static void refuse_assignment(const Body& body, const PbMessage& n) {
    for (const std::string& in : n.texts("input")) {
      const Reference r = reference(in);
      const auto at = r.control ? body.by_name.find(r.node) : body.by_name.end();
      if (at != body.by_name.end() && body.nodes[at->second].text("op").starts_with("Assign"))
        throw bad_input("node {}: it reads a variable behind an assignment, {}",
                        printable(n.text("name")), printable(r.node));
    }
  }

  // A function, in this graph or in the body that a loop owns.
  BodyWriter called(const std::string& function, const std::string& prefix, int depth) {
    return [=, this](GraphBuilder& g, const std::vector<ValueId>& in) {
      if (&g == &g_) return inlined(function, in, prefix, depth + 1);
      return Importer(g, lib_).inlined(function, in, "", depth + 1);
    };
  }
  bool has_lists(const std::vector<ValueId>& values) const {
    return std::ranges::any_of(values, [&](ValueId v) { return ops_.is_list(v); });
  }

  // A loop on data over lists of known length: its iterations are written out until one leaves a
  // list, which the network itself would not survive, and each counts while all conditions up to it
  // have held. `step` gives the values of an iteration behind those before it, `condition` whether
  // it is run.
  using Step = std::function<std::vector<ValueId>(const std::vector<ValueId>&, int iteration)>;
  std::vector<ValueId> bounded(const std::string& name, std::vector<ValueId> now,
                               const Step& condition, const Step& step) {
    std::vector<ValueId> last = now;
    ValueId held = kAbsent;  // all conditions that hang on data
    for (int i = 0;; ++i) {
      const ValueId goes_on = condition(now, i).at(0);
      const auto known = ops_.known(goes_on);
      if (known && *known == 0) break;
      if (i == kMaxIterations) throw bad_input("a loop of more than {} iterations", i);
      std::vector<ValueId> next;
      try {
        next = step(now, i);
      } catch (const ListEnd&) {
        if (i == 0) throw;
        break;
      }
      if (next.size() != now.size())
        throw bad_input("a loop over {} values gives {}", now.size(), next.size());
      if (!known) held = held == kAbsent ? goes_on : g_.op("and", name + "/held", {held, goes_on});
      for (std::size_t k = 0; k < next.size(); ++k)
        if (next[k] != now[k])
          last[k] = held == kAbsent ? next[k] : ops_.chosen(name, held, next[k], now[k], last[k]);
      now = std::move(next);
    }
    g_.note(
        "a loop on data over lists is written out as far as the lists reach; an iteration counts "
        "while the condition has held");
    return last;
  }
  // Which arguments of a body come back as they are.
  std::vector<bool> passed(const std::string& function, std::size_t count) const {
    std::vector<bool> out(count, false);
    const auto f = lib_->functions.find(function);
    if (f == lib_->functions.end()) return out;
    const PbMessage signature = f->second.message("signature");
    const auto arguments = signature.messages("input_arg"),
               results = signature.messages("output_arg");
    std::map<std::string, std::string> ret, same;
    for (const PbMessage& e : f->second.messages("ret")) ret[e.text("key")] = e.text("value");
    for (const PbMessage& n : f->second.messages("node_def"))
      if (n.text("op") == "Identity" && n.count("input") > 0)
        same[n.text("name")] = reference(n.texts("input")[0]).node;
    for (std::size_t i = 0; i < std::min({count, arguments.size(), results.size()}); ++i) {
      std::string from = reference(ret[results[i].text("name")]).node;
      for (std::size_t steps = 0; steps < same.size() && same.contains(from); ++steps)
        from = same[from];
      out[i] = from == arguments[i].text("name");
    }
    return out;
  }

  // Iterations are written one behind the other, as long as the condition is known to hold; what
  // hangs on data is a loop of the graph.
  std::vector<ValueId> loop(const OpNode& o, const std::string& prefix, int depth) {
    std::vector<ValueId> values = o.inputs;
    for (int i = 0;; ++i) {
      const std::string name = fmt::format("{}{}/{}/", prefix, o.name, i);
      const auto goes_on = inlined(o.text("cond"), values, name, depth);
      if (goes_on.size() != 1) throw bad_input("a loop with {} conditions", goes_on.size());
      const auto known = ops_.known(goes_on[0]);
      if (!known && has_lists(values)) {
        const auto calls = [&](std::string_view function) {
          return [this, &o, &prefix, depth, function](const std::vector<ValueId>& in, int step) {
            return inlined(o.text(function), in, fmt::format("{}{}/on/{}/", prefix, o.name, step),
                           depth);
          };
        };
        return bounded(prefix + o.name, values, calls("cond"), calls("body"));
      }
      if (!known) {
        return write_while(g_, prefix + o.name, values, passed(o.text("body"), values.size()),
                           called(o.text("cond"), name, depth),
                           called(o.text("body"), name, depth));
      }
      if (*known == 0) break;
      if (i == kMaxIterations) throw bad_input("a loop of more than {} iterations", i);
      values = inlined(o.text("body"), values, name, depth);
      if (values.size() != o.inputs.size())
        throw bad_input("a loop over {} values gives {}", o.inputs.size(), values.size());
    }
    g_.note("loops are written out, iteration by iteration");
    return values;
  }

  std::vector<ValueId> branch(const OpNode& o, const std::string& prefix, int depth) {
    const auto taken = ops_.known(o.in(0));
    const std::vector<ValueId> arguments{o.inputs.begin() + 1, o.inputs.end()};
    const std::string name = prefix + o.name;
    if (taken)
      return inlined(o.text(*taken != 0 ? "then_branch" : "else_branch"), arguments, name + "/",
                     depth);
    if (has_lists(arguments))
      throw bad_input("a branch on data over a list of tensors (TensorArray) is not supported");
    return write_if(g_, name, o.in(0), arguments, called(o.text("then_branch"), name + "/", depth),
                    called(o.text("else_branch"), name + "/", depth));
  }

  // A loop of TensorFlow 1: Enter brings a value into the frame, Merge takes it or what
  // NextIteration brings back, Switch lets it out to Exit where the LoopCond fails.
  struct Turn {
    std::size_t enter, merge, next, take;  // nodes; `take` is the Switch
    std::vector<std::size_t> exits;
  };
  struct Frame {
    std::vector<std::size_t> entered;
    std::vector<Turn> turns;
    std::string goes_on;  // what LoopCond reads
  };

  static const PbMessage& source_of(const Body& body, const std::string& text) {
    const auto at = body.by_name.find(reference(text).node);
    if (at == body.by_name.end()) throw bad_input("nothing makes the tensor {}", printable(text));
    return body.nodes[at->second];
  }
  static std::string input_of(const PbMessage& n, std::size_t i) {
    const auto all = n.texts("input");
    if (i >= all.size()) throw bad_input("node {} lacks input {}", printable(n.text("name")), i);
    return all[i];
  }

  static Frame frame_of(const Body& body, const std::string& name) {
    Frame f;
    std::map<std::string, Turn> by_merge;
    for (std::size_t i = 0; i < body.nodes.size(); ++i)
      if (body.nodes[i].text("op") == "Enter" &&
          attribute(body.nodes[i], "frame_name").text("s") == name)
        f.entered.push_back(i);
    for (std::size_t i = 0; i < body.nodes.size(); ++i) {
      const PbMessage& n = body.nodes[i];
      if (n.text("op") != "Merge" || n.count("input") < 2) continue;
      const std::string from = reference(input_of(n, 0)).node;
      for (const std::size_t e : f.entered)
        if (body.nodes[e].text("name") == from) {
          const auto next = body.by_name.find(reference(input_of(n, 1)).node);
          if (next == body.by_name.end() || body.nodes[next->second].text("op") != "NextIteration")
            throw bad_input("node {}: nothing comes back to it", printable(n.text("name")));
          by_merge[n.text("name")] = Turn{e, i, next->second, body.nodes.size(), {}};
        }
    }
    for (std::size_t i = 0; i < body.nodes.size(); ++i) {
      const PbMessage& n = body.nodes[i];
      if (n.text("op") != "Switch" || n.count("input") < 2) continue;
      const auto turn = by_merge.find(reference(input_of(n, 0)).node);
      if (turn == by_merge.end()) continue;
      turn->second.take = i;
      const PbMessage& loop_condition = source_of(body, input_of(n, 1));
      if (loop_condition.text("op") != "LoopCond")
        throw bad_input("node {}: a branch on data is not supported", printable(n.text("name")));
      f.goes_on = input_of(loop_condition, 0);
    }
    for (auto& [merge, turn] : by_merge) {
      for (std::size_t i = 0; i < body.nodes.size(); ++i)
        if (body.nodes[i].text("op") == "Exit" && turn.take < body.nodes.size() &&
            reference(input_of(body.nodes[i], 0)).node == body.nodes[turn.take].text("name"))
          turn.exits.push_back(i);
      f.turns.push_back(turn);
    }
    if (f.goes_on.empty()) throw bad_input("the loop {} has no condition", printable(name));
    return f;
  }

  // Makes every Exit of the frame that node `exit` leaves.
  void frame(const Body& body, Values& made, std::size_t exit, const std::string& prefix,
             int depth) {
    if (depth > kMaxCalls) throw bad_input("loops stand in each other without end");
    const PbMessage& take = source_of(body, input_of(body.nodes[exit], 0));
    const PbMessage& merge = source_of(body, input_of(take, 0));
    const PbMessage& enter = source_of(body, input_of(merge, 0));
    if (take.text("op") != "Switch" || merge.text("op") != "Merge" || enter.text("op") != "Enter")
      throw bad_input("node {} leaves no loop", printable(body.nodes[exit].text("name")));
    const Frame f = frame_of(body, attribute(enter, "frame_name").text("s"));
    Values inside = made;
    for (const std::size_t e : f.entered) {
      const std::string from = input_of(body.nodes[e], 0);
      made[body.nodes[e].text("name")] = inside[body.nodes[e].text("name")] =
          evaluate(body, made, {from}, prefix, depth + 1);
    }
    std::vector<ValueId> values;
    for (const Turn& t : f.turns) values.push_back(inside.at(body.nodes[t.enter].text("name"))[0]);
    for (int i = 0;; ++i) {
      const std::string name = fmt::format("{}{}/", prefix, i);
      count(1 + inside.size() / 16);  // what is copied for an iteration takes time, too
      Values turn = turned(body, f, inside, values);
      const auto known = ops_.known(evaluate(body, turn, {f.goes_on}, name, depth + 1)[0]);
      if (!known) {
        values = has_lists(values) ? bounded_frame(body, f, inside, values, prefix, depth)
                                   : running(body, f, inside, values, prefix, depth);
        break;
      }
      if (*known == 0) break;
      if (i == kMaxIterations) throw bad_input("a loop of more than {} iterations", i);
      std::vector<std::string> wanted;
      for (const Turn& t : f.turns) wanted.push_back(input_of(body.nodes[t.next], 0));
      values = evaluate(body, turn, wanted, name, depth + 1);
    }
    g_.note("loops are written out, iteration by iteration");
    for (std::size_t k = 0; k < f.turns.size(); ++k)
      for (const std::size_t e : f.turns[k].exits) made[body.nodes[e].text("name")] = {values[k]};
  }

  // What stands in an iteration: what entered, and at each Merge and Switch what turns.
  static Values turned(const Body& body, const Frame& f, const Values& inside,
                       const std::vector<ValueId>& values) {
    Values turn = inside;
    for (std::size_t k = 0; k < f.turns.size(); ++k) {
      turn[body.nodes[f.turns[k].merge].text("name")] = {values[k], kAbsent};
      if (f.turns[k].take < body.nodes.size())
        turn[body.nodes[f.turns[k].take].text("name")] = {values[k], values[k]};
    }
    return turn;
  }

  // The rest of a frame whose condition hangs on data, over lists.
  std::vector<ValueId> bounded_frame(const Body& body, const Frame& f, const Values& inside,
                                     const std::vector<ValueId>& values, const std::string& prefix,
                                     int depth) {
    std::vector<std::string> wanted;
    for (const Turn& t : f.turns) wanted.push_back(input_of(body.nodes[t.next], 0));
    // A condition's values stand in the iteration behind it, too.
    Values turn;
    const auto evaluated = [&](const std::vector<std::string>& what, int step) {
      count(1 + inside.size() / 16);
      return evaluate(body, turn, what, fmt::format("{}on/{}/", prefix, step), depth + 1);
    };
    return bounded(
        prefix + body.nodes[f.turns.at(0).merge].text("name"), values,
        [&](const std::vector<ValueId>& in, int step) {
          turn = turned(body, f, inside, in);
          return evaluated({f.goes_on}, step);
        },
        [&](const std::vector<ValueId>&, int step) { return evaluated(wanted, step); });
  }

  // The rest of a frame whose condition hangs on data, as a loop of the graph: what turns, then
  // what entered and stays.
  std::vector<ValueId> running(const Body& body, const Frame& f, const Values& inside,
                               const std::vector<ValueId>& values, const std::string& prefix,
                               int depth) {
    std::vector<ValueId> start = values;
    std::vector<std::string> stays;
    for (const std::size_t e : f.entered) {
      if (std::ranges::any_of(f.turns, [&](const Turn& t) { return t.enter == e; })) continue;
      stays.push_back(body.nodes[e].text("name"));
      start.push_back(inside.at(stays.back())[0]);
    }
    if (has_lists(start))
      throw bad_input("a loop on data beside a list of tensors (TensorArray) is not supported");
    std::vector<bool> fixed(values.size(), false);
    fixed.resize(start.size(), true);
    std::vector<std::string> wanted;
    for (const Turn& t : f.turns) wanted.push_back(input_of(body.nodes[t.next], 0));
    const auto evaluated = [&](bool condition) {
      return [&, condition](GraphBuilder& g, const std::vector<ValueId>& in) {
        Values turn = turned(body, f, {}, in);
        for (std::size_t k = 0; k < stays.size(); ++k) turn[stays[k]] = {in[f.turns.size() + k]};
        const std::vector<std::string> what =
            condition ? std::vector<std::string>{f.goes_on} : wanted;
        std::vector<ValueId> out =
            &g == &g_ ? evaluate(body, turn, what, prefix, depth + 1)
                      : Importer(g, lib_).evaluate(body, turn, what, "", depth + 1);
        for (std::size_t k = 0; !condition && k < stays.size(); ++k)
          out.push_back(in[f.turns.size() + k]);
        return out;
      };
    };
    const std::string name = prefix + body.nodes[f.turns.at(0).merge].text("name");
    std::vector<ValueId> out =
        write_while(g_, name, start, fixed, evaluated(true), evaluated(false));
    out.resize(values.size());
    return out;
  }

  // The results of a function.
  std::vector<ValueId> inlined(const std::string& name, const std::vector<ValueId>& inputs,
                               const std::string& prefix, int depth) {
    count(1);
    const auto f = lib_->functions.find(name);
    if (f == lib_->functions.end()) throw bad_input("the function {} is missing", printable(name));
    const PbMessage signature = f->second.message("signature");
    const auto arguments = signature.messages("input_arg"),
               results = signature.messages("output_arg");
    if (arguments.size() > inputs.size())
      throw bad_input("{} arguments for a function of {}", inputs.size(), arguments.size());
    auto [body, is_new] = lib_->bodies.try_emplace(name, nullptr);
    if (is_new) body->second = std::make_shared<Body>(f->second.messages("node_def"));
    Values inside;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      inside[arguments[i].text("name")] = {inputs[i]};
    std::map<std::string, std::string> ret;
    for (const PbMessage& e : f->second.messages("ret")) ret[e.text("key")] = e.text("value");
    std::vector<std::string> wanted;
    for (const PbMessage& r : results) wanted.push_back(ret[r.text("name")]);
    g_.note("function calls are inlined");
    const std::shared_ptr<Body> keep = body->second;
    return evaluate(*keep, inside, wanted, prefix, depth + 1);
  }

  static constexpr std::size_t kMaxNodes = 1 << 18;
  static constexpr int kMaxIterations = 4096;
  GraphBuilder& g_;
  std::shared_ptr<Library> lib_;
  Ops ops_;
  std::map<std::string, std::string> input_names_;
  std::map<std::string, Port> ports_;
  std::map<std::string, ValueId> inputs_, variables_;
  std::map<const PbMessage*, ValueId> constants_;
};

}  // namespace

void translate_graph(GraphBuilder& graph, GraphSource source) {
  Importer(graph, std::move(source)).run();
}

}  // namespace etalon::tf
