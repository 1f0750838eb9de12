#include "importers/formats/einsum.h"

#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace {

// Writes "..." as letters of its own, one for each axis that an operand has beyond its named ones;
// of two operands the last axes belong together. False where the equation is none.
bool name_ellipsis(std::string (&terms)[3], const int (&ranks)[2]) {
  constexpr std::string_view kDots = "...";
  std::string spare;
  for (char c = 'A'; c <= 'Z'; ++c)
    if (terms[0].find(c) == std::string::npos && terms[1].find(c) == std::string::npos) spare += c;
  std::size_t axes[2] = {0, 0};
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (terms[i].find(kDots) == std::string::npos) continue;
    const std::size_t named = terms[i].size() - kDots.size();
    if (static_cast<std::size_t>(ranks[i]) < named) return false;
    axes[i] = static_cast<std::size_t>(ranks[i]) - named;
  }
  const std::size_t most = std::max(axes[0], axes[1]);
  if (most > spare.size()) return false;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    const std::size_t n = i == 2 ? most : axes[i], at = terms[i].find(kDots);
    if (at != std::string::npos)
      terms[i].replace(at, kDots.size(), spare.substr(most - n, n));
    else if (i == 2 && most > 0)
      return false;
    if (terms[i].find('.') != std::string::npos) return false;
  }
  return true;
}

}  // namespace

std::optional<ValueId> einsum_of_two(GraphBuilder& b, const std::string& name,
                                     std::string_view equation, ValueId x, ValueId y) {
  const ValueId in[2] = {x, y};
  std::string text;
  for (const char ch : equation)
    if (ch != ' ') text += ch;
  const std::size_t arrow = text.find("->"), comma = text.find(',');
  if (arrow == text.npos || comma == text.npos || comma > arrow ||
      text.find(',', comma + 1) != text.npos)
    return std::nullopt;
  std::string letters[3] = {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1),
                            text.substr(arrow + 2)};
  if (!name_ellipsis(letters, {b.rank(x), b.rank(y)})) return std::nullopt;
  const std::string& result = letters[2];
  std::map<char, std::int64_t> extents;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Ints dims = b.dims(in[i]);
    if (dims.size() != letters[i].size())
      throw bad_input("the equation does not fit operands of rank {} and {}", b.rank(x), b.rank(y));
    for (std::size_t a = 0; a < dims.size(); ++a) {
      if (letters[i].find(letters[i][a]) != a) return std::nullopt;
      // Extents of 1 that would broadcast are not read here.
      const auto [at, is_new] = extents.emplace(letters[i][a], dims[a]);
      if (!is_new && at->second != dims[a]) return std::nullopt;
    }
  }
  std::string both, summed, own[2];
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
    for (const char ch : letters[i]) {
      const bool shared = letters[1 - i].find(ch) != std::string::npos,
                 kept = result.find(ch) != std::string::npos;
      if (!shared && !kept) return std::nullopt;
      if (!shared)
        own[i] += ch;
      else if (i == 0)
        (kept ? both : summed) += ch;
    }
  if (result.size() != both.size() + own[0].size() + own[1].size()) return std::nullopt;
  for (const char ch : result)
    if (extents.find(ch) == extents.end()) return std::nullopt;
  int free = 0;
  for (const auto& [ch, n] : extents) free += n < 0 ? 1 : 0;
  // A reshape leaves one extent open; of more the network computes them as it runs.
  const bool computed = free > 1;
  const auto extent_at_run_time = [&](char ch) {
    if (extents[ch] >= 0) return b.constant(name + ".extent", ints_tensor({extents[ch]}));
    const std::size_t i = letters[0].find(ch) != std::string::npos ? 0 : 1;
    const auto axis = static_cast<std::int64_t>(letters[i].find(ch));
    return b.op("slice", name + ".extent", {b.op("shape", name + ".extents", {in[i]})},
                {{"starts", Ints{axis}}, {"ends", Ints{axis + 1}}, {"axes", Ints{0}}});
  };
  const auto reshaped = [&](const std::string& role, ValueId v,
                            const std::vector<std::string>& groups) {
    std::vector<ValueId> shape;
    for (const std::string& group : groups) {
      ValueId n = kAbsent;
      for (const char ch : group) {
        const ValueId next = extent_at_run_time(ch);
        n = n == kAbsent ? next : b.op("mul", role + ".count", {n, next});
      }
      shape.push_back(n == kAbsent ? b.constant(role + ".one", ints_tensor({1})) : n);
    }
    return b.op("reshape", role,
                {v, b.op("concat", role + ".shape", shape, {{"axis", std::int64_t{0}}})});
  };
  const auto product = [&](const std::string& group) {
    std::int64_t n = 1;
    for (const char ch : group) {
      if (extents[ch] < 0) return std::int64_t{-1};
      n = checked_mul(n, extents[ch]);
    }
    return n;
  };
  const auto arranged = [&](std::size_t i, const std::string& middle, const std::string& last) {
    Ints perm;
    for (const char ch : both + middle + last)
      perm.push_back(static_cast<std::int64_t>(letters[i].find(ch)));
    const std::string role = fmt::format("{}.operand{}", name, i);
    if (computed)
      return reshaped(role + ".rows", b.transpose(role, in[i], perm), {both, middle, last});
    return b.reshape(role + ".rows", b.transpose(role, in[i], perm),
                     {product(both), product(middle), product(last)});
  };
  const ValueId made =
      b.op("matmul", name + ".product", {arranged(0, own[0], summed), arranged(1, summed, own[1])});
  const std::string order = both + own[0] + own[1];
  Ints to, perm;
  std::vector<std::string> axes;
  for (const char ch : order) {
    to.push_back(extents[ch]);
    axes.emplace_back(1, ch);
  }
  for (const char ch : result) perm.push_back(static_cast<std::int64_t>(order.find(ch)));
  if (computed) return b.transpose(name, reshaped(name + ".axes", made, axes), perm);
  return b.transpose(name, b.reshape(name + ".axes", made, to), perm);
}

