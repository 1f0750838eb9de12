// What both of CNTK's formats do with a file they have read.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "importers/containers/bytes.h"
#include "importers/formats/cntk/ops.h"

namespace etalon::cntk {

// Makes `output` and what it needs, depth first, on a stack of its own: a file may nest as deep as
// it likes. wants(name) lists what has to be made before; make(name) gives the value.
template <class Wants, class Make>
void make_all(const std::string& output, std::map<std::string, Sample>& values, const Wants& wants,
              const Make& make) {
  std::vector<std::string> stack{output};
  std::set<std::string> open;
  while (!stack.empty()) {
    const std::string name = stack.back();
    if (values.contains(name)) {
      stack.pop_back();
      continue;
    }
    bool ready = true;
    for (const std::string& w : wants(name)) {
      if (values.contains(w)) continue;
      if ((ready && !open.insert(name).second) || open.contains(w))
        throw Unsupported(
            fmt::format("node {}: a loop over a sequence (recurrence)", printable(name)));
      ready = false;
      stack.push_back(w);
    }
    if (!ready) continue;
    values[name] = make(name);
    open.erase(name);
    stack.pop_back();
  }
}

// The file as a graph; as its weights alone where it holds what has no meaning here.
template <class File>
Model graph_or_weights(File& file, const std::string& path) {
  try {
    return file.graph(path);
  } catch (const Unsupported& why) {
    std::string text = why.what();
    if (text.starts_with(path + ": ")) text.erase(0, path.size() + 2);
    return file.weights(path, text);
  }
}

}  // namespace etalon::cntk
