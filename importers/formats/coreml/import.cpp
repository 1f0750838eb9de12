// Core ML's neural network (Model fields 303, 403, 500): layers over named values. Weights are f32,
// f16 or quantised (1 to 8 bits, linear by channel or a table of values) and read as f32. With the
// exact mapping of shapes a value is what its description says; with the old one (rank 5) it lacks
// the batch, which is put before it. Pipelines of networks are one graph. Refused by name: trees
// and other models, layers that are listed neither here nor in layers.cpp. Source: the public
// specification of the model format (Model.proto, NeuralNetwork.proto: field numbers).
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/json.h"
#include "importers/containers/pbtree.h"
#include "importers/formats/coreml.h"
#include "importers/formats/coreml/layers.h"
#include "importers/formats/coreml/program.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace coreml {
namespace {

const PbSchema& schema() {
  static const PbSchema kSchema(R"(
Model specificationVersion 1 i description 2 Description pipelineClassifier 200 PipelineHolder pipelineRegressor 201 PipelineHolder pipeline 202 Pipeline neuralNetworkRegressor 303 Network neuralNetworkClassifier 403 Network neuralNetwork 500 Network mlProgram 502 Nothing
Nothing none 1000 i
Refused none 1000 i
PipelineHolder pipeline 1 Pipeline
Pipeline models 1 Model
Description input 1 Feature output 10 Feature metadata 100 Metadata
Metadata userDefined 100 StringEntry
StringEntry key 1 s value 2 s
Feature name 1 s type 3 FeatureType
FeatureType imageType 4 ImageType multiArrayType 5 ArrayType
ImageType width 1 i height 2 i colorSpace 3 i
ArrayType shape 1 i dataType 2 i
Network layers 1 Layer preprocessing 2 Nothing arrayInputShapeMapping 5 i imageInputShapeMapping 6 i
Layer name 1 s input 2 s output 3 s convolution 100 Convolution pooling 120 Pooling activation 130 Activation innerProduct 140 InnerProduct batchnorm 160 BatchNorm softmax 175 Nothing lrn 180 Lrn add 230 Alpha bias 250 Bias multiply 231 Alpha flatten 301 Flatten concat 320 Concat softmaxND 950 Axis reshapeStatic 1140 ReshapeStatic unary 220 Unary average 240 Nothing scale 245 Scale max 260 Nothing min 261 Nothing loadConstant 290 LoadConstant reshape 300 Reshape permute 310 Permute split 330 Split upsample 210 Upsample padding 200 Padding copy 600 Nothing clip 660 Clip ceil 665 Nothing floor 670 Nothing sign 680 Nothing round 685 Nothing exp2 700 Nothing sin 710 Nothing cos 715 Nothing tan 720 Nothing asin 730 Nothing acos 735 Nothing atan 740 Nothing sinh 750 Nothing cosh 755 Nothing tanh 760 Nothing asinh 770 Nothing acosh 775 Nothing atanh 780 Nothing erf 790 Nothing gelu 795 Gelu modBroadcastable 865 Nothing minBroadcastable 870 Nothing maxBroadcastable 875 Nothing addBroadcastable 880 Nothing powBroadcastable 885 Nothing divideBroadcastable 890 Nothing multiplyBroadcastable 900 Nothing subtractBroadcastable 905 Nothing tile 920 Tile stack 925 Axis gather 930 Gather splitND 975 SplitND concatND 980 ConcatND transpose 985 Transpose sliceStatic 995 SliceStatic batchedMatmul 1045 Matmul loadConstantND 1070 LoadConstant squeeze 1120 AxesND expandDims 1125 AxesND flattenTo2D 1130 Axis reduceL1 1250 ReduceND reduceL2 1255 ReduceND reduceMax 1260 ReduceND reduceMin 1265 ReduceND reduceSum 1270 ReduceND reduceProd 1275 ReduceND reduceMean 1280 ReduceND reduceLogSum 1285 ReduceND reduceSumSquare 1290 ReduceND reduceLogSumExp 1295 ReduceND layerNormalization 1350 LayerNorm clampedReLU 1460 Alpha2 embedding 150 Refused mvn 165 Refused l2normalize 170 Refused crop 190 Refused resizeBilinear 211 Refused cropResize 212 Refused dot 270 Refused reduce 280 Refused sequenceRepeat 340 Refused reorganizeData 345 Refused slice 350 Refused simpleRecurrent 400 Refused gru 410 Refused uniDirectionalLSTM 420 Refused biDirectionalLSTM 430 Refused custom 500 Refused branch 605 Refused loop 615 Refused loopBreak 620 Refused loopContinue 625 Refused rangeStatic 635 Refused rangeDynamic 640 Refused equal 815 Refused notEqual 820 Refused lessThan 825 Refused lessEqual 827 Refused greaterThan 830 Refused greaterEqual 832 Refused logicalOr 840 Refused logicalXor 845 Refused logicalNot 850 Refused logicalAnd 855 Refused floorDivBroadcastable 895 Refused scatter 935 Refused gatherND 940 Refused scatterND 945 Refused gatherAlongAxis 952 Refused scatterAlongAxis 954 Refused reverse 960 Refused reverseSeq 965 Refused sliceDynamic 1000 Refused slidingWindows 1005 Refused topK 1015 Refused argMin 1020 Refused argMax 1025 Refused embeddingND 1040 Refused getShape 1065 Refused fillLike 1080 Refused fillStatic 1085 Refused fillDynamic 1090 Refused broadcastToLike 1100 Refused broadcastToStatic 1105 Refused broadcastToDynamic 1110 Refused reshapeLike 1135 Refused reshapeDynamic 1145 Refused rankPreservingReshape 1150 Refused constantPad 1155 Refused randomNormalLike 1170 Refused randomNormalStatic 1175 Refused randomNormalDynamic 1180 Refused randomUniformLike 1190 Refused randomUniformStatic 1195 Refused randomUniformDynamic 1200 Refused randomBernoulliLike 1210 Refused randomBernoulliStatic 1215 Refused randomBernoulliDynamic 1220 Refused categoricalDistribution 1230 Refused whereNonZero 1313 Refused matrixBandPart 1315 Refused lowerTriangular 1320 Refused upperTriangular 1325 Refused whereBroadcastable 1330 Refused NonMaximumSuppression 1400 Refused oneHot 1450 Refused cumSum 1455 Refused argSort 1461 Refused pooling3d 1465 Refused globalPooling3d 1466 Refused sliceBySize 1470 Refused convolution3d 1471 Refused
!Unary type 1 i alpha 2 f epsilon 3 f shift 4 f scale 5 f
!Scale shapeScale 1 i scale 2 Weights hasBias 3 i shapeBias 4 i bias 5 Weights
LoadConstant shape 1 i data 2 Weights
!Reshape targetShape 1 i mode 2 i
!Permute axis 1 i
!Transpose axes 1 i
!AxesND axes 1 i squeezeAll 2 i
!Split nOutputs 1 i
!Gelu mode 1 i
!Upsample scalingFactor 1 i mode 5 i linearUpsampleMode 6 i
!Padding constant 1 PadValue reflection 2 Nothing replication 3 Nothing paddingAmounts 10 Borders
PadValue value 1 f
!Clip minVal 1 f maxVal 2 f
!Tile reps 1 i
!SplitND axis 1 i numSplits 2 i splitSizes 3 i
!ConcatND axis 1 i interleave 2 i
!SliceStatic beginIds 1 i beginMasks 2 i endIds 3 i endMasks 4 i strides 5 i squeezeMasks 6 i
!Matmul transposeA 1 i transposeB 2 i weightMatrixFirstDimension 5 i weightMatrixSecondDimension 6 i hasBias 7 i weights 8 Weights bias 9 Weights
!ReduceND axes 1 i keepDims 2 i reduceAll 3 i
!LayerNorm normalizedShape 1 i eps 2 f gamma 3 Weights beta 4 Weights
!Bias shape 1 i bias 2 Weights
!Axis axis 1 i
!Gather axis 1 i validateIndices 2 i
!Concat sequenceConcat 100 i
!Alpha alpha 1 f
!Flatten mode 1 i
!ReshapeStatic targetShape 1 i
!Lrn alpha 1 f beta 2 f localSize 3 i k 4 f
Weights floatValue 1 f float16Value 2 s rawValue 30 s quantization 40 Quantization
!Quantization numberOfBits 1 i linearQuantization 101 Linear lookupTableQuantization 102 Table
Linear scale 1 f bias 2 f
Table floatValue 1 f
Border startEdgeSize 1 i endEdgeSize 2 i
Borders borderAmounts 10 Border
Valid paddingAmounts 1 Borders
Same asymmetryMode 1 i
LastPixel paddingAmounts 1 i
!Convolution outputChannels 1 i kernelChannels 2 i nGroups 10 i kernelSize 20 i stride 30 i dilationFactor 40 i valid 50 Valid same 51 Same isDeconvolution 60 i hasBias 70 i weights 90 Weights bias 91 Weights outputShape 100 i
!Pooling type 1 i kernelSize 10 i stride 20 i valid 30 Valid same 31 Same includeLastPixel 32 LastPixel avgPoolExcludePadding 50 i globalPooling 60 i
!InnerProduct inputChannels 1 i outputChannels 2 i hasBias 10 i weights 20 Weights bias 21 Weights
!BatchNorm channels 1 i computeMeanVar 5 i instanceNormalization 6 i epsilon 10 f gamma 15 Weights beta 16 Weights mean 17 Weights variance 18 Weights
!Activation linear 5 Alpha2 ReLU 10 Nothing leakyReLU 15 Alpha2 PReLU 25 PRelu tanh 30 Nothing sigmoid 40 Nothing sigmoidHard 41 Alpha2 ELU 50 Alpha2 softsign 60 Nothing softplus 70 Nothing thresholdedReLU 20 Refused scaledTanh 31 Refused parametricSoftplus 71 Refused
!Alpha2 alpha 1 f beta 2 f
PRelu alpha 1 Weights
)");
  return kSchema;
}

class Translator {
 public:
  explicit Translator(const std::string& name) : g(name) {}
  GraphBuilder g;

