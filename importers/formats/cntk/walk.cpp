// The values of a file in the sequence in which they can be made. Files nest as deep as they like,
// so everything here keeps stacks of its own.
//
// Values that read each other are found as strongly connected components, after Tarjan: a component
// is complete when everything it reads from outside is, so that components come out in the sequence
// in which they can be made.
#include "importers/formats/cntk/walk.h"

#include <algorithm>
#include <set>

namespace etalon::cntk {
namespace {

struct Visit {
  std::vector<std::string> wants;
  std::size_t number = 0, low = 0;
  bool open = true;  // of no component yet
};
using Visits = std::map<std::string, Visit>;

class Components {
 public:
  explicit Components(const Values& values) : values_(values) {}

  void add(const std::string& root) {
    if (visits_.contains(root)) return;
    struct At {
      std::string name;
      std::size_t next = 0;
    };
    std::vector<At> stack{{root}};
    enter(root);
    while (!stack.empty()) {
      At& at = stack.back();
      Visit& v = visits_.at(at.name);
      if (at.next < v.wants.size()) {
        const std::string wanted = v.wants[at.next++];
        const auto seen = visits_.find(wanted);
        if (seen == visits_.end()) {
          enter(wanted);
          stack.push_back({wanted});
        } else if (seen->second.open) {
          v.low = std::min(v.low, seen->second.number);
        }
        continue;
      }
      if (v.low == v.number) close(at.name);
      const std::size_t low = v.low;
      stack.pop_back();
      if (!stack.empty()) {
        Visit& reader = visits_.at(stack.back().name);
        reader.low = std::min(reader.low, low);
      }
    }
  }

  std::vector<std::vector<std::string>> found;
  const Visits& visits() const { return visits_; }

 private:
  void enter(const std::string& name) {
    Visit v;
    v.wants = values_.wants(name);
    v.number = v.low = visits_.size();
    visits_.emplace(name, std::move(v));
    open_.push_back(name);
  }
  void close(const std::string& first) {
    std::vector<std::string> names;
    for (;;) {
      names.push_back(open_.back());
      visits_.at(names.back()).open = false;
      open_.pop_back();
      if (names.back() == first) break;
    }
    found.push_back(std::move(names));
  }

  const Values& values_;
  Visits visits_;
  std::vector<std::string> open_;
};

// The members of a component behind its delays, each after what it reads.
Circle circle_of(const Values& values, const std::vector<std::string>& names,
                 const Visits& visits) {
  Circle circle;
  const std::set<std::string> members(names.begin(), names.end());
  std::set<std::string> done, open;
  for (const std::string& name : names)
    if (const Function* f = values.function(name); f != nullptr && is_delay(*f)) {
      circle.delays.push_back(name);
      done.insert(name);
    }
  // By name, so that the graph does not hang on where the walk began.
  std::sort(circle.delays.begin(), circle.delays.end());
  std::vector<std::string> stack(members.begin(), members.end());
  while (!stack.empty()) {
    const std::string name = stack.back();
    bool ready = true;
    if (!done.contains(name)) {
      const bool entered = !open.insert(name).second;
      for (const std::string& w : visits.at(name).wants) {
        if (!members.contains(w) || done.contains(w)) continue;
        if (entered || open.contains(w))
          throw Unsupported(
              fmt::format("node {}: a circle without a delay in it", printable(name)));
        ready = false;
        stack.push_back(w);
      }
      if (ready) {
        done.insert(name);
        circle.steps.push_back(name);
      }
    }
    if (ready) stack.pop_back();
  }
  return circle;
}

}  // namespace

Samples make_all(Ops& ops, Values& values, const std::vector<std::string>& outputs) {
  Components components(values);
  for (const std::string& name : outputs) components.add(name);
  const Visits& visits = components.visits();
  std::map<std::string, std::size_t> component;
  for (std::size_t i = 0; i < components.found.size(); ++i)
    for (const std::string& name : components.found[i]) component[name] = i;
  std::set<std::string> crossing(outputs.begin(), outputs.end());
  for (const auto& [name, v] : visits)
    for (const std::string& w : v.wants)
      if (component.at(w) != component.at(name)) crossing.insert(w);

  Samples made;
  for (const auto& names : components.found) {
    const std::string& first = names[0];
    const auto& wants = visits.at(first).wants;
    if (names.size() == 1 && std::ranges::find(wants, first) == wants.end()) {
      std::vector<Sample> in;
      for (const std::string& w : wants) in.push_back(made.at(w));
      made[first] = values.make(ops, first, in);
      continue;
    }
    Circle circle = circle_of(values, names, visits);
    for (const std::string& name : names)
      if (crossing.contains(name)) circle.read_outside.push_back(name);
    std::sort(circle.read_outside.begin(), circle.read_outside.end());
    make_loop(ops, values, circle, made);
  }
  return made;
}

}  // namespace etalon::cntk
