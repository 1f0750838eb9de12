// The modules that most networks are made of: convolution and pooling of images, inner products,
// shapes, activations, dropout.
#include <algorithm>
#include <map>

#include "engine/core/error.h"
#include "importers/formats/torch7/modules.h"

namespace etalon::torch7 {
namespace {

Ints two(const Module& m, const char* h, const char* w, double otherwise) {
  return {m.integer(h, otherwise), m.integer(w, otherwise)};
}

// ---- windows over images ----
Values convolution(const Module& m) {
  const bool transposed = m.type == "SpatialFullConvolution";
  const std::int64_t in = m.integer("nInputPlane", 0), out = m.integer("nOutputPlane", 0),
                     groups = m.integer("groups", 1);
  const double old_pad = m.m.number("padding", 0);
  const Ints kernel = two(m, "kH", "kW", 1), pad = two(m, "padH", "padW", old_pad),
             strides = two(m, "dH", "dW", 1);
  if (groups < 1 || in % groups != 0 || in < 1 || out < 1)
    throw bad_input("{} planes in {} groups", in, groups);
  const Shape shape = transposed ? Shape{in, out / groups, kernel[0], kernel[1]}
                                 : Shape{out, in / groups, kernel[0], kernel[1]};
  Fields f = window_fields({.kernel = {},
                            .strides = strides,
                            .dilations = two(m, "dilationH", "dilationW", 1),
                            .pads_begin = pad,
                            .pads_end = pad},
                           false);
  f.emplace_back("groups", groups);
  if (transposed) {
    Ints more = two(m, "adjH", "adjW", 0);
    // A second value tells the extents that the first is to get.
    for (const std::size_t a : {0U, 1U})
      if (m.in.size() == 2) {
        const int rank = m.g.rank(m.in[1]);
        if (rank < 2 || strides[a] < 1) throw bad_input("an output like a value of rank {}", rank);
        more[a] = (m.extent(m.in[1], rank - 2 + static_cast<int>(a)) + 2 * pad[a] - kernel[a]) %
                  strides[a];
      }
    f.emplace_back("output_padding", more);
  }
  Values inputs{m.x(), m.weight("weight", shape)};
  if (m.tensor("bias")) inputs.push_back(m.weight("bias", {out}));
  return {m.op(transposed ? "conv_transpose" : "conv", inputs, f)};
}

Fields pooling(const Module& m, bool ceil) {
  const Ints pad = two(m, "padH", "padW", 0);
  Fields f = window_fields({.kernel = two(m, "kH", "kW", 1),
                            .strides = two(m, "dH", "dW", 1),
                            .dilations = {},
                            .pads_begin = pad,
                            .pads_end = pad},
                           true);
  f.emplace_back("ceil_mode", ceil);
  if (ceil) m.g.note("pooling with ceil_mode: the output extent is rounded up");
  return f;
}
Values max_pooling(const Module& m) {
  return {m.op("max_pool", {m.x()}, pooling(m, m.m.flag("ceil_mode", false)))};
}
Values average_pooling(const Module& m) {
  Fields f = pooling(m, m.m.flag("ceil_mode", false));
  const std::int64_t elements = checked_mul(m.integer("kH", 1), m.integer("kW", 1));
  if (m.cudnn()) {
    // cuDNN divides by the whole window, at the edges too.
    if (!m.m.flag("divide", true)) throw bad_input("sums of windows by cuDNN");
    if (elements < 1) throw bad_input("windows of {} elements", elements);
    f.emplace_back("divisor_override", elements);
    m.g.note("average pooling counts padding (cuDNN divides by the whole window)");
    return {m.op("avg_pool", {m.x()}, f)};
  }
  const bool count = m.m.flag("count_include_pad", true);
  f.emplace_back("count_include_pad", count);
  if (count) m.g.note("average pooling counts padding (count_include_pad)");
  if (m.m.flag("divide", false)) return {m.op("avg_pool", {m.x()}, f)};
  m.g.note("average pooling of an old file, without `divide`: sums of windows");
  return {m.op("mul",
               {m.part("avg_pool", "mean", {m.x()}, f), m.number(static_cast<float>(elements))})};
}

Values padding(const Module& m) {
  const std::int64_t l = m.integer("pad_l", 0), r = m.integer("pad_r", 0),
                     t = m.integer("pad_t", 0), b = m.integer("pad_b", 0);
  const char* mode = m.type == "SpatialZeroPadding"         ? "constant"
                     : m.type == "SpatialReflectionPadding" ? "reflect"
                                                            : "edge";
  return {
      m.op("pad", {m.x()}, {{"mode", std::string(mode)}, {"pads", Ints{0, 0, t, l, 0, 0, b, r}}})};
}

Values nearest(const Module& m) {
  const auto s = m.real("scale_factor", 1);
  Ints axes;
  for (int a = 2; a < m.g.rank(m.x()); ++a) axes.push_back(a);
  return {m.op("resize", {m.x()},
               {{"mode", std::string("nearest")},
                {"coordinate_transformation_mode", std::string("asymmetric")},
                {"nearest_mode", std::string("floor")},
                {"scales", std::vector<float>(axes.size(), s)},
                {"axes", axes}})};
}

// ---- inner products ----
Values linear(const Module& m) {
  const Tensor w = m.need("weight");
  if (w.shape().rank() != 2) throw bad_input("weights of rank {}", w.shape().rank());
  const ValueId wv = m.weight("weight", w.shape());
  const ValueId b = m.tensor("bias") ? m.weight("bias", {w.shape()[0]}) : kAbsent;
  return {fully_connected(m.g, m.path, m.x(), wv, b)};
}
// Rows of a table of outputs, of which `partition` says the wanted ones.
Values partial_linear(const Module& m) {
  const T7Object* network = m.m.find_object("network");
  const T7Object* pair = network == nullptr ? nullptr : part_of(*network, 0);
  const T7Object* rows = pair == nullptr ? nullptr : part_of(*pair, 1);
  const T7Object* weight = rows == nullptr ? nullptr : rows->find_object("weight");
  if (weight == nullptr || weight->tensor.shape().rank() != 2)
    throw bad_input("PartialLinear without the table of its rows");
  const Tensor wanted = m.need("partition");
  const ValueId ids = m.g.constant(m.name("rows"), to_zero_based(wanted));
  const ValueId w =
      m.part("gather", "weight", {m.g.constant(m.name("all"), as_f32(weight->tensor)), ids});
  ValueId b = kAbsent;
  if (m.tensor("bias"))
    b = m.part("gather", "bias", {m.weight("bias", {weight->tensor.shape()[0]}), ids});
  return {fully_connected(m.g, m.path, m.x(), w, b)};
}

// ---- shapes ----
Ints sizes(const Module& m) {
  Ints dims = sizes_in(m.m.find_object("size"));
  if (dims.empty()) throw bad_input("{} without sizes", m.type);
  return dims;
}
// The elements of these sizes; -1 where one of them is left open.
std::int64_t elements_of(const Ints& dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n = d < 0 || n < 0 ? -1 : checked_mul(n, d);
  return n;
}
Values shaped(const Module& m, const Ints& shape) {
  m.g.note("View and Reshape keep the batch; what they flatten is NCHW, row-major");
  return {m.op("reshape", {m.x()}, {{"shape", shape}})};
}
Ints behind(std::int64_t first, const Ints& dims) {
  Ints out{first};
  out.insert(out.end(), dims.begin(), dims.end());
  return out;
}
// Sizes of a sample behind the batch. A size of -1 takes what is left of the dimensions that
// numInputDims counts; without numInputDims that is all of them, the batch among them.
Values view(const Module& m) {
  const Ints dims = sizes(m);
  const std::int64_t want = elements_of(dims), samples = m.integer("numInputDims", 0);
  const int rank = m.g.rank(m.x());
  const std::int64_t have = m.g.shape(m.x()).product(1, rank);
  const bool counted = samples > 0 && samples < rank;
  if (want < 0) {
    if (!counted) return shaped(m, dims);
    if (rank - samples != 1)
      throw bad_input("a View of the last {} of {} dimensions with a size of -1", samples, rank);
    return shaped(m, behind(0, dims));
  }
  // More or fewer rows than samples: of sequences, never of images, whose extents are tried.
  if (want != have && rank < 4 && want > 0 && (have % want == 0 || want % have == 0))
    return shaped(m, behind(-1, dims));
  if (want != have) throw bad_input("{} elements of a sample are to become {}", have, want);
  return shaped(m, behind(0, dims));
}
Values reshape(const Module& m) {
  const Ints dims = sizes(m);
  const std::int64_t want = elements_of(dims), have = m.g.shape(m.x()).product(1, m.g.rank(m.x()));
  if (m.m.find("batchMode") != nullptr && !m.m.flag("batchMode", true)) return shaped(m, dims);
  if (want != have) throw bad_input("{} elements of a sample are to become {}", have, want);
  return shaped(m, behind(0, dims));
}
Values collapse(const Module& m) {
  const std::int64_t dims = m.integer("nInputDim", 1);
  return shaped(m, m.g.rank(m.x()) > dims ? Ints{0, -1} : Ints{-1});
}

// ---- activations ----
// Of three axes Torch7 takes the first for the planes of one sample.
Values soft_max(const Module& m) {
  const int rank = m.g.rank(m.x());
  if (rank == 3) throw bad_input("{} of a sequence runs over the batch in Torch7", m.type);
  return {m.op(m.type == "LogSoftMax" ? "log_softmax" : "softmax", {m.x()},
               {{"axis", std::int64_t{rank >= 3 ? 1 : rank - 1}}})};
}
// x where it is above the threshold, and a value elsewhere.
Values threshold(const Module& m) {
  const float from = m.real("threshold", 0), value = m.real("val", 0);
  if (from == 0 && value == 0) return {m.op("relu", {m.x()})};
  return {
      m.op("where", {m.part("greater", "above", {m.x(), m.number(from)}), m.x(), m.number(value)})};
}
Values unary(const Module& m) {
  static const std::map<std::string_view, std::string_view> kUnary{
      {"ReLU", "relu"}, {"Tanh", "tanh"}, {"Sigmoid", "sigmoid"},   {"Abs", "abs"},  {"Exp", "exp"},
      {"Log", "log"},   {"Sqrt", "sqrt"}, {"SoftSign", "softsign"}, {"SELU", "selu"}};
  return {m.op(kUnary.at(m.type), {m.x()})};
}
Values clipped(const Module& m) {
  const float top = m.type == "ReLU6" ? 6.0F : m.real("ceiling", 0);
  if (!(top >= 0)) throw bad_input("{} up to {}", m.type, top);
  return {m.op("clip", {m.x()}, {{"min", 0.0F}, {"max", top}})};
}
Values leaky_relu(const Module& m) {
  return {m.op("leaky_relu", {m.x()}, {{"alpha", m.real("negval", 0.01)}})};
}
Values elu(const Module& m) { return {m.op("elu", {m.x()}, {{"alpha", m.real("alpha", 1)}})}; }
Values prelu(const Module& m) {
  const Tensor w = m.need("weight");
  Ints dims{w.numel()};
  if (w.numel() > 1) dims.resize(static_cast<std::size_t>(std::max(1, m.g.rank(m.x()) - 1)), 1);
  return {m.op("prelu", {m.x(), m.weight("weight", Shape(dims))})};
}
Values square(const Module& m) { return {m.op("mul", {m.x(), m.x()})}; }
Values power(const Module& m) { return {m.op("pow", {m.x(), m.number(m.real("pow", 1))})}; }

// ---- what differs between training and inference ----
// SpatialDropout and VolumetricDropout zero whole planes and do not scale when they train: they
// scale at inference. So does Dropout of files of before 2014, which lack `v2`.
Values dropout(const Module& m) {
  if (m.m.flag("stochastic_inference", false))
    throw bad_input("a {} that is random at inference", m.type);
  const double p = m.m.number("p", 0.5);
  if (!(p >= 0 && p <= 1)) throw bad_input("{} of {}", m.type, p);
  if (p == 0 || (m.type == "Dropout" && m.m.flag("v2", false))) {
    m.g.note("dropout does nothing at inference");
    return m.in;
  }
  m.g.note(fmt::format("{} scales by {} at inference", m.type, 1 - p));
  return {m.op("mul", {m.x(), m.number(static_cast<float>(1 - p))})};
}
Values white_noise(const Module& m) {
  const float mean = m.real("mean", 0);
  return mean == 0 ? m.in : Values{m.op("add", {m.x(), m.number(mean)})};
}

constexpr ModuleRow kRows[] = {{"SpatialConvolution", convolution},
                               {"SpatialConvolutionMM", convolution},
                               {"SpatialDilatedConvolution", convolution},
                               {"SpatialFullConvolution", convolution},
                               {"SpatialMaxPooling", max_pooling},
                               {"SpatialAveragePooling", average_pooling},
                               {"SpatialZeroPadding", padding},
                               {"SpatialReflectionPadding", padding},
                               {"SpatialReplicationPadding", padding},
                               {"SpatialUpSamplingNearest", nearest},
                               {"Linear", linear},
                               {"LinearNoBias", linear},
                               {"PartialLinear", partial_linear},
                               {"View", view},
                               {"Reshape", reshape},
                               {"Collapse", collapse},
                               {"SoftMax", soft_max},
                               {"SpatialSoftMax", soft_max},
                               {"VolumetricSoftMax", soft_max},
                               {"LogSoftMax", soft_max},
                               {"Threshold", threshold},
                               {"ReLU", unary},
                               {"Tanh", unary},
                               {"Sigmoid", unary},
                               {"Abs", unary},
                               {"Exp", unary},
                               {"Log", unary},
                               {"Sqrt", unary},
                               {"SoftSign", unary},
                               {"SELU", unary},
                               {"ReLU6", clipped},
                               {"ClippedReLU", clipped},
                               {"LeakyReLU", leaky_relu},
                               {"ELU", elu},
                               {"PReLU", prelu},
                               {"Square", square},
                               {"Power", power},
                               {"Dropout", dropout},
                               {"SpatialDropout", dropout},
                               {"VolumetricDropout", dropout},
                               {"WhiteNoise", white_noise}};

}  // namespace

std::span<const ModuleRow> layer_rows() { return kRows; }

}  // namespace etalon::torch7
