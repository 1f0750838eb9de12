#include "bench/compare/conventions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "bench/compare/param_fields.h"
#include "engine/numerics/element.h"
#include "engine/ops/resize.h"

namespace etalon {
namespace {

// One element in question: what came, what the definition says.
struct Element {
  const Layer& layer;
  const std::vector<Tensor>& got;
  const std::vector<Tensor>& ours;
  std::size_t output;
  std::int64_t index;

  double theirs() const { return load_as_double(got[output], index); }
  double defined() const { return load_as_double(ours[output], index); }
  DType dtype() const { return got[output].dtype(); }
  // The element of input 0 that an elementwise op reads for it.
  double x() const { return load_as_double(layer.inputs[0], index); }
};

double lowest_integer(DType d) {
  double low = 0;
  visit_dtype(d, [&](auto t) {
    if constexpr (std::is_integral_v<decltype(t)>)
      low = static_cast<double>(std::numeric_limits<decltype(t)>::lowest());
  });
  return low;
}
double highest_integer(DType d) {
  double high = 0;
  visit_dtype(d, [&](auto t) {
    if constexpr (std::is_integral_v<decltype(t)>)
      high = static_cast<double>(std::numeric_limits<decltype(t)>::max());
  });
  return high;
}

struct Convention {
  std::vector<std::string_view> ops;
  std::string_view cause;
  std::string_view source;
  bool (*gives)(const Element&);
};

bool nan_to_zero(const Element& e) { return is_nan(e.x()) && e.theirs() == 0; }

// Undefined in C++; compilers for x86 convert to 32 or 64 bits, where the processor gives the least
// integer for what does not fit, and keep the low bits.
bool processor_conversion(const Element& e) {
  const double x = e.x();
  if (!is_floating(e.layer.inputs[0].dtype()) || is_floating(e.dtype())) return false;
  const double t = std::trunc(x);
  const auto low = [&](std::int64_t wide) {
    Tensor one = Tensor::zeros(e.dtype(), Shape{1});
    const auto bytes = static_cast<std::size_t>(size_bytes(e.dtype()));
    std::memcpy(const_cast<std::byte*>(one.bytes().data()), &wide, bytes);
    return load_as_double(one, 0) == e.theirs();
  };
  const bool in64 = t >= -0x1p63 && t < 0x1p63, in32 = t >= -0x1p31 && t < 0x1p31;
  return low(in64 ? static_cast<std::int64_t>(t) : INT64_MIN) ||
         low(in32 ? static_cast<std::int64_t>(t) : INT32_MIN);
}

bool least_integer(const Element& e) {
  return !is_floating(e.dtype()) && e.theirs() == lowest_integer(e.dtype());
}
bool at_an_end(const Element& e) {
  return !is_floating(e.dtype()) &&
         (e.theirs() == lowest_integer(e.dtype()) || e.theirs() == highest_integer(e.dtype()));
}

// Whether a NaN or infinity of input 0 lies within one element of what output i of resize reads.
bool beside_non_finite(const Element& e) {
  if (!is_nan(e.theirs()) || is_nan(e.defined())) return false;
  const auto& params = e.layer.params.as<ResizeParams>();
  std::vector<InferInput> in;
  for (const Tensor& t : e.layer.inputs)
    in.push_back(t ? InferInput{t.type(), &t, true} : InferInput{});
  const auto axes = resize_axes(params, InferInputs(in));
  const Shape &x = e.layer.inputs[0].shape(), &y = e.got[0].shape();
  std::vector<std::int64_t> places = {0};  // offsets of the elements near, axis by axis
  std::int64_t rest = e.index, stride = 1;
  for (int d = x.rank() - 1; d >= 0; --d) {
    const ResizeAxis& axis = axes[static_cast<std::size_t>(d)];
    const std::int64_t i = rest % y[d];
    rest /= y[d];
    // An axis that does not change may be interpolated too, with weight 0 for the next element.
    std::set<std::int64_t> near = {std::max<std::int64_t>(i - 1, 0), i, std::min(i + 1, x[d] - 1)};
    if (axis.changes) {
      near.clear();
      const auto f = static_cast<std::int64_t>(std::floor(resize_coordinate(params, axis, i)));
      const std::int64_t reach = params.mode == ResizeMode::cubic ? 3 : 2;
      for (std::int64_t j = f - reach + 1; j <= f + reach; ++j)
        near.insert(std::clamp<std::int64_t>(j, 0, x[d] - 1));
    }
    std::vector<std::int64_t> more;
    for (const std::int64_t p : places)
      for (const std::int64_t j : near) more.push_back(p + j * stride);
    places = std::move(more);
    stride *= x[d];
  }
  return std::ranges::any_of(
      places, [&](std::int64_t p) { return !is_finite(load_as_double(e.layer.inputs[0], p)); });
}

// Of equal elements another was taken, none twice.
bool other_of_equals(const Element& e) {
  if (e.output != 1 || e.got.size() < 2 || !e.got[0]) return false;
  const auto fields = fields_of(e.layer.params);
  const ParamField* field = find_field(fields, "axis");
  if (field == nullptr) return false;
  const Shape &x = e.layer.inputs[0].shape(), &y = e.got[1].shape();
  std::int64_t axis = std::get<std::int64_t>(field->value);
  if (axis < 0) axis += x.rank();
  const int a = static_cast<int>(axis);
  const std::int64_t inner = y.product(a + 1, y.rank()), k = y[a];
  const std::int64_t outer = e.index / (inner * k), lane = e.index % inner;
  const auto element = [&](double j) {
    return load_as_double(e.layer.inputs[0],
                          (outer * x[a] + static_cast<std::int64_t>(j)) * inner + lane);
  };
  std::set<double> taken;
  for (std::int64_t r = 0; r < k; ++r)
    taken.insert(load_as_double(e.got[1], (outer * k + r) * inner + lane));
  if (static_cast<std::int64_t>(taken.size()) != k) return false;
  if (!(e.theirs() >= 0 && e.theirs() < static_cast<double>(x[a]))) return false;
  const double theirs = element(e.theirs()), defined = element(e.defined());
  return theirs == defined || (is_nan(theirs) && is_nan(defined));
}

// The quotient overflows on the way to the remainder.
bool quotient_overflows(const Element& e) {
  const std::int64_t n = e.layer.inputs[1].numel();  // shapes as numpy broadcasts them, y the row
  if (!is_nan(e.theirs()) || n == 0 || e.got[0].numel() != e.layer.inputs[0].numel()) return false;
  const double y = load_as_double(e.layer.inputs[1], e.index % n);
  return std::fabs(e.x() / y) > largest_finite(e.dtype());
}

// Of the elements that output i reduces, one that is a number: a comparison lost a NaN.
bool lost_nan(const Element& e) {
  if (!is_nan(e.defined()) || is_nan(e.theirs())) return false;
  const Shape &x = e.layer.inputs[0].shape(), &y = e.got[0].shape();
  const auto fields = fields_of(e.layer.params);
  const ParamField* axes = find_field(fields, "axes");
  if (axes == nullptr) return false;
  std::vector<bool> reduced(static_cast<std::size_t>(x.rank()), false);
  for (const std::int64_t a : std::get<Ints>(axes->value))
    reduced[static_cast<std::size_t>(normalize_axis(a, x.rank()))] = true;
  for (std::int64_t j = 0; j < x.numel(); ++j) {
    std::int64_t rest = j, at = 0, stride = 1;
    for (int d = x.rank() - 1; d >= 0; --d) {
      const std::int64_t i = rest % x[d];
      rest /= x[d];
      if (reduced[static_cast<std::size_t>(d)]) continue;
      at += i * stride;
      stride *= x[d];
    }
    if (stride != y.numel()) return false;
    if (at == e.index && load_as_double(e.layer.inputs[0], j) == e.theirs()) return true;
  }
  return false;
}

// A row of length 0 leaves its initial state.
bool empty_sequence(const Element& e) {
  const std::size_t initial = e.output + 4;  // y_h from input 5, y_c from input 6
  if (e.output == 0 || e.layer.inputs.size() <= initial || !e.layer.inputs[4]) return false;
  const Tensor& state = e.layer.inputs[initial];
  if (!state || state.numel() != e.got[e.output].numel() || e.theirs() != 0) return false;
  bool empty = false;
  for (std::int64_t b = 0; b < e.layer.inputs[4].numel(); ++b)
    empty |= load_as_double(e.layer.inputs[4], b) == 0;
  return empty && load_as_double(state, e.index) == e.defined();
}

const std::vector<Convention>& conventions() {
  static const std::vector<Convention> list = {
      {{"sign"},
       "the sign of NaN is 0",
       "PyTorch, aten/src/ATen/native/cpu/UnaryOpsKernel.cpp: (0 < x) - (x < 0)",
       nan_to_zero},
      {{"softshrink", "shrink", "thresholded_relu"},
       "NaN becomes 0, because no comparison with it holds",
       "ONNX Runtime, core/providers/cpu/nn/shrink.cc and activation/activations.h; PyTorch, "
       "aten/src/ATen/native/cpu/Activation.cpp",
       nan_to_zero},
      {{"cast"},
       "a number that the integer type cannot hold becomes what the processor's conversion leaves "
       "in the low bits, not the nearest end",
       "undefined in C++ and in ONNX Cast; PyTorch and ONNX Runtime use static_cast",
       processor_conversion},
      {{"pow"},
       "an integer power beyond its type becomes the least integer (through f64), not the "
       "remainder modulo 2^bits",
       "ONNX Runtime, core/providers/cpu/math/element_wise_ops.cc: std::pow on double",
       least_integer},
      {{"reduce_sum"},
       "an integer sum beyond its type is held at its end, not taken modulo 2^bits",
       "ONNX Runtime, as observed; ONNX ReduceSum says nothing of overflow",
       at_an_end},
      {{"quantize_linear"},
       "NaN is quantised to the least integer, not to the zero point",
       "ONNX Runtime, as observed; ONNX QuantizeLinear says nothing of NaN",
       [](const Element& e) { return is_nan(e.x()) && least_integer(e); }},
      {{"reduce_mean"},
       "the mean of no elements is 0, not NaN",
       "ONNX Runtime, core/providers/cpu/reduction/reduction_ops.cc: an empty set is filled with 0",
       [](const Element& e) { return e.layer.inputs[0].numel() == 0 && e.theirs() == 0; }},
      {{"lp_norm"},
       "a vector of zeros is divided by its norm 0 and becomes NaN",
       "x / norm as written; ONNX LpNormalization says nothing of a norm of 0",
       [](const Element& e) { return is_nan(e.theirs()) && e.defined() == 0 && e.x() == 0; }},
      {{"resize"},
       "a neighbour of weight 0 takes part, and 0 times NaN or infinity is NaN",
       "ONNX Runtime, core/providers/cpu/tensor/upsample.h: both neighbours are multiplied",
       beside_non_finite},
      {{"mod"},
       "x / y overflows, and the remainder made from it is NaN",
       "PyTorch, aten/src/ATen/native/cpu/BinaryOpsKernel.cpp: x - y * floor(x / y), and fmod of "
       "SLEEF",
       quotient_overflows},
      {{"reduce_max", "reduce_min"},
       "a NaN is lost in a comparison, instead of becoming the result",
       "ONNX Runtime, core/providers/cpu/reduction/reduction_ops.h: Eigen's maxCoeff and minCoeff "
       "leave NaN undefined",
       lost_nan},
      {{"hardmax"},
       "NaN is the maximum and equals nothing, so that no element is 1",
       "ONNX Runtime, core/providers/cpu/math/hardmax.cc: compares with Eigen's maxCoeff",
       [](const Element& e) { return is_nan(e.x()) && e.defined() == 1 && e.theirs() == 0; }},
      {{"lstm", "gru", "rnn"},
       "a sequence of length 0 leaves the state 0, not the initial state",
       "ONNX Runtime, core/providers/cpu/rnn/: rows of length 0 are filled with zeros",
       empty_sequence},
      {{"top_k"},
       "of equal elements another is taken than the first",
       "PyTorch's documentation of torch.topk promises no order of ties",
       other_of_equals},
  };
  return list;
}

bool same(const Element& e) {
  const double a = e.theirs(), b = e.defined();
  return a == b || (is_nan(a) && is_nan(b));
}

// An output of another shape has no elements to compare one by one: the whole layer is judged as
// one that takes its sizes in f32.
void name_sizes_in_f32(const Layer& layer, const std::vector<Tensor>& got,
                       const JudgeOptions& options, std::vector<Judgement>& judged) {
  if (layer.op->name != "resize" || got.size() != 1 || !got[0]) return;
  const LayerEvaluator eval(*options.registry, options.threads, options.isa);
  const TensorType defined = eval.output_types(layer)[0];
  if (got[0].type() == defined) return;
  Layer f32 = layer.share();
  f32.params = with_field(layer.params, "coordinates", std::string("f32"));
  if (!(got[0].type() == eval.output_types(f32)[0])) return;
  JudgeOptions plain = options;
  plain.conventions = false;
  const Judgement again = judge_layer(f32, got, plain)[0];
  if (again.verdict > Verdict::explained) return;
  judged[0].cause = fmt::format(
      "the size is floor(extent * scale) with the product rounded to f32, which gives {} for {} "
      "(ONNX Runtime, core/providers/cpu/tensor/upsample.cc)",
      to_string(got[0].type()), to_string(defined));
  judged[0].sentence = fmt::format(
      "Not what the definition says: {}. As a tensor of that size it is {}.", judged[0].cause,
      again.verdict == Verdict::identical ? "equal bit for bit" : "within rounding");
}

}  // namespace

void name_conventions(const Layer& layer, const std::vector<Tensor>& got,
                      const JudgeOptions& options, std::vector<Judgement>& judged) {
  name_sizes_in_f32(layer, got, options, judged);
  const auto open = [&](std::size_t o) {
    return o < got.size() && got[o] && judged[o].verdict > Verdict::explained;
  };
  bool any = false;
  for (std::size_t o = 0; o < judged.size(); ++o) any |= open(o);
  if (!any || layer.inputs.empty() || !layer.inputs[0]) return;
  for (const Convention& c : conventions()) {
    if (std::ranges::find(c.ops, layer.op->name) == c.ops.end()) continue;
    const std::vector<Tensor> ours = LayerEvaluator(*options.registry, options.threads, options.isa)
                                         .bits(layer, options.contract);
    std::vector<Tensor> rest;  // what came, with what the convention explains put right
    std::vector<std::int64_t> explained(judged.size(), 0);
    for (std::size_t o = 0; o < judged.size(); ++o) {
      rest.push_back(o < got.size() && got[o] ? got[o].share() : Tensor());
      if (!open(o) || !(got[o].type() == ours[o].type())) continue;
      Tensor copy = got[o].clone();
      const auto size = static_cast<std::size_t>(size_bytes(copy.dtype()));
      for (std::int64_t i = 0; i < copy.numel(); ++i) {
        const Element e{layer, got, ours, o, i};
        if (same(e) || !c.gives(e)) continue;
        const auto at = static_cast<std::size_t>(i) * size;
        std::memcpy(const_cast<std::byte*>(copy.bytes().data()) + at, ours[o].bytes().data() + at,
                    size);
        ++explained[o];
      }
      rest[o] = std::move(copy);
    }
    if (std::ranges::all_of(explained, [](std::int64_t n) { return n == 0; })) continue;
    JudgeOptions plain = options;
    plain.conventions = false;
    const std::vector<Judgement> again = judge_layer(layer, rest, plain);
    for (std::size_t o = 0; o < judged.size(); ++o) {
      if (explained[o] == 0 || again[o].verdict > Verdict::explained) continue;
      Judgement& j = judged[o];
      j.verdict = Verdict::wrong;
      j.cause = fmt::format("{} ({})", c.cause, c.source);
      j.sentence = fmt::format(
          "Not what the definition says: {}. That accounts for {} of {} elements; the others are "
          "{}.",
          c.cause, explained[o], j.elements,
          again[o].verdict == Verdict::identical ? "equal bit for bit" : "within rounding");
    }
  }
}

}  // namespace etalon