  void input(const PbMessage& feature, bool exact) {
    const std::string name = feature.text("name");
    const ErrorScope where(fmt::format("value {}", printable(name)));
    const PbMessage type = feature.message("type");
    Ints dims;
    if (type.has("multiArrayType")) {
      dims = type.message("multiArrayType").integers("shape");
      if (!exact) dims.insert(dims.begin(), -1);
      if (exact && dims.size() > 1) dims[0] = -1;
    } else if (type.has("imageType")) {
      const PbMessage image = type.message("imageType");
      dims = {-1, image.integer("colorSpace") == 10 ? 1 : 3, image.integer("height"),
              image.integer("width")};
      g.note(fmt::format(
          "input {} is an image: feed its channels as f32, as preprocessing gives them", name));
    } else {
      throw bad_input("an input that is neither an array nor an image");
    }
    for (const std::int64_t d : dims)
      if (d == 0 || d < -1) throw bad_input("an extent of {}", d);
    values_[name] = g.input(name, DType::f32, dims);
  }
  void layer(const PbMessage& l);
  // One network of a pipeline: of its values, only its outputs are seen outside.
  void begin() { outside_ = values_; }
  void end(const std::vector<std::string>& outputs) {
    for (const std::string& name : outputs)
      if (const auto at = values_.find(name); at != values_.end()) outside_[name] = at->second;
    values_ = outside_;
  }
  ValueId value(const std::string& name) const {
    const auto at = values_.find(name);
    if (at == values_.end()) throw bad_input("nothing makes the value {}", printable(name));
    return at->second;
  }

