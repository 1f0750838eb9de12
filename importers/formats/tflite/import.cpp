#include <map>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/control.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/tflite.h"
#include "importers/formats/tflite/file.h"
#include "importers/formats/tflite/operators.h"
#include "importers/formats/tflite/quantised.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace tflite {
namespace {

// Of the variables that one run keeps: their values now, by name.
using Variables = std::map<std::string, ValueId>;

class Translator {
 public:
  // One subgraph of a network; `variables` is null in a body that a loop or branch owns.
  Translator(GraphBuilder& graph, const File& network, const File& file, Variables* variables,
             int depth = 0)
      : g(graph),
        network_(network),
        file_(file),
        ops_(g),
        variables_(variables),
        depth_(depth),
        values_(file.tensors.size(), kAbsent) {
    if (depth > kMaxDepth) throw bad_input("subgraphs call each other without end");
  }

  void run() {
    for (std::size_t k = 0; k < file_.inputs.size(); ++k) {
      const std::int32_t i = file_.inputs[k];
      if (i < 0) continue;
      const TensorInfo& t = file_.tensors[static_cast<std::size_t>(i)];
      if (t.is_complex) throw bad_input("input {} is complex, which is not supported", t.name);
      values_[static_cast<std::size_t>(i)] = g.input(t.name, t.dtype, t.signature, t.dims);
      if (!is_floating(t.dtype) && t.quantisation.given())
        g.note(fmt::format("input {}: {}, scale {}, zero point {}", t.name, name(t.dtype),
                           t.quantisation.scale(), t.quantisation.zero()));
    }
    for (const OperatorInfo& op : file_.operators) translate(op);
    for (const std::int32_t i : file_.outputs) {
      if (i < 0) continue;
      const TensorInfo& t = file_.tensors[static_cast<std::size_t>(i)];
      ops_.must_be_tensor(value(i), fmt::format("output {}", printable(t.name)));
      g.output(value(i), t.name);
      if (!is_floating(t.dtype) && t.quantisation.given())
        g.note(fmt::format("output {}: {}, scale {}, zero point {}", t.name, name(t.dtype),
                           t.quantisation.scale(), t.quantisation.zero()));
    }
  }

  // A subgraph that is called: its outputs.
  std::vector<ValueId> evaluate(const std::vector<ValueId>& arguments) {
    if (arguments.size() != file_.inputs.size())
      throw bad_input("{} arguments for a subgraph of {}", arguments.size(), file_.inputs.size());
    for (std::size_t k = 0; k < arguments.size(); ++k)
      if (file_.inputs[k] >= 0) values_[static_cast<std::size_t>(file_.inputs[k])] = arguments[k];
    for (const OperatorInfo& op : file_.operators) translate(op);
    std::vector<ValueId> out;
    for (const std::int32_t i : file_.outputs) {
      if (i < 0) throw bad_input("a subgraph lacks an output");
      out.push_back(value(i));
    }
    return out;
  }

 private:
  static constexpr int kMaxDepth = 32, kCustom = 32;

  const File& called(std::int32_t index) const {
    if (index < 1 || static_cast<std::size_t>(index) > network_.called.size())
      throw bad_input("subgraph {} of {}", index, network_.called.size() + 1);
    return network_.called[static_cast<std::size_t>(index) - 1];
  }
  BodyWriter body(std::int32_t index) {
    return [this, index](GraphBuilder& graph, const std::vector<ValueId>& arguments) {
      return Translator(graph, network_, called(index), nullptr, depth_ + 1).evaluate(arguments);
    };
  }

