// MXNet's words for new extents, and NumPy's operators' words, which are others.
//
// Reshape: 0 copies an extent, -1 is what is left, -2 all that follow, -3 the product of two, -4
// splits one into the two numbers behind it; with reverse all of it from the right.
// _npx_reshape: -2 copies an extent, -3 drops one that is 1, -4 copies all that follow, -5 is the
// product of two, -6 splits. Every word is understood at both sizes of the free extents.
#include <algorithm>

#include "importers/containers/bytes.h"
#include "importers/formats/mxnet/operators.h"

namespace etalon::mxnet {
namespace {

struct Words {
  std::int64_t copy, drop, rest, product, split;
};
constexpr std::int64_t kNone = INT64_MIN;
constexpr Words kReshape{.copy = 0, .drop = kNone, .rest = -2, .product = -3, .split = -4};
constexpr Words kNumpy{.copy = -2, .drop = -3, .rest = -4, .product = -5, .split = -6};

struct Understood {
  Ints extents;
  std::vector<Ints> origins;  // the axes whose product an extent is; none where it is left or split
};

Understood understood(const Words& words, const Ints& shape, const Ints& dims) {
  Understood out;
  Ints& to = out.extents;
  std::size_t at = 0;
  const auto next = [&] {
    if (at >= dims.size()) throw bad_input("a reshape beyond the {} axes there are", dims.size());
    return dims[at++];
  };
  const auto put = [&](std::int64_t extent, Ints of = {}) {
    to.push_back(extent);
    out.origins.push_back(std::move(of));
  };
  const auto here = [&] { return static_cast<std::int64_t>(at); };
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t n = shape[i];
    if (n == words.copy) {
      const Ints of{here()};
      put(next(), of);
    } else if (n == words.drop) {
      if (const std::int64_t one = next(); one != 1)
        throw bad_input("a reshape that drops an extent of {}", one);
    } else if (n == words.rest) {
      while (at < dims.size()) {
        const Ints of{here()};
        put(next(), of);
      }
    } else if (n == words.product) {
      const Ints of{here(), here() + 1};
      const std::int64_t a = next();
      put(checked_mul(a, next()), of);
    } else if (n == words.split) {
      if (i + 2 >= shape.size()) throw bad_input("a reshape whose split lacks its two numbers");
      const std::int64_t whole = next();
      std::int64_t a = shape[i + 1], b = shape[i + 2];
      if (a == -1 && b > 0) a = whole / b;
      if (b == -1 && a > 0) b = whole / a;
      if (a < 1 || b < 1 || checked_mul(a, b) != whole)
        throw bad_input("a reshape that splits {} into {} and {}", whole, shape[i + 1],
                        shape[i + 2]);
      put(a);
      put(b);
      i += 2;
    } else {
      if (n < -1) throw bad_input("a reshape to an extent of {}", n);
      ++at;
      put(n);
    }
  }
  const auto left = std::ranges::find(to, -1);
  if (left == to.end()) return out;
  std::int64_t all = 1, others = 1;
  for (const std::int64_t d : dims) all = checked_mul(all, d);
  for (auto d = to.begin(); d != to.end(); ++d) {
    if (d == left) continue;
    if (*d < 0) throw bad_input("a reshape with two extents that are left");
    others = checked_mul(others, *d);
  }
  if (others < 1 || all % others != 0)
    throw bad_input("a reshape of {} elements to rows of {}", all, others);
  *left = all / others;
  return out;
}

}  // namespace

std::pair<Ints, Ints> Translator::extents_of(ValueId v) const {
  std::pair<Ints, Ints> out;
  for (int axis = 0; axis < g.rank(v); ++axis) {
    const auto [one, other] = g.extents(v, axis);
    out.first.push_back(one);
    out.second.push_back(other);
  }
  return out;
}

ValueId Translator::with_extents(ValueId v, const Ints& one, const Ints& other,
                                 const std::vector<Ints>& origins) {
  if (one.size() != other.size()) throw bad_input("{} of a rank that is not known", n_->op);
  const auto now = extents_of(v);
  Ints to;
  for (std::size_t i = 0; i < one.size(); ++i) to.push_back(one[i] == other[i] ? one[i] : -1);
  for (std::size_t i = 0; i < to.size() && std::ranges::count(to, -1) > 1; ++i)
    if (to[i] == -1 && i < now.first.size() && now.first[i] == one[i] && now.second[i] == other[i])
      to[i] = 0;  // copied
  if (std::ranges::count(to, -1) < 2) return g.reshape(n_->name, v, to);
  // Several are free, and stand elsewhere: they are taken from the shape.
  const Parts p{*this};
  std::vector<ValueId> parts;
  bool one_left = false;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i] == other[i]) {
      parts.push_back(p.ints("extent", {one[i]}));
      continue;
    }
    const Ints of = i < origins.size() ? origins[i] : Ints{};
    if (of.empty()) {
      if (one_left) throw bad_input("{} to two free extents", n_->op);
      one_left = true;
      parts.push_back(p.ints("left", {-1}));
      continue;
    }
    ValueId extent = p.extents("free", v, of[0], of[0] + 1);
    for (std::size_t k = 1; k < of.size(); ++k)
      extent = p.op("mul", "product", {extent, p.extents("free", v, of[k], of[k] + 1)});
    parts.push_back(extent);
  }
  return op("reshape", {v, p.op("concat", "shape", parts, {{"axis", std::int64_t{0}}})});
}

ValueId Translator::reshaped() {
  const bool numpy = n_->op == "_npx_reshape" || n_->op == "_np_reshape";
  const char* key = numpy ? "newshape" : attribute("shape").empty() ? "target_shape" : "shape";
  Ints shape = integers(key);
  if (numpy && attribute("order", "C") != "C")
    throw bad_input("{} with order={}", n_->op, printable(attribute("order")));
  auto [one, other] = extents_of(x());
  const bool reverse = flag("reverse", false);
  if (reverse)
    for (Ints* v : {&shape, &one, &other}) std::ranges::reverse(*v);
  // NumPy itself knows -1 alone.
  const Words& words = n_->op == "_npx_reshape" ? kNumpy : kReshape;
  if (n_->op == "_np_reshape" && std::ranges::any_of(shape, [](std::int64_t n) { return n < -1; }))
    throw bad_input("a reshape to {}", printable(attribute(key)));
  Understood a = understood(words, shape, one), b = understood(words, shape, other);
  if (reverse) {
    for (Ints* v : {&a.extents, &b.extents}) std::ranges::reverse(*v);
    std::ranges::reverse(a.origins);
    for (Ints& of : a.origins)
      for (std::int64_t& axis : of) axis = static_cast<std::int64_t>(one.size()) - 1 - axis;
  }
  return with_extents(x(), a.extents, b.extents, a.origins);
}

}  // namespace etalon::mxnet
