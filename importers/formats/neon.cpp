#include "importers/formats/neon.h"

#include <algorithm>
#include <map>

#include "engine/core/error.h"
#include "engine/graph/builder.h"
#include "importers/containers/pickle_arrays.h"
#include "importers/formats/check.h"

namespace etalon {
namespace {

// A layer that cannot be turned into ops; the weights remain.
struct Unknown {
  std::string what;
};

// A layer's dict: type, config, params.
class Layer {
 public:
  Layer(const PickleValue& v, const std::shared_ptr<const Pickle>& pickle)
      : pickle_(pickle), config_(v.find("config")), params_(v.find("params")) {
    const PickleValue* type_text = v.find("type");
    if (type_text == nullptr) throw bad_input("a layer without a type");
    type = pickle_text(*type_text, "a layer's type");
    type = type.substr(type.rfind('.') + 1);
    if (const PickleValue* n = field("name")) name = pickle_text(*n, "a layer's name");
    if (name.empty()) name = type;
  }
  const PickleValue* field(std::string_view key) const {
    return config_ == nullptr ? nullptr : config_->find(key);
  }
  // A dict by axis ("str_d", "str_h", "str_w" for "str"), or a number for height and width alone.
  Ints along(std::string_view key, std::string_view prefix, const Ints& missing) const {
    const PickleValue* v = field(key);
    Ints out = missing;
    if (v == nullptr || v->is(PickleKind::none)) return out;
    constexpr std::string_view kAxes = "dhw";
    for (std::size_t i = 0; i < out.size(); ++i) {
      const char axis = kAxes[3 - out.size() + i];
      const PickleValue* n = v;
      if (v->is(PickleKind::dict))
        n = v->find(std::string(prefix) + "_" + axis);
      else if (axis == 'd')
        n = nullptr;
      if (n != nullptr && !n->is(PickleKind::none)) out[i] = pickle_integer(*n, key);
    }
    return out;
  }
  // The window, without the number of filters behind it: a tuple, a dict, or one number for height
  // and width.
  Ints window(std::size_t filters) const {
    const PickleValue* v = field("fshape");
    if (v == nullptr) throw bad_input("a window without fshape");
    if (v->is(PickleKind::integer)) return Ints(2, v->integer);
    if (v->is(PickleKind::dict)) {
      Ints out;
      for (const char* axis : {"T", "R", "S"})
        if (const PickleValue* n = v->find(axis)) out.push_back(pickle_integer(*n, "fshape"));
      return out;
    }
    Ints out = pickle_ints(*v, "fshape");
    if (out.size() < filters) throw bad_input("a window of {} extents", out.size());
    out.resize(out.size() - filters);
    return out;
  }
  double number(std::string_view key, double missing) const {
    return number_of(field(key), missing);
  }
  static double number_of(const PickleValue* v, double missing) {
    if (v == nullptr || v->is(PickleKind::none)) return missing;
    return v->is(PickleKind::real) ? v->real : static_cast<double>(pickle_integer(*v, "a number"));
  }
  // A number that the function at this key was made with.
  double of_function(std::string_view key, std::string_view number, double missing) const {
    const PickleValue* v = field(key);
    const PickleValue* config = v == nullptr ? nullptr : v->find("config");
    return number_of(config == nullptr ? nullptr : config->find(number), missing);
  }
  Tensor param(std::string_view key) const {
    const PickleValue* v = params_ == nullptr ? nullptr : params_->find(key);
    auto t = v == nullptr ? std::nullopt : numpy_array(*v, pickle_);
    if (!t) throw bad_input("no array '{}' among the parameters", key);
    return std::move(*t);
  }
  bool has_param(std::string_view key) const {
    return params_ != nullptr && params_->find(key) != nullptr;
  }
  const PickleValue* params() const { return params_; }
  // The class of an activation: "Tanh".
  std::string_view function(std::string_view key) const {
    const PickleValue* v = field(key);
    const PickleValue* t = v == nullptr ? nullptr : v->find("type");
    if (t == nullptr) return "";
    const std::string_view full = pickle_text(*t, key);
    return full.substr(full.rfind('.') + 1);
  }

  std::string_view type;
  std::string name;

