// A module is a table with its settings and weights; containers hold theirs in `modules`. Torch7
// does not store the shape of a network's input: it is taken from the first weights, and the extent
// of images is tried against the linear layers. What is no network of known modules (a table of
// tensors) opens as its tensors, named by their path, with a note why.
//
// Conventions: dimensions count from 1; SpatialAveragePooling counts padding unless told otherwise;
// LRN divides alpha by the window; old batch norms store the inverse deviation; convolutions by MM
// keep their weights as a matrix; Threshold gives its value where x <= threshold.
#include <cmath>
#include <map>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/t7.h"
#include "importers/formats/extents.h"
#include "importers/formats/torch7.h"
#include "importers/formats/torch7/gmodule.h"
#include "importers/formats/torch7/modules.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace torch7 {

std::int64_t whole(double v) {
  if (!(v >= -1e9 && v <= 1e9)) throw bad_input("the number {} is out of range", v);
  return static_cast<std::int64_t>(v);
}

namespace {

std::string short_name(std::string_view type) {
  const std::size_t dot = type.rfind('.');
  return std::string(type.substr(dot == std::string_view::npos ? 0 : dot + 1));
}

class Translator {
 public:
  explicit Translator(const std::string& name) : g(name) {}
  GraphBuilder g;

  void run(const T7Object& root, std::int64_t extent, bool fixed) {
    first_ = nullptr;
    visits_ = 0;
    find_first(root, 0);
    if (first_ == nullptr) throw bad_input("no layer with weights tells the shape of the input");
    const Tensor w = weight_of(*first_, "weight");
    const std::string type = short_name(first_->type);
    Ints dims, nominal;
    if (type.starts_with("SpatialConvolution")) {
      const std::int64_t c = whole(first_->number("nInputPlane", 0));
      dims = {-1, c, fixed ? extent : -1, fixed ? extent : -1};
      nominal = {1, c, extent, extent};
      free_extent_ = !fixed;
      g.note(fmt::format(
          "the file does not say the shape of its input: {} channels as the first "
          "convolution has them, {}",
          c,
          fixed ? fmt::format("{} along each axis, which fits the linear layers", extent)
                : std::string("any extent")));
    } else if (type.starts_with("VolumetricConvolution")) {
      const std::int64_t c = whole(first_->number("nInputPlane", 0));
      dims = {-1, c, -1, -1, -1};
      nominal = {1, c, 16, 16, 16};
    } else if (type == "TemporalConvolution") {
      const std::int64_t features = whole(first_->number("inputFrameSize", 0));
      dims = {-1, -1, features};
      nominal = {1, 16, features};
    } else if (type == "LookupTable") {
      dims = {-1, -1};
      nominal = {1, 8};
    } else {
      dims = {-1, w.shape().rank() == 2 ? w.shape()[1] : w.numel()};
    }
    std::vector<ValueId> y;
    if (short_name(root.type) == "gModule" && root.number("nInputs", 1) > 1) {
      GModule net(root, [&](const T7Object& m, const std::vector<ValueId>& in, int number) {
        return module(m, in, fmt::format("node{}", number), 1);
      });
      y = net.run([&](std::size_t i, const T7Object* reader, ValueId like) {
        const std::string name = fmt::format("input{}", i);
        if (reader == nullptr) return g.input(name, DType::f32, g.dims(like));
        if (short_name(reader->type).starts_with("SpatialConvolution")) {
          const std::int64_t c = whole(reader->number("nInputPlane", 0));
          return g.input(name, DType::f32, {-1, c, fixed ? extent : -1, fixed ? extent : -1},
                         {1, c, extent, extent});
        }
        const Tensor first = need(*reader, "weight");
        if (first.shape().rank() != 2)
          throw bad_input("the weights {} do not tell an input's shape", to_string(first.type()));
        return g.input(name, DType::f32, {-1, first.shape()[1]});
      });
    } else {
      y = module(root, {g.input("input", DType::f32, dims, nominal)}, "", 0);
    }
    for (std::size_t i = 0; i < y.size(); ++i)
      g.output(y[i], y.size() == 1 ? "output" : fmt::format("output{}", i));
  }
  bool free_extent() const { return free_extent_; }

