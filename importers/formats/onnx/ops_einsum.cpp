// Einsum: each label is an axis; an operand becomes a diagonal, is turned so that its labels stand
// in one sequence, and labels that the result lacks are summed. Two operands that share a summed
// label meet in a matmul, others in a product that broadcasts, which is then summed.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/onnx/body.h"

namespace etalon::onnx_format {
namespace {

// Labels are letters; axes under "..." get labels of their own, the last one 1, then 2, ...
using Labels = std::vector<char>;

struct Operand {
  ValueId value;
  Labels labels;
};

Labels parse(std::string_view term, int rank) {
  std::string text;
  for (const char c : term)
    if (c != ' ') text += c;
  const std::size_t dots = text.find("...");
  const std::size_t letters = text.size() - (dots == std::string::npos ? 0 : 3);
  Labels labels;
  for (std::size_t i = 0; i < text.size();) {
    if (i == dots) {
      const int hidden = rank - static_cast<int>(letters);
      if (hidden < 0 || hidden > kMaxRank)
        throw bad_input("term '{}' does not fit an operand of rank {}", printable(text), rank);
      for (int k = hidden; k > 0; --k) labels.push_back(static_cast<char>(k));
      i += 3;
      continue;
    }
    const char c = text[i++];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      throw bad_input("term '{}' holds '{}', which is no label", printable(text),
                      printable(std::string(1, c)));
    labels.push_back(c);
  }
  return labels;
}

bool has(const Labels& labels, char c) { return std::ranges::find(labels, c) != labels.end(); }
std::int64_t place(const Labels& labels, char c) {
  return std::ranges::find(labels, c) - labels.begin();
}

// A label that stands twice keeps the elements where its two indices agree: a gather of the flat
// pair of axes at i * (n + 1).
void take_diagonals(Body& b, Operand& o) {
  for (std::size_t i = 0; i < o.labels.size(); ++i) {
    const auto again = std::find(o.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                 o.labels.end(), o.labels[i]);
    if (again == o.labels.end()) continue;
    // Both axes last, flattened.
    const auto first = static_cast<std::int64_t>(i), second = again - o.labels.begin();
    Ints perm;
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(o.labels.size()); ++k)
      if (k != first && k != second) perm.push_back(k);
    const auto kept = static_cast<std::int64_t>(perm.size());
    perm.insert(perm.end(), {first, second});
    const ValueId turned = b.transpose(o.value, perm);
    const ValueId n = b.extents(turned, kept, kept + 1);
    const ValueId flat = b.op(
        "reshape", {turned, kept == 0 ? b.ints({-1})
                                      : b.concat({b.extents(turned, 0, kept), b.ints({-1})}, 0)});
    const ValueId at = b.mul(b.range(n), b.add(n, b.ints({1})));
    o.value = b.op("gather", {flat, at}, {{"axis", kept}});
    const char c = o.labels[i];
    o.labels.erase(again);
    std::erase(o.labels, c);
    o.labels.push_back(c);
    i = static_cast<std::size_t>(-1);  // from the start: positions moved
  }
}

// The operand with axes for exactly these labels, in this sequence; those it lacks have extent 1.
ValueId aligned(Body& b, const Operand& o, const Labels& wanted) {
  Ints perm, missing;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (has(o.labels, wanted[k]))
      perm.push_back(place(o.labels, wanted[k]));
    else
      missing.push_back(static_cast<std::int64_t>(k));
  }
  ValueId v = perm.size() > 1 ? b.transpose(o.value, perm) : o.value;
  return missing.empty() ? v : b.unsqueeze(v, missing);
}

// Sums over the labels that nothing further needs.
void sum_out(Body& b, Operand& o, const Labels& needed) {
  Ints axes;
  Labels left;
  for (std::size_t k = 0; k < o.labels.size(); ++k) {
    if (has(needed, o.labels[k]))
      left.push_back(o.labels[k]);
    else
      axes.push_back(static_cast<std::int64_t>(k));
  }
  if (axes.empty()) return;
  o.value = b.reduce("reduce_sum", o.value, axes, false);
  o.labels = left;
}

// The product of extents [from, to) of x, as one i64.
ValueId product(Body& b, ValueId x, std::int64_t from, std::int64_t to) {
  ValueId all = b.ints({1});
  for (std::int64_t k = from; k < to; ++k) all = b.mul(all, b.extents(x, k, k + 1));
  return all;
}

