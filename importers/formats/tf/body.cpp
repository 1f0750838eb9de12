#include "importers/formats/tf/body.h"

#include <algorithm>
#include <optional>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon::tf {
namespace {

// The tensor itself behind what only passes it on.
std::string original(const Body& body, std::string text) {
  for (std::size_t steps = 0; steps < 64; ++steps) {
    const Reference r = reference(text);
    const auto at = body.by_name.find(r.node);
    if (at == body.by_name.end()) return text;
    const PbMessage& n = body.nodes[at->second];
    if (n.text("op") != "Identity" || n.count("input") < 1)
      return fmt::format("{}:{}", r.node, r.output);
    text = n.texts("input")[0];
  }
  return text;
}

}  // namespace

Reference reference(const std::string& text) {
  Reference r;
  r.control = !text.empty() && text[0] == '^';
  const std::string body = r.control ? text.substr(1) : text;
  const std::size_t first = body.find(':');
  r.node = body.substr(0, first);
  if (first == std::string::npos) return r;
  const std::size_t second = body.find(':', first + 1);
  const std::string number = body.substr((second == std::string::npos ? first : second) + 1);
  if (number.empty() || number.size() > 6 ||
      !std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; }))
    throw bad_input("'{}' names no output of a node", printable(text));
  r.output = std::stoul(number);
  if (second != std::string::npos) {
    r.name = body.substr(first + 1, second - first - 1);
    if (r.name == "indices" || r.name == "batch_mean") r.output += 1;
    if (r.name == "batch_variance") r.output += 2;
  }
  return r;
}

Body::Body(std::vector<PbMessage> list) : nodes(std::move(list)) {
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!by_name.emplace(nodes[i].text("name"), i).second)
      throw bad_input("node {}: two nodes have that name", printable(nodes[i].text("name")));
}

const std::vector<std::size_t>& Body::readers(const std::string& node) const {
  static const std::vector<std::size_t> kNone;
  if (readers_.empty())
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (const std::string& in : nodes[i].texts("input")) {
        const Reference r = reference(in);
        if (r.control) continue;
        auto& all = readers_[r.node];
        if (all.empty() || all.back() != i) all.push_back(i);
      }
  const auto at = readers_.find(node);
  return at == readers_.end() ? kNone : at->second;
}

const PbMessage& source_of(const Body& body, const std::string& text) {
  const auto at = body.by_name.find(reference(text).node);
  if (at == body.by_name.end()) throw bad_input("nothing makes the tensor {}", printable(text));
  return body.nodes[at->second];
}

std::string input_of(const PbMessage& n, std::size_t i) {
  const auto all = n.texts("input");
  if (i >= all.size()) throw bad_input("node {} lacks input {}", printable(n.text("name")), i);
  return all[i];
}

std::map<std::string, std::set<std::size_t>> sides_of(const Body& body, const std::string& from,
                                                      std::size_t& seen, const std::string& only) {
  std::map<std::string, std::set<std::size_t>> sides;
  std::set<std::string> done;
  std::vector<std::string> open{from};
  while (!open.empty()) {
    const Reference r = reference(open.back());
    open.pop_back();
    const auto at = body.by_name.find(r.node);
    if (at == body.by_name.end()) continue;
    const PbMessage& n = body.nodes[at->second];
    const auto inputs = n.texts("input");
    if (n.text("op") == "Switch" && inputs.size() >= 2 && !r.control) {
      const std::string predicate = original(body, inputs[1]);
      sides[predicate].insert(r.output);
      if (predicate == only) continue;
    }
    if (!done.insert(r.node).second) continue;
    ++seen;
    if (n.text("op") == "NextIteration") continue;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return sides;
}

Branches branches_of(const Body& body, std::size_t merge, std::size_t& seen) {
  const PbMessage& n = body.nodes[merge];
  const auto inputs = n.texts("input");
  const ErrorScope where(fmt::format("node {}", printable(n.text("name"))));
  if (inputs.size() != 2) throw bad_input("a Merge of {} inputs is not supported", inputs.size());
  const auto first = sides_of(body, inputs[0], seen), second = sides_of(body, inputs[1], seen);
  std::optional<Branches> found;
  const auto tell = [&](const std::string& predicate, const std::set<std::size_t>& sides,
                        const std::set<std::size_t>& others) {
    if (sides.size() != 1 || others.size() != 1 || sides == others) return;
    if (found) throw bad_input("a branch on data whose predicate cannot be told");
    const bool first_is_yes = *sides.begin() == 1;
    found = Branches{predicate, inputs[first_is_yes ? 0 : 1], inputs[first_is_yes ? 1 : 0]};
  };
  for (const auto& [predicate, sides] : first)
    if (const auto other = second.find(predicate); other != second.end())
      tell(predicate, sides, other->second);
  // Both sides of a predicate lead to it where another branch of the same one stands before.
  constexpr std::size_t kMostPredicates = 256, kMostSeen = 1 << 20;
  if (!found && first.size() <= kMostPredicates)
    for (const auto& [predicate, sides] : first)
      if (second.contains(predicate)) {
        tell(predicate, sides_of(body, inputs[0], seen, predicate)[predicate],
             sides_of(body, inputs[1], seen, predicate)[predicate]);
        if (seen > kMostSeen) throw bad_input("a Merge behind too many branches");
      }
  if (!found) throw bad_input("Merge outside a loop whose branches have no common predicate");
  return *std::move(found);
}

}  // namespace etalon::tf