  // WHILE, IF, CALL_ONCE and what they keep in variables; nullopt where it is none of them.
  std::optional<std::vector<ValueId>> control(const OperatorInfo& op, const tf::OpNode& n) {
    const std::string_view type = operator_name(op.code);
    const auto option = [&](int i) { return op.options.get<std::int32_t>(i, 0); };
    if (type == "WHILE") {
      const File& inner = called(option(1));
      std::vector<bool> fixed;
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        fixed.push_back(k < inner.inputs.size() && k < inner.outputs.size() &&
                        inner.inputs[k] == inner.outputs[k]);
      return write_while(g, n.name, n.inputs, fixed, body(option(0)), body(option(1)));
    }
    if (type == "IF")
      return write_if(g, n.name, n.in(0), {n.inputs.begin() + 1, n.inputs.end()}, body(option(0)),
                      body(option(1)));
    if (type == "CALL_ONCE") {
      // What it sets up stands before every run.
      Translator(g, network_, called(option(0)), variables_, depth_ + 1).evaluate({});
      return std::vector<ValueId>{};
    }
    if (type == "VAR_HANDLE") {
      const ValueId handle = g.constant(n.name, scalar_of(DType::i32, 0));
      handles_[handle] = op.options.text(1);
      return std::vector{handle};
    }
    if (type != "READ_VARIABLE" && type != "ASSIGN_VARIABLE") return std::nullopt;
    const auto handle = handles_.find(n.in(0));
    if (variables_ == nullptr || handle == handles_.end())
      throw bad_input("{} inside a loop or branch is not supported", type);
    if (type == "ASSIGN_VARIABLE") {
      (*variables_)[handle->second] = n.in(1);
      return std::vector<ValueId>{};
    }
    const auto known = variables_->find(handle->second);
    if (known == variables_->end())
      throw bad_input("the variable {} is read before anything sets it", printable(handle->second));
    g.note("variables begin every run with what CALL_ONCE gives them");
    return std::vector{known->second};
  }

  ValueId value(std::int32_t i) {
    if (i < 0) return kAbsent;
    const auto at = static_cast<std::size_t>(i);
    if (values_[at] != kAbsent) return values_[at];
    const TensorInfo& t = file_.tensors[at];
    if (!t.value)
      throw bad_input("tensor {} is read before anything makes it{}", printable(t.name),
                      t.variable ? ": state between runs is not supported" : "");
    return values_[at] = g.constant(t.name, t.value.share());
  }

  void translate(const OperatorInfo& op) {
    static const TensorInfo kNone{.name = "call"};
    const bool named = !op.outputs.empty() && !file_.tensors.empty();
    const TensorInfo& out =
        named ? file_.tensors[static_cast<std::size_t>(std::max(op.outputs[0], 0))] : kNone;
    const ErrorScope where(fmt::format("node {}", printable(out.name)));
    const bool detects = op.custom == "TFLite_Detection_PostProcess";
    if (op.code == kCustom && !detects)
      throw bad_input("the custom operator {} has no public meaning here", printable(op.custom));
    tf::OpNode n;
    n.name = out.name;
    const bool keeps_state = is_recurrent(operator_name(op.code));
    for (const std::int32_t i : op.inputs)
      n.inputs.push_back(
          keeps_state && i >= 0 && file_.tensors[static_cast<std::size_t>(i)].variable ? kAbsent
                                                                                       : value(i));
    std::vector<ValueId> made;
    if (auto y = control(op, n)) {
      keep(op, *y);
      return;
    }
    if (op.code == kCustom) {
      made = detection({g, file_, op, out.name, n.inputs});
    } else if (is_quantised(file_, op)) {
      if (const ValueId y = translate_quantised({g, file_, op, out.name, n.inputs}); y != kAbsent)
        made = {y};
      else if (file_.first_output(op).quantisation.given())
        n.attributes["pad_value"] = static_cast<float>(file_.first_output(op).quantisation.zero());
    } else if (const auto y = hybrid({g, file_, op, out.name, n.inputs})) {
      made = activated({*y}, fused(op));
    } else {
      read_as_real(op, n);
    }
    if (made.empty()) made = plain(op, n);
    keep(op, made);
  }
  void keep(const OperatorInfo& op, const std::vector<ValueId>& made) {
    if (made.size() < op.outputs.size())
      throw bad_input("{} gives {} outputs, {} are named", operator_name(op.code), made.size(),
                      op.outputs.size());
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      if (op.outputs[i] >= 0) values_[static_cast<std::size_t>(op.outputs[i])] = made[i];
  }

  // What a hybrid operator's own activation is.
  static int fused(const OperatorInfo& op) {
    const std::string_view type = operator_name(op.code);
    if (type == "FULLY_CONNECTED") return op.options.get<std::int8_t>(0, 0);
    if (type == "CONV_2D") return op.options.get<std::int8_t>(3, 0);
    return type == "DEPTHWISE_CONV_2D" ? op.options.get<std::int8_t>(4, 0) : 0;
  }