// [batch, rows, sum] times [batch, sum, columns]: both operands have every batch and sum label.
Operand contract(Body& b, const Operand& x, const Operand& y, const Labels& needed) {
  Labels batch, rows, columns, sum;
  for (const char c : x.labels) {
    if (!has(y.labels, c))
      rows.push_back(c);
    else if (has(needed, c))
      batch.push_back(c);
    else
      sum.push_back(c);
  }
  for (const char c : y.labels)
    if (!has(x.labels, c)) columns.push_back(c);
  const auto join = [](const std::vector<Labels>& parts) {
    Labels all;
    for (const Labels& p : parts) all.insert(all.end(), p.begin(), p.end());
    return all;
  };
  const auto flat = [&](const Operand& o, const Labels& middle, const Labels& last) {
    const ValueId turned = aligned(b, o, join({batch, middle, last}));
    const auto nb = static_cast<std::int64_t>(batch.size()),
               nm = static_cast<std::int64_t>(middle.size());
    std::vector<ValueId> shape;
    if (nb > 0) shape.push_back(b.extents(turned, 0, nb));
    shape.push_back(product(b, turned, nb, nb + nm));
    shape.push_back(product(b, turned, nb + nm, nb + nm + static_cast<std::int64_t>(last.size())));
    return std::pair(turned, b.op("reshape", {turned, b.concat(shape, 0)}));
  };
  const auto [tx, fx] = flat(x, rows, sum);
  const auto [ty, fy] = flat(y, sum, columns);
  const ValueId z = b.op("matmul", {fx, fy});
  const auto nb = static_cast<std::int64_t>(batch.size());
  std::vector<ValueId> shape{b.ints({})};
  shape.push_back(b.extents(tx, 0, nb + static_cast<std::int64_t>(rows.size())));
  const auto from = nb + static_cast<std::int64_t>(sum.size());
  shape.push_back(b.extents(ty, from, from + static_cast<std::int64_t>(columns.size())));
  return {b.op("reshape", {z, b.concat(shape, 0)}), join({batch, rows, columns})};
}

void einsum(OnnxNode& n) {
  Body b(n);
  const std::string equation = n.text("equation", "");
  const std::size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  std::vector<Operand> operands;
  std::size_t from = 0;
  for (std::size_t i = 0; i < n.input_count(); ++i) {
    if (from > left.size())
      throw bad_input("equation '{}' has fewer terms than there are operands", printable(equation));
    const std::size_t comma = std::min(left.find(',', from), left.size());
    const int rank = n.rank_of(i, "which axes the labels of the equation name");
    Operand o{n.required(i), parse(std::string_view(left).substr(from, comma - from), rank)};
    if (static_cast<int>(o.labels.size()) != rank)
      throw bad_input("term {} of '{}' names {} axes and its operand has {}", i,
                      printable(equation), o.labels.size(), rank);
    take_diagonals(b, o);
    operands.push_back(std::move(o));
    from = comma + 1;
  }
  if (from <= left.size())
    throw bad_input("equation '{}' has more terms than there are operands", printable(equation));
  // Hidden labels first, the largest in front; then letters: those given, or all that stand once.
  Labels result;
  int hidden = 0;
  std::vector<int> count(128, 0);
  for (const Operand& o : operands)
    for (const char c : o.labels) {
      if (c <= kMaxRank) hidden = std::max<int>(hidden, c);
      ++count[static_cast<std::size_t>(c)];
    }
  if (arrow == std::string::npos) {
    for (int k = hidden; k > 0; --k) result.push_back(static_cast<char>(k));
    for (char c = 'A'; c <= 'z'; ++c)
      if (std::ranges::count(left, c) == 1 && count[static_cast<std::size_t>(c)] == 1)
        result.push_back(c);
  } else {
    std::string right = equation.substr(arrow + 2);
    const auto letters = std::ranges::count_if(right, [](char c) { return c != ' ' && c != '.'; });
    result = parse(right, static_cast<int>(letters) + hidden);
    for (const char c : result)
      if (count[static_cast<std::size_t>(c)] == 0)
        throw bad_input("'{}' asks for a label that no term has", printable(equation));
  }
  while (operands.size() > 1) {
    const Operand x = operands[0], y = operands[1];
    operands.erase(operands.begin(), operands.begin() + 2);
    Labels needed = result;
    for (const Operand& o : operands) needed.insert(needed.end(), o.labels.begin(), o.labels.end());
    Operand left_side = x, right_side = y;
    Labels either = needed;
    either.insert(either.end(), y.labels.begin(), y.labels.end());
    sum_out(b, left_side, either);
    either = needed;
    either.insert(either.end(), x.labels.begin(), x.labels.end());
    sum_out(b, right_side, either);
    const bool shares = std::ranges::any_of(
        left_side.labels, [&](char c) { return has(right_side.labels, c) && !has(needed, c); });
    // Axes under "..." broadcast, which a matmul of flat axes cannot: their product is summed.
    const bool broadcasts = hidden > 0;
    Operand z;
    if (shares && !broadcasts) {
      z = contract(b, left_side, right_side, needed);
    } else {
      Labels all = left_side.labels;
      for (const char c : right_side.labels)
        if (!has(all, c)) all.push_back(c);
      z = {b.mul(aligned(b, left_side, all), aligned(b, right_side, all)), all};
      sum_out(b, z, needed);
    }
    operands.insert(operands.begin(), z);
  }
  if (operands.empty()) throw bad_input("an Einsum without operands");
  Operand& last = operands[0];
  sum_out(b, last, result);
  n.give(0, last.labels == result ? last.value : aligned(b, last, result));
  n.note(fmt::format("Einsum {} is imported as transposes, matmuls and sums", printable(equation)));
}

constexpr TranslatorRow kRows[] = {{"Einsum", einsum}};

}  // namespace

std::span<const TranslatorRow> einsum_family() { return kRows; }

}  // namespace etalon::onnx_format
