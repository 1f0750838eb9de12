// While: iterations written one behind the other, or a loop of the graph.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/tf/importer.h"

namespace etalon::tf {

bool Importer::has_lists(const std::vector<ValueId>& values) const {
  return std::ranges::any_of(values, [&](ValueId v) { return ops_.is_list(v); });
}

// A loop on data over lists of known length: its iterations are written out until one leaves a
// list, which the network itself would not survive, and each counts while all conditions up to it
// have held. `step` gives the values of an iteration behind those before it, `condition` whether
// it is run.
std::vector<ValueId> Importer::bounded(const std::string& name, std::vector<ValueId> now,
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
std::vector<bool> Importer::passed(const std::string& function, std::size_t count) const {
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
std::vector<ValueId> Importer::loop(const OpNode& o, const std::string& prefix, int depth) {
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
                         called(o.text("cond"), name, depth), called(o.text("body"), name, depth));
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

}  // namespace etalon::tf