 private:
  const std::shared_ptr<const Pickle>& pickle_;
  const PickleValue *config_, *params_;
};

Tensor flat(Tensor t) { return t.reshaped({t.numel()}); }

// [rows, cols] to [cols, rows].
Tensor transposed(const Tensor& t) {
  if (t.dtype() != DType::f32 || t.shape().rank() != 2)
    throw bad_input("a weight of type {} where a matrix of f32 is expected", to_string(t.type()));
  const std::int64_t rows = t.shape()[0], cols = t.shape()[1];
  Tensor out = Tensor::uninitialized(DType::f32, {cols, rows});
  const auto from = t.data<float>();
  auto to = out.mutable_data<float>();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      to[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * cols + c)];
  return out;
}

// Rows [begin, end) of a matrix.
Tensor rows_of(const Tensor& t, std::int64_t begin, std::int64_t end) {
  if (t.dtype() != DType::f32 || t.shape().rank() != 2 || begin < 0 || end > t.shape()[0] ||
      begin > end)
    throw bad_input("a recurrent weight of type {} does not have rows {} to {}",
                    to_string(t.type()), begin, end);
  const auto cols = static_cast<std::size_t>(t.shape()[1]);
  return Tensor::of<float>({end - begin, t.shape()[1]},
                           t.data<float>().subspan(static_cast<std::size_t>(begin) * cols,
                                                   static_cast<std::size_t>(end - begin) * cols));
}

class Translator {
 public:
  Translator(const std::shared_ptr<const Pickle>& pickle, GraphBuilder& b)
      : pickle_(pickle), b_(b), walk_(*pickle) {}

  // The values of a tree, of which SingleOutputTree gives the first at inference.
  std::vector<ValueId> tree(const PickleValue& layers, ValueId x) {
    std::vector<ValueId> out;
    for (const PickleValue* v : layers.items) {
      const PickleWalk::Level level(walk_);
      out.push_back(layer(*v, x));
    }
    return out;
  }
  ValueId sequence(const PickleValue& layers, ValueId x) {
    // Containers may share their layers: what unfolds is bounded by what the file holds.
    for (const PickleValue* v : layers.items) {
      const PickleWalk::Level level(walk_);
      x = layer(*v, x);
    }
    return x;
  }

 private:
  ValueId constant(const Layer& l, std::string_view part, Tensor t) {
    return b_.constant(l.name + "." + std::string(part), std::move(t));
  }

  ValueId activation(const std::string& name, std::string_view function, const Layer& l,
                     ValueId x) {
    if (function == "Tanh") return b_.op("tanh", name, {x});
    if (function == "Logistic") return b_.op("sigmoid", name, {x});
    if (function == "Identity") return x;
    const auto scalar = [&](std::string_view part, double v) {
      return b_.constant(name + "." + std::string(part),
                         Tensor::of<float>({}, {static_cast<float>(v)}));
    };
    const auto made_with = [&](std::string_view key, double missing) {
      return l.of_function("transform", key, missing);
    };
    if (function == "Softmax" || function == "PixelwiseSoftmax") {
      // Over all elements of a sample; of a sequence over the features, which stand last here.
      if (b_.rank(x) > 3 && function == "Softmax") throw Unknown{"a softmax over images"};
      return b_.op("softmax", name, {x}, {{"axis", std::int64_t{b_.rank(x) == 3 ? 2 : 1}}});
    }
    if (function == "Normalizer")
      return b_.op("div", name, {x, scalar("divisor", made_with("divisor", 128))});
    if (function == "Explin")
      return b_.op("elu", name, {x}, {{"alpha", static_cast<float>(made_with("alpha", 1))}});
    if (function == "Rectlin" || function == "Rectlinclip") {
      const double slope = made_with("slope", 0);
      const bool clips = function == "Rectlinclip";
      const std::string first = clips ? name + ".open" : name;
      x = slope == 0 ? b_.op("relu", first, {x})
                     : b_.op("leaky_relu", first, {x}, {{"alpha", static_cast<float>(slope)}});
      return clips ? b_.op("min", name, {x, scalar("cut", made_with("xcut", 20))}) : x;
    }
    throw Unknown{"activation " + std::string(function)};
  }

