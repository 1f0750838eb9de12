// TensorFlow Lite's integer kernels (engine/ops/tflite.h) as ONNX: sums by ConvInteger and
// MatMulInteger on unsigned bytes, factors as products and quotients of i64, functions as tables.
// Every runtime that follows ONNX gives the kernels' bits.
#include <numeric>

#include "engine/core/error.h"
#include "engine/ops/tflite_sixteen.h"
#include "importers/formats/onnx/whole.h"

namespace etalon::onnx_format {
namespace {

using tflite::Multiplier;
using Name = Whole::Name;

double factor(float above, float below) {
  return static_cast<double>(above) / static_cast<double>(below);
}

// The extents of input i along these axes; none may be free.
Ints fixed_extents(NodeWriter& w, std::size_t i, const Ints& axes) {
  const Ints all = w.extents(i);
  Ints out;
  for (const std::int64_t a : axes) {
    const std::int64_t n = all.at(static_cast<std::size_t>(a));
    if (n < 0) throw usage_error("an extent that is free, along axis {}, has no form in ONNX", a);
    out.push_back(n);
  }
  return out;
}

Name with_bias(NodeWriter& w, Whole& m, const Name& sum, std::int64_t channels, int trailing) {
  if (!w.has(2)) return sum;
  Ints shape(static_cast<std::size_t>(trailing) + 1, 1);
  shape[0] = channels;
  const Name bias = w.step("Reshape", {w.input(2), w.constant("shape", shape)});
  return m.add(sum, m.cast(bias, DType::i64));
}

void conv(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteConvParams>();
  const Ints weight = w.extents(1);
  const std::int64_t channels = fixed_extents(w, 1, {0})[0];
  const int spatial = static_cast<int>(weight.size()) - 2;
  const Name sum = m.sums(m.bytes_of(0, p.x_zero), m.bytes_of(1, p.w_zero), [&](auto&&... in) {
    Name y = w.new_name("sum");
    pb::NodeProto& n = w.write("ConvInteger", {in...}, {y});
    write_window(w, n, Ints(weight.begin() + 2, weight.end()));
    set(n, "group", w.integer("groups"));
    return y;
  });
  const Name all = with_bias(w, m, sum, channels, spatial);
  const DType dtype = w.dtype();
  const auto by = tflite::multipliers(p, p.w_scales.size() == 1 ? 1 : channels, dtype == DType::u8);
  const bool wide = dtype == DType::i16 && (!w.has(2) || w.dtype(2) == DType::i64);
  m.give(wide ? m.scaled_wide(all, by, spatial) : m.scaled(all, by, spatial), p, dtype);
}

Name product_of(NodeWriter& w, Whole& m, const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
  return m.sums(a, b, [&](auto&&... in) { return w.step("MatMulInteger", {in...}); });
}

void fully_connected(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteFullyConnectedParams>();
  const std::int64_t channels = fixed_extents(w, 1, {0})[0];
  const Name turned = w.step("Transpose", {w.input(1)});
  const Name sum =
      product_of(w, m, m.bytes_of(0, p.x_zero), m.bytes_of(turned, w.dtype(1), p.w_zero));
  const Name all = with_bias(w, m, sum, channels, 0);
  const auto by = tflite::multipliers(p, p.w_scales.size() == 1 ? 1 : channels, false);
  m.give(m.scaled_once(all, by, w.dtype() == DType::i16), p, w.dtype());
}

void batch_matmul(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteBinaryParams>();
  const Name sum = product_of(w, m, m.bytes_of(0, p.a_zero), m.bytes_of(1, p.b_zero));
  const Multiplier by(factor(p.a_scale * p.b_scale, p.y_scale));
  m.give(w.dtype() == DType::i16 ? m.scaled_wide(sum, {by}, 0) : m.scaled(sum, by), p, w.dtype());
}

void add(NodeWriter& w, bool minus) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteBinaryParams>();
  const int left = w.dtype() == DType::i16 ? 15 : 20;
  const double twice = 2 * static_cast<double>(std::max(p.a_scale, p.b_scale));
  const Multiplier ma(static_cast<double>(p.a_scale) / twice),
      mb(static_cast<double>(p.b_scale) / twice),
      my(twice / ((1 << left) * static_cast<double>(p.y_scale)));
  const Name a = m.scaled(m.distance(0, p.a_zero), ma, left),
             b = m.scaled(m.distance(1, p.b_zero), mb, left);
  m.give(m.scaled(minus ? m.sub(a, b) : m.add(a, b), my), p, w.dtype());
}

void mul(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteBinaryParams>();
  const Name product = m.mul(m.distance(0, p.a_zero), m.distance(1, p.b_zero));
  const Multiplier by(static_cast<double>(p.a_scale * p.b_scale / p.y_scale));
  m.give(m.scaled(product, by), p, w.dtype());
}

// Planes one by one under a weight of ones; so the taps inside are counted, too.
void avg_pool(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteAvgPoolParams>();
  if (p.ceil_mode) throw usage_error("tflite_avg_pool with ceil_mode has no form in ONNX");
  const std::size_t spatial = p.kernel.size();
  Ints plane{-1, 1}, kernel{1, 1};
  plane.resize(spatial + 2, 0);
  kernel.insert(kernel.end(), p.kernel.begin(), p.kernel.end());
  const std::int64_t taps =
      std::accumulate(kernel.begin(), kernel.end(), std::int64_t{1}, std::multiplies<>());
  const std::vector<std::uint8_t> ones(static_cast<std::size_t>(taps), 1);
  const Name weight = w.constant(
      "ones", Tensor::of<std::uint8_t>(Shape(kernel), std::span<const std::uint8_t>(ones)));
  const auto sum = [&](const std::vector<Bytes>& x) {
    return m.sums(x, {{weight, 0, 1}}, [&](auto&&... in) {
      Name y = w.new_name("sum");
      write_window(w, w.write("ConvInteger", {in...}, {y}), p.kernel);
      return y;
    });
  };
  const Name planes = w.step("Reshape", {w.input(0), w.constant("planes", plane)});
  const Name total = sum(m.bytes_of(planes, w.dtype(), 0));
  const Name extents = w.step("Shape", {planes}, "start", 2);
  const Name here = w.step(
      "Expand", {m.byte(1), w.step("Concat", {w.constant("one", Ints{1, 1}), extents}, "axis", 0)});
  const Name count = w.step("Max", {sum({{here, 0, 1}}), m.number(1)});
  const Name half = m.mul(w.step("Sign", {total}), m.div(count, 2));
  const Name mean = m.div(m.add(total, half), count);
  const Name outside = w.new_name("batch");
  set(w.write("Shape", {w.input(0)}, {outside}), "end", std::int64_t{2});
  const Name shape = w.step("Concat", {outside, w.step("Shape", {mean}, "start", 2)}, "axis", 0);
  TfliteOutput out;
  out.act_min = p.act_min;
  out.act_max = p.act_max;
  m.give(w.step("Reshape", {mean, shape}), out, w.dtype());
}

// The axes of a reduction, as places; all where none are given.
Ints axes_of(NodeWriter& w) {
  const auto& p = w.node().params.as<TfliteMeanParams>();
  const auto rank = static_cast<std::int64_t>(w.extents(0).size());
  Ints axes = p.axes;
  if (w.has(1)) {
    const std::optional<Ints> given = w.integers_of(1);
    if (!given) throw usage_error("axes that are made when the network runs have no form in ONNX");
    axes = *given;
  }
  if (axes.empty() && !p.noop_with_empty_axes) {
    axes.resize(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
  }
  for (std::int64_t& a : axes) a += a < 0 ? rank : 0;
  return axes;
}

void reduction(NodeWriter& w, bool mean) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteMeanParams>();
  const Ints axes = axes_of(w);
  std::int64_t n = 1;
  if (mean)
    for (const std::int64_t extent : fixed_extents(w, 0, axes)) n = checked_mul(n, extent);
  if (n < 1) throw usage_error("a mean of no elements has no form in ONNX");
  Name sum = m.distance(0, p.x_zero);
  if (!axes.empty()) sum = m.reduced("ReduceSum", sum, axes, p.keepdims);
  m.give(m.scaled(sum, tflite::of_sums(p, n, mean)), p, w.dtype());
}

// Element after element; the axes are moved behind the others and joined.
void prod(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteMeanParams>();
  const Ints axes = axes_of(w), extents = w.extents(0);
  constexpr std::int64_t kMost = 1 << 10;
  std::int64_t n = 1;
  for (const std::int64_t extent : fixed_extents(w, 0, axes)) n = checked_mul(n, extent);
  if (n > kMost) throw usage_error("a product of {} elements in ONNX; at most {}", n, kMost);
  Ints order, kept;
  for (std::int64_t a = 0; a < static_cast<std::int64_t>(extents.size()); ++a)
    if (std::ranges::find(axes, a) == axes.end()) order.push_back(a);
  kept.assign(order.size(), 0);
  kept.push_back(n);
  Ints reduced = axes;
  std::ranges::sort(reduced);
  order.insert(order.end(), reduced.begin(), reduced.end());

  const Name moved = w.new_name("moved");
  set(w.write("Transpose", {m.distance(0, p.x_zero)}, {moved}), "perm", order);
  const Name rows = w.step("Reshape", {moved, w.constant("rows", kept)});
  const auto f64 = [](Function f, double v) {
    return correctly_rounded_function(f, v, DType::f64);
  };
  const double root = f64(
      Function::exp, f64(Function::log, static_cast<double>(p.y_scale)) / static_cast<double>(n));
  const Multiplier by(static_cast<double>(p.x_scale) / root);
  const auto element = [&](std::int64_t k) {
    return w.step("Gather", {rows, m.number(k)}, "axis", -1);
  };
  Name product = element(0);
  for (std::int64_t k = 1; k < n; ++k) product = m.scaled_wide(m.mul(product, element(k)), {by}, 0);
  product = m.scaled_wide(product, {by}, 0);
  if (p.keepdims && !axes.empty())
    product = w.step("Unsqueeze", {product, w.constant("axes", reduced)});
  m.give(product, p, w.dtype());
}

void squared_difference(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteBinaryParams>();
  constexpr int kLeft = 7;
  const double twice = 2 * static_cast<double>(std::max(p.a_scale, p.b_scale));
  const Multiplier ma(static_cast<double>(p.a_scale) / twice),
      mb(static_cast<double>(p.b_scale) / twice),
      my(twice * twice / ((1 << 2 * kLeft) * static_cast<double>(p.y_scale)));
  const Name difference = m.sub(m.scaled(m.distance(0, p.a_zero), ma, kLeft),
                                m.scaled(m.distance(1, p.b_zero), mb, kLeft));
  m.give(m.scaled(m.mul(difference, difference), my), p, w.dtype());
}

std::int64_t lowest_of(DType dtype) {
  return dtype == DType::i16 ? -32768 : dtype == DType::i8 ? -128 : 0;
}

// Of all pairs of bytes.
void div(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteBinaryParams>();
  const TfliteEnds ends(w.dtype(), p.act_min, p.act_max);
  const Multiplier by(factor(p.a_scale, p.b_scale * p.y_scale));
  const std::int64_t low = lowest_of(w.dtype());
  Ints table;
  for (std::int64_t a = low; a < low + 256; ++a)
    for (std::int64_t b = low; b < low + 256; ++b)
      table.push_back(tflite::quotient(static_cast<std::int32_t>(a - p.a_zero),
                                       static_cast<std::int32_t>(b - p.b_zero), p, by, ends));
  const Name at = m.add(m.mul(m.distance(0, low), 256), m.distance(1, low));
  m.give(m.from_table(table, at), w.dtype());
}

// A function of one number of 8 or 16 bits.
void by_table(NodeWriter& w, const Ints& values) {
  Whole m(w);
  m.give(m.from_table(values, m.distance(0, lowest_of(w.dtype()))), w.dtype());
}

template <class F>
Ints of_all_words(const F& f) {
  Ints table;
  for (std::int32_t x = -32768; x < 32768; ++x) table.push_back(f(x));
  return table;
}

void function(NodeWriter& w, Function f) {
  const auto& p = w.node().params.as<TfliteUnaryParams>();
  if (w.dtype() == DType::i16) {
    by_table(w, f == Function::tanh ? of_all_words(tflite::TanhOf16Bits(p.x_scale))
                                    : of_all_words(tflite::SigmoidOf16Bits(p.x_scale)));
    return;
  }
  const auto table = tflite::function_table(f, p, w.dtype());
  by_table(w, Ints(table.begin(), table.end()));
}

// t + ((slope * rest + 64) >> 7) between two elements of the table.
void interpolate(NodeWriter& w) {
  Whole m(w);
  const Name x = m.distance(0, -32768), rest = w.step("Mod", {x, m.number(128)}),
             at = m.div(x, 128), table = m.cast(w.input(1), DType::i64);
  const Name here = w.step("Gather", {table, at}), next = w.step("Gather", {table, m.add(at, 1)});
  // The slope is of 16 bits, too.
  const Name slope = m.cast(m.cast(m.sub(next, here), DType::i16), DType::i64);
  m.give(m.add(here, m.halved(m.mul(slope, rest), 7)), w.dtype());
}

void requantize(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteUnaryParams>();
  const DType to = p.output_dtype.empty() ? w.dtype() : parse_dtype(p.output_dtype);
  m.give(m.scaled(m.distance(0, p.x_zero), Multiplier(factor(p.x_scale, p.y_scale))), p, to);
}

void quantize(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteUnaryParams>();
  const DType to = p.output_dtype.empty() ? DType::i8 : parse_dtype(p.output_dtype);
  m.give(m.rounded(m.div(w.input(0), m.real(p.y_scale))), p, to);
}

// How far each element lies below the largest of its row.
Name below_most(NodeWriter& w, Whole& m) {
  const Name x = m.cast(w.input(0), DType::i64);
  return m.sub(m.reduced("ReduceMax", x, {-1}, true), x);
}

void softmax_sixteen(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteUnaryParams>();
  const Name below = m.mul(below_most(w, m), -1);
  const auto at = [&](const Name& v) { return m.add(m.held(v, -32768, 32767), 32768); };
  const auto of = [](const tflite::InterpolatedTable<double>& t) {
    return of_all_words(
        [&](std::int32_t x) { return std::int64_t{t(static_cast<std::int16_t>(x))}; });
  };
  const Multiplier by(tflite::softmax_factor(p));
  const Name e = m.from_table(of(tflite::exp_table()), at(m.add(m.scaled(below, by), 32767)));
  const Name sum = m.reduced("ReduceSum", e, {-1}, true);
  // The sum is 2^n times 1 to 2, of which 16 bits are kept.
  Ints powers, halves;
  for (int i = 0; i < 32; ++i) {
    powers.push_back(std::int64_t{1} << i);
    halves.push_back((std::int64_t{1} << i) / 2);
  }
  const Name n = m.add(m.bit_width(sum), -1);
  const Name whole = m.mul(sum, m.from_table(powers, m.sub(m.number(30), n)));
  const Name kept = m.halved(whole, 14);
  const Name inverse =
      m.from_table(of(tflite::inverse_table()), at(m.add(kept, -(1 << 15) - (1 << 16))));
  const Name share =
      m.div(m.add(m.mul(e, inverse), m.from_table(halves, n)), m.from_table(powers, n));
  m.give(m.held(share, 0, 32767), w.dtype());
}

// The sum goes through the row in sequence, as CumSum does.
void softmax(NodeWriter& w) {
  if (w.dtype() == DType::i16) return softmax_sixteen(w);
  Whole m(w);
  const auto& p = w.node().params.as<TfliteUnaryParams>();
  const auto table = tflite::softmax_table(p);
  const Name e =
      w.step("Gather", {w.constant("exp", Tensor::of<float>({256}, std::span<const float>(table))),
                        below_most(w, m)});
  const Name sums = w.step("CumSum", {e, m.number(-1)});
  const Name sum = w.step("Gather", {sums, w.constant("last", Ints{-1})}, "axis", -1);
  const Name inverse = m.div(m.real(1), m.mul(sum, m.real(p.y_scale)));
  const Name share = w.step("Floor", {m.add(m.mul(e, inverse), m.real(0.5F))});
  const DType to = p.output_dtype.empty() ? w.dtype() : parse_dtype(p.output_dtype);
  m.give(m.cast(share, DType::i64), p, to);
}

// The four neighbours of each element, axis by axis; of u8 in f32, from the left.
void resize_bilinear(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteResizeParams>();
  const Ints from = fixed_extents(w, 0, {2, 3});
  const bool in_f32 = w.dtype() == DType::u8;
  const Name x = m.cast(w.input(0), in_f32 ? DType::f32 : DType::i64);
  Name places[2][2], weights[2][2];
  for (std::size_t axis = 0; axis < 2; ++axis) {
    constexpr std::int64_t kMost = 1 << 20;
    if (from[axis] > kMost || p.sizes[axis] > kMost)
      throw usage_error("an image resized from {} to {} has no form in ONNX", from[axis],
                        p.sizes[axis]);
    Ints at[2], by[2];
    std::vector<float> real[2];
    for (std::int64_t o = 0; o < p.sizes[axis]; ++o) {
      const auto put = [&](const auto& b, auto& to) {
        at[0].push_back(b.lower);
        at[1].push_back(b.upper);
        to[0].push_back(b.to_lower);
        to[1].push_back(b.to_upper);
      };
      if (in_f32)
        put(tflite::between_f32(o, from[axis], p.sizes[axis], p), real);
      else
        put(tflite::between(o, from[axis], p.sizes[axis], p), by);
    }
    const Shape shape = axis == 0 ? Shape{p.sizes[0], 1} : Shape{p.sizes[1]};
    for (std::size_t k = 0; k < 2; ++k) {
      places[axis][k] = w.constant("places", at[k]);
      weights[axis][k] =
          in_f32 ? w.constant("weights", Tensor::of<float>(shape, std::span<const float>(real[k])))
                 : w.constant("weights", Tensor::of<std::int64_t>(
                                             shape, std::span<const std::int64_t>(by[k])));
    }
  }
  Name sum;
  for (std::size_t h = 0; h < 2; ++h)
    for (std::size_t v = 0; v < 2; ++v) {
      const Name row = w.step("Gather", {x, places[0][v]}, "axis", 2),
                 point = w.step("Gather", {row, places[1][h]}, "axis", 3),
                 term = m.mul(m.mul(point, weights[0][v]), weights[1][h]);
      sum = sum.empty() ? term : m.add(sum, term);
    }
  if (in_f32)
    m.give(m.cast(w.step("Floor", {m.add(sum, m.real(0.5F))}), DType::i64), w.dtype());
  else
    m.give(m.nearest(sum, {20}, 0), w.dtype());
}

constexpr WriterRow kRows[] = {
    {"tflite_conv", conv},
    {"tflite_fully_connected", fully_connected},
    {"tflite_batch_matmul", batch_matmul},
    {"tflite_add", [](NodeWriter& w) { add(w, false); }},
    {"tflite_sub", [](NodeWriter& w) { add(w, true); }},
    {"tflite_mul", mul},
    {"tflite_div", div},
    {"tflite_squared_difference", squared_difference},
    {"tflite_avg_pool", avg_pool},
    {"tflite_mean", [](NodeWriter& w) { reduction(w, true); }},
    {"tflite_sum", [](NodeWriter& w) { reduction(w, false); }},
    {"tflite_prod", prod},
    {"tflite_logistic", [](NodeWriter& w) { function(w, Function::sigmoid); }},
    {"tflite_tanh", [](NodeWriter& w) { function(w, Function::tanh); }},
    {"tflite_interpolate", interpolate},
    {"tflite_requantize", requantize},
    {"tflite_quantize", quantize},
    {"tflite_softmax", softmax},
    {"tflite_resize_bilinear", resize_bilinear},
};

}  // namespace

std::span<const WriterRow> tflite_writers() { return kRows; }

}  // namespace etalon::onnx_format
