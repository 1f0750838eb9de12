#include "engine/numerics/sum_tree.h"

#include <charconv>

#include "engine/core/error.h"
#include "engine/core/hash.h"

namespace etalon {

SumTree SumTree::parse(std::string_view text) {
  SumTree tree;
  std::vector<bool> seen;
  std::int64_t depth = 0;
  std::size_t at = 0;
  while (true) {
    at = text.find_first_not_of(" \t\r\n", at);
    if (at == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (word == "+") {
      if (depth < 2)
        throw bad_input("summation tree, byte {}: '+' needs two sums before it, {} there", at,
                        depth);
      --depth;
      tree.steps.push_back(kJoin);
    } else {
      std::int64_t k = -1;
      const auto r = std::from_chars(word.begin(), word.end(), k);
      if (r.ec != std::errc{} || r.ptr != word.end() || k < 0)
        throw bad_input("summation tree, byte {}: expected an index or '+', got '{}'", at, word);
      // The indices are 0..K-1, so none can exceed the number of bytes of the text.
      if (static_cast<std::size_t>(k) >= text.size())
        throw bad_input("summation tree, byte {}: index {} leaves gaps below it", at, k);
      if (static_cast<std::size_t>(k) >= seen.size()) seen.resize(static_cast<std::size_t>(k) + 1);
      if (seen[static_cast<std::size_t>(k)])
        throw bad_input("summation tree, byte {}: index {} occurs twice", at, k);
      seen[static_cast<std::size_t>(k)] = true;
      tree.steps.push_back(k);
      ++tree.terms;
      ++depth;
    }
    at = end;
  }
  if (depth != 1)
    throw bad_input("summation tree: {} sums are left at the end, one is wanted", depth);
  for (std::size_t k = 0; k < seen.size(); ++k)
    if (!seen[k]) throw bad_input("summation tree: index {} of {} is missing", k, seen.size());
  return tree;
}

std::string SumTree::text() const {
  std::string out;
  for (const std::int64_t s : steps) {
    if (!out.empty()) out += ' ';
    out += s == kJoin ? std::string("+") : std::to_string(s);
  }
  return out;
}

std::string SumTree::hash() const {
  const std::string t = text();
  return to_string(hash_bytes(std::as_bytes(std::span(t.data(), t.size()))));
}

}  // namespace etalon
