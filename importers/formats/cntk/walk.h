// What both of CNTK's formats do with a file they have read: its values are made one behind the
// other, and those that read themselves, through delays, become a loop over the sequence.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "importers/containers/bytes.h"
#include "importers/formats/cntk/ops.h"

namespace etalon::cntk {

using Samples = std::map<std::string, Sample>;

// A file's values by name.
class Values {
 public:
  virtual ~Values() = default;
  virtual std::vector<std::string> wants(const std::string& name) const = 0;
  // The function that makes it; nullptr for what is none, or is called by another name.
  virtual const Function* function(const std::string& name) const = 0;
  // The value from those that it wants, in any graph.
  virtual Sample make(Ops& ops, const std::string& name, const std::vector<Sample>& in) = 0;
};

// Makes `outputs` and what they need (walk.cpp).
Samples make_all(Ops& ops, Values& values, const std::vector<std::string>& outputs);

// Values that read each other in a circle, in the sequence in which one step makes them, behind
// what its delays hold.
struct Circle {
  std::vector<std::string> delays, steps;
  std::vector<std::string> read_outside;  // those that others read
};
// Adds those that others read (recurrence.cpp).
void make_loop(Ops& ops, Values& values, const Circle& circle, Samples& made);

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