namespace {

std::optional<ValueId> einsum_of_one(GraphBuilder& b, const std::string& name,
                                     const std::string& letters, const std::string& result,
                                     ValueId x) {
  if (static_cast<std::size_t>(b.rank(x)) != letters.size())
    throw bad_input("the equation does not fit an operand of rank {}", b.rank(x));
  Ints summed, perm;
  std::string kept;
  for (std::size_t a = 0; a < letters.size(); ++a) {
    if (letters.find(letters[a]) != a) return std::nullopt;
    if (result.find(letters[a]) == std::string::npos)
      summed.push_back(static_cast<std::int64_t>(a));
    else
      kept += letters[a];
  }
  if (kept.size() != result.size()) return std::nullopt;
  if (!summed.empty())
    x = b.op("reduce_sum", name + ".sum", {x}, {{"axes", summed}, {"keepdims", false}});
  for (const char ch : result) perm.push_back(static_cast<std::int64_t>(kept.find(ch)));
  return b.transpose(name, x, perm);
}

}  // namespace

std::optional<ValueId> einsum_of(GraphBuilder& b, const std::string& name,
                                 std::string_view equation, const std::vector<ValueId>& operands) {
  if (operands.size() == 2) return einsum_of_two(b, name, equation, operands[0], operands[1]);
  std::string text;
  for (const char ch : equation)
    if (ch != ' ') text += ch;
  const std::size_t arrow = text.find("->");
  if (arrow == std::string::npos || text.find('.') != std::string::npos) return std::nullopt;
  const std::string result = text.substr(arrow + 2);
  std::vector<std::string> terms;
  for (std::string_view rest = std::string_view(text).substr(0, arrow);;) {
    const std::size_t comma = rest.find(',');
    terms.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (terms.size() != operands.size())
    throw bad_input("an equation of {} terms for {} operands", terms.size(), operands.size());
  if (operands.size() == 1) return einsum_of_one(b, name, terms[0], result, operands[0]);
  ValueId left = operands[0];
  std::string letters = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    std::string later = result, next;
    for (std::size_t k = i + 1; k < terms.size(); ++k) later += terms[k];
    for (const char ch : letters + terms[i])
      if (later.find(ch) != std::string::npos && next.find(ch) == std::string::npos) next += ch;
    if (i + 1 == terms.size()) next = result;
    const auto y =
        einsum_of_two(b, name, letters + "," + terms[i] + "->" + next, left, operands[i]);
    if (!y) return std::nullopt;
    left = *y;
    letters = next;
  }
  return left;
}

}  // namespace etalon
