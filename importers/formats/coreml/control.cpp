// branch and loop. Their networks stand in the scope of the one around them: a layer that writes a
// name which is there already (copy) gives it another value, which is seen behind the branch or
// loop; a name that both branches write is seen, too. A condition is true above 1e-6, as the
// specification has it. loopBreak and loopContinue are refused by name.
#include "importers/formats/control.h"

#include <algorithm>
#include <set>

#include "importers/formats/coreml/translator.h"

namespace etalon::coreml {
namespace {

// What the layers of a network read and write, those of networks inside it included.
void collect(const PbMessage& net, std::set<std::string>& read, std::set<std::string>& written) {
  for (const PbMessage& l : net.messages("layers")) {
    for (const std::string& name : l.texts("input")) read.insert(name);
    for (const std::string& name : l.texts("output")) written.insert(name);
    const PbMessage branch = l.message("branch"), loop = l.message("loop");
    if (l.has("branch"))
      for (const char* part : {"ifBranch", "elseBranch"})
        collect(branch.message(part), read, written);
    if (l.has("loop")) {
      for (const char* part : {"conditionNetwork", "bodyNetwork"})
        if (loop.has(part)) collect(loop.message(part), read, written);
      if (!loop.text("conditionVar").empty()) read.insert(loop.text("conditionVar"));
    }
  }
}

ValueId above_zero(GraphBuilder& g, const std::string& name, ValueId v) {
  const ValueId size = g.op("abs", name + "/size", {v});
  return g.reshape(
      name + "/holds",
      g.op("greater", name + "/above", {size, g.constant(name + "/least", scalar_f32(1e-6F))}), {});
}

}  // namespace

// A network in a body: the values named so are its arguments.
std::vector<ValueId> Translator::inside(GraphBuilder& graph, const PbMessage& net,
                                        const std::vector<std::string>& names,
                                        const std::vector<ValueId>& arguments,
                                        const std::vector<std::string>& results) {
  Translator t(graph);
  for (std::size_t i = 0; i < names.size(); ++i) t.values_[names[i]] = arguments[i];
  for (const PbMessage& l : net.messages("layers")) t.layer(l);
  std::vector<ValueId> out;
  for (const std::string& name : results) out.push_back(t.value(name));
  return out;
}

void Translator::branch(const PbMessage& l) {
  const PbMessage p = l.message("branch"), yes = p.message("ifBranch"),
                  no = p.message("elseBranch");
  const auto in = l.texts("input");
  if (in.size() != 1 || !p.has("ifBranch")) throw bad_input("a branch of {} inputs", in.size());
  std::set<std::string> read, first, second;
  collect(yes, read, first);
  collect(no, read, second);
  std::vector<std::string> names, results;
  std::vector<ValueId> arguments;
  std::set<std::string> written = first;
  written.insert(second.begin(), second.end());
  for (const std::string& name : written)
    if (values_.contains(name) || (first.contains(name) && second.contains(name)))
      results.push_back(name);
  read.insert(results.begin(), results.end());
  for (const std::string& name : read)
    if (const auto at = values_.find(name); at != values_.end()) {
      names.push_back(name);
      arguments.push_back(at->second);
    }
  if (results.empty()) throw bad_input("a branch whose results nobody sees");
  const auto body = [&](const PbMessage& net) {
    return [&](GraphBuilder& graph, const std::vector<ValueId>& v) {
      return inside(graph, net, names, v, results);
    };
  };
  const std::string name = name_;
  const auto out =
      write_if(g, name, above_zero(g, name, value(in[0])), arguments, body(yes), body(no));
  for (std::size_t i = 0; i < results.size(); ++i) values_[results[i]] = out[i];
}

void Translator::loop(const PbMessage& l) {
  const PbMessage p = l.message("loop"), test = p.message("conditionNetwork"),
                  body = p.message("bodyNetwork");
  const auto in = l.texts("input");
  const std::string name = name_, variable = p.text("conditionVar");
  const std::int64_t most = p.integer("maxLoopIterations");
  if (in.size() > 1 || !p.has("bodyNetwork") || most < 0)
    throw bad_input("a loop of {} inputs and {} iterations", in.size(), most);
  const bool counted = !in.empty() || most > 0, tested = !variable.empty();
  if (!counted && !tested) throw bad_input("a loop without an end");
  if (!tested && test.count("layers") != 0) throw bad_input("a loop whose condition has no name");
  std::set<std::string> read, written, tests;
  collect(body, read, written);
  collect(test, read, tests);
  for (const std::string& t : tests)
    if (t != variable && (written.contains(t) || values_.contains(t)))
      throw bad_input("a loop whose condition changes {} is not supported", printable(t));
  // First the count so far and the most there are, then the values that stand before the loop.
  std::vector<std::string> names;
  std::vector<ValueId> start{
      g.constant(name + "/count", Tensor::of<std::int64_t>({}, {0})),
      in.empty()
          ? g.constant(name + "/most", Tensor::of<std::int64_t>({}, {most}))
          : g.reshape(name + "/most",
                      g.op("cast", name + "/limit", {value(in[0])}, {{"to", std::string("i64")}}),
                      {})};
  std::vector<bool> fixed{false, true};
  std::set<std::string> seen = read;
  seen.insert(written.begin(), written.end());
  for (const std::string& n : seen)
    if (const auto at = values_.find(n); at != values_.end() && n != variable) {
      names.push_back(n);
      start.push_back(at->second);
      fixed.push_back(!written.contains(n));
    }
  const auto rest = [](const std::vector<ValueId>& v) {
    return std::vector<ValueId>(v.begin() + 2, v.end());
  };
  const auto condition = [&](GraphBuilder& graph, const std::vector<ValueId>& v) {
    ValueId goes_on = kAbsent;
    if (tested)
      goes_on = above_zero(graph, name, inside(graph, test, names, rest(v), {variable})[0]);
    if (counted) {
      const ValueId few = graph.op("less", name + "/few", {v[0], v[1]});
      goes_on = goes_on == kAbsent ? few : graph.op("and", name + "/both", {goes_on, few});
    }
    return std::vector{goes_on};
  };
  const auto step = [&](GraphBuilder& graph, const std::vector<ValueId>& v) {
    std::vector<ValueId> next = inside(graph, body, names, rest(v), names);
    const ValueId one = graph.constant(name + "/one", Tensor::of<std::int64_t>({}, {1}));
    next.insert(next.begin(), {graph.op("add", name + "/next", {v[0], one}), v[1]});
    return next;
  };
  const auto out = write_while(g, name, start, fixed, condition, step);
  for (std::size_t i = 0; i < names.size(); ++i) values_[names[i]] = out[2 + i];
}

}  // namespace etalon::coreml
