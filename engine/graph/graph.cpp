#include "engine/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "engine/graph/control_flow.h"

namespace etalon {
namespace {

// Values of the surrounding graph that the subgraphs of a node read count as its inputs.
void collect_outer_reads(const Graph& inner, const Graph& outer, std::vector<ValueId>& reads) {
  for (const std::string& name : captured_names(inner)) {
    const ValueId o = outer.find_value(name);
    if (o != kAbsent) reads.push_back(o);
  }
}

}  // namespace

ValueId Graph::add_value(std::string value) {
  const auto id = static_cast<ValueId>(value_names.size());
  MemoryBudget::charge(128 + 2 * value.size());
  const auto [at, fresh] = index_.emplace(value, id);
  if (!fresh)
    throw bad_input("the value '{}' is made twice; each name may be assigned once", value);
  value_names.push_back(std::move(value));
  return id;
}

ValueId Graph::find_value(std::string_view value) const {
  const auto at = index_.find(value);
  return at == index_.end() ? kAbsent : at->second;
}

const std::string& Graph::value_name(ValueId id) const {
  static const std::string kNone;
  return id == kAbsent ? kNone : value_names[static_cast<std::size_t>(id)];
}

void Graph::finish() {
  constexpr int kUnmade = -1, kGiven = -2;
  std::vector<int> maker(value_names.size(), kUnmade);
  const auto make = [&](ValueId v, int by) {
    int& m = maker[static_cast<std::size_t>(v)];
    if (m != kUnmade) throw bad_input("the value '{}' is made twice", value_name(v));
    m = by;
  };
  for (const auto& [v, tensor] : initializers) make(v, kGiven);
  for (const Declaration& d : inputs) make(d.value, kGiven);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const ValueId v : nodes[i].outputs)
      if (v != kAbsent) make(v, static_cast<int>(i));

  // Kahn's algorithm, first come first served, so that a sorted graph keeps its sequence.
  std::vector<int> waits(nodes.size(), 0);
  std::vector<std::vector<int>> users(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<ValueId> reads = nodes[i].inputs;
    for (const auto& g : nodes[i].subgraphs) collect_outer_reads(*g, *this, reads);
    for (const ValueId v : reads) {
      if (v == kAbsent) continue;
      const int m = maker[static_cast<std::size_t>(v)];
      // In a subgraph a value nobody makes here belongs to the graph around it.
      if (m < 0) continue;
      ++waits[i];
      users[static_cast<std::size_t>(m)].push_back(static_cast<int>(i));
    }
  }
  std::deque<int> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] == 0) ready.push_back(static_cast<int>(i));
  std::vector<Node> sorted;
  sorted.reserve(nodes.size());
  std::vector<bool> done(nodes.size(), false);
  while (!ready.empty()) {
    const auto i = static_cast<std::size_t>(ready.front());
    ready.pop_front();
    done[i] = true;
    for (const int u : users[i])
      if (--waits[static_cast<std::size_t>(u)] == 0) ready.push_back(u);
    sorted.push_back(std::move(nodes[i]));  // those that wait keep their names
  }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!done[i])
      throw bad_input("node {} waits for its own result: the graph has a cycle", nodes[i].name);
  nodes = std::move(sorted);
}

void check_input(const Graph& graph, const Declaration& declared, const TensorType& got) {
  const std::string& input = graph.value_name(declared.value);
  if (got.dtype != declared.dtype)
    throw bad_input("input {}: expected {}, got {}; convert the array", input, name(declared.dtype),
                    to_string(got));
  if (!declared.ranked) return;
  bool fits = got.shape.rank() == static_cast<int>(declared.dims.size());
  for (int i = 0; fits && i < got.shape.rank(); ++i) {
    const std::int64_t want = declared.dims[static_cast<std::size_t>(i)];
    fits = want < 0 || want == got.shape[i];
  }
  if (fits) return;
  std::string want;
  for (std::size_t i = 0; i < declared.dims.size(); ++i) {
    const std::string& symbol = declared.dim_names[i];
    want += fmt::format("{}{}", i ? "," : "",
                        declared.dims[i] >= 0 ? fmt::to_string(declared.dims[i])
                        : symbol.empty()      ? "?"
                                              : symbol);
  }
  throw bad_input("input {}: expected shape [{}], got {}; reshape the array", input, want,
                  to_string(got.shape));
}

}  // namespace etalon