  // Other integer weights under floating activations are read as the real numbers they stand for.
  void read_as_real(const OperatorInfo& op, tf::OpNode& n) {
    if (n.inputs.empty()) return;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      if (op.inputs[i] < 0) continue;
      const TensorInfo& t = file_.tensors[static_cast<std::size_t>(op.inputs[i])];
      if (is_floating(t.dtype) || !t.quantisation.given() || !t.value) continue;
      if (i == 1 && t.dtype == DType::i8 && operator_name(op.code) == "SVDF") {
        n.attributes["hybrid_scale"] = t.quantisation.scale();
        continue;
      }
      n.inputs[i] = real(op.inputs[i], t);
      if (const auto type = operator_name(op.code); type != "DEQUANTIZE" && type != "SVDF")
        g.note(
            "hybrid weights (integers under floating activations) are read as scale * integer; "
            "TensorFlow Lite also quantises the activations at run time, which is a cause of "
            "differences");
    }
  }

  ValueId real(std::int32_t index, const TensorInfo& t) {
    if (const auto at = real_.find(index); at != real_.end()) return at->second;
    const Quantisation& q = t.quantisation;
    Tensor out = as_f32(t.value);
    if (out.dtype() == t.value.dtype()) out = out.clone();
    auto data = out.mutable_data<float>();
    const auto rank = t.value.shape().rank();
    std::int64_t inner = 1, extent = 1;
    if (q.scales.size() > 1) {
      const int axis = normalize_axis(q.axis, rank);
      extent = t.value.shape()[axis];
      inner = t.value.shape().product(axis + 1, rank);
      if (static_cast<std::int64_t>(q.scales.size()) != extent)
        throw bad_input("{} scales for {} channels", q.scales.size(), extent);
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      const auto c = static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % extent);
      const std::int64_t zero = c < q.zeros.size() ? q.zeros[c] : q.zero();
      data[i] = (data[i] - static_cast<float>(zero)) * q.scales[q.scales.size() > 1 ? c : 0];
    }
    return real_[index] = g.constant(t.name, std::move(out));
  }

  static Ints strides(const FlatTable& o, int w) {
    return {1, o.get<std::int32_t>(w + 1, 1), o.get<std::int32_t>(w, 1), 1};
  }
  std::vector<ValueId> activated(std::vector<ValueId> y, int kind) {
    switch (kind) {
      case 0:
        return y;
      case 1:
        y[0] = g.elementwise("relu", g.name_of(y[0]) + "/Relu", {y[0]});
        return y;
      case 2:
        y[0] = g.elementwise("clip", g.name_of(y[0]) + "/ReluN1To1", {y[0]},
                             {{"min", -1.0F}, {"max", 1.0F}});
        return y;
      case 3:
        y[0] = g.elementwise("clip", g.name_of(y[0]) + "/Relu6", {y[0]},
                             {{"min", 0.0F}, {"max", 6.0F}});
        return y;
      case 4:
        y[0] = g.elementwise("tanh", g.name_of(y[0]) + "/Tanh", {y[0]});
        return y;
      default:
        throw bad_input("the fused activation {} is not supported", kind);
    }
  }
  ValueId with_bias(ValueId y, const tf::OpNode& n) {
    if (n.inputs.size() < 3 || n.inputs[2] == kAbsent) return y;
    return g.elementwise("add", n.name + "/bias", {y, n.inputs[2]});
  }

  std::vector<ValueId> plain(const OperatorInfo& op, tf::OpNode& n) {
    const std::string_view type = operator_name(op.code);
    const FlatTable& o = op.options;
    const auto text = [](const char* t) { return std::string(t); };
    if (const std::string_view same = tensorflow_name(type); !same.empty()) {
      n.op = same;
      return ops_.translate(n);
    }
    if (type == "CONV_2D" || type == "DEPTHWISE_CONV_2D") {
      const bool depth = type != "CONV_2D";
      n.op = depth ? "DepthwiseConv2dNative" : "Conv2D";
      n.attributes["padding"] = text(o.get<std::int8_t>(0, 0) == 0 ? "SAME" : "VALID");
      n.attributes["strides"] = strides(o, 1);
      n.attributes["dilations"] = strides(o, depth ? 5 : 4);
      if (g.rank(n.in(1)) != 4) throw bad_input("weights of rank {}", g.rank(n.in(1)));
      if (depth) {  // [1, h, w, c * m] to [h, w, c, m]
        const Shape& s = g.shape(n.in(1));
        const std::int64_t c = g.shape(n.in(0)).dim(-1);
        if (c < 1 || s[3] % c != 0) throw bad_input("{} filters for {} channels", s[3], c);
        n.inputs[1] = g.reshape(n.name + "/filter", n.in(1), {s[1], s[2], c, s[3] / c});
      } else {
        n.inputs[1] = g.transpose(n.name + "/filter", n.in(1), {1, 2, 3, 0});
      }
      return activated({with_bias(ops_.translate(n)[0], n)}, o.get<std::int8_t>(depth ? 4 : 3, 0));
    }
    if (type == "TRANSPOSE_CONV") {
      n.op = "Conv2DBackpropInput";
      n.attributes["padding"] = text(o.get<std::int8_t>(0, 0) == 0 ? "SAME" : "VALID");
      n.attributes["strides"] = strides(o, 1);
      n.inputs[1] = g.transpose(n.name + "/filter", n.in(1), {1, 2, 0, 3});
      ValueId y = ops_.translate(n)[0];
      if (n.inputs.size() > 3 && n.inputs[3] != kAbsent)
        y = g.elementwise("add", n.name + "/bias", {y, n.inputs[3]});
      return activated({y}, o.get<std::int8_t>(3, 0));
    }
    if (type == "MAX_POOL_2D" || type == "AVERAGE_POOL_2D") {
      n.op = type == "MAX_POOL_2D" ? "MaxPool" : "AvgPool";
      n.attributes["padding"] = text(o.get<std::int8_t>(0, 0) == 0 ? "SAME" : "VALID");
      n.attributes["strides"] = strides(o, 1);
      n.attributes["ksize"] = strides(o, 3);
      return activated(ops_.translate(n), o.get<std::int8_t>(5, 0));
    }
    if (type == "FULLY_CONNECTED") {
      if (o.get<std::int8_t>(1, 0) != 0)
        throw bad_input("FULLY_CONNECTED with weights in a shuffled layout is not supported");
      ValueId x = n.in(0);
      const std::int64_t k = g.shape(n.in(1)).dim(-1);
      const bool keep = o.get<std::uint8_t>(2, 0) != 0;
      if (!keep && (!g.known(x) || g.rank(x) != 2))
        x = g.op("reshape", n.name + "/flat", {x}, {{"shape", Ints{-1, k}}});
      if (g.known(x) && g.rank(x) == 2)
        return activated(
            {fully_connected(g, n.name, x, n.in(1), n.inputs.size() > 2 ? n.inputs[2] : kAbsent)},
            o.get<std::int8_t>(0, 0));
      const ValueId y =
          g.op("matmul", n.name, {x, g.transpose(n.name + "/weight", n.in(1), {1, 0})});
      return activated({with_bias(y, n)}, o.get<std::int8_t>(0, 0));
    }
    if (type == "ADD" || type == "SUB" || type == "MUL" || type == "DIV") {
      n.op = type == "ADD" ? "AddV2" : type == "SUB" ? "Sub" : type == "MUL" ? "Mul" : "RealDiv";
      return activated(ops_.translate(n), o.get<std::int8_t>(0, 0));
    }
    if (type == "SOFTMAX") {
      const float beta = o.get<float>(0, 1);
      if (beta != 1)
        n.inputs[0] =
            g.op("mul", n.name + "/beta", {n.in(0), g.constant("beta", scalar_f32(beta))});
      n.op = "Softmax";
      return ops_.translate(n);
    }
    if (type == "CONCATENATION") {
      n.inputs.push_back(
          g.constant("axis", Tensor::of<std::int32_t>({}, {o.get<std::int32_t>(0, 0)})));
      n.op = "ConcatV2";
      return activated(ops_.translate(n), o.get<std::int8_t>(1, 0));
    }
    if (type == "RESHAPE") {
      n.op = "Reshape";
      Ints shape;
      for (const auto d : o.list<std::int32_t>(0)) shape.push_back(d);
      n.attributes["new_shape"] = shape;
      if (n.inputs.size() > 1 && n.inputs[1] == kAbsent) n.inputs.resize(1);
      return ops_.translate(n);
    }
    if (type == "SQUEEZE") {
      n.op = "Squeeze";
      Ints axes;
      for (const auto d : o.list<std::int32_t>(0)) axes.push_back(d);
      n.attributes["squeeze_dims"] = axes;
      return ops_.translate(n);
    }
    if (type == "MEAN" || type == "SUM" || type == "REDUCE_MAX" || type == "REDUCE_MIN" ||
        type == "REDUCE_PROD") {
      n.op = type == "MEAN"         ? "Mean"
             : type == "SUM"        ? "Sum"
             : type == "REDUCE_MAX" ? "Max"
             : type == "REDUCE_MIN" ? "Min"
                                    : "Prod";
      n.attributes["keep_dims"] = std::int64_t{o.get<std::uint8_t>(0, 0)};
      return ops_.translate(n);
    }
    if (type == "STRIDED_SLICE") {
      n.op = "StridedSlice";
      if (o.get<std::uint8_t>(5, 0) != 0)
        throw bad_input("STRIDED_SLICE whose ends are counted from its begins is not supported");
      const char* masks[] = {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask",
                             "shrink_axis_mask"};
      for (int i = 0; i < 5; ++i) n.attributes[masks[i]] = std::int64_t{o.get<std::int32_t>(i, 0)};
      return ops_.translate(n);
    }
    if (type == "SPLIT" || type == "UNPACK") {
      n.op = type == "SPLIT" ? "Split" : "Unpack";
      n.attributes[type == "SPLIT" ? "num_split" : "num"] = std::int64_t{o.get<std::int32_t>(0, 1)};
      if (type == "UNPACK") n.attributes["axis"] = std::int64_t{o.get<std::int32_t>(1, 0)};
      return ops_.translate(n);
    }
    if (type == "NON_MAX_SUPPRESSION_V4" || type == "NON_MAX_SUPPRESSION_V5") {
      n.op = type.ends_with('4') ? "NonMaxSuppressionV4" : "NonMaxSuppressionV5";
      n.attributes["pad_to_max_output_size"] = std::int64_t{1};
      n.attributes["from_limit"] = std::int64_t{1};
      return ops_.translate(n);
    }
    if (type == "UNIQUE") {
      n.op = "Unique";
      n.attributes["out_idx"] = text(o.get<std::int8_t>(0, 2) == 4 ? "i64" : "i32");
      return ops_.translate(n);
    }
    if (type == "PACK") {
      n.op = "Pack";
      n.attributes["axis"] = std::int64_t{o.get<std::int32_t>(1, 0)};
      return ops_.translate(n);
    }
    if (type == "GATHER") {
      n.op = "Gather";
      n.attributes["axis"] = std::int64_t{o.get<std::int32_t>(0, 0)};
      n.attributes["batch_dims"] = std::int64_t{o.get<std::int32_t>(1, 0)};
      return ops_.translate(n);
    }
    if (type == "SHAPE") {
      n.op = "Shape";
      n.attributes["out_type"] = text(o.get<std::int8_t>(0, 2) == 4 ? "i64" : "i32");
      return ops_.translate(n);
    }
    if (type == "LEAKY_RELU") {
      n.op = "LeakyRelu";
      n.attributes["alpha"] = o.get<float>(0, 0);
      return ops_.translate(n);
    }
    if (type == "RESIZE_BILINEAR" || type == "RESIZE_NEAREST_NEIGHBOR") {
      const bool linear = type == "RESIZE_BILINEAR";
      n.op = linear ? "ResizeBilinear" : "ResizeNearestNeighbor";
      n.attributes["align_corners"] = std::int64_t{o.get<std::uint8_t>(linear ? 2 : 0, 0)};
      n.attributes["half_pixel_centers"] = std::int64_t{o.get<std::uint8_t>(linear ? 3 : 1, 0)};
      return ops_.translate(n);
    }
    if (type == "LOCAL_RESPONSE_NORMALIZATION") {
      n.op = "LRN";
      n.attributes["depth_radius"] = std::int64_t{o.get<std::int32_t>(0, 0)};
      n.attributes["bias"] = o.get<float>(1, 0);
      n.attributes["alpha"] = o.get<float>(2, 0);
      n.attributes["beta"] = o.get<float>(3, 0);
      return ops_.translate(n);
    }
    if (type == "L2_NORMALIZATION") {
      g.note("L2 normalisation over the last axis, no epsilon but 1e-6 under the root's sum");
      return activated(
          {g.op("lp_norm", n.name, {n.in(0)},
                {{"p", 2.0F}, {"axes", Ints{-1}}, {"eps", 1e-6F}, {"eps_in", text("norm_max")}})},
          o.get<std::int8_t>(0, 0));
    }
    if (type == "DEPTH_TO_SPACE" || type == "SPACE_TO_DEPTH") {
      n.op = type == "DEPTH_TO_SPACE" ? "DepthToSpace" : "SpaceToDepth";
      n.attributes["block_size"] = std::int64_t{o.get<std::int32_t>(0, 1)};
      return ops_.translate(n);
    }
    if (type == "MIRROR_PAD") {
      n.op = "MirrorPad";
      n.attributes["mode"] = text(o.get<std::int8_t>(0, 0) == 0 ? "REFLECT" : "SYMMETRIC");
      return ops_.translate(n);
    }
    if (type == "BATCH_MATMUL") {
      n.op = "BatchMatMulV2";
      n.attributes["adj_x"] = std::int64_t{o.get<std::uint8_t>(0, 0)};
      n.attributes["adj_y"] = std::int64_t{o.get<std::uint8_t>(1, 0)};
      return ops_.translate(n);
    }
    if (type == "ARG_MAX" || type == "ARG_MIN") {
      n.op = type == "ARG_MAX" ? "ArgMax" : "ArgMin";
      n.attributes["output_type"] = std::string(name(file_.first_output(op).dtype));
      return ops_.translate(n);
    }
    if (type == "CAST") {
      n.op = "Cast";
      n.attributes["DstT"] = std::string(name(file_.first_output(op).dtype));
      return ops_.translate(n);
    }
    if (type == "GELU") {
      n.op = "Gelu";
      n.attributes["approximate"] = std::int64_t{o.get<std::uint8_t>(0, 0)};
      return ops_.translate(n);
    }
    if (type == "ONE_HOT") {
      n.op = "OneHot";
      n.attributes["axis"] = std::int64_t{o.get<std::int32_t>(0, -1)};
      return ops_.translate(n);
    }
    if (type == "DEQUANTIZE") {
      // Of float16 weights; quantised ones have become real before.
      if (g.dtype(n.in(0)) == DType::f32) return {n.in(0)};
      if (const Tensor* c = g.constant_of(n.in(0))) {
        g.note("float16 weights are widened to f32, which is exact");
        return {g.constant(n.name, as_f32(*c))};
      }
      return {g.op("cast", n.name, {n.in(0)}, {{"to", text("f32")}})};
    }
    if (type == "DENSIFY") return {n.in(0)};  // sparse tensors are dense from the file on
    if (is_recurrent(type)) return translate_recurrent({g, ops_, op, n});
    if (const auto y = translate_own({g, ops_, op, n})) {
      const int act = type == "CONV_3D" || type == "CONV_3D_TRANSPOSE" ? o.get<std::int8_t>(4, 0)
                      : type == "L2_POOL_2D"                           ? o.get<std::int8_t>(5, 0)
                                                                       : 0;
      return activated({*y}, act);
    }
    throw bad_input("{} is not supported", type);
  }

  GraphBuilder& g;
  const File& network_;
  const File& file_;
  tf::Ops ops_;
  Variables* variables_;
  int depth_;
  std::map<ValueId, std::string> handles_;
  std::vector<ValueId> values_;
  std::map<std::int32_t, ValueId> real_;
};

Model open(const std::string& path, std::span<const std::string>) {
  const Blob blob = map_file(path);
  const ErrorScope scope(path);
  const File file = read_file(blob);
  if (!file.called.empty() && file.operators.empty()) throw bad_input("its main graph is empty");
  GraphBuilder graph(stem_of(path));
  Variables variables;
  Translator(graph, file, file, &variables).run();
  return finish_model(graph, path, "tflite", "schema 3", file.description);
}

}  // namespace
}  // namespace tflite

const FormatRow& tflite_format() {
  static const FormatRow row{
      .name = "tflite",
      .endings = ".tflite",
      .summary = "TensorFlow Lite, float and quantised.",
      .match =
          [](const FileView& f) { return f.prefix.size() >= 8 && f.text().substr(4, 4) == "TFL3"; },
      .open = tflite::open};
  return row;
}

}  // namespace etalon
