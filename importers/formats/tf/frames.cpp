// The loops of TensorFlow 1: Enter brings a value into the frame, Merge takes it or what
// NextIteration brings back, Switch lets it out to Exit where the LoopCond fails.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/tf/importer.h"

namespace etalon::tf {

struct Turn {
  std::size_t enter, merge, next, take;  // nodes; `take` is the Switch
  std::vector<std::size_t> exits;
};
struct Frame {
  std::vector<std::size_t> entered;
  std::vector<Turn> turns;
  std::string goes_on;  // what LoopCond reads
};

namespace {

Frame frame_of(const Body& body, const std::string& name) {
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

}  // namespace

// Makes every Exit of the frame that node `exit` leaves.
void Importer::frame(const Body& body, Values& made, std::size_t exit, const std::string& prefix,
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
Values Importer::turned(const Body& body, const Frame& f, const Values& inside,
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
std::vector<ValueId> Importer::bounded_frame(const Body& body, const Frame& f, const Values& inside,
                                             const std::vector<ValueId>& values,
                                             const std::string& prefix, int depth) {
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
std::vector<ValueId> Importer::running(const Body& body, const Frame& f, const Values& inside,
                                       const std::vector<ValueId>& values,
                                       const std::string& prefix, int depth) {
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
      std::vector<ValueId> out = &g == &g_
                                     ? evaluate(body, turn, what, prefix, depth + 1)
                                     : Importer(g, lib_).evaluate(body, turn, what, "", depth + 1);
      for (std::size_t k = 0; !condition && k < stays.size(); ++k)
        out.push_back(in[f.turns.size() + k]);
      return out;
    };
  };
  const std::string name = prefix + body.nodes[f.turns.at(0).merge].text("name");
  std::vector<ValueId> out = write_while(g_, name, start, fixed, evaluated(true), evaluated(false));
  out.resize(values.size());
  return out;
}

}  // namespace etalon::tf
