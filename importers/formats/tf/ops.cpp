#include "importers/formats/tf/ops.h"

#include <algorithm>
#include <numeric>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"
#include "importers/formats/translate.h"

namespace etalon::tf {
namespace {

template <class T>
const T* find(const OpNode& n, std::string_view a) {
  const auto at = n.attributes.find(a);
  return at == n.attributes.end() ? nullptr : std::get_if<T>(&at->second);
}
}  // namespace

std::int64_t OpNode::integer(std::string_view a, std::int64_t otherwise) const {
  const auto* v = find<std::int64_t>(*this, a);
  return v == nullptr ? otherwise : *v;
}
float OpNode::number(std::string_view a, float otherwise) const {
  const auto* v = find<float>(*this, a);
  return v == nullptr ? otherwise : *v;
}
std::string OpNode::text(std::string_view a, std::string_view otherwise) const {
  const auto* v = find<std::string>(*this, a);
  return v == nullptr ? std::string(otherwise) : *v;
}
Ints OpNode::integers(std::string_view a) const {
  const auto* v = find<Ints>(*this, a);
  return v == nullptr ? Ints{} : *v;
}
std::vector<std::string> OpNode::texts(std::string_view a) const {
  const auto* v = find<std::vector<std::string>>(*this, a);
  return v == nullptr ? std::vector<std::string>{} : *v;
}
ValueId OpNode::in(std::size_t i) const {
  if (i >= inputs.size() || inputs[i] == kAbsent) throw bad_input("{} needs input {}", op, i);
  return inputs[i];
}

ValueId Ops::emit(std::string_view op, const Fields& fields) {
  return g.op(op, n_->name, n_->inputs, fields);
}

ValueId Ops::number(float value) { return g.constant(part("constant"), scalar_f32(value)); }

std::optional<Ints> Ops::elements(ValueId v) const {
  const auto [one, other] = g.known_elements(v);
  if (one == nullptr || one->numel() != other->numel()) return std::nullopt;
  Ints all = to_int64_values(*one);
  const Ints others = to_int64_values(*other);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != others[i]) all[i] = -1;
  return all;
}

std::optional<std::int64_t> Ops::known(ValueId v) const {
  const Tensor* c = g.constant_of(v);
  if (c != nullptr && c->numel() == 1 && c->dtype() == DType::boolean)
    return load_as_double(*c, 0) != 0 ? 1 : 0;
  const auto all = elements(v);
  if (!all || all->size() != 1 || (c == nullptr && (*all)[0] == -1)) return std::nullopt;
  return (*all)[0];
}

Ints Ops::constant_ints(std::size_t i, std::string_view what) const {
  const auto known = elements(n_->in(i));
  // A true constant may hold -1; of what is computed it says that an extent is free.
  if (!known || (g.constant_of(n_->in(i)) == nullptr && std::ranges::count(*known, -1) != 0))
    throw bad_input("its {} are computed while the network runs; they must be constant", what);
  return *known;
}

std::int64_t Ops::constant_int(std::size_t i, std::string_view what) const {
  const Ints all = constant_ints(i, what);
  if (all.size() != 1) throw bad_input("{} {} where one is wanted", all.size(), what);
  return all[0];
}

bool Ops::first() const { return n_->text("data_format", "NHWC").starts_with("NC"); }
std::vector<ValueId> Ops::translate(const OpNode& node) {
  n_ = &node;
  const std::string& op = node.op;
  if (std::ranges::any_of(node.inputs, [&](ValueId v) { return complex_.contains(v); })) {
    if (const auto y = spectra()) return {*y};
    throw bad_input("{} of complex values is not supported", op);
  }
  if (op == "IdentityN") return node.inputs;
  if (op == "Split" || op == "SplitV" || op == "Unpack") {
    const bool v = op == "SplitV", u = op == "Unpack";
    const ValueId x = node.in(op == "Split" ? 1 : 0);
    const std::int64_t axis =
        u ? node.integer("axis") : constant_int(op == "Split" ? 0 : 2, "axes");
    const auto pieces = static_cast<std::size_t>(node.integer(u ? "num" : "num_split", 1));
    if (pieces < 1 || pieces > 4096) throw bad_input("{} pieces", pieces);
    Ints sizes;
    if (v) {
      sizes = constant_ints(1, "sizes");
      const int a = normalize_axis(axis, g.rank(x));
      std::int64_t given = 0;
      for (const std::int64_t s : sizes) given = checked_add(given, std::max<std::int64_t>(s, 0));
      const std::int64_t left = g.shape(x)[a] - given;
      if (left < 0) throw bad_input("pieces of {} in all of {}", given, g.shape(x)[a]);
      for (std::int64_t& s : sizes)
        if (s < 0) s = left;
    } else {
      const std::int64_t extent = g.shape(x)[normalize_axis(axis, g.rank(x))];
      sizes.assign(pieces, extent / static_cast<std::int64_t>(pieces));
    }
    std::vector<ValueId> out;
    if (g.known(x) && g.rank(x) == 1 && g.known_elements(x).first != nullptr) {
      // Of extents: a slice keeps what is known of them.
      std::int64_t from = 0;
      for (const std::int64_t s : sizes) {
        out.push_back(g.op("slice", part("extents"), {x},
                           {{"starts", Ints{from}}, {"ends", Ints{from + s}}, {"axes", Ints{0}}}));
        from += s;
      }
    } else {
      out = g.nodes("split", node.name, {x},
                    make_params(get_op("split"), {{"axis", axis}, {"split", sizes}}), sizes.size());
    }
    if (u)
      for (ValueId& y : out) y = g.op("squeeze", part("item"), {y}, {{"axes", Ints{axis}}});
    return out;
  }
  if (op == "ShapeN") {
    const std::string to = node.text("out_type", "i32");
    if (!find_dtype(to)) throw bad_input("extents of no element type");
    std::vector<ValueId> out;
    for (const ValueId v : node.inputs)
      out.push_back(
          g.op("cast", part("extents"), {g.op("shape", part("shape"), {v})}, {{"to", to}}));
    return out;
  }
  if (op == "TopKV2" || op == "TopK") {
    std::vector<ValueId> in{node.in(0)};
    Fields f;
    if (op == "TopKV2" && !fixed_ints(1))
      in.push_back(g.reshape(part("count"), as_i64("k", node.in(1)), {1}));
    else
      f.emplace_back("k", op == "TopK" ? node.integer("k") : constant_int(1, "counts"));
    auto out = g.nodes("top_k", node.name, in, make_params(get_op("top_k"), f), 2);
    out[1] = g.op("cast", part("i32"), {out[1]}, {{"to", std::string("i32")}});
    return out;
  }
  if (auto out = selections()) return *std::move(out);
  if (auto out = cells()) return *std::move(out);
  // A handle, which says nothing, and the flow.
  if (op == "TensorArrayV3") return {list({}), list(new_items(0))};
  for (const auto family :
       {&Ops::folded, &Ops::folded_rows, &Ops::layers, &Ops::elementwise, &Ops::maths, &Ops::places,
        &Ops::images, &Ops::matrices, &Ops::segmented, &Ops::spectra, &Ops::shapes, &Ops::indices,
        &Ops::lists, &Ops::arrays})
    if (const auto y = (this->*family)()) return {*y};
  throw bad_input("{} is not supported", op);
}

}  // namespace etalon::tf