 private:
  void find_first(const T7Object& m, int depth) {
    if (first_ != nullptr || depth > 100) return;
    count_visit();
    const std::string type = short_name(m.type);
    if (type == "Linear" || type == "LookupTable" || type == "TemporalConvolution" ||
        type.starts_with("SpatialConvolution") || type.starts_with("VolumetricConvolution")) {
      first_ = &m;
      return;
    }
    if (const T7Object* list = m.find_object("modules"))
      for (const T7Value* v : list->list())
        if (v->object) find_first(*v->object, depth + 1);
  }

  // Modules may be shared, and hold each other: what unfolds takes time.
  void count_visit() {
    constexpr int kMost = 1 << 14;
    if (++visits_ > kMost) throw bad_input("its modules unfold to more than {}", kMost);
  }

  static Tensor weight_of(const T7Object& m, std::string_view key) {
    const T7Object* t = m.find_object(key);
    if (t == nullptr || !t->tensor || t->tensor.numel() == 0) return {};
    return as_f32(t->tensor);
  }
  Tensor need(const T7Object& m, std::string_view key) const {
    Tensor t = weight_of(m, key);
    if (!t) throw bad_input("{} has no {}", m.type, key);
    return t;
  }
  ValueId constant(const std::string& name, const Tensor& t, const Shape& shape) {
    if (t.numel() != shape.numel())
      throw bad_input("{} is {}, expected {}", name, to_string(t.shape()), to_string(shape));
    return g.constant(name, t.reshaped(shape));
  }
  static Ints two(const T7Object& m, const char* h, const char* w, double otherwise) {
    return {whole(m.number(h, otherwise)), whole(m.number(w, otherwise))};
  }

  static ValueId single(const std::vector<ValueId>& values) {
    if (values.size() != 1) throw bad_input("{} values where one is wanted", values.size());
    return values[0];
  }
  std::vector<ValueId> module(const T7Object& m, const std::vector<ValueId>& in,
                              const std::string& path, int depth);
  ValueId convolution(const T7Object& m, ValueId x, const std::string& name, bool transposed);
  ValueId pooling(const T7Object& m, ValueId x, const std::string& name, bool max);
  ValueId batch_norm(const T7Object& m, ValueId x, const std::string& name);
  ValueId shaped(const T7Object& m, ValueId x, const std::string& name);