  ValueId layer(const PickleValue& v, ValueId x) {
    const Layer l(v, pickle_);
    const ErrorScope scope("layer " + printable(l.name));
    const std::string_view t = l.type;
    if (t == "Dropout") {
      const PickleValue* keep = l.field("keep");
      const float by = keep == nullptr                 ? 0.5F
                       : keep->is(PickleKind::integer) ? static_cast<float>(keep->integer)
                                                       : static_cast<float>(keep->real);
      b_.note("Dropout multiplies by `keep` at inference, for training does not divide by it.");
      return b_.op("mul", l.name, {x, b_.constant(l.name + ".keep", Tensor::of<float>({}, {by}))});
    }
    if (t == "Activation") return activation(l.name, l.function("transform"), l, x);
    if (t == "Convolution" || t == "Convolution_bias") return convolution(l, x);
    if (t == "Pooling") return pooling(l, x);
    if (t == "Deconvolution") return deconvolution(l, x);
    if (t == "LRN") {
      if (b_.rank(x) != 4) throw Unknown{"an LRN that is not over images"};
      b_.note("LRN: ascale is divided by the depth of its window.");
      return b_.op("lrn", l.name, {x},
                   {{"size", static_cast<std::int64_t>(l.number("depth", 5))},
                    {"alpha", static_cast<float>(l.number("ascale", 1))},
                    {"beta", static_cast<float>(l.number("bpower", 1))},
                    {"bias", 1.0F}});
    }
    if (t == "Linear") {
      // Of sequences [time, batch, features] each step by itself.
      if (b_.rank(x) == 3)
        return b_.op("matmul", l.name, {x, constant(l, "weight", transposed(l.param("W")))});
      if (b_.rank(x) > 2) {
        b_.note("Flattening before a layer is channels first, as Neon lays out its tensors.");
        x = b_.op("flatten", l.name + ".flatten", {x});
      }
      return b_.op("gemm", l.name, {x, constant(l, "weight", l.param("W"))}, {{"trans_b", true}});
    }
    if (t == "Bias") {
      Tensor bias = flat(l.param("W"));
      Ints shape(static_cast<std::size_t>(b_.rank(x)), 1);
      if (shape.size() < 2) throw Unknown{"a bias on a vector"};
      shape[shape.size() == 3 ? 2 : 1] = bias.numel();
      return b_.op("add", l.name, {x, constant(l, "bias", bias.reshaped(Shape(shape)))});
    }
    if (t == "DataTransform") return activation(l.name, l.function("transform"), l, x);
    if (t == "Reshape") {
      const PickleValue* to = l.field("reshape");
      if (to == nullptr || b_.rank(x) == 3) throw Unknown{"a Reshape of sequences"};
      Ints shape{0};
      const Ints sample =
          to->is(PickleKind::integer) ? Ints{to->integer} : pickle_ints(*to, "reshape");
      shape.insert(shape.end(), sample.begin(), sample.end());
      return b_.reshape(l.name, x, shape);
    }
    if (t == "SkipNode") return x;
    if (t == "BranchNode") {
      // The first one keeps what it is given; another of its name goes on from there.
      return branches_.emplace(l.name, x).first->second;
    }
    if (t == "RecurrentSum" || t == "RecurrentMean") {
      if (b_.rank(x) != 3) throw Unknown{l.name + " on vectors"};
      return b_.op(t == "RecurrentSum" ? "reduce_sum" : "reduce_mean", l.name, {x},
                   {{"axes", Ints{0}}, {"keepdims", false}});
    }
    if (t == "LookupTable") {
      const Tensor w = l.param("W");
      if (w.shape().rank() != 2) throw bad_input("a table of words {}", to_string(w.type()));
      const ValueId ids = b_.op("cast", l.name + ".ids", {x}, {{"to", std::string("i64")}});
      return b_.op("gather", l.name, {constant(l, "weight", w.share()), ids});
    }
    if (t == "MergeSum" || t == "MergeBroadcast") return merged(l, x);
    if (t == "BatchNorm") {
      b_.note(
          "BatchNorm: epsilon 1e-3 unless the file says otherwise, statistics of the training.");
      return b_.op(
          "batch_norm", l.name,
          {x, constant(l, "gamma", flat(l.param("gamma"))),
           constant(l, "beta", flat(l.param("beta"))), constant(l, "gmean", flat(l.param("gmean"))),
           constant(l, "gvar", flat(l.param("gvar")))},
          {{"eps", static_cast<float>(l.number("eps", 1e-3))},
           {"axis", std::int64_t{b_.rank(x) == 3 ? 2 : 1}}});
    }
    if (t == "LSTM" || t == "GRU" || t == "Recurrent") return recurrent(l, x);
    if (t == "RecurrentLast") {
      return b_.op("gather", l.name,
                   {x, b_.constant(l.name + ".last", Tensor::of<std::int64_t>({}, {-1}))},
                   {{"axis", std::int64_t{0}}});
    }
    if (t == "Sequential") {
      const PickleValue* inner = l.field("layers");
      if (inner == nullptr) throw bad_input("a Sequential without layers");
      if (++depth_ > 32) throw bad_input("containers nest deeper than 32 levels");
      x = sequence(*inner, x);
      --depth_;
      return x;
    }
    throw Unknown{"layer " + std::string(t)};
  }

