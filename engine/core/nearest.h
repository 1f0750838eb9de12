// What somebody who mistyped a name meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace etalon {

// The fewest letters put in, taken out, replaced or changed with their neighbour that make `b` of
// `a`.
std::size_t edits_between(std::string_view a, std::string_view b);

// The nearest of `names`: one edit away, or two where the word has five letters or more; empty
// where none is so near.
template <class Names>
std::string nearest_name(std::string_view word, const Names& names) {
  std::string best;
  std::size_t least = word.size() < 5 ? 2 : 3;
  for (const auto& name : names)
    if (const std::size_t edits = edits_between(word, name); edits < least)
      least = edits, best = std::string(name);
  return best;
}

// "; did you mean 'lenet'?", or `otherwise`.
template <class Names>
std::string did_you_mean(std::string_view word, const Names& names,
                         const std::string& otherwise = "") {
  const std::string nearest = nearest_name(word, names);
  return nearest.empty() ? otherwise : "; did you mean '" + nearest + "'?";
}

}  // namespace etalon