 private:
  // Weights as f32; `count` elements, the first axis of which is scaled by channel.
  ValueId weights(const PbMessage& w, const char* role, const Shape& shape) {
    Tensor t;
    if (w.has("floatValue")) {
      t = w.tensor("floatValue");
    } else if (w.has("float16Value")) {
      const Blob raw = w.blob("float16Value");
      t = as_f32(
          tensor_from_bytes({DType::f16, {static_cast<std::int64_t>(raw.bytes.size() / 2)}}, raw));
      g.note("f16 weights are widened to f32, which is exact");
    } else if (w.has("rawValue")) {
      t = dequantised(w, shape);
    } else {
      throw bad_input("{} is empty", role);
    }
    if (t.numel() != shape.numel())
      throw bad_input("{} has {} elements, expected {}", role, t.numel(), to_string(shape));
    return g.constant(name_ + "." + role, t.reshaped(shape));
  }
  Tensor dequantised(const PbMessage& w, const Shape& shape) {
    const PbMessage q = w.message("quantization");
    const auto bits = q.integer("numberOfBits", 8);
    const Blob raw = w.blob("rawValue");
    if (bits < 1 || bits > 8) throw bad_input("weights of {} bits", bits);
    const auto n = static_cast<std::uint64_t>(shape.numel());
    if (shape.numel() > static_cast<std::int64_t>(raw.bytes.size()) * 8 ||
        raw.bytes.size() < (n * static_cast<std::uint64_t>(bits) + 7) / 8)
      throw bad_input("{} bytes for {} weights of {} bits", raw.bytes.size(), n, bits);
    const std::vector<float> scale = q.message("linearQuantization").numbers("scale"),
                             bias = q.message("linearQuantization").numbers("bias"),
                             table = q.message("lookupTableQuantization").numbers("floatValue");
    Tensor out = Tensor::uninitialized(DType::f32, {shape.numel()});
    auto to = out.mutable_data<float>();
    const std::size_t per = to.size() / static_cast<std::size_t>(std::max<std::int64_t>(
                                            1, shape.rank() > 0 ? shape[0] : 1));
    for (std::size_t i = 0; i < to.size(); ++i) {
      unsigned v = 0;  // most significant bit first
      for (std::size_t b = 0; b < static_cast<std::size_t>(bits); ++b) {
        const std::size_t at = i * static_cast<std::size_t>(bits) + b;
        v = v << 1 | (std::to_integer<unsigned>(raw.bytes[at / 8]) >> (7 - at % 8) & 1U);
      }
      if (!table.empty()) {
        if (v >= table.size())
          throw bad_input("a table of {} values is asked for value {}", table.size(), v);
        to[i] = table[v];
        continue;
      }
      const std::size_t c = per == 0 ? 0 : i / per;
      if (scale.empty()) throw bad_input("quantised weights without a scale");
      const float s = scale[scale.size() == 1 ? 0 : std::min(c, scale.size() - 1)];
      const float o = bias.empty() ? 0 : bias[bias.size() == 1 ? 0 : std::min(c, bias.size() - 1)];
      to[i] = s * static_cast<float>(v) + o;
    }
    g.note(
        "quantised weights are read as scale * q + bias by output channel, or from their table, in "
        "f32");
    return out;
  }
  void padding(const PbMessage& p, Fields& f) {
    if (p.has("same")) {
      f.emplace_back("auto_pad",
                     std::string(p.message("same").integer("asymmetryMode") == 1 ? "same_lower"
                                                                                 : "same_upper"));
      g.note("SAME padding: the odd element stands where asymmetryMode says");
      return;
    }
    Ints begin, end;
    for (const PbMessage& b :
         p.message("valid").message("paddingAmounts").messages("borderAmounts")) {
      begin.push_back(b.integer("startEdgeSize"));
      end.push_back(b.integer("endEdgeSize"));
    }
    f.emplace_back("pads_begin", begin);
    f.emplace_back("pads_end", end);
  }
  ValueId activation(const PbMessage& a, ValueId x);

