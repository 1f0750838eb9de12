// Matrix products, sums of products, and attention. Source: ncnn's public documentation
// ("operators").
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/einsum.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {
namespace {

// The factor of a product as a matrix: rows that are channels of height 1, a vector as one row.
ValueId matrix(const Layer& l, ValueId x, const char* role) {
  const int r = l.g.rank(x) - 1;
  const std::string name = fmt::format("{}.{}", l.name, role);
  if (r == 1) return l.g.op("unsqueeze", name, {x}, {{"axes", Ints{1}}});
  if (r == 3 && l.g.shape(x)[2] == 1) return l.g.op("squeeze", name, {x}, {{"axes", Ints{2}}});
  if (r != 2) throw bad_input("a factor of {}", to_string(l.g.shape(x)));
  return x;
}

ValueId turned(const Layer& l, ValueId x, const char* role) {
  const int r = l.g.rank(x);
  Ints perm;
  for (int i = 0; i < r; ++i) perm.push_back(i);
  std::swap(perm[static_cast<std::size_t>(r - 1)], perm[static_cast<std::size_t>(r - 2)]);
  return l.g.transpose(fmt::format("{}.{}.turned", l.name, role), x, perm);
}

ValueId scaled(const Layer& l, ValueId x, float by, const char* role) {
  if (by == 1) return x;
  return l.g.op("mul", fmt::format("{}.{}", l.name, role),
                {x, l.g.constant(fmt::format("{}.{}.by", l.name, role), scalar_f32(by))});
}

// alpha * (A B + beta C); each of the three comes as an input or lies in the file.
ValueId gemm(const Layer& l, Weights& weights) {
  const float alpha = l.number(0, 1), beta = l.number(1, 1);
  const bool trans_a = l.integer(2, 0) != 0, trans_b = l.integer(3, 0) != 0,
             has_a = l.integer(4, 0) != 0, has_b = l.integer(5, 0) != 0,
             has_c = l.integer(6, 0) != 0;
  const std::int64_t m = l.integer(7, 0), n = l.integer(8, 0), k = l.integer(9, 0),
                     kind = l.integer(10, 0);
  if (l.integer(18, 0) != 0) throw bad_input("int8 products are not supported");
  if (l.integer(13, 0) > 1) throw bad_input("a product of another type than f32");
  for (const int id : {12, 20, 21, 22}) l.integer(id, 0);  // how a kernel goes about it
  const auto held = [&](const char* role, std::int64_t rows, std::int64_t columns) {
    for (const std::int64_t e : {rows, columns})
      if (e < 1 || e > 1 << 28) throw bad_input("an extent of {}", e);
    return l.g.constant(fmt::format("{}.{}", l.name, role),
                        weights.tagged(rows * columns, {rows, columns}));
  };
  std::size_t next = 0;
  const auto given = [&](const char* role) { return matrix(l, l.input(next++), role); };
  // In the file's sequence, which is the inputs', too.
  ValueId a = !has_a ? given("a") : trans_a ? held("a", k, m) : held("a", m, k);
  ValueId b = !has_b ? given("b") : trans_b ? held("b", n, k) : held("b", k, n);
  if (trans_a) a = turned(l, a, "a");
  if (trans_b) b = turned(l, b, "b");
  ValueId y = l.g.op("matmul", l.name, {a, b});
  ValueId c = kAbsent;
  if (has_c) {
    if (kind < -1 || kind > 4) throw bad_input("a summand of kind {}", kind);
    const std::int64_t rows = kind == 0 || kind == 4 ? 1 : m, columns = kind < 3 ? 1 : n;
    if (kind >= 0) c = held("c", rows, columns);
  } else if (next < l.inputs.size()) {
    c = l.input(next);
    const Shape& product = l.g.shape(y);
    // A row of N, or else a column of M.
    if (l.g.rank(c) == 2 && l.g.shape(c)[1] != product[product.rank() - 1])
      c = l.g.op("unsqueeze", l.name + ".c", {c}, {{"axes", Ints{2}}});
    else
      c = matrix(l, c, "c");
  }
  if (c != kAbsent) y = l.g.op("add", l.name + ".sum", {y, scaled(l, c, beta, "beta")});
  y = scaled(l, y, alpha, "alpha");
  if (l.integer(14, 0) != 0) y = turned(l, y, "product");
  if (l.integer(11, 0) != 0) y = l.g.op("unsqueeze", l.name + ".rows", {y}, {{"axes", Ints{2}}});
  return y;
}

// As NumPy's, sample by sample: a batch stands before both.
ValueId matmul(const Layer& l, Weights&) {
  ValueId a = l.input(), b = l.input(1);
  const int ra = l.g.rank(a) - 1, rb = l.g.rank(b) - 1;
  if (l.integer(0, 0) != 0 && rb > 1) b = turned(l, b, "b");
  if (ra == 1) a = l.g.op("unsqueeze", l.name + ".row", {a}, {{"axes", Ints{1}}});
  if (rb == 1) b = l.g.op("unsqueeze", l.name + ".column", {b}, {{"axes", Ints{2}}});
  const auto widen = [&](ValueId& x, ValueId other, const char* role) {
    Ints axes;
    for (int i = l.g.rank(x); i < l.g.rank(other); ++i) axes.push_back(i - l.g.rank(x) + 1);
    if (!axes.empty())
      x = l.g.op("unsqueeze", fmt::format("{}.{}", l.name, role), {x}, {{"axes", axes}});
  };
  widen(a, b, "a");
  widen(b, a, "b");
  ValueId y = l.g.op("matmul", l.name, {a, b});
  if (ra > 1 && rb > 1) return y;
  const std::int64_t last = l.g.rank(y) - 1;
  // Two vectors give a sample of one element.
  const Ints axes = ra == 1 ? Ints{last - 1} : Ints{last};
  return l.g.op("squeeze", l.name + ".axis", {y}, {{"axes", axes}});
}

// Scores of queries and keys [N, heads, rows, elements], a mask added, their softmax times values.
ValueId attend(const Layer& l, ValueId q, ValueId k, ValueId v, ValueId mask) {
  ValueId scores = l.g.op("matmul", l.name + ".scores", {q, turned(l, k, "keys")});
  if (mask != kAbsent) {
    if (l.g.rank(mask) == 3)
      mask = l.g.op("unsqueeze", l.name + ".mask", {mask}, {{"axes", Ints{1}}});
    scores = l.g.op("add", l.name + ".masked", {scores, mask});
  }
  const ValueId shares =
      l.g.op("softmax", l.name + ".shares", {scores}, {{"axis", std::int64_t{-1}}});
  return l.g.op("matmul", l.name, {shares, v});
}

ValueId multi_head(const Layer& l, Weights& weights) {
  const std::int64_t embed = l.integer(0, 0), heads = l.integer(1, 1), size = l.integer(2, 0),
                     kdim = l.integer(3, embed), vdim = l.integer(4, embed);
  const bool masked = l.integer(5, 0) != 0;
  if (l.integer(7, 0) != 0) throw bad_input("attention that keeps keys between runs (kv_cache)");
  if (l.integer(18, 0) != 0) throw bad_input("int8 attention is not supported");
  for (const std::int64_t n : {embed, heads, size, kdim, vdim})
    if (n < 1 || n > 1 << 28) throw bad_input("an extent of {}", n);
  if (embed % heads != 0 || size % embed != 0)
    throw bad_input("{} weights for {} elements in {} heads", size, embed, heads);
  const std::int64_t qdim = size / embed, each = embed / heads;
  const std::size_t named = l.inputs.size() - (masked ? 1 : 0);
  if (l.inputs.empty() || named < 1 || named > 3) throw bad_input("{} inputs", l.inputs.size());
  const ValueId q = l.input(), k = l.input(named > 1 ? 1 : 0), v = l.input(named - 1);
  const ValueId mask = masked ? l.input(named) : kAbsent;
  const auto product = [&](ValueId x, const std::string& name, std::int64_t out, std::int64_t in) {
    const ValueId w = l.g.constant(name + ".weight", weights.tagged(out * in, {out, in}));
    const ValueId b = l.g.constant(name + ".bias", weights.plain(out));
    x = l.g.op("matmul", name, {x, l.g.transpose(name + ".turned", w, {1, 0})});
    return l.g.op("add", name + ".sum", {x, b});
  };
  const auto by_heads = [&](ValueId x, const std::string& name) {
    x = l.g.reshape(name + ".heads", x, {0, 0, heads, each});
    return l.g.transpose(name + ".first", x, {0, 2, 1, 3});
  };
  for (const ValueId x : {q, k, v})
    if (l.g.rank(x) != 3) throw bad_input("rows of rank {}", l.g.rank(x) - 1);
  const float scale = l.number(6, 1.0F / std::sqrt(static_cast<float>(each)));
  // Weights in this sequence, whatever is read of them first.
  const ValueId qs = scaled(l, product(q, l.name + ".q", embed, qdim), scale, "scaled"),
                ks = product(k, l.name + ".k", embed, kdim),
                vs = product(v, l.name + ".v", embed, vdim);
  ValueId y = attend(l, by_heads(qs, l.name + ".q"), by_heads(ks, l.name + ".k"),
                     by_heads(vs, l.name + ".v"), mask);
  y = l.g.transpose(l.name + ".rows", y, {0, 2, 1, 3});
  y = l.g.reshape(l.name + ".joined", y, {0, 0, embed});
  return product(y, l.name + ".out", qdim, embed);
}

// Heads are channels; a group of them may share keys and values.
ValueId dot_product_attention(const Layer& l, Weights&) {
  if (l.integer(7, 0) != 0) throw bad_input("attention that keeps keys between runs (kv_cache)");
  if (l.integer(18, 0) != 0) throw bad_input("int8 attention is not supported");
  const ValueId q = l.input();
  ValueId k = l.input(1), v = l.input(2);
  for (const ValueId x : {q, k, v})
    if (l.g.rank(x) != 4) throw bad_input("heads of rank {}", l.g.rank(x) - 1);
  const std::int64_t heads = l.g.shape(q)[1], kept = l.g.shape(k)[1];
  if (kept < 1 || heads % kept != 0) throw bad_input("{} heads of {} keys", heads, kept);
  if (heads != kept) {
    Ints from;
    for (std::int64_t i = 0; i < heads; ++i) from.push_back(i / (heads / kept));
    const ValueId at = l.g.constant(l.name + ".groups", ints_tensor(from));
    const Fields channels{{"axis", std::int64_t{1}}};
    k = l.g.op("gather", l.name + ".keys", {k, at}, channels);
    v = l.g.op("gather", l.name + ".values", {v, at}, channels);
  }
  float scale = l.number(6, 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(l.g.shape(q)[3]));
  const ValueId mask = l.integer(5, 0) != 0 ? l.input(3) : kAbsent;
  return attend(l, scaled(l, q, scale, "scaled"), k, v, mask);
}

// Letters from i on, those of the result in sequence; a batch stands before all.
ValueId einsum(const Layer& l, Weights&) {
  std::string equation;
  for (const std::int64_t c : l.integers(0)) {
    if (c < 32 || c > 126) throw bad_input("an equation with the character {}", c);
    equation += static_cast<char>(c);
  }
  const std::size_t arrow = equation.find("->");
  std::string result = arrow == equation.npos ? "" : equation.substr(arrow + 2);
  if (equation != "ii" && (arrow == equation.npos || result.empty() || result.size() > 4 ||
                           result != std::string("ijkl").substr(0, result.size())))
    throw bad_input("the equation '{}', whose result ncnn reads as i, ij, ijk or ijkl",
                    printable(equation));
  std::vector<std::string> terms{""};
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else if (c < 'i' || c > 'x')
      throw bad_input("the letter {} in the equation '{}'", printable(std::string(1, c)),
                      printable(equation));
    else
      terms.back() += c;
  }
  if (terms.size() != l.inputs.size() || terms.size() > 8)
    throw bad_input("{} operands of '{}'", l.inputs.size(), printable(equation));
  if (terms.size() == 2)
    if (const auto y =
            einsum_of_two(l.g, l.name, fmt::format("a{},a{}->a{}", terms[0], terms[1], result),
                          l.input(), l.input(1)))
      return *y;
  // Each operand along all letters, their product, the sum over those that the result lacks.
  std::string letters = result;
  for (const std::string& term : terms)
    for (const char c : term)
      if (letters.find(c) == letters.npos) letters += c;
  ValueId y = kAbsent;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    ValueId x = l.input(i);
    std::string term = terms[i];
    const std::string role = fmt::format("{}.operand{}", l.name, i);
    if (l.g.rank(x) != static_cast<int>(term.size()) + 1)
      throw bad_input("'{}' for an operand {}", term, to_string(l.g.shape(x)));
    if (equation == "ii") {
      const Shape& s = l.g.shape(x);
      if (s[1] != s[2] || s[1] > 1 << 12) throw bad_input("the trace of {}", to_string(s));
      Ints places;
      for (std::int64_t k = 0; k < s[1]; ++k) places.push_back(k * (s[1] + 1));
      x = l.g.op("gather", role,
                 {l.g.op("flatten", role + ".flat", {x}),
                  l.g.constant(role + ".places", ints_tensor(places))},
                 {{"axis", std::int64_t{1}}});
      return l.g.op("reduce_sum", l.name, {x}, {{"axes", Ints{1}}, {"keepdims", true}});
    }
    Ints perm{0}, axes;
    for (std::size_t k = 0; k < letters.size(); ++k) {
      const std::size_t at = term.find(letters[k]);
      if (at == term.npos)
        axes.push_back(static_cast<std::int64_t>(k) + 1);
      else
        perm.push_back(static_cast<std::int64_t>(at) + 1);
    }
    if (perm.size() != term.size() + 1)
      throw bad_input("a letter stands twice in '{}'", printable(term));
    x = l.g.transpose(role, x, perm);
    if (!axes.empty()) x = l.g.op("unsqueeze", role + ".axes", {x}, {{"axes", axes}});
    y = y == kAbsent ? x : l.g.op("mul", l.name + ".product", {y, x});
  }
  Ints summed;
  for (std::size_t k = result.size(); k < letters.size(); ++k)
    summed.push_back(static_cast<std::int64_t>(k) + 1);
  if (summed.empty()) return y;
  return l.g.op("reduce_sum", l.name, {y}, {{"axes", summed}, {"keepdims", false}});
}

