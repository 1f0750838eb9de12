// A tree of sums that joins random pairs until one is left.
#pragma once

#include <utility>
#include <vector>

#include "engine/numerics/sum_tree.h"

namespace etalon::test {

// pick(n): a number below n.
template <class Pick>
SumTree random_tree(std::int64_t terms, Pick pick) {
  std::vector<std::vector<std::int64_t>> parts;
  for (std::int64_t k = 0; k < terms; ++k) parts.push_back({k});
  const auto take = [&] {
    std::swap(parts[pick(parts.size())], parts.back());
    auto p = std::move(parts.back());
    parts.pop_back();
    return p;
  };
  while (parts.size() > 1) {
    auto a = take();
    const auto b = take();
    a.insert(a.end(), b.begin(), b.end());
    a.push_back(SumTree::kJoin);
    parts.push_back(std::move(a));
  }
  SumTree tree;
  tree.terms = terms;
  tree.steps = std::move(parts[0]);
  return tree;
}

}  // namespace etalon::test