  std::string name_;
  std::map<std::string, ValueId> values_, outside_;
};

ValueId Translator::activation(const PbMessage& a, ValueId x) {
  for (const auto& [field, op] : {std::pair{"ReLU", "relu"},
                                  {"tanh", "tanh"},
                                  {"sigmoid", "sigmoid"},
                                  {"softsign", "softsign"},
                                  {"softplus", "softplus"}})
    if (a.has(field)) return g.op(op, name_, {x});
  if (a.has("leakyReLU"))
    return g.op("leaky_relu", name_, {x}, {{"alpha", a.message("leakyReLU").number("alpha")}});
  if (a.has("ELU")) return g.op("elu", name_, {x}, {{"alpha", a.message("ELU").number("alpha")}});
  if (a.has("sigmoidHard")) {
    const PbMessage h = a.message("sigmoidHard");
    return g.op("hard_sigmoid", name_, {x},
                {{"alpha", h.number("alpha")}, {"beta", h.number("beta")}});
  }
  if (a.has("linear")) {
    const PbMessage h = a.message("linear");
    const ValueId y =
        g.op("mul", name_ + ".alpha", {x, g.constant("alpha", scalar_f32(h.number("alpha")))});
    return g.op("add", name_, {y, g.constant("beta", scalar_f32(h.number("beta")))});
  }
  for (const PbField& f : schema().type("Activation").fields)
    if (a.has(f.name)) throw bad_input("the activation {} is not supported", f.name);
  throw bad_input("an activation without a kind");
}

void Translator::layer(const PbMessage& l) {
  name_ = l.text("name");
  const ErrorScope where(fmt::format("node {}", printable(name_)));
  std::vector<ValueId> in;
  for (const std::string& name : l.texts("input")) in.push_back(value(name));
  const auto outputs = l.texts("output");
  const auto more = translate_layer({g, l, name_, in, outputs.size(),
                                     [&](const PbMessage& w, const char* role, const Shape& shape) {
                                       return weights(w, role, shape);
                                     }});
  if (!more.empty()) {
    if (more.size() < outputs.size()) throw bad_input("{} outputs", outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) values_[outputs[i]] = more[i];
    return;
  }
  for (const PbField& f : schema().type("Layer").fields)
    if (f.type == &schema().type("Refused") && l.has(f.name))
      throw bad_input("a layer {} is not supported", f.name);
  if (in.empty() || outputs.size() != 1)
    throw bad_input("{} inputs and {} outputs", in.size(), outputs.size());
  const ValueId x = in[0];
  ValueId y = kAbsent;
  if (l.has("convolution")) {
    const PbMessage p = l.message("convolution");
    const std::int64_t out = p.integer("outputChannels"), in_channels = p.integer("kernelChannels"),
                       groups = std::max<std::int64_t>(1, p.integer("nGroups", 1));
    Ints kernel = p.integers("kernelSize");
    if (kernel.empty()) kernel = {3, 3};
    const bool transposed = p.flag("isDeconvolution");
    Ints dims = transposed ? Ints{in_channels, out / groups} : Ints{out, in_channels};
    dims.insert(dims.end(), kernel.begin(), kernel.end());
    Fields f{{"strides", p.integers("stride")},
             {"dilations", p.integers("dilationFactor")},
             {"groups", groups}};
    padding(p, f);
    if (transposed && p.has("outputShape"))
      f.emplace_back("output_shape", p.integers("outputShape"));
    std::vector<ValueId> inputs{x, weights(p.message("weights"), "weights", Shape(dims))};
    if (p.flag("hasBias")) inputs.push_back(weights(p.message("bias"), "bias", {out}));
    y = g.op(transposed ? "conv_transpose" : "conv", name_, inputs, f);
  } else if (l.has("pooling")) {
    const PbMessage p = l.message("pooling");
    const auto kind = p.integer("type");
    if (kind > 1) throw bad_input("L2 pooling is not supported");
    if (p.flag("globalPooling")) {
      y = g.op(kind == 0 ? "global_max_pool" : "global_avg_pool", name_, {x});
    } else {
      Ints kernel = p.integers("kernelSize");
      if (kernel.empty()) kernel = {3, 3};
      Fields f{{"kernel", kernel}, {"strides", p.integers("stride")}};
      if (p.has("includeLastPixel")) {
        const Ints pads = p.message("includeLastPixel").integers("paddingAmounts");
        f.emplace_back("pads_begin", pads);
        f.emplace_back("pads_end", pads);
        f.emplace_back("ceil_mode", true);
        g.note("includeLastPixel: the output extent is rounded up, as Caffe's is");
      } else {
        padding(p, f);
      }
      if (kind == 1) f.emplace_back("count_include_pad", !p.flag("avgPoolExcludePadding"));
      y = g.op(kind == 0 ? "max_pool" : "avg_pool", name_, {x}, f);
    }
  } else if (l.has("activation")) {
    y = activation(l.message("activation"), x);
  } else if (l.has("innerProduct")) {
    const PbMessage p = l.message("innerProduct");
    const std::int64_t c = p.integer("inputChannels"), out = p.integer("outputChannels");
    ValueId flat = x;
    if (g.rank(x) != 2) flat = g.op("flatten", name_ + ".flatten", {x});
    const ValueId w = weights(p.message("weights"), "weights", {out, c});
    y = fully_connected(g, name_, flat, w,
                        p.flag("hasBias") ? weights(p.message("bias"), "bias", {out}) : kAbsent);
  } else if (l.has("batchnorm")) {
    const PbMessage p = l.message("batchnorm");
    if (p.flag("computeMeanVar"))
      throw bad_input("statistics of the input itself are not supported");
    const Shape c{p.integer("channels")};
    const float eps = p.number("epsilon", 1e-5F);
    g.note(fmt::format("batch norm: eps {}", eps));
    y = g.op("batch_norm", name_,
             {x, weights(p.message("gamma"), "gamma", c), weights(p.message("beta"), "beta", c),
              weights(p.message("mean"), "mean", c), weights(p.message("variance"), "variance", c)},
             {{"eps", eps}});
  } else if (l.has("softmax")) {
    y = g.op("softmax", name_, {x},
             {{"axis", std::int64_t{g.rank(x) >= 3 ? g.rank(x) - 3 : g.rank(x) - 1}}});
  } else if (l.has("bias")) {
    const PbMessage p = l.message("bias");
    Ints dims = p.integers("shape");
    if (dims.size() == 1 && g.rank(x) >= 3) dims.insert(dims.end(), {1, 1});
    y = g.op("add", name_, {x, weights(p.message("bias"), "bias", Shape(dims))});
  } else if (l.has("softmaxND")) {
    y = g.op("softmax", name_, {x}, {{"axis", l.message("softmaxND").integer("axis")}});
  } else if (l.has("lrn")) {
    const PbMessage p = l.message("lrn");
    g.note("LRN: alpha is divided by the window's size");
    y = g.op("lrn", name_, {x},
             {{"size", p.integer("localSize", 5)},
              {"alpha", p.number("alpha")},
              {"beta", p.number("beta")},
              {"bias", p.number("k", 1)}});
  } else if (l.has("add") || l.has("multiply")) {
    const bool add = l.has("add");
    y = x;
    for (std::size_t i = 1; i < in.size(); ++i) y = g.op(add ? "add" : "mul", name_, {y, in[i]});
    if (in.size() == 1) {
      const float alpha = l.message(add ? "add" : "multiply").number("alpha");
      y = g.op(add ? "add" : "mul", name_, {x, g.constant(name_ + ".alpha", scalar_f32(alpha))});
    }
  } else if (l.has("concat")) {
    if (l.message("concat").flag("sequenceConcat"))
      throw bad_input("a concatenation of sequences is not supported");
    if (g.rank(x) < 3) throw bad_input("a concatenation of rank {}", g.rank(x));
    y = g.op("concat", name_, in, {{"axis", std::int64_t{g.rank(x) - 3}}});
  } else if (l.has("flatten")) {
    if (l.message("flatten").integer("mode") != 0) throw bad_input("a flatten of channels last");
    y = g.op("flatten", name_, {x});
  } else if (l.has("reshapeStatic")) {
    Ints shape = l.message("reshapeStatic").integers("targetShape");
    // The shape was traced at the batch of the file; the batch stays free where it leads.
    if (!shape.empty() && g.known(x) && g.rank(x) > 0 && g.dims(x)[0] == -1 && shape[0] > 0)
      shape[0] = -1;
    y = g.op("reshape", name_, {x}, {{"shape", shape}});
  } else {
    throw bad_input("a layer of a kind that this specification does not have is not supported");
  }
  values_[outputs[0]] = y;
}

struct Part {
  PbMessage net;
  std::vector<std::string> outputs;  // what the next one may read
};

// The networks of a model, one behind the other.
std::vector<Part> networks(const PbMessage& m, int depth) {
  if (depth > 4) throw bad_input("pipelines nest deeper than 4 levels");
  for (const char* kind : {"neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor"})
    if (m.has(kind) && m.message(kind).has("layers")) {
      Part part{m.message(kind), {}};
      for (const PbMessage& f : m.message("description").messages("output"))
        part.outputs.push_back(f.text("name"));
      return {std::move(part)};
    }
  PbMessage pipeline = m.message("pipeline");
  for (const char* kind : {"pipelineClassifier", "pipelineRegressor"})
    if (m.has(kind)) pipeline = m.message(kind).message("pipeline");
  std::vector<Part> out;
  for (const PbMessage& inner :
       pipeline.count("models") != 0 ? pipeline.messages("models") : std::vector<PbMessage>{})
    for (Part& part : networks(inner, depth + 1)) out.push_back(std::move(part));
  if (out.empty())
    throw bad_input("no neural network in it (another kind of model); convert it to one");
  return out;
}

Model open_model_file(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const PbMessage m = PbMessage::from_wire(schema().type("Model"), file);
  if (m.has("mlProgram")) return open_program(file, path, folder_of(path));
  const PbMessage description = m.message("description");
  Translator t(stem_of(path));
  const auto parts = networks(m, 0);
  const bool exact = parts[0].net.integer("arrayInputShapeMapping") == 1;
  for (const PbMessage& f : description.messages("input")) t.input(f, exact);
  if (parts.size() > 1)
    t.g.note(fmt::format("a pipeline of {} networks is read as one graph", parts.size()));
  for (const Part& part : parts) {
    if (part.net.has("preprocessing"))
      t.g.note(
          "the file's preprocessing of images (scale, bias by channel) is no part of the network: "
          "feed what it makes");
    t.begin();
    for (const PbMessage& l : part.net.messages("layers")) t.layer(l);
    t.end(part.outputs);
  }
  for (const PbMessage& f : description.messages("output")) {
    const std::string name = f.text("name");
    // A classifier's label is chosen from its probabilities, outside the network.
    if (f.message("type").has("multiArrayType") || description.count("output") == 1)
      t.g.output(t.value(name), name);
  }
  std::string producer;
  for (const PbMessage& e : description.message("metadata").messages("userDefined"))
    if (e.text("key").ends_with("coremltools.version")) producer = "coremltools " + e.text("value");
  return finish_model(t.g, path, "coreml",
                      fmt::format("specification {}", m.integer("specificationVersion")), producer);
}

// A package is a folder: its manifest names the model under Data/.
Model open(const std::string& path, std::span<const std::string>) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return open_model_file(path);
  const std::string manifest = path + "/Manifest.json";
  std::string item;
  {
    const Blob blob = map_file(manifest);
    const ErrorScope scope(manifest);
    const nlohmann::json json = parse_json(blob.text());
    const std::string root = json_string(json, "rootModelIdentifier");
    item = json_string(json_member(json_member(json, "itemInfoEntries"), root), "path");
  }
  const ErrorScope scope(path);
  Model model = open_model_file(resolve_inside(path, "Data/" + item));
  model.path = path;
  return model;
}

