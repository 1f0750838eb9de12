// Layers that compute over channels and space: embeddings, norms and reductions of [C,H,W], blocks
// of space into channels, bilinear resizing, windows of three dimensions.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/coreml/layers.h"

namespace etalon::coreml {
namespace {

const Ints kImage{-3, -2, -1};

// Rows of a table by index. The axis of the index (the last; of [..,1,1,1] the channels) becomes
// that of the row.
ValueId embedding(const NetworkLayer& n, const PbMessage& p, const char* rows, const char* columns,
                  bool nd) {
  const std::int64_t many = p.integer(rows), c = p.integer(columns);
  const ValueId table = n.g.transpose(
      n.name + ".table", n.weights(p.message("weights"), "weights", {c, many}), {1, 0});
  const int rank = n.g.rank(n.input(0));
  const bool image = !nd && rank >= 3;
  if (rank < 1) throw bad_input("an embedding of a scalar");
  // [.., 1] or [.., 1, 1, 1] without the axes that become the row.
  const ValueId at =
      n.g.op("squeeze", n.name + ".indices", {n.integers(0)},
             {{"axes", image ? Ints{rank - 3, rank - 2, rank - 1} : Ints{rank - 1}}});
  ValueId y = n.g.op("gather", n.name, {table, at}, {{"axis", std::int64_t{0}}});
  if (p.flag("hasBias"))
    y = n.g.op("add", n.name + ".sum", {y, n.weights(p.message("bias"), "bias", {c})});
  return image ? n.g.op("unsqueeze", n.name + ".image", {y}, {{"axes", Ints{-2, -1}}}) : y;
}

ValueId reduce(const NetworkLayer& n, const PbMessage& p) {
  constexpr const char* kOps[] = {"reduce_sum", "reduce_mean",       "reduce_prod",
                                  "reduce_sum", "reduce_sum_square", "reduce_l1",
                                  "reduce_l2",  "reduce_max",        "reduce_min"};
  const std::int64_t mode = p.integer("mode"), which = p.integer("axis");
  if (mode < 0 || mode > 9 || which < 0 || which > 4)
    throw bad_input("a reduction {} over {}", mode, which);
  const Ints axes = which == 0 ? kImage : which == 1 ? Ints{-2, -1} : Ints{which - 5};
  if (mode == 9) {
    if (axes.size() != 1) throw bad_input("an arg max over {} axes", axes.size());
    return n.f32(n.g.op("arg_max", n.name, {n.input(0)}, {{"axis", axes[0]}}));
  }
  ValueId x = n.input(0);
  if (mode == 3) {
    float eps = p.number("epsilon");
    if (eps == 0) eps = 1e-6F;
    n.g.note(fmt::format("reduce: the sum of log(x + {})", eps));
    x = n.g.op("log", n.name + ".log", {n.g.op("add", n.name + ".epsilon", {x, n.number(eps)})});
  }
  return n.g.op(kOps[mode], n.name, {x}, {{"axes", axes}, {"keepdims", true}});
}

ValueId sum_squares(const NetworkLayer& n, ValueId x, const Ints& axes) {
  return n.g.op("reduce_sum_square", n.name + ".squares", {x},
                {{"axes", axes}, {"keepdims", true}});
}

ValueId dot(const NetworkLayer& n, const PbMessage& p) {
  const ValueId products = n.g.op("mul", n.name + ".products", {n.input(0), n.input(1)});
  const ValueId y =
      n.g.op("reduce_sum", n.name, {products}, {{"axes", Ints{-3}}, {"keepdims", true}});
  if (!p.flag("cosineSimilarity")) return y;
  ValueId norm = kAbsent;
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId one = n.g.op("sqrt", n.name + ".norm", {sum_squares(n, n.input(i), {-3})});
    norm = i == 0 ? one : n.g.op("mul", n.name + ".norms", {norm, one});
  }
  return n.g.op("div", n.name + ".cosine", {y, norm});
}

ValueId l2_normalise(const NetworkLayer& n, const PbMessage& p) {
  float eps = p.number("epsilon");
  if (eps == 0) eps = 1e-6F;
  n.g.note(fmt::format("l2normalize: {} is added to the sum of squares", eps));
  const ValueId s =
      n.g.op("add", n.name + ".sum", {sum_squares(n, n.input(0), kImage), n.number(eps)});
  return n.g.op("div", n.name, {n.input(0), n.g.op("sqrt", n.name + ".norm", {s})});
}

// Over a plane, or over all channels of an image: less the mean, and divided by the deviation.
ValueId mvn(const NetworkLayer& n, const PbMessage& p) {
  if (n.g.rank(n.input(0)) < 3) throw bad_input("an mvn of rank {}", n.g.rank(n.input(0)));
  const Fields over{{"axes", p.flag("acrossChannels") ? Ints{-3, -2, -1} : Ints{-2, -1}},
                    {"keepdims", true}};
  const auto named = [&](const char* role) { return n.name + role; };
  const ValueId mean = n.g.op("reduce_mean", named(".mean"), {n.input(0)}, over);
  const bool scaled = p.flag("normalizeVariance");
  const ValueId less = n.g.op("sub", scaled ? named(".less") : n.name, {n.input(0), mean});
  if (!scaled) return less;
  const float given = p.number("epsilon"), eps = given == 0 ? 1e-5F : given;
  n.g.note(fmt::format("mvn: {} is added to the variance", eps));
  const ValueId square = n.g.op("mul", named(".square"), {less, less});
  const ValueId variance = n.g.op("reduce_mean", named(".variance"), {square}, over);
  const ValueId sum = n.g.op("add", named(".sum"), {variance, n.number(eps)});
  return n.g.op("div", n.name, {less, n.g.op("sqrt", named(".deviation"), {sum})});
}

ValueId resize(const NetworkLayer& n, const PbMessage& p) {
  Ints sizes = p.integers("targetSize");
  if (sizes.empty()) sizes = {1, 1};
  const int rank = n.g.rank(n.input(0));
  if (sizes.size() != 2 || rank < 3) throw bad_input("a resize of rank {}", rank);
  const std::int64_t mode = p.message("mode").integer("samplingMethod");
  // The modes that align ends differ where an axis has one point: the first, or the middle.
  if (mode > 2 || (mode == 1 && (sizes[0] == 1 || sizes[1] == 1)))
    throw bad_input("a resizeBilinear of the sampling method {} is not supported", mode);
  n.g.note("resizeBilinear: coordinates as its sampling method says, written out");
  return n.g.op("resize", n.name, {n.input(0)},
                {{"mode", std::string("linear")},
                 {"sizes", sizes},
                 {"axes", Ints{rank - 2, rank - 1}},
                 {"coordinate_transformation_mode",
                  std::string(mode == 2 ? "asymmetric" : "align_corners")}});
}

ValueId reorganise(const NetworkLayer& n, const PbMessage& p) {
  const std::int64_t mode = p.integer("mode");
  if (n.g.rank(n.input(0)) != 4 || mode < 0 || mode > 2)
    throw bad_input("a reorganisation {} of rank {} is not supported", mode, n.g.rank(n.input(0)));
  return n.g.op(
      mode == 0 ? "space_to_depth" : "depth_to_space", n.name, {n.input(0)},
      {{"blocksize", p.integer("blockSize")}, {"mode", std::string(mode == 2 ? "CRD" : "DCR")}});
}

// Kernel, strides and padding by axis; kinds of padding: 0 as given, 1 none, 2 SAME.
Fields volume(const PbMessage& p, Ints& kernel) {
  Ints strides, begin, end;
  for (const char* axis : {"Depth", "Height", "Width"}) {
    kernel.push_back(p.integer(fmt::format("kernel{}", axis), 3));
    strides.push_back(p.integer(fmt::format("stride{}", axis), 1));
  }
  for (const char* side : {"Front", "Top", "Left"})
    begin.push_back(p.integer(fmt::format("customPadding{}", side)));
  for (const char* side : {"Back", "Bottom", "Right"})
    end.push_back(p.integer(fmt::format("customPadding{}", side)));
  Fields f{{"strides", strides}};
  const std::int64_t kind = p.integer("paddingType");
  if (kind < 0 || kind > 2) throw bad_input("the padding {}", kind);
  if (kind == 0) {
    f.emplace_back("pads_begin", begin);
    f.emplace_back("pads_end", end);
  } else if (kind == 2) {
    f.emplace_back("auto_pad", std::string("same_upper"));
  }
  return f;
}

ValueId convolution(const NetworkLayer& n, const PbMessage& p) {
  Ints kernel, dilations;
  Fields f = volume(p, kernel);
  for (const char* axis : {"Depth", "Height", "Width"})
    dilations.push_back(p.integer(fmt::format("dilation{}", axis), 1));
  const std::int64_t out = p.integer("outputChannels"), in = p.integer("inputChannels"),
                     groups = std::max<std::int64_t>(1, p.integer("nGroups", 1));
  const bool back = p.flag("isDeconvolution");
  if (in % groups != 0 || out % groups != 0)
    throw bad_input("{} to {} channels in {} groups", in, out, groups);
  f.emplace_back("dilations", dilations);
  f.emplace_back("groups", groups);
  // A deconvolution's weights are [in, out / groups, ..], as coremltools writes them and as those
  // of a plane are; the schema's words have the two the other way round.
  Ints dims = back ? Ints{in, out / groups} : Ints{out, in / groups};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  if (back && p.has("outputShape")) f.emplace_back("output_shape", p.integers("outputShape"));
  std::vector<ValueId> inputs{n.input(0), n.weights(p.message("weights"), "weights", Shape(dims))};
  if (p.flag("hasBias")) inputs.push_back(n.weights(p.message("bias"), "bias", {out}));
  return n.g.op(back ? "conv_transpose" : "conv", n.name, inputs, f);
}

ValueId pooling(const NetworkLayer& n, const PbMessage& p) {
  Ints kernel;
  Fields f = volume(p, kernel);
  f.emplace_back("kernel", kernel);
  const std::int64_t type = p.integer("type");
  if (type < 0 || type > 1) throw bad_input("the pooling {}", type);
  if (type == 1) f.emplace_back("count_include_pad", !p.flag("countExcludePadding"));
  return n.g.op(type == 0 ? "max_pool" : "avg_pool", n.name, {n.input(0)}, f);
}

}  // namespace

