// Convolutions and windows along sequences [batch, steps, features], images and volumes.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/torch7/modules.h"

namespace etalon::torch7 {
namespace {

Ints three(const Module& m, const char* t, const char* h, const char* w, double otherwise) {
  return {m.integer(t, otherwise), m.integer(h, otherwise), m.integer(w, otherwise)};
}
Ints two(const Module& m, const char* h, const char* w, double otherwise) {
  return {m.integer(h, otherwise), m.integer(w, otherwise)};
}

// ---- volumes ----
Values volumetric_convolution(const Module& m) {
  const bool full = m.type == "VolumetricFullConvolution";
  const std::int64_t in = m.integer("nInputPlane", 0), out = m.integer("nOutputPlane", 0);
  const Ints k = three(m, "kT", "kH", "kW", 1), pad = three(m, "padT", "padH", "padW", 0);
  if (in < 1 || out < 1 || std::ranges::any_of(k, [](std::int64_t n) { return n < 1; }))
    throw bad_input("{} planes to {}", in, out);
  Fields f = window_fields({.kernel = {},
                            .strides = three(m, "dT", "dH", "dW", 1),
                            .dilations = three(m, "dilationT", "dilationH", "dilationW", 1),
                            .pads_begin = pad,
                            .pads_end = pad},
                           false);
  if (full) f.emplace_back("output_padding", three(m, "adjT", "adjH", "adjW", 0));
  Values inputs{m.x(), m.weight("weight", full ? Shape{in, out, k[0], k[1], k[2]}
                                               : Shape{out, in, k[0], k[1], k[2]})};
  if (m.tensor("bias")) inputs.push_back(m.weight("bias", {out}));
  return {m.op(full ? "conv_transpose" : "conv", inputs, f)};
}
Values volumetric_pooling(const Module& m) {
  const bool average = m.type == "VolumetricAveragePooling";
  const Ints pad = three(m, "padT", "padH", "padW", 0);
  Fields f = window_fields({.kernel = three(m, "kT", "kH", "kW", 1),
                            .strides = three(m, "dT", "dH", "dW", 1),
                            .dilations = three(m, "dilationT", "dilationH", "dilationW", 1),
                            .pads_begin = pad,
                            .pads_end = pad},
                           true);
  f.emplace_back("ceil_mode", m.m.flag("ceil_mode", false));
  if (average) f.emplace_back("count_include_pad", m.m.flag("count_include_pad", true));
  return {m.op(average ? "avg_pool" : "max_pool", {m.x()}, f)};
}
Values volumetric_replication(const Module& m) {
  return {m.op(
      "pad", {m.x()},
      {{"mode", std::string("edge")},
       {"pads", Ints{0, 0, m.integer("pfront", 0), m.integer("ptop", 0), m.integer("pleft", 0), 0,
                     0, m.integer("pback", 0), m.integer("pbottom", 0), m.integer("pright", 0)}}})};
}

// ---- images ----
Values dilated_max_pooling(const Module& m) {
  const Ints pad = two(m, "padH", "padW", 0);
  Fields f = window_fields({.kernel = two(m, "kH", "kW", 1),
                            .strides = two(m, "dH", "dW", 1),
                            .dilations = two(m, "dilationH", "dilationW", 1),
                            .pads_begin = pad,
                            .pads_end = pad},
                           true);
  f.emplace_back("ceil_mode", m.m.flag("ceil_mode", false));
  return {m.op("max_pool", {m.x()}, f)};
}
// The sum of each window, scaled and moved plane by plane.
ValueId sums(const Module& m, ValueId x, const Ints& kernel, const Ints& strides) {
  Fields f = window_fields(
      {.kernel = kernel, .strides = strides, .dilations = {}, .pads_begin = {}, .pads_end = {}},
      true);
  f.emplace_back("divisor_override", std::int64_t{1});
  return m.part("avg_pool", "sums", {x}, f);
}
Values sub_sampling(const Module& m) {
  const std::int64_t planes = m.integer("nInputPlane", 0);
  if (planes < 1 || planes > 1 << 20) throw bad_input("{} planes", planes);
  const Shape of{planes, 1, 1};
  const ValueId y = sums(m, m.x(), two(m, "kH", "kW", 1), two(m, "dH", "dW", 1));
  return {
      m.op("add", {m.part("mul", "scaled", {y, m.weight("weight", of)}), m.weight("bias", of)})};
}
// Windows from floor(i n / out) to ceil((i + 1) n / out): along one axis, then along the other.
Values adaptive_pooling(const Module& m) {
  const char* op = m.type == "SpatialAdaptiveMaxPooling" ? "reduce_max" : "reduce_mean";
  if (m.g.rank(m.x()) != 4) throw bad_input("{} of rank {}", m.type, m.g.rank(m.x()));
  ValueId y = m.x();
  for (const std::int64_t axis : {2, 3}) {
    const std::int64_t out = m.integer(axis == 2 ? "H" : "W", 0), n = m.extent(m.x(), axis);
    if (out < 1 || out > 1024 || out > n) throw bad_input("{} windows of {} elements", out, n);
    Values pieces;
    for (std::int64_t i = 0; i < out; ++i) {
      const std::int64_t begin = i * n / out, end = ((i + 1) * n + out - 1) / out;
      const ValueId window =
          m.part("slice", "window", {y},
                 {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{axis}}});
      pieces.push_back(m.part(op, "of", {window}, {{"axes", Ints{axis}}, {"keepdims", true}}));
    }
    y = m.part("concat", "windows", pieces, {{"axis", axis}});
  }
  return {m.op("identity", {y})};
}
Values depthwise(const Module& m) {
  const std::int64_t in = m.integer("nInputPlane", 0), each = m.integer("nOutputPlane", 0);
  const Ints k = two(m, "kH", "kW", 1), pad = two(m, "padH", "padW", m.m.number("padding", 0));
  if (in < 1 || each < 1 || in > 1 << 20 || each > 1 << 20 || k[0] < 1 || k[1] < 1)
    throw bad_input("{} planes to {} each", in, each);
  Fields f = window_fields({.kernel = {},
                            .strides = two(m, "dH", "dW", 1),
                            .dilations = {},
                            .pads_begin = pad,
                            .pads_end = pad},
                           false);
  f.emplace_back("groups", in);
  // Stored by output, then by input plane; the planes that come of one input stand together.
  const ValueId w =
      m.g.transpose(m.name("by_input"), m.weight("weight", {each, in, k[0], k[1]}), {1, 0, 2, 3});
  Values inputs{m.x(), m.g.reshape(m.name("grouped"), w, {in * each, 1, k[0], k[1]})};
  if (m.tensor("bias"))
    inputs.push_back(m.g.reshape(
        m.name("biases"),
        m.g.transpose(m.name("bias_by_input"), m.weight("bias", {each, in}), {1, 0}), {in * each}));
  return {m.op("conv", inputs, f)};
}
// Planes joined by a table of pairs (from, to): a convolution that is zero elsewhere.
Values mapped_convolution(const Module& m) {
  const std::int64_t in = m.integer("nInputPlane", 0), out = m.integer("nOutputPlane", 0);
  const Tensor w = m.need("weight"), pairs = m.need("connTable");
  if (w.shape().rank() != 3 || pairs.shape().rank() != 2 || pairs.shape()[1] != 2 ||
      pairs.shape()[0] != w.shape()[0])
    throw bad_input("weights {} for pairs {}", to_string(w.shape()), to_string(pairs.shape()));
  const std::int64_t kh = w.shape()[1], kw = w.shape()[2], size = kh * kw;
  if (in < 1 || out < 1 || in > 1 << 12 || out > 1 << 12 || size > (1 << 26) / (in * out))
    throw bad_input("{} planes to {}", in, out);
  Tensor dense = filled_f32(in * out * size, 0);
  const auto to = dense.mutable_data<float>();
  const auto from = w.data<float>(), numbers = pairs.data<float>();
  for (std::int64_t i = 0; i < w.shape()[0]; ++i) {
    const std::int64_t a = whole(numbers[static_cast<std::size_t>(2 * i)]),
                       b = whole(numbers[static_cast<std::size_t>(2 * i + 1)]);
    if (a < 1 || a > in || b < 1 || b > out) throw bad_input("plane {} to plane {}", a, b);
    for (std::int64_t j = 0; j < size; ++j)
      to[static_cast<std::size_t>(((b - 1) * in + a - 1) * size + j)] +=
          from[static_cast<std::size_t>(i * size + j)];
  }
  Values inputs{m.x(), m.g.constant(m.name("dense"), dense.reshaped({out, in, kh, kw}))};
  inputs.push_back(m.weight("bias", {out}));
  return {m.op("conv", inputs, {{"strides", two(m, "dH", "dW", 1)}})};
}
Values bilinear_resize(const Module& m) {
  if (m.g.rank(m.x()) != 4) throw bad_input("{} of rank {}", m.type, m.g.rank(m.x()));
  Ints sizes{m.integer("oheight", 0), m.integer("owidth", 0)};
  if (const double by = m.m.number("scale_factor", 0); by > 0)
    for (const std::size_t a : {0U, 1U})
      sizes[a] = whole(
          std::floor(static_cast<double>(m.extent(m.x(), static_cast<std::int64_t>(a) + 2)) * by));
  for (const std::int64_t n : sizes)
    if (n < 1 || n > 1 << 16) throw bad_input("a resize to {} x {}", sizes[0], sizes[1]);
  return {m.op("resize", {m.x(), kAbsent, kAbsent, m.ints("sizes", sizes)},
               {{"mode", std::string("linear")},
                {"coordinate_transformation_mode", std::string("align_corners")},
                {"axes", Ints{2, 3}}})};
}
// By a whole factor, or to extents, of images and volumes.
Values up_sampling(const Module& m) {
  const int rank = m.g.rank(m.x());
  if (rank != 4 && rank != 5) throw bad_input("UpSampling of rank {}", rank);
  const bool linear = m.m.find("mode") != nullptr && m.m.find("mode")->text == "linear";
  const double by = m.m.number("scale_factor", 0);
  Ints sizes, axes;
  for (int a = 2; a < rank; ++a) {
    axes.push_back(a);
    const char* key = a == rank - 1 ? "owidth" : a == rank - 2 ? "oheight" : "odepth";
    sizes.push_back(by > 0 && linear ? checked_mul(m.extent(m.x(), a), whole(by))
                                     : m.integer(key, 0));
    if (linear && (sizes.back() < 1 || sizes.back() > 1 << 16))
      throw bad_input("a resize to {}", sizes.back());
  }
  if (linear)
    return {m.op("resize", {m.x(), kAbsent, kAbsent, m.ints("sizes", sizes)},
                 {{"mode", std::string("linear")},
                  {"coordinate_transformation_mode", std::string("align_corners")},
                  {"axes", axes}})};
  if (!(by >= 1 && by < 1e4)) throw bad_input("UpSampling by {}", by);
  return {m.op("resize", {m.x()},
               {{"mode", std::string("nearest")},
                {"coordinate_transformation_mode", std::string("asymmetric")},
                {"nearest_mode", std::string("floor")},
                {"scales", std::vector<float>(axes.size(), static_cast<float>(by))},
                {"axes", axes}})};
}
Values instance_norm(const Module& m) {
  const std::int64_t planes = m.integer("nOutput", 0);
  if (planes < 1 || planes > 1 << 20) throw bad_input("{} planes", planes);
  const auto of = [&](const char* key, float otherwise) {
    return m.tensor(key) ? m.weight(key, {planes})
                         : m.g.constant(m.name(key), filled_f32(planes, otherwise));
  };
  return {m.op("instance_norm", {m.x(), of("weight", 1), of("bias", 0)},
               {{"eps", m.real("eps", 1e-5)}})};
}

// ---- sequences ----
// An op of one axis between features that stand last.
template <class Op>
Values along_steps(const Module& m, Op op) {
  if (m.g.rank(m.x()) != 3) throw bad_input("{} of rank {}", m.type, m.g.rank(m.x()));
  return {m.g.transpose(m.path, op(m.g.transpose(m.name("features_first"), m.x(), {0, 2, 1})),
                        {0, 2, 1})};
}
Values temporal_convolution(const Module& m) {
  // cudnn's is made of its convolution of images, whose height the steps are.
  const bool high = m.cudnn() && m.m.find("kH") != nullptr;
  const std::int64_t in = m.integer("inputFrameSize", 0), out = m.integer("outputFrameSize", 0),
                     k = m.integer(high ? "kH" : "kW", 1), pad = high ? m.integer("padH", 0) : 0;
  if (in < 1 || out < 1 || k < 1) throw bad_input("{} features to {} by {} steps", in, out, k);
  const ValueId w = m.g.transpose(m.name("kernel"), m.weight("weight", {out, k, in}), {0, 2, 1});
  return along_steps(m, [&](ValueId x) {
    Values inputs{x, w};
    if (m.tensor("bias")) inputs.push_back(m.weight("bias", {out}));
    return m.part("conv", "steps", inputs,
                  {{"strides", Ints{m.integer(high ? "dH" : "dW", 1)}},
                   {"pads_begin", Ints{pad}},
                   {"pads_end", Ints{pad}}});
  });
}
// Each feature by itself; features may stand before the steps.
Values temporal_rows(const Module& m) {
  const std::int64_t features = m.integer("inputFrameSize", 0), k = m.integer("kW", 1);
  if (features < 1 || features > 1 << 20 || k < 1)
    throw bad_input("{} features by {} steps", features, k);
  const auto by_rows = [&](ValueId x) {
    Values inputs{x, m.weight("weight", {features, 1, k})};
    if (m.tensor("bias")) inputs.push_back(m.weight("bias", {features}));
    return m.part("conv", "steps", inputs,
                  {{"strides", Ints{m.integer("dW", 1)}}, {"groups", features}});
  };
  if (m.m.flag("featFirst", false)) return {m.op("identity", {by_rows(m.x())})};
  return along_steps(m, by_rows);
}
Values temporal_max_pooling(const Module& m) {
  return along_steps(m, [&](ValueId x) {
    return m.part("max_pool", "steps", {x},
                  {{"kernel", Ints{m.integer("kW", 1)}}, {"strides", Ints{m.integer("dW", 1)}}});
  });
}
Values temporal_sub_sampling(const Module& m) {
  const Shape of{m.need("weight").numel(), 1};
  return along_steps(m, [&](ValueId x) {
    const ValueId y = sums(m, x, {m.integer("kW", 1)}, {m.integer("dW", 1)});
    return m.part("add", "moved",
                  {m.part("mul", "scaled", {y, m.weight("weight", of)}), m.weight("bias", of)});
  });
}

constexpr ModuleRow kRows[] = {{"VolumetricConvolution", volumetric_convolution},
                               {"VolumetricDilatedConvolution", volumetric_convolution},
                               {"VolumetricFullConvolution", volumetric_convolution},
                               {"VolumetricMaxPooling", volumetric_pooling},
                               {"VolumetricDilatedMaxPooling", volumetric_pooling},
                               {"VolumetricAveragePooling", volumetric_pooling},
                               {"VolumetricReplicationPadding", volumetric_replication},
                               {"SpatialDilatedMaxPooling", dilated_max_pooling},
                               {"SpatialSubSampling", sub_sampling},
                               {"SpatialAdaptiveMaxPooling", adaptive_pooling},
                               {"SpatialAdaptiveAveragePooling", adaptive_pooling},
                               {"SpatialDepthWiseConvolution", depthwise},
                               {"SpatialConvolutionMap", mapped_convolution},
                               {"SpatialUpSamplingBilinear", bilinear_resize},
                               {"UpSampling", up_sampling},
                               {"InstanceNormalization", instance_norm},
                               {"TemporalConvolution", temporal_convolution},
                               {"TemporalRowConvolution", temporal_rows},
                               {"TemporalMaxPooling", temporal_max_pooling},
                               {"TemporalSubSampling", temporal_sub_sampling}};

}  // namespace

std::span<const ModuleRow> window_rows() { return kRows; }

}  // namespace etalon::torch7
