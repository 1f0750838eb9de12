// Functions that are a few ops of ours: quotients and logarithms that a zero wins, bits, values
// that go through 8 bits while a network is trained, numbers on a line.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"
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

// A scalar range that is known, x on its grid of 2^num_bits values, as TensorFlow scales it.
ValueId Ops::quantized_and_back() {
  const auto scalar = [&](std::size_t i) {
    const Tensor* t = g.constant_of(n_->in(i));
    if (t == nullptr || t->numel() != 1)
      throw bad_input("{} whose range is no constant number", n_->op);
    return static_cast<float>(load_as_double(*t, 0));
  };
  const std::int64_t bits = n_->op == "QuantizeAndDequantizeV3" ? constant_int(3, "numbers of bits")
                                                                : n_->integer("num_bits", 8);
  const bool is_signed = n_->flag("signed_input", true), narrow = n_->flag("narrow_range");
  const std::string round = n_->text("round_mode", "HALF_TO_EVEN");
  const bool given = n_->flag("range_given", n_->op == "QuantizeAndDequantizeV3");
  if (bits < 2 || bits > 24 || !given || n_->integer("axis", -1) != -1 ||
      (round != "HALF_TO_EVEN" && round != "HALF_UP"))
    throw bad_input("{} of {} bits, {}, rounding '{}': a range that the file gives for all is read",
                    n_->op, bits, given ? "by axis" : "of a range that a run finds",
                    printable(round));
  float least = scalar(1), most = scalar(2);
  if (!(least <= most) || !std::isfinite(least) || !std::isfinite(most))
    throw bad_input("{} of the range {} to {}", n_->op, least, most);
  const std::int64_t top = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1,
                     low = is_signed ? -(1 << (bits - 1)) + (narrow ? 1 : 0) : 0;
  const float first = static_cast<float>(low), last = static_cast<float>(top),
              far = std::numeric_limits<float>::max();
  const float by_least = first * least > 0 ? first / least : far,
              by_most = last * most > 0 ? last / most : far;
  float scale = by_most, inverse = most / last;
  if (by_least < by_most) {
    scale = by_least;
    inverse = least / first;
    most = last * inverse;
  } else {
    least = first * inverse;
  }
  const ValueId held = g.op("max", part("above"),
                            {g.op("min", part("below"), {n_->in(0), number(most)}), number(least)});
  ValueId steps = g.op("mul", part("steps"), {held, number(scale)});
  steps = round == "HALF_UP"
              ? g.op("floor", part("whole"), {g.op("add", part("raised"), {steps, number(0.5F)})})
              : g.op("round", part("whole"), {steps});
  g.note("quantised and back: values on the grid of the file's range, each step rounds");
  return emit("mul", {steps, number(inverse)});
}

// start + step * i, but for the last, which is the stop itself.
ValueId Ops::line_at_run_time(std::int64_t count) {
  const ValueId start = g.reshape(part("start"), n_->in(0), {1}),
                stop = g.reshape(part("stop"), n_->in(1), {1});
  if (g.dtype(start) != DType::f32 || g.dtype(stop) != DType::f32)
    throw bad_input("LinSpace of {}", to_string(g.type(start)));
  if (count == 1) return g.op("identity", n_->name, {start});
  Tensor places = Tensor::uninitialized(DType::f32, {count - 1});
  for (std::int64_t i = 0; i + 1 < count; ++i)
    places.mutable_data<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
  const ValueId step =
      g.op("div", part("step"),
           {g.op("sub", part("length"), {stop, start}), number(static_cast<float>(count - 1))});
  const ValueId line = g.op(
      "add", part("line"),
      {start, g.op("mul", part("along"), {g.constant(part("places"), std::move(places)), step})});
  return g.op("concat", n_->name, {line, stop}, {{"axis", std::int64_t{0}}});
}

// How often each number below `size` stands in x, or the sum of its weights.
ValueId Ops::bincount() {
  const bool dense = n_->op == "DenseBincount";
  const std::int64_t size = constant_int(1, "numbers of bins");
  ValueId x = as_i64("numbers", n_->in(0));
  if (size < 0 || size > 1 << 20) throw bad_input("{} of {} bins", n_->op, size);
  const Ints weights = g.dims(n_->in(2));
  const bool weighted = !std::ranges::count(weights, 0);
  const bool rows = dense && g.rank(x) == 2;
  if (!rows) x = g.reshape(part("all"), x, {-1});
  const ValueId depth = g.constant(part("depth"), scalar_of(DType::i64, static_cast<double>(size)));
  const DType type = g.dtype(n_->in(2));
  Tensor values = Tensor::zeros(type, {2});
  store_from_double(type, values.mutable_bytes().data(), 1, 1);
  // What lies outside is in no bin; ours would count a negative number from the end.
  const ValueId none = g.constant(part("none"), scalar_of(DType::i64, 0));
  const ValueId held =
      g.op("where", part("held"), {g.op("less", part("below"), {x, none}), depth, x});
  ValueId hot =
      g.op("one_hot", part("hot"), {held, depth, g.constant(part("values"), std::move(values))},
           {{"axis", std::int64_t{-1}}});
  if (weighted) {
    ValueId by = n_->in(2);
    if (!rows) by = g.reshape(part("weights"), by, {-1});
    hot = g.op("mul", part("weighed"),
               {hot, g.op("unsqueeze", part("each"), {by}, {{"axes", Ints{rows ? 2 : 1}}})});
  }
  const bool binary = dense && n_->flag("binary_output");
  return g.op(binary ? "reduce_max" : "reduce_sum", n_->name, {hot},
              {{"axes", Ints{rows ? 1 : 0}}, {"keepdims", false}});
}

std::optional<ValueId> Ops::maths() {
  const std::string& op = n_->op;
  if (op == "QuantizeAndDequantizeV2" || op == "QuantizeAndDequantizeV3" ||
      op == "QuantizeAndDequantizeV4")
    return quantized_and_back();
  if (const auto at = kBits.find(op); at != kBits.end()) {
    if (at->second == "identity") return n_->in(0);
    return emit(at->second);
  }
  if (op == "Bincount" || op == "DenseBincount") return bincount();
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
    if (count < 1 || count > 1 << 24) throw bad_input("LinSpace of {} numbers", count);
    const bool constant = start != nullptr && stop != nullptr && start->dtype() == DType::f32 &&
                          stop->dtype() == DType::f32 && start->numel() == 1 && stop->numel() == 1;
    if (!constant) return line_at_run_time(count);
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
    if (edges.empty()) throw bad_input("Bucketize without boundaries");
    if (!std::ranges::is_sorted(edges)) throw bad_input("Bucketize of boundaries in no order");
    ValueId x = n_->in(0);
    if (!is_floating(g.dtype(x))) x = g.op("cast", part("f32"), {x}, {{"to", std::string("f32")}});
    Tensor t = Tensor::uninitialized(DType::f32, {static_cast<std::int64_t>(edges.size())});
    std::ranges::copy(edges, t.mutable_data<float>().begin());
    const ValueId each = g.op("unsqueeze", part("each"), {x}, {{"axes", Ints{g.rank(x)}}});
    const ValueId above =
        g.op("greater_or_equal", part("above"), {each, g.constant(part("edges"), std::move(t))});
    return emit("reduce_sum", {g.op("cast", part("ones"), {above}, {{"to", std::string("i32")}})},
                {{"axes", Ints{-1}}, {"keepdims", false}});
  }
  return std::nullopt;
}

}  // namespace etalon::tf
