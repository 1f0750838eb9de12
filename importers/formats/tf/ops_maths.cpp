// Functions that are a few ops of ours: quotients and logarithms that a zero wins, bits, values
// that go through 8 bits while a network is trained, numbers on a line.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::tf {
namespace {

const std::map<std::string_view, std::string_view> kBits{
    {"BitwiseAnd", "bitwise_and"}, {"BitwiseOr", "bitwise_or"}, {"BitwiseXor", "bitwise_xor"},
    {"Invert", "bitwise_not"},     {"BiasAddV1", "add"},        {"Print", "identity"},
    {"PlaceholderV2", "identity"}};

}  // namespace

// What training with 8 bits in mind leaves in a graph (FakeQuant): x on a grid of 2^num_bits - 1
// steps whose ends are moved so that 0 lies on it. Each step rounds, as TensorFlow's kernel has
// them.
ValueId Ops::fake_quant() {
  const std::int64_t bits = n_->integer("num_bits", 8);
  if (bits < 2 || bits > 16) throw bad_input("{} of {} bits", n_->op, bits);
  std::vector<float> least{n_->number("min", -6)}, most{n_->number("max", 6)};
  if (n_->inputs.size() > 1) {
    const auto constant = [&](std::size_t i) {
      const Tensor* t = g.constant_of(n_->in(i));
      if (t == nullptr || t->dtype() != DType::f32 || t->shape().rank() > 1)
        throw bad_input("{} whose range is no constant", n_->op);
      return std::vector<float>(t->data<float>().begin(), t->data<float>().end());
    };
    least = constant(1);
    most = constant(2);
  }
  if (least.size() != most.size() || least.empty())
    throw bad_input("{} least and {} largest values", least.size(), most.size());
  const float first = n_->flag("narrow_range") ? 1 : 0, last = static_cast<float>((1 << bits) - 1);
  std::vector<float> low, high, step, inverse, zero;
  for (std::size_t i = 0; i < least.size(); ++i) {
    if (!(least[i] <= 0) || !(most[i] >= 0) || !(most[i] > least[i]))
      throw bad_input("{} of the range {} to {}", n_->op, least[i], most[i]);
    const float scale = (most[i] - least[i]) / (last - first);
    const float from = first - least[i] / scale;
    const float point = from < first ? first : from > last ? last : std::round(from);
    low.push_back((first - point) * scale);
    high.push_back((last - point) * scale);
    step.push_back(scale);
    inverse.push_back(1.0F / scale);
    zero.push_back(std::floor(-low.back() * inverse.back() + 0.5F));
  }
  const auto row = [&](const char* role, const std::vector<float>& v) {
    Tensor t = Tensor::uninitialized(DType::f32, n_->op.ends_with("PerChannel")
                                                     ? Shape{static_cast<std::int64_t>(v.size())}
                                                     : Shape{});
    std::ranges::copy(v, t.mutable_data<float>().begin());
    return g.constant(part(role), std::move(t));
  };
  const ValueId bottom = row("low", low);
  ValueId y = g.op("max", part("above"),
                   {g.op("min", part("below"), {n_->in(0), row("high", high)}), bottom});
  y = g.op("mul", part("steps"),
           {g.op("sub", part("shifted"), {y, bottom}), row("inverse", inverse)});
  y = g.op("add", part("nearest"),
           {g.op("sub", part("from_zero"), {y, row("zero", zero)}), number(0.5F)});
  g.note("fake quantisation: values on the grid of the file's range, each step rounds");
  return emit("mul", {g.op("floor", part("whole"), {y}), row("step", step)});
}

std::optional<ValueId> Ops::maths() {
  const std::string& op = n_->op;
  if (const auto at = kBits.find(op); at != kBits.end()) {
    if (at->second == "identity") return n_->in(0);
    return emit(at->second);
  }
  if (op.starts_with("FakeQuantWithMinMax") && !op.ends_with("Gradient")) return fake_quant();
  if (op == "IsFinite")
    return g.op("not", n_->name,
                {g.op("or", part("no_number"),
                      {g.op("is_nan", part("nan"), {n_->in(0)}),
                       g.op("is_inf", part("inf"), {n_->in(0)})})});
  // 0 where x is 0, whatever y is.
  if (op == "Xdivy" || op == "Xlogy" || op == "Xlog1py") {
    const ValueId x = n_->in(0), y = n_->in(1);
    const ValueId value = op == "Xdivy"
                              ? g.op("div", part("quotient"), {x, y})
                              : g.op("mul", part("product"),
                                     {x, g.op(op == "Xlogy" ? "log" : "log1p", part("log"), {y})});
    const ValueId none = g.constant(part("none"), scalar_of(g.dtype(x), 0));
    return emit("where", {g.op("equal", part("nothing"), {x, none}), none, value});
  }
  if (op == "L2Loss")
    return emit("mul", {g.op("reduce_sum_square", part("sum"), {n_->in(0)}, {{"keepdims", false}}),
                        number(0.5F)});
  if (op == "Cumprod")
    return g.op("cum_prod", n_->name, {n_->in(0), n_->in(1)},
                {{"exclusive", n_->flag("exclusive")}, {"reverse", n_->flag("reverse")}});
  if (op == "LinSpace") {
    const Tensor *start = g.constant_of(n_->in(0)), *stop = g.constant_of(n_->in(1));
    const std::int64_t count = constant_int(2, "numbers");
    if (start == nullptr || stop == nullptr || start->dtype() != DType::f32 ||
        start->numel() != 1 || stop->dtype() != DType::f32 || stop->numel() != 1)
      throw bad_input("LinSpace between values that are no constants");
    if (count < 1 || count > 1 << 24) throw bad_input("LinSpace of {} numbers", count);
    const float from = start->data<float>()[0], to = stop->data<float>()[0];
    Tensor t = Tensor::uninitialized(DType::f32, {count});
    const float step = count > 1 ? (to - from) / static_cast<float>(count - 1) : 0;
    for (std::int64_t i = 0; i < count; ++i)
      t.mutable_data<float>()[static_cast<std::size_t>(i)] =
          i > 0 && i + 1 == count ? to : from + step * static_cast<float>(i);
    return g.constant(n_->name, std::move(t));
  }
  if (op == "Bucketize") {
    std::vector<float> edges;
    if (const auto at = n_->attributes.find("boundaries"); at != n_->attributes.end())
      if (const auto* v = std::get_if<std::vector<float>>(&at->second)) edges = *v;
    if (edges.empty() || !is_floating(g.dtype(n_->in(0))))
      throw bad_input("Bucketize of integers, or without boundaries");
    Tensor t = Tensor::uninitialized(DType::f32, {static_cast<std::int64_t>(edges.size())});
    std::ranges::copy(edges, t.mutable_data<float>().begin());
    const ValueId each =
        g.op("unsqueeze", part("each"), {n_->in(0)}, {{"axes", Ints{g.rank(n_->in(0))}}});
    const ValueId above =
        g.op("greater_or_equal", part("above"), {each, g.constant(part("edges"), std::move(t))});
    return emit("reduce_sum", {g.op("cast", part("ones"), {above}, {{"to", std::string("i32")}})},
                {{"axes", Ints{-1}}, {"keepdims", false}});
  }
  return std::nullopt;
}

}  // namespace etalon::tf