  // What is beside one another reads one value.
  ValueId merged(const Layer& l, ValueId x) {
    const PickleValue* layers = l.field("layers");
    if (layers == nullptr || layers->items.empty()) throw bad_input("a container without layers");
    if (++depth_ > 32) throw bad_input("containers nest deeper than 32 levels");
    std::vector<ValueId> parts;
    for (const PickleValue* v : layers->items) {
      const PickleWalk::Level level(walk_);
      parts.push_back(layer(*v, x));
    }
    --depth_;
    if (l.type == "MergeSum") {
      ValueId sum = parts[0];
      for (std::size_t i = 1; i < parts.size(); ++i) sum = b_.op("add", l.name, {sum, parts[i]});
      return sum;
    }
    const PickleValue* how = l.field("merge");
    const std::string_view merge = how == nullptr ? "" : pickle_text(*how, "merge");
    const int rank = b_.rank(parts[0]);
    std::int64_t axis = 1;
    if (merge == "recurrent" && rank == 3)
      axis = 0;
    else if (merge == "stack" && rank == 3)
      axis = 2;
    else if (!(merge == "depth" && rank >= 4) && !(merge == "stack" && rank == 2))
      throw Unknown{"a MergeBroadcast by " + std::string(merge)};
    return b_.op("concat", l.name, parts, {{"axis", axis}});
  }

  // [channels * window, filters] to [filters, channels, window...]
  ValueId kernel(const Layer& l, std::int64_t channels, const Ints& window) {
    const Tensor w = l.param("W");
    std::int64_t rows = channels;
    for (const std::int64_t n : window) rows = n < 1 ? -1 : checked_mul(rows, n);
    if (w.shape().rank() != 2 || rows < 1 || w.shape()[0] != rows)
      throw bad_input("a weight {} for {} channels and a window of rank {}", to_string(w.type()),
                      channels, window.size());
    Ints shape{w.shape()[1], channels};
    shape.insert(shape.end(), window.begin(), window.end());
    b_.note("Convolutions correlate (kernels are not flipped); Neon stores them (C*R*S, K).");
    return constant(l, "weight", transposed(w).reshaped(Shape(shape)));
  }
  Fields windows(const Layer& l, const Ints& window) {
    const Ints ones(window.size(), 1), pad = l.along("padding", "pad", Ints(window.size(), 0));
    return {{"strides", l.along("strides", "str", ones)},
            {"dilations", l.along("dilation", "dil", ones)},
            {"pads_begin", pad},
            {"pads_end", pad}};
  }
  void check_window(const Ints& window, ValueId x) {
    if (window.size() != static_cast<std::size_t>(b_.rank(x)) - 2 || window.size() < 2 ||
        window.size() > 3)
      throw Unknown{"a window over other axes than the images have"};
  }

  ValueId convolution(const Layer& l, ValueId x) {
    const Ints window = l.window(1);
    check_window(window, x);
    std::vector<ValueId> inputs{x, kernel(l, b_.shape(x).dim(1), window)};
    if (l.has_param("weight_bias"))
      inputs.push_back(constant(l, "bias", flat(l.param("weight_bias"))));
    return b_.op("conv", l.name, inputs, windows(l, window));
  }
  // The gradient of a convolution to its input: that has `fshape`'s last extent for channels.
  ValueId deconvolution(const Layer& l, ValueId x) {
    const Ints window = l.window(1);
    check_window(window, x);
    const PickleValue* f = l.field("fshape");
    const PickleValue* last = f->is(PickleKind::dict) ? f->find("C")
                              : f->items.empty()      ? nullptr
                                                      : f->items.back();
    if (last == nullptr) throw bad_input("a Deconvolution without its channels");
    return b_.op("conv_transpose", l.name, {x, kernel(l, pickle_integer(*last, "fshape"), window)},
                 windows(l, window));
  }

