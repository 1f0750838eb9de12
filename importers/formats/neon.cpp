#include "importers/formats/neon.h"

#include <algorithm>

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
  // A number, or a dict of them by axis ("str_h", "str_w"), for each spatial axis.
  Ints spatial(std::string_view key, std::string_view h, std::string_view w, std::int64_t missing,
               std::size_t axes = 2) const {
    const PickleValue* v = field(key);
    if (v == nullptr || v->is(PickleKind::none)) return Ints(axes, missing);
    if (v->is(PickleKind::integer)) return Ints(axes, v->integer);
    if (v->is(PickleKind::dict)) {
      const PickleValue *a = v->find(h), *b = v->find(w);
      return {a == nullptr ? missing : pickle_integer(*a, key),
              b == nullptr ? missing : pickle_integer(*b, key)};
    }
    return pickle_ints(*v, key);
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
    if (function == "Softmax") return b_.op("softmax", name, {x}, {{"axis", std::int64_t{1}}});
    if (function == "Rectlin") {
      const PickleValue* transform = l.field("transform");
      const PickleValue* config = transform == nullptr ? nullptr : transform->find("config");
      const PickleValue* slope = config == nullptr ? nullptr : config->find("slope");
      const double s = slope == nullptr              ? 0
                       : slope->is(PickleKind::real) ? slope->real
                                                     : static_cast<double>(slope->integer);
      if (s == 0) return b_.op("relu", name, {x});
      return b_.op("leaky_relu", name, {x}, {{"alpha", static_cast<float>(s)}});
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
    if (t == "Linear") {
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
      shape[1] = bias.numel();
      return b_.op("add", l.name, {x, constant(l, "bias", bias.reshaped(Shape(shape)))});
    }
    if (t == "BatchNorm") {
      const PickleValue* eps = l.field("eps");
      b_.note(
          "BatchNorm: epsilon 1e-3 unless the file says otherwise, statistics of the training.");
      return b_.op(
          "batch_norm", l.name,
          {x, constant(l, "gamma", flat(l.param("gamma"))),
           constant(l, "beta", flat(l.param("beta"))), constant(l, "gmean", flat(l.param("gmean"))),
           constant(l, "gvar", flat(l.param("gvar")))},
          {{"eps", eps == nullptr ? 1e-3F : static_cast<float>(eps->real)}});
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

  ValueId convolution(const Layer& l, ValueId x) {
    const Ints f = l.spatial("fshape", "R", "S", 1, 3);
    if (f.size() != 3) throw Unknown{"a convolution that is not over two axes"};
    const Tensor w = l.param("W");  // (C*R*S, K)
    const std::int64_t channels = b_.shape(x).dim(1);
    if (w.shape().rank() != 2 || w.shape()[0] != checked_mul(channels, checked_mul(f[0], f[1])))
      throw bad_input("a weight {} for {} channels and windows {} x {}", to_string(w.type()),
                      channels, f[0], f[1]);
    const Ints pad = l.spatial("padding", "pad_h", "pad_w", 0),
               stride = l.spatial("strides", "str_h", "str_w", 1),
               dilation = l.spatial("dilation", "dil_h", "dil_w", 1);
    std::vector<ValueId> inputs{
        x, constant(l, "weight", transposed(w).reshaped({w.shape()[1], channels, f[0], f[1]}))};
    if (l.has_param("weight_bias"))
      inputs.push_back(constant(l, "bias", flat(l.param("weight_bias"))));
    b_.note("Convolutions correlate (kernels are not flipped); Neon stores them (C*R*S, K).");
    return b_.op(
        "conv", l.name, inputs,
        {{"strides", stride}, {"dilations", dilation}, {"pads_begin", pad}, {"pads_end", pad}});
  }

  ValueId pooling(const Layer& l, ValueId x) {
    std::string op = "max_pool";
    if (const PickleValue* v = l.field("op")) op = pickle_text(*v, "op") == "avg" ? "avg_pool" : op;
    const PickleValue* whole = l.field("fshape");
    if (whole != nullptr && whole->is_text() && whole->text == "all")
      return b_.op(op == "avg_pool" ? "global_avg_pool" : "global_max_pool", l.name, {x});
    const Ints f = l.spatial("fshape", "R", "S", 1),
               pad = l.spatial("padding", "pad_h", "pad_w", 0);
    // Without strides windows lie beside one another.
    const PickleValue* given = l.field("strides");
    const bool none = given == nullptr || given->is(PickleKind::none) ||
                      (given->is(PickleKind::dict) && given->items.empty());
    const Ints stride = none ? Ints{1, 1} : l.spatial("strides", "str_h", "str_w", 1);
    Fields fields{{"kernel", f}, {"strides", stride}, {"pads_begin", pad}, {"pads_end", pad}};
    if (op == "avg_pool") fields.emplace_back("count_include_pad", true);
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
    bool sequence = false;
    for (const PickleValue* v : layers->items) {
      const std::string_view type = Layer(*v, pickle).type;
      sequence = sequence || type == "LSTM" || type == "GRU" || type == "Recurrent";
      if (type == "Linear") break;
    }
    dims.insert(dims.end(), sample.begin(), sample.end());
    ValueId x = b.input("input", DType::f32, dims);
    if (sequence) {
      // (features, time) for each sample; the layers walk time.
      b.note("A sequence's input is (batch, features, time), as Neon holds it; layers walk time.");
      x = b.transpose("input.time_first", x, {2, 0, 1});
    }
    Translator t(pickle, b);
    b.output(t.sequence(*layers, x), "output");
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