// Pairs of a row turned by angles of which cosines and sines are given: neighbours, or halves.
ValueId rotary(const Layer& l, Weights&) {
  const bool neighbours = l.integer(0, 0) != 0;
  const ValueId x = l.input();
  if (l.g.rank(x) != 4 || l.g.shape(x)[3] % 2 != 0)
    throw bad_input("a rotary embedding of {}", to_string(l.g.shape(x)));
  const Shape shape = l.g.shape(x);
  const std::int64_t half = shape[3] / 2;
  const auto angle = [&](std::size_t i, const char* role) {
    const ValueId v = l.input(i);
    // More rows or columns than are turned may lie in it.
    if (l.g.rank(v) != 3 || l.g.shape(v)[1] < shape[2] || l.g.shape(v)[2] != half)
      throw bad_input("angles {} for {}", to_string(l.g.shape(v)), to_string(shape));
    const ValueId rows = l.g.op("slice", fmt::format("{}.{}.rows", l.name, role), {v},
                                {{"starts", Ints{0}}, {"ends", Ints{shape[2]}}, {"axes", Ints{1}}});
    return l.g.op("unsqueeze", fmt::format("{}.{}", l.name, role), {rows}, {{"axes", Ints{1}}});
  };
  const ValueId cosine = angle(1, "cosine"), sine = angle(2, "sine");
  const std::int64_t axis = neighbours ? 4 : 3;
  const ValueId pairs = l.g.reshape(l.name + ".pairs", x,
                                    neighbours ? Ints{0, 0, 0, half, 2} : Ints{0, 0, 0, 2, half});
  const auto part = [&](std::int64_t i, const char* role) {
    return l.g.op("gather", fmt::format("{}.{}", l.name, role),
                  {pairs, l.g.constant(l.name + ".which", ints_tensor({i}).reshaped({}))},
                  {{"axis", axis}});
  };
  const auto product = [&](const char* role, ValueId a, ValueId b) {
    return l.g.op("mul", fmt::format("{}.{}", l.name, role), {a, b});
  };
  const ValueId first = part(0, "first"), second = part(1, "second");
  const ValueId a = l.g.op("sub", l.name + ".a",
                           {product("a.cosine", first, cosine), product("a.sine", second, sine)}),
                b = l.g.op("add", l.name + ".b",
                           {product("b.sine", first, sine), product("b.cosine", second, cosine)});
  const auto apart = [&](ValueId v, const char* role) {
    return l.g.op("unsqueeze", fmt::format("{}.{}.apart", l.name, role), {v},
                  {{"axes", Ints{axis}}});
  };
  const ValueId both =
      l.g.op("concat", l.name + ".both", {apart(a, "a"), apart(b, "b")}, {{"axis", axis}});
  return l.g.reshape(l.name, both, {0, 0, 0, shape[3]});
}

}  // namespace

std::span<const LayerRow> product_rows() {
  static constexpr LayerRow kRows[] = {
      {"Einsum", einsum},
      {"RotaryEmbed", rotary},
      {"Gemm", gemm},
      {"MatMul", matmul},
      {"MultiHeadAttention", multi_head},
      {"SDPA", dot_product_attention},
  };
  return kRows;
}

}  // namespace etalon::ncnn