  ValueId pooling(const Layer& l, ValueId x) {
    std::string_view kind = "max";
    if (const PickleValue* v = l.field("op")) kind = pickle_text(*v, "op");
    const std::string op = kind == "max"   ? "max_pool"
                           : kind == "avg" ? "avg_pool"
                           : kind == "l2"  ? "lp_pool"
                                           : "";
    if (op.empty()) throw Unknown{"pooling by " + std::string(kind)};
    Fields fields;
    if (kind == "l2") fields.emplace_back("p", 2.0F);
    const PickleValue* whole = l.field("fshape");
    if (whole != nullptr && whole->is_text() && whole->text == "all")
      return b_.op("global_" + op, l.name, {x}, fields);
    Ints f = l.window(0);
    if (f.size() + 3 == static_cast<std::size_t>(b_.rank(x))) f.insert(f.begin(), 1);
    check_window(f, x);
    const Ints pad = l.along("padding", "pad", Ints(f.size(), 0));
    fields.emplace_back("kernel", f);
    // Without strides windows lie beside one another.
    fields.emplace_back("strides", l.along("strides", "str", f));
    fields.emplace_back("pads_begin", pad);
    fields.emplace_back("pads_end", pad);
    if (kind == "avg") {
      fields.emplace_back("count_include_pad", false);
      b_.note("Average pooling counts what lies inside alone (count_include_pad is false).");
    }
    return b_.op(op, l.name, {x}, fields);
  }

  ValueId recurrent(const Layer& l, ValueId x) {
    const PickleValue* size = l.field("output_size");
    if (size == nullptr) throw bad_input("no output_size");
    const std::int64_t h = pickle_integer(*size, "output_size");
    const Tensor w = l.param("W");
    const bool lstm = l.type == "LSTM", gru = l.type == "GRU";
    const std::int64_t gates = lstm ? 4 : gru ? 3 : 1;
    if (b_.rank(x) == 2) throw Unknown{"a recurrent layer on vectors"};
    const std::int64_t in = b_.shape(x).dim(2);
    if (h < 1 || h > 1 << 20 || w.shape().rank() != 2)
      throw bad_input("output_size {} with a weight {}", h, to_string(w.type()));
    const std::int64_t rows = w.shape()[0];
    if (w.shape()[1] != gates * h || (rows != in + h && rows != in + h + 1))
      throw bad_input("a recurrent weight {} for {} inputs and {} units", to_string(w.type()), in,
                      h);
    // Parts lie one after the other; each is read as (gates*h, extent), whatever the shape says.
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      Tensor t = rows_of(w, begin, end);
      if (gru)
        for (float& v :
             t.mutable_data<float>().subspan(static_cast<std::size_t>(h * (end - begin)),
                                             static_cast<std::size_t>(h * (end - begin))))
          v = -v;
      return t.reshaped({1, gates * h, end - begin});
    };
    std::vector<ValueId> inputs{x, constant(l, "w", part(0, in)),
                                constant(l, "r", part(in, in + h))};
    Tensor bias = Tensor::zeros(DType::f32, {1, 2 * gates * h});
    if (rows == in + h + 1) {
      const Tensor b = part(in + h, in + h + 1);
      std::copy_n(b.data<float>().begin(), gates * h, bias.mutable_data<float>().begin());
    }
    inputs.push_back(constant(l, "b", std::move(bias)));
    const auto name_of = [&](std::string_view key, std::string_view missing) -> std::string {
      const std::string_view f = l.function(key);
      if (f.empty()) return std::string(missing);
      if (f == "Tanh") return "tanh";
      if (f == "Logistic") return "sigmoid";
      if (f == "Rectlin") return "relu";
      throw Unknown{"recurrent activation " + std::string(f)};
    };
    const std::string f = name_of("activation", "tanh"), g = name_of("gate_activation", "sigmoid");
    Fields fields;
    if (lstm)
      fields = {{"gates", std::string("ifoc")}, {"activations", std::vector<std::string>{g, f, f}}};
    else if (gru)
      fields = {{"gates", std::string("rzh")}, {"activations", std::vector<std::string>{g, f}}};
    else
      fields = {{"activations", std::vector<std::string>{f}}};
    b_.note(
        lstm ? "LSTM gates stand in the order i, f, o, g in one matrix of input, state and bias."
        : gru
            ? "GRU gates stand in the order r, z, h; h' = z*n + (1 - z)*h: the sign of the update "
              "gate's weights is changed, since ours is (1 - z)*n + z*h."
            : "A recurrent layer's weights stand in one matrix of input, state and bias.");
    const std::string op = lstm ? "lstm" : gru ? "gru" : "rnn";
    const std::vector<ValueId> y = b_.nodes(op, l.name, inputs, make_params(get_op(op), fields), 1);
    return b_.op("squeeze", l.name + ".y", {y[0]}, {{"axes", Ints{1}}});
  }

