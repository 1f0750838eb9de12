// cond, while_loop, read_state, write_state, classify. A block reads the values around it by their
// names, so that what it reads is handed into its graph; constants stay constants there.
#include <set>

#include "engine/core/error.h"
#include "importers/formats/coreml/scope.h"

namespace etalon::coreml {
namespace {

// The names that a block reads, those of blocks inside it included.
void collect(const PbMessage& block, std::set<std::string>& read) {
  for (const PbMessage& op : block.messages("operations")) {
    for (const PbMessage& entry : op.messages("inputs"))
      for (const PbMessage& binding : entry.message("value").messages("arguments"))
        if (!binding.has("value")) read.insert(binding.text("name"));
    for (const PbMessage& inner : op.messages("blocks")) collect(inner, read);
  }
  for (const std::string& name : block.texts("outputs")) read.insert(name);
}

std::vector<Value> values_of(const GraphBuilder& g, const std::vector<ValueId>& ids) {
  std::vector<Value> out;
  for (const ValueId v : ids) {
    out.emplace_back().id = v;
    if (const Tensor* t = g.constant_of(v)) out.back().constant = t->share();
  }
  return out;
}

}  // namespace

Scope::Captured Scope::capture(const std::vector<PbMessage>& blocks) {
  std::set<std::string> read;
  for (const PbMessage& block : blocks) collect(block, read);
  Captured c;
  for (const std::string& name : read) {
    const auto at = values_.find(name);
    if (at == values_.end()) continue;
    const Value& v = at->second;
    if (!v.state.empty())
      throw bad_input("the state {} in a branch or loop is not supported", printable(name));
    if (v.id == kAbsent || v.constant) {
      c.constants.emplace_back(name, v.share());
      c.constants.back().second.id = kAbsent;
    } else {
      c.names.push_back(name);
      c.values.push_back(v.id);
    }
  }
  return c;
}

std::vector<ValueId> Scope::inside(GraphBuilder& graph, const PbMessage& block,
                                   const Captured& read, const std::vector<ValueId>& values) const {
  Scope inner(graph, constants_);
  std::vector<Value> given = values_of(graph, values);
  std::size_t next = 0;
  for (const PbMessage& input : block.messages("inputs")) {
    if (next == given.size())
      throw bad_input("a block of {} inputs gets {} values", block.count("inputs"), next);
    inner.define(input.text("name"), std::move(given[next++]));
  }
  if (given.size() - next != read.names.size())
    throw bad_input("a block of {} inputs gets {} values", next, given.size() - read.names.size());
  for (const std::string& name : read.names) inner.define(name, std::move(given[next++]));
  for (const auto& [name, v] : read.constants) inner.define(name, v.share());
  inner.run(block);
  std::vector<ValueId> out;
  for (const std::string& name : block.texts("outputs")) out.push_back(inner.tensor(name));
  return out;
}

std::vector<Value> Scope::branch(const PbMessage& m, Operation& op) {
  const auto blocks = m.messages("blocks");
  if (blocks.size() != 2) throw bad_input("a cond of {} blocks", blocks.size());
  const Captured read = capture(blocks);
  const auto body = [&](const PbMessage& block) {
    return [this, &block, &read](GraphBuilder& graph, const std::vector<ValueId>& v) {
      return inside(graph, block, read, v);
    };
  };
  return values_of(
      g, write_if(g, op.name, op.value("pred"), read.values, body(blocks[0]), body(blocks[1])));
}

std::vector<Value> Scope::loop(const PbMessage& m, Operation& op) {
  const auto blocks = m.messages("blocks");
  if (blocks.size() != 2) throw bad_input("a while_loop of {} blocks", blocks.size());
  const PbMessage &test = blocks[0], &body = blocks[1];
  std::vector<ValueId> values = op.values("loop_vars");
  const std::size_t count = values.size();
  const auto inputs = body.messages("inputs");
  const auto outputs = body.texts("outputs");
  if (inputs.size() != count || outputs.size() != count)
    throw bad_input("a while_loop over {} values, of which its body reads {} and gives {}", count,
                    inputs.size(), outputs.size());
  std::vector<bool> fixed;
  for (std::size_t i = 0; i < count; ++i) fixed.push_back(outputs[i] == inputs[i].text("name"));
  const Captured read = capture(blocks);
  values.insert(values.end(), read.values.begin(), read.values.end());
  fixed.resize(values.size(), true);
  const auto condition = [&](GraphBuilder& graph, const std::vector<ValueId>& v) {
    return inside(graph, test, read, v);
  };
  const auto step = [&](GraphBuilder& graph, const std::vector<ValueId>& v) {
    std::vector<ValueId> next = inside(graph, body, read, v);
    next.insert(next.end(), v.begin() + static_cast<std::ptrdiff_t>(count), v.end());
    return next;
  };
  std::vector<ValueId> out = write_while(g, op.name, values, fixed, condition, step);
  out.resize(count);
  return values_of(g, out);
}

std::optional<std::vector<Value>> Scope::special(const PbMessage& m, Operation& op) {
  if (op.type == "cond") return branch(m, op);
  if (op.type == "while_loop") return loop(m, op);
  if (op.type == "read_state" || op.type == "write_state") {
    const Value* state = op.find("input");
    if (state == nullptr || state->state.empty()) throw bad_input("{} of no state", op.type);
    if (op.type == "read_state") return values_of(g, {states_.at(state->state)});
    states_.at(state->state) = op.value("data");
    return std::vector<Value>{};
  }
  if (op.type == "classify") {
    std::vector<Value> out(1);
    out[0].label = true;
    out.push_back(std::move(values_of(g, {op.value("probabilities")})[0]));
    return out;
  }
  if (m.count("blocks") != 0) throw bad_input("{} with blocks is not supported", op.type);
  return std::nullopt;
}

}  // namespace etalon::coreml