ValueId translate_features(const NetworkLayer& n) {
  const PbMessage& l = n.message;
  const auto part = [&](const char* field) { return l.message(field); };
  if (l.has("embedding"))
    return embedding(n, part("embedding"), "inputDim", "outputChannels", false);
  if (l.has("embeddingND"))
    return embedding(n, part("embeddingND"), "vocabSize", "embeddingSize", true);
  if (l.has("reduce")) return reduce(n, part("reduce"));
  if (l.has("dot")) return dot(n, part("dot"));
  if (l.has("mvn")) return mvn(n, part("mvn"));
  if (l.has("l2normalize")) return l2_normalise(n, part("l2normalize"));
  if (l.has("resizeBilinear")) return resize(n, part("resizeBilinear"));
  if (l.has("reorganizeData")) return reorganise(n, part("reorganizeData"));
  if (l.has("convolution3d")) return convolution(n, part("convolution3d"));
  if (l.has("pooling3d")) return pooling(n, part("pooling3d"));
  if (l.has("globalPooling3d")) {
    const std::int64_t type = part("globalPooling3d").integer("type");
    if (type < 0 || type > 1) throw bad_input("the pooling {}", type);
    return n.g.op(type == 0 ? "global_max_pool" : "global_avg_pool", n.name, {n.input(0)});
  }
  if (l.has("cumSum")) {
    const PbMessage p = part("cumSum");
    std::vector<ValueId> in{n.input(0)};
    if (n.inputs.size() > 1) in.push_back(n.g.reshape(n.name + ".axis", n.integers(1), {}));
    return n.g.op("cum_sum", n.name, in,
                  {{"axis", p.integer("axis")},
                   {"exclusive", p.flag("excludeFinalSum")},
                   {"reverse", p.flag("reverse")}});
  }
  if (l.has("floorDivBroadcastable"))
    return n.g.op("floor", n.name, {n.g.op("div", n.name + ".quotient", {n.input(0), n.input(1)})});
  return kAbsent;
}

}  // namespace etalon::coreml
