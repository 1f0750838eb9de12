// Ramps and unit matrices, uneven pieces, and what MXNet's NumPy interface has of its own.
#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "importers/containers/bytes.h"
#include "importers/formats/einsum.h"
#include "importers/formats/mxnet/operators.h"

namespace etalon::mxnet {
namespace {

constexpr std::int64_t kMostElements = 1 << 20, kMostPieces = 1 << 16;

ValueId filled(Translator& t, std::int64_t count, const std::function<double(double)>& at) {
  if (count < 1 || count > kMostElements)
    throw bad_input("{} of {} elements", t.operator_name(), count);
  std::vector<float> v;
  for (std::int64_t i = 0; i < count; ++i)
    v.push_back(static_cast<float>(at(static_cast<double>(i))));
  return t.g.constant(t.name(), Tensor::of<float>({count}, std::span<const float>(v)));
}

// start, start + step, ... below stop; each `repeat` times.
std::vector<ValueId> arange(Translator& t) {
  double start = t.number("start", 0), stop = t.number("stop", NAN);
  const double step = t.number("step", 1);
  const std::int64_t repeat = t.integer("repeat", 1);
  if (t.flag("infer_range", false)) throw bad_input("a ramp whose end hangs on what reads it");
  if (std::isnan(stop)) std::tie(start, stop) = std::pair(0.0, start);
  const double count = std::ceil((stop - start) / step);
  if (!(count >= 1) || count > static_cast<double>(kMostElements) || repeat < 1 ||
      repeat > kMostElements)
    throw bad_input("a ramp from {} to {} by {}", start, stop, step);
  t.attribute("dtype");
  return {filled(t, checked_mul(static_cast<std::int64_t>(count), repeat), [&](double i) {
    return start + std::floor(i / static_cast<double>(repeat)) * step;
  })};
}

std::vector<ValueId> linspace(Translator& t) {
  const double start = t.number("start", 0), stop = t.number("stop", 0);
  const std::int64_t count = t.integer("num", 50);
  const double parts = static_cast<double>(count) - (t.flag("endpoint", true) ? 1 : 0);
  t.attribute("dtype");
  return {filled(t, count, [&](double i) {
    return parts > 0 ? start + i * ((stop - start) / parts) : start;
  })};
}

std::vector<ValueId> arange_like(Translator& t) {
  const Parts p{t};
  const double start = t.number("start", 0), step = t.number("step", 1);
  if (t.integer("repeat", 1) != 1) throw bad_input("{} with repeat", t.operator_name());
  const auto scaled = [&](ValueId ramp) {
    const ValueId v = p.cast("ramp", ramp, "f32");
    return t.op("add", {p.op("mul", "steps", {v, p.number(v, step)}), p.number(v, start)});
  };
  if (!t.integers("axis").empty())
    return {scaled(p.steps(t.x(), p.axis("axis", 0, t.g.rank(t.x()))))};
  const auto [one, other] = t.extents_of(t.x());
  const ValueId all = p.steps(p.flat(t.x()), 0);
  return {t.with_extents(scaled(all), one, other)};
}

std::vector<ValueId> eye(Translator& t) {
  const std::int64_t n = t.integer("N", 0), k = t.integer("k", 0);
  std::int64_t m = t.integer("M", 0);
  if (m == 0) m = n;
  if (n < 1 || m < 1 || n > kMostElements / m) throw bad_input("a unit matrix {} x {}", n, m);
  t.attribute("dtype");
  const ValueId flat = filled(t, n * m, [&](double i) {
    const auto at = static_cast<std::int64_t>(i);
    return at % m - at / m == k ? 1 : 0;
  });
  return {t.g.reshape(t.name(), flat, {n, m})};
}

std::vector<ValueId> full_like(Translator& t) {
  const Parts p{t};
  return {t.op("constant_of_shape",
               {p.extents("extents", t.x(), 0, t.g.rank(t.x())),
                t.g.constant(p.name("value"), filled_f32(1, t.number("fill_value", 0)))})};
}

// In so many equal pieces, or before each of the indices but the first.
std::vector<ValueId> split(Translator& t) {
  const Parts p{t};
  const std::int64_t axis = p.axis("axis", 1, t.g.rank(t.x())), sections = t.integer("sections", 0);
  Ints at = t.integers("indices");
  const std::int64_t extent = t.g.dims(t.x())[static_cast<std::size_t>(axis)];
  if (extent < 1) throw bad_input("a split along an extent that the file does not say");
  Ints sizes;
  if (sections > kMostPieces) throw bad_input("a split in {} pieces", sections);
  if (sections > 0) {
    if (extent % sections != 0) throw bad_input("{} elements in {} pieces", extent, sections);
    sizes.assign(static_cast<std::size_t>(sections), extent / sections);
  } else {
    at.push_back(extent);
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      if (at[i] < 0 || at[i + 1] < at[i] || at[i + 1] > extent)
        throw bad_input("a split before {} of {}", at[i + 1], extent);
      sizes.push_back(at[i + 1] - at[i]);
    }
  }
  if (sizes.empty()) throw bad_input("a split in no pieces");
  auto out =
      t.g.nodes("split", t.name(), {t.x()},
                make_params(get_op("split"), {{"axis", axis}, {"split", sizes}}), sizes.size());
  if (t.flag("squeeze_axis", false))
    for (ValueId& v : out) v = p.op("squeeze", "squeezed", {v}, {{"axes", Ints{axis}}});
  return out;
}

// A product with a number, of vectors, or over the last axis and the second to last.
std::vector<ValueId> product(Translator& t) {
  const int a = t.g.rank(t.x(0)), b = t.g.rank(t.x(1));
  if (t.operator_name() == "_np_dot" && (a == 0 || b == 0)) return {t.op("mul", {t.x(0), t.x(1)})};
  if (a == 0 || b == 0 || (t.operator_name() == "_np_dot" && b > 2))
    throw bad_input("{} of ranks {} and {}", t.operator_name(), a, b);
  return {t.op("matmul", {t.x(0), t.x(1)})};
}

std::vector<ValueId> einsum(Translator& t) {
  std::vector<ValueId> in;
  for (std::size_t i = 0; i < t.input_count(); ++i) in.push_back(t.x(i));
  const std::string words = t.attribute("subscripts");
  t.attribute("optimize");
  const auto y = einsum_of(t.g, t.name(), words, in);
  if (!y) throw bad_input("einsum '{}' has no translation", printable(words));
  return {*y};
}

std::vector<ValueId> spread(Translator& t) {
  const Parts p{t};
  const ValueId x = t.x();
  Ints axes = t.integers("axis");
  if (axes.empty())
    for (int i = 0; i < t.g.rank(x); ++i) axes.push_back(i);
  std::int64_t count = 1;
  const std::int64_t less = t.integer("ddof", 0);
  for (const std::int64_t a : axes) {
    const std::int64_t n = t.g.dims(x)[static_cast<std::size_t>(normalize_axis(a, t.g.rank(x)))];
    if (n < 1 && less != 0) throw bad_input("ddof={} over a free extent", less);
    count = checked_mul(count, std::max<std::int64_t>(n, 1));
  }
  if (less != 0 && count <= less) throw bad_input("ddof={} of {} elements", less, count);
  const ValueId from =
      p.op("sub", "from_mean",
           {x, p.op("reduce_mean", "mean", {x}, {{"axes", axes}, {"keepdims", true}})});
  const bool root = t.operator_name() == "_npi_std";
  ValueId y = p.op("reduce_mean", "variance", {p.op("mul", "square", {from, from})},
                   {{"axes", axes}, {"keepdims", t.flag("keepdims", false)}});
  if (less != 0)
    y = p.op("mul", "unbiased",
             {y, p.number(y, static_cast<double>(count) / static_cast<double>(count - less))});
  return {t.op(root ? "sqrt" : "identity", {y})};
}

std::vector<ValueId> all_as_they_are(Translator& t) {
  std::vector<ValueId> out;
  for (std::size_t i = 0; i < t.input_count(); ++i) out.push_back(t.op("identity", {t.x(i)}));
  return out;
}

constexpr OperatorRow kRows[] = {{"_arange", arange},
                                 {"_npi_arange", arange},
                                 {"_linspace", linspace},
                                 {"_contrib_arange_like", arange_like},
                                 {"_eye", eye},
                                 {"_npi_eye", eye},
                                 {"_full_like", full_like},
                                 {"_npi_full_like", full_like},
                                 {"_split_v2", split},
                                 {"_np_dot", product},
                                 {"_npi_matmul", product},
                                 {"_npi_einsum", einsum},
                                 {"_npi_std", spread},
                                 {"_npi_var", spread},
                                 {"amp_multicast", all_as_they_are}};

struct Names {
  std::string_view numpy, plain;
};
constexpr Names kNames[] = {{"_npi_absolute", "abs"},
                            {"_npi_add", "broadcast_add"},
                            {"_npi_subtract", "broadcast_sub"},
                            {"_npi_multiply", "broadcast_mul"},
                            {"_npi_true_divide", "broadcast_div"},
                            {"_npi_mod", "broadcast_mod"},
                            {"_npi_power", "broadcast_power"},
                            {"_npi_maximum", "broadcast_maximum"},
                            {"_npi_minimum", "broadcast_minimum"},
                            {"_npi_hypot", "broadcast_hypot"},
                            {"_npi_equal", "broadcast_equal"},
                            {"_npi_not_equal", "broadcast_not_equal"},
                            {"_npi_greater", "broadcast_greater"},
                            {"_npi_greater_equal", "broadcast_greater_equal"},
                            {"_npi_less", "broadcast_lesser"},
                            {"_npi_less_equal", "broadcast_lesser_equal"},
                            {"_npi_logical_and", "broadcast_logical_and"},
                            {"_npi_logical_or", "broadcast_logical_or"},
                            {"_npi_logical_xor", "broadcast_logical_xor"},
                            {"_npi_add_scalar", "_plus_scalar"},
                            {"_npi_subtract_scalar", "_minus_scalar"},
                            {"_npi_rsubtract_scalar", "_rminus_scalar"},
                            {"_npi_multiply_scalar", "_mul_scalar"},
                            {"_npi_true_divide_scalar", "_div_scalar"},
                            {"_npi_rtrue_divide_scalar", "_rdiv_scalar"},
                            {"_npi_mod_scalar", "_mod_scalar"},
                            {"_npi_rmod_scalar", "_rmod_scalar"},
                            {"_npi_power_scalar", "_power_scalar"},
                            {"_npi_rpower_scalar", "_rpower_scalar"},
                            {"_npi_equal_scalar", "_equal_scalar"},
                            {"_npi_not_equal_scalar", "_not_equal_scalar"},
                            {"_npi_greater_scalar", "_greater_scalar"},
                            {"_npi_greater_equal_scalar", "_greater_equal_scalar"},
                            {"_npi_less_scalar", "_lesser_scalar"},
                            {"_npi_less_equal_scalar", "_lesser_equal_scalar"},
                            {"_npi_maximum_scalar", "_maximum_scalar"},
                            {"_npi_minimum_scalar", "_minimum_scalar"},
                            {"_npi_concatenate", "concat"},
                            {"_npi_swapaxes", "swapaxes"},
                            {"_np_copy", "_copy"},
                            {"_np_transpose", "transpose"},
                            {"_np_squeeze", "squeeze"},
                            {"_np_sum", "sum"},
                            {"_np_max", "max"},
                            {"_np_min", "min"},
                            {"_np_prod", "prod"},
                            {"_np_reshape", "_np_reshape"},
                            {"_np_dot", "_np_dot"},
                            {"_np_broadcast_to", "broadcast_to"},
                            {"_npx_relu", "relu"},
                            {"_npx_sigmoid", "sigmoid"},
                            {"_npx_reshape", "_npx_reshape"},
                            {"_npi_zeros", "_zeros"},
                            {"_npi_ones", "_ones"},
                            {"_npi_full", "_full"}};
// Those whose name behind "_npi_" is MXNet's own.
constexpr std::string_view kSame[] = {
    "exp",     "log",      "sqrt",       "square",      "tanh",   "sin",     "cos",
    "tan",     "negative", "reciprocal", "log1p",       "expm1",  "log2",    "log10",
    "cbrt",    "ceil",     "floor",      "trunc",       "fix",    "rint",    "sign",
    "arcsin",  "arccos",   "arctan",     "sinh",        "cosh",   "arcsinh", "arccosh",
    "arctanh", "degrees",  "radians",    "logical_not", "stack",  "where",   "clip",
    "flip",    "tile",     "mean",       "argmax",      "argmin", "cumsum",  "repeat"};

}  // namespace

std::span<const OperatorRow> array_rows() { return kRows; }

std::string_view name_of_numpy(std::string_view name) {
  for (const Names& n : kNames)
    if (n.numpy == name) return n.plain;
  constexpr std::string_view kPrefix = "_npi_";
  if (!name.starts_with(kPrefix)) return {};
  for (const OperatorRow& row : kRows)
    if (row.name == name) return row.name;
  for (const std::string_view plain : kSame)
    if (plain == name.substr(kPrefix.size())) return plain;
  return {};
}

}  // namespace etalon::mxnet