  const T7Object* first_ = nullptr;
  bool free_extent_ = false;
  int visits_ = 0;
};

ValueId Translator::convolution(const T7Object& m, ValueId x, const std::string& name,
                                bool transposed) {
  const std::int64_t in = whole(m.number("nInputPlane", 0)),
                     out = whole(m.number("nOutputPlane", 0)),
                     groups = whole(m.number("groups", 1));
  const double old_pad = m.number("padding", 0);
  const Ints kernel = two(m, "kH", "kW", 1), pad = two(m, "padH", "padW", old_pad);
  if (groups < 1 || in % groups != 0 || in < 1 || out < 1)
    throw bad_input("{} planes in {} groups", in, groups);
  const Shape shape = transposed ? Shape{in, out / groups, kernel[0], kernel[1]}
                                 : Shape{out, in / groups, kernel[0], kernel[1]};
  Fields f = window_fields({.kernel = {},
                            .strides = two(m, "dH", "dW", 1),
                            .dilations = two(m, "dilationH", "dilationW", 1),
                            .pads_begin = pad,
                            .pads_end = pad},
                           false);
  f.emplace_back("groups", groups);
  if (transposed) f.emplace_back("output_padding", two(m, "adjH", "adjW", 0));
  std::vector<ValueId> inputs{x, constant(name + ".weight", need(m, "weight"), shape)};
  if (Tensor b = weight_of(m, "bias")) inputs.push_back(constant(name + ".bias", b, {out}));
  return g.op(transposed ? "conv_transpose" : "conv", name, inputs, f);
}

ValueId Translator::pooling(const T7Object& m, ValueId x, const std::string& name, bool max) {
  const Ints pad = two(m, "padH", "padW", 0);
  Fields f = window_fields({.kernel = two(m, "kH", "kW", 1),
                            .strides = two(m, "dH", "dW", 1),
                            .dilations = {},
                            .pads_begin = pad,
                            .pads_end = pad},
                           true);
  const bool ceil = m.flag("ceil_mode", false);
  f.emplace_back("ceil_mode", ceil);
  if (ceil) g.note("pooling with ceil_mode: the output extent is rounded up");
  if (max) return g.op("max_pool", name, {x}, f);
  const bool count = m.flag("count_include_pad", true);
  f.emplace_back("count_include_pad", count);
  if (!m.flag("divide", true)) f.emplace_back("divisor_override", std::int64_t{1});
  if (count) g.note("average pooling counts padding (count_include_pad)");
  return g.op("avg_pool", name, {x}, f);
}

ValueId Translator::batch_norm(const T7Object& m, ValueId x, const std::string& name) {
  const Tensor mean = need(m, "running_mean");
  const Shape c{mean.numel()};
  const auto eps = static_cast<float>(m.number("eps", 1e-5));
  Tensor var = weight_of(m, "running_var");
  float used = eps;
  if (!var) {
    var = need(m, "running_std").clone();
    // Old files keep 1 / sqrt(var + eps).
    for (float& v : var.mutable_data<float>()) v = 1 / (v * v);
    used = 0;
    g.note("batch norm of an old file: running_std is the inverse deviation, squared back");
  }
  Tensor scale = weight_of(m, "weight"), bias = weight_of(m, "bias");
  if (!scale) scale = filled_f32(c[0], 1);
  if (!bias) bias = filled_f32(c[0], 0);
  g.note(fmt::format("batch norm: eps {} (a double in Torch7, rounded to f32 here)", used));
  return g.op("batch_norm", name,
              {x, constant(name + ".weight", scale, c), constant(name + ".bias", bias, c),
               constant(name + ".mean", mean, c), constant(name + ".var", var, c)},
              {{"eps", used}});
}

// View and Reshape: sizes of a sample; the batch stays.
ValueId Translator::shaped(const T7Object& m, ValueId x, const std::string& name) {
  Ints dims;
  if (const T7Object* size = m.find_object("size")) {
    if (size->tensor)
      dims = to_int64_values(size->tensor);
    else
      for (const T7Value* v : size->list()) dims.push_back(whole(v->number));
  }
  if (dims.empty()) throw bad_input("{} without sizes", m.type);
  const bool has_batch = dims[0] < 0;
  Ints all = has_batch ? dims : Ints{0};
  if (!has_batch) all.insert(all.end(), dims.begin(), dims.end());
  std::int64_t want = 1;
  for (const std::int64_t d : dims) want = d < 0 ? -1 : want < 0 ? -1 : checked_mul(want, d);
  const std::int64_t have = g.shape(x).product(1, g.rank(x));
  if (!has_batch && want >= 0 && want != have)
    throw bad_input("{} elements of a sample are to become {}", have, want);
  g.note("View and Reshape keep the batch; what they flatten is NCHW, row-major");
  return g.op("reshape", name, {x}, {{"shape", all}});
}

std::vector<ValueId> Translator::module(const T7Object& m, const std::vector<ValueId>& in,
                                        const std::string& path, int depth) {
  const std::string type = short_name(m.type);
  const std::string name = path.empty() ? type : path + "." + type;
  const ErrorScope where("node " + printable(name));
  if (depth > 100) throw bad_input("modules nest deeper than any network");
  count_visit();
  if (in.empty()) throw bad_input("a module without input");
  const ValueId x = in[0];
  std::vector<const T7Object*> parts;
  if (const T7Object* list = m.find_object("modules"))
    for (const T7Value* v : list->list()) {
      if (!v->object) throw bad_input("a part that is no module");
      parts.push_back(v->object.get());
    }
  const auto part = [&](std::size_t i) {
    return fmt::format("{}{}{}", path, path.empty() ? "" : ".", i + 1);
  };
  for (const auto& rows : {table_rows(), move_rows(), window_rows()})
    for (const ModuleRow& row : rows)
      if (row.name == type) {
        std::vector<int> used(parts.size());
        return row.translate(
            {g, m, type, name, in, parts, [&](std::size_t i, const Values& values) {
               const int again = used.at(i)++;
               return module(*parts[i], values,
                             again == 0 ? part(i) : fmt::format("{}_{}", part(i), again),
                             depth + 1);
             }});
      }
  static const std::map<std::string_view, std::string_view> kUnary{
      {"ReLU", "relu"}, {"Tanh", "tanh"}, {"Sigmoid", "sigmoid"},   {"Abs", "abs"},  {"Exp", "exp"},
      {"Log", "log"},   {"Sqrt", "sqrt"}, {"SoftSign", "softsign"}, {"SELU", "selu"}};
  if (const auto at = kUnary.find(type); at != kUnary.end()) return {g.op(at->second, name, {x})};
  if (type == "Sequential" || type == "DataParallelTable") {
    std::vector<ValueId> v = in;
    for (std::size_t i = 0; i < parts.size(); ++i) v = module(*parts[i], v, part(i), depth + 1);
    return v;
  }
  if (type == "gModule") {
    GModule net(m, [&](const T7Object& inner, const std::vector<ValueId>& read, int number) {
      return module(inner, read, fmt::format("{}{}node{}", path, path.empty() ? "" : ".", number),
                    depth + 1);
    });
    if (net.input_count() != in.size())
      throw bad_input("{} values for a gModule of {}", in.size(), net.input_count());
    return net.run(in);
  }
  if (type == "ConcatTable") {
    std::vector<ValueId> out;
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (const ValueId v : module(*parts[i], in, part(i), depth + 1)) out.push_back(v);
    return out;
  }
  if (type == "ParallelTable") {
    if (parts.size() != in.size())
      throw bad_input("{} values for {} modules", in.size(), parts.size());
    std::vector<ValueId> out;
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (const ValueId v : module(*parts[i], {in[i]}, part(i), depth + 1)) out.push_back(v);
    return out;
  }
  if (type == "Concat") {
    std::vector<ValueId> out;
    for (std::size_t i = 0; i < parts.size(); ++i)
      out.push_back(single(module(*parts[i], in, part(i), depth + 1)));
    return {g.op("concat", name, out, {{"axis", whole(m.number("dimension", 2)) - 1}})};
  }
  if (type == "JoinTable") {
    std::int64_t axis = whole(m.number("dimension", 1)) - 1;
    if (const auto n = whole(m.number("nInputDims", 0)); n > 0 && g.rank(x) > n) ++axis;
    return {g.op("concat", name, in, {{"axis", axis}})};
  }
  if (type == "CAddTable" || type == "CMulTable") {
    ValueId y = x;
    for (std::size_t i = 1; i < in.size(); ++i)
      y = g.op(type == "CAddTable" ? "add" : "mul", name, {y, in[i]});
    return {y};
  }
  if (type == "CSubTable" || type == "CDivTable") {
    if (in.size() != 2) throw bad_input("{} values for {}", in.size(), type);
    return {g.op(type == "CSubTable" ? "sub" : "div", name, {in[0], in[1]})};
  }
  if (type == "SelectTable") {
    std::int64_t i = whole(m.number("index", 1)) - 1;
    if (i < -1) i += static_cast<std::int64_t>(in.size()) + 1;  // from the end
    if (i < 0 || static_cast<std::size_t>(i) >= in.size())
      throw bad_input("value {} of {}", i + 1, in.size());
    return {in[static_cast<std::size_t>(i)]};
  }
  if (type == "Identity" || type == "Copy" || type == "Contiguous" || type == "Dropout" ||
      type == "SpatialDropout" || type == "FlattenTable") {
    if (type.ends_with("Dropout")) {
      g.note("dropout does nothing at inference (files of before 2014 scaled then: v1 is refused)");
      if (m.flag("v2", true) == false) throw bad_input("a Dropout that scales at inference");
    }
    return in;
  }
  if (type == "SpatialConvolution" || type == "SpatialConvolutionMM" ||
      type == "SpatialDilatedConvolution")
    return {convolution(m, x, name, false)};
  if (type == "SpatialFullConvolution") return {convolution(m, x, name, true)};
  if (type == "SpatialMaxPooling") return {pooling(m, x, name, true)};
  if (type == "SpatialAveragePooling") return {pooling(m, x, name, false)};
  if (type == "SpatialBatchNormalization" || type == "BatchNormalization" ||
      type == "VolumetricBatchNormalization")
    return {batch_norm(m, x, name)};
  if (type == "Linear") {
    const Tensor w = need(m, "weight");
    if (w.shape().rank() != 2) throw bad_input("weights of rank {}", w.shape().rank());
    const ValueId wv = g.constant(name + ".weight", w.share());
    ValueId b = kAbsent;
    if (Tensor t = weight_of(m, "bias")) b = constant(name + ".bias", t, {w.shape()[0]});
    return {fully_connected(g, name, x, wv, b)};
  }
  if (type == "View" || type == "Reshape") return {shaped(m, x, name)};
  if (type == "SoftMax" || type == "LogSoftMax" || type == "SpatialSoftMax") {
    // Of three axes Torch7 takes the first for the channels of one sample.
    if (g.rank(x) == 3) throw bad_input("{} of a sequence runs over the batch in Torch7", type);
  }
  if (type == "SoftMax" || type == "LogSoftMax" || type == "SpatialSoftMax")
    return {g.op(type == "LogSoftMax" ? "log_softmax" : "softmax", name, {x},
                 {{"axis", std::int64_t{g.rank(x) >= 3 ? 1 : g.rank(x) - 1}}})};
  if (type == "Threshold") {
    if (m.number("threshold", 0) != 0 || m.number("val", 0) != 0)
      throw bad_input("a Threshold other than 0 to 0");
    return {g.op("relu", name, {x})};
  }
  if (type == "ReLU6") return {g.op("clip", name, {x}, {{"min", 0.0F}, {"max", 6.0F}})};
  if (type == "LeakyReLU")
    return {
        g.op("leaky_relu", name, {x}, {{"alpha", static_cast<float>(m.number("negval", 0.01))}})};
  if (type == "ELU")
    return {g.op("elu", name, {x}, {{"alpha", static_cast<float>(m.number("alpha", 1))}})};
  if (type == "PReLU") {
    const Tensor w = need(m, "weight");
    Ints dims{w.numel()};
    if (w.numel() > 1) dims.resize(static_cast<std::size_t>(std::max(1, g.rank(x) - 1)), 1);
    return {g.op("prelu", name, {x, g.constant(name + ".weight", w.reshaped(Shape(dims)))})};
  }
  if (type == "Square") return {g.op("mul", name, {x, x})};
  if (type == "Power")
    return {
        g.op("pow", name,
             {x, g.constant(name + ".pow", scalar_f32(static_cast<float>(m.number("pow", 1))))})};
  if (type == "SpatialCrossMapLRN") {
    g.note("LRN: alpha is divided by the window's size");
    return {g.op("lrn", name, {x},
                 {{"size", whole(m.number("size", 5))},
                  {"alpha", static_cast<float>(m.number("alpha", 1e-4))},
                  {"beta", static_cast<float>(m.number("beta", 0.75))},
                  {"bias", static_cast<float>(m.number("k", 1))}})};
  }
  if (type == "SpatialZeroPadding" || type == "SpatialReflectionPadding" ||
      type == "SpatialReplicationPadding") {
    const std::int64_t l = whole(m.number("pad_l", 0)), r = whole(m.number("pad_r", 0)),
                       t = whole(m.number("pad_t", 0)), b = whole(m.number("pad_b", 0));
    const char* mode = type == "SpatialZeroPadding"         ? "constant"
                       : type == "SpatialReflectionPadding" ? "reflect"
                                                            : "edge";
    return {g.op("pad", name, {x},
                 {{"mode", std::string(mode)}, {"pads", Ints{0, 0, t, l, 0, 0, b, r}}})};
  }
  if (type == "SpatialUpSamplingNearest") {
    const auto s = static_cast<float>(m.number("scale_factor", 1));
    return {g.op("resize", name, {x},
                 {{"mode", std::string("nearest")},
                  {"coordinate_transformation_mode", std::string("asymmetric")},
                  {"nearest_mode", std::string("floor")},
                  {"axes", Ints{2, 3}},
                  {"scales", std::vector<float>{s, s}}})};
  }
  throw bad_input("the module {} is not supported", printable(m.type));
}

// Every tensor below a value, by the path of keys to it.
void collect(const T7Value& v, const std::string& path, std::set<const T7Object*>& seen, int depth,
             TensorList& out) {
  if (!v.object || depth > 200 || v.kind != T7Value::Kind::object) return;
  const T7Object& o = *v.object;
  if (o.tensor) {
    if (o.type.ends_with("Tensor") && o.tensor.numel() > 0 && seen.insert(&o).second)
      out.push_back({path.empty() ? "tensor" : path, o.tensor.share()});
    return;
  }
  if (!seen.insert(&o).second) return;
  for (const auto& [key, value] : o.entries) {
    const std::string part = key.kind == T7Value::Kind::text     ? printable(key.text)
                             : key.kind == T7Value::Kind::number ? fmt::format("{}", key.number)
                                                                 : "key";
    collect(value, path.empty() ? part : path + "." + part, seen, depth + 1, out);
  }
}

Model open(const std::string& path, std::span<const std::string>) {
  const Blob blob = map_file(path);
  const ErrorScope scope(path);
  const T7File file = read_t7(blob);
  std::string why;
  const T7Object* root = file.root.object.get();
  if (root != nullptr && (root->type.starts_with("nn.") || root->type.starts_with("cudnn."))) {
    try {
      Translator t(stem_of(path));
      t.run(*root, 224, false);
      return finish_model(t.g, path, "torch7", "", "torch7");
    } catch (const Error& e) {
      why = e.what();
    }
    for (const std::int64_t extent : kUsualExtents) {
      Translator t(stem_of(path));
      try {
        t.run(*root, extent, true);
        return finish_model(t.g, path, "torch7", "", "torch7");
      } catch (const Error&) {
        // The next extent.
      }
    }
    if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);
  }
  Model model;
  model.path = path;
  model.format = "torch7";
  std::set<const T7Object*> seen;
  TensorList tensors;
  collect(file.root, "", seen, 0, tensors);
  std::set<std::string> names;
  for (NamedTensor& t : tensors) {
    std::string name = t.name;
    for (int i = 1; !names.insert(name).second; ++i) name = fmt::format("{}_{}", t.name, i);
    model.graph->initializers.emplace(model.graph->add_value(name), std::move(t.tensor));
  }
  model.notes.push_back(why.empty()
                            ? fmt::format("no network: the file holds {}, given as its tensors",
                                          root == nullptr ? "a plain value" : printable(root->type))
                            : "given as its tensors, for as a network: " + why);
  return model;
}

}  // namespace
}  // namespace torch7

const FormatRow& torch7_format() {
  static const FormatRow row{
      .name = "torch7",
      .endings = ".t7",
      .summary = "Torch7: nn and cudnn modules, or the tensors of any object.",
      .match =
          [](const FileView& f) {
            return !f.is_folder && (has_ending(f.path, ".t7") || looks_like_t7(f.prefix));
          },
      .open = torch7::open};
  return row;
}

}  // namespace etalon