bool match_package(const std::string& folder) {
  std::error_code failed;
  const std::string manifest = folder + "/Manifest.json";
  if (!std::filesystem::is_regular_file(manifest, failed) ||
      std::filesystem::file_size(manifest, failed) > 1 << 20)
    return false;
  return map_file(manifest).text().find("rootModelIdentifier") != std::string_view::npos;
}

// A version of 1 to 20, then the description, whose first field is an input.
bool match(const FileView& file) {
  if (file.is_folder) return match_package(file.path);
  if (has_ending(file.path, ".mlmodel")) return true;
  const auto f = peek_fields(file.prefix, 2);
  if (f.size() < 2 || f[0].number != 1 || f[0].wire != 0 || f[0].value < 1 || f[0].value > 20 ||
      f[1].number != 2 || f[1].wire != 2)
    return false;
  const auto description = peek_fields(f[1].payload, 1);
  return !description.empty() && description[0].number == 1 && description[0].wire == 2;
}

}  // namespace
}  // namespace coreml

const FormatRow& coreml_format() {
  static const FormatRow row{.name = "coreml",
                             .endings = ".mlmodel .mlpackage",
                             .summary = "Core ML neural network, pipeline or ML program.",
                             .match = coreml::match,
                             .open = coreml::open};
  return row;
}

}  // namespace etalon
