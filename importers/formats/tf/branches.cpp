// Branches: If, whose sides are functions, and the Merge of TensorFlow 1.
#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/tf/importer.h"

namespace etalon::tf {

// A branch on data of TensorFlow 1: the predicate first; where it is known, the side that it
// takes, else both, of which one is chosen. nullopt while something is wanted.
std::optional<ValueId> Importer::merged(const Body& body, Values& made,
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

std::vector<ValueId> Importer::branch(const OpNode& o, const std::string& prefix, int depth) {
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

}  // namespace etalon::tf
