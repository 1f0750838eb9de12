// A graph or a function's body as a list of nodes that name each other.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "importers/containers/pbtree.h"

namespace etalon::tf {

struct Reference {
  std::string node, name;  // of the output, in a function
  std::size_t output = 0;
  bool control = false;
};

// "node", "node:1" in a graph; "node:output_name:1" in a function; "^node" orders only.
Reference reference(const std::string& text);

// One graph or function body: nodes by name.
struct Body {
  std::vector<PbMessage> nodes;
  std::unordered_map<std::string, std::size_t> by_name;

  explicit Body(std::vector<PbMessage> list);
  // The nodes that read any output of one; those that it orders alone are not among them.
  const std::vector<std::size_t>& readers(const std::string& node) const;

 private:
  mutable std::unordered_map<std::string, std::vector<std::size_t>> readers_;  // on first demand
};

// The node that makes a tensor, and input i of a node; bad-input Errors where there is none.
const PbMessage& source_of(const Body& body, const std::string& text);
std::string input_of(const PbMessage& n, std::size_t i);

// Which sides of which predicates lead to a tensor; controls count, as constants of a branch hang
// on nothing else. With `only` it is what leads to it behind the branches of that predicate:
// another branch of the same one may stand before them. Adds how many nodes were looked at to
// `seen`.
std::map<std::string, std::set<std::size_t>> sides_of(const Body& body, const std::string& from,
                                                      std::size_t& seen,
                                                      const std::string& only = "");

// What a Merge takes: one input where the predicate holds, the other where it does not.
struct Branches {
  std::string predicate, yes, no;
};
// Of node `merge`: the predicate is that whose Switches let one side of each branch in. A bad-input
// Error where there is none or more than one. Adds how many nodes were looked at to `seen`.
Branches branches_of(const Body& body, std::size_t merge, std::size_t& seen);

}  // namespace etalon::tf