  const std::shared_ptr<const Pickle>& pickle_;
  GraphBuilder& b_;
  PickleWalk walk_;
  std::map<std::string, ValueId> branches_;
  int depth_ = 0;
};

// Weights alone: the parameters of each layer, by its name.
void weights(const PickleValue& layers, const std::shared_ptr<const Pickle>& pickle, Model& model,
             PickleWalk& walk) {
  for (const PickleValue* v : layers.items) {
    const PickleWalk::Level level(walk);
    const Layer l(*v, pickle);
    if (const PickleValue* inner = l.field("layers")) weights(*inner, pickle, model, walk);
    if (l.params() == nullptr) continue;
    for (std::size_t i = 0; i + 1 < l.params()->items.size(); i += 2)
      if (auto t = numpy_array(*l.params()->items[i + 1], pickle))
        model.graph->initializers.emplace(
            model.graph->add_value(l.name + "." +
                                   std::string(pickle_text(*l.params()->items[i], "a name"))),
            std::move(*t));
  }
}

}  // namespace

bool is_neon(const Pickle& pickle) {
  return pickle.root().find("model") != nullptr && pickle.root().find("neon_version") != nullptr;
}

Model open_neon(const std::shared_ptr<const Pickle>& pickle, const std::string& path) {
  const PickleValue& root = pickle->root();
  Model model;
  model.path = path;
  model.format = "neon";
  model.producer = "neon " + printable(pickle_text(*root.find("neon_version"), "neon_version"));
  const PickleValue& top = *root.find("model");
  const Layer sequential(top, pickle);
  const PickleValue* layers = sequential.field("layers");
  if (layers == nullptr) throw bad_input("the model has no layers");
  const PickleValue* shape = root.find("train_input_shape");
  try {
    if (shape == nullptr || shape->is(PickleKind::none))
      throw Unknown{"a model without its input's shape"};
    GraphBuilder b("neon");
    Ints dims{-1};
    const Ints sample = shape->is(PickleKind::integer) ? Ints{shape->integer}
                                                       : pickle_ints(*shape, "train_input_shape");
    bool sequence = false, words = false;
    for (const PickleValue* v : layers->items) {
      const std::string_view type = Layer(*v, pickle).type;
      words = words || (!sequence && type == "LookupTable");
      sequence = sequence || type == "LSTM" || type == "GRU" || type == "Recurrent";
      if (type == "Linear") break;
    }
    dims.insert(dims.end(), sample.begin(), sample.end());
    ValueId x = b.input("input", DType::f32, dims);
    if (words) {
      b.note("A text's input is (batch, time), its words' numbers; layers walk time.");
      if (sample.size() > 1) x = b.reshape("input.words", x, {0, -1});
      x = b.transpose("input.time_first", x, {1, 0});
    } else if (sequence) {
      // (features, time) for each sample; the layers walk time.
      b.note("A sequence's input is (batch, features, time), as Neon holds it; layers walk time.");
      x = b.transpose("input.time_first", x, {2, 0, 1});
    }
    Translator t(pickle, b);
    if (sequential.type == "Tree" || sequential.type == "SingleOutputTree") {
      std::vector<ValueId> y = t.tree(*layers, x);
      if (sequential.type == "SingleOutputTree") y.resize(std::min<std::size_t>(y.size(), 1));
      for (std::size_t i = 0; i < y.size(); ++i)
        b.output(y[i], y.size() == 1 ? "output" : fmt::format("output{}", i));
    } else if (sequential.type == "Sequential") {
      b.output(t.sequence(*layers, x), "output");
    } else {
      throw Unknown{"a network that is a " + std::string(sequential.type)};
    }
    *model.graph = b.finish();
    model.graph->name = "neon";
    model.notes = b.take_notes();
  } catch (const Unknown& unknown) {
    model.graph = std::make_shared<Graph>();
    model.notes = {"Weights alone: " + unknown.what + " has no translation."};
    PickleWalk walk(*pickle);
    weights(*layers, pickle, model, walk);
  }
  return model;
}

}  // namespace etalon
