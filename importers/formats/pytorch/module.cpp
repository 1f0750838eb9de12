#include "importers/formats/pytorch/module.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/pytorch/input_guess.h"
#include "importers/formats/pytorch/module_recipes.h"
#include "importers/input_hints.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr int kMaxDepth = 64;
constexpr int kMaxModules = 100'000;

// A class of torch.nn, the ATen call it makes, and its settings as "argument=field"; "*" is
// before a parameter, "!" before a field that is negated.
struct ModuleRow {
  std::string_view type;  // behind torch.nn.modules.
  std::string_view op;    // "": the identity
  std::string_view settings;
};
constexpr std::string_view kConv =
    "stride=stride padding=padding dilation=dilation groups=groups weight=*weight bias=*bias";
constexpr std::string_view kNorm =
    "weight=*weight bias=*bias running_mean=*running_mean running_var=*running_var eps=eps";
// Statistics are those of the input, unless they were tracked.
constexpr std::string_view kInstance =
    "weight=*weight bias=*bias running_mean=*running_mean running_var=*running_var eps=eps "
    "use_input_stats=!track_running_stats";
constexpr ModuleRow kModules[] = {
    {"conv.Conv1d", "conv1d", kConv},
    {"conv.Conv2d", "conv2d", kConv},
    {"conv.Conv3d", "conv3d", kConv},
    {"conv.ConvTranspose1d", "conv_transpose1d",
     "stride=stride padding=padding output_padding=output_padding dilation=dilation "
     "groups=groups "
     "weight=*weight bias=*bias"},
    {"conv.ConvTranspose2d", "conv_transpose2d",
     "stride=stride padding=padding output_padding=output_padding dilation=dilation "
     "groups=groups "
     "weight=*weight bias=*bias"},
    {"conv.ConvTranspose3d", "conv_transpose3d",
     "stride=stride padding=padding output_padding=output_padding dilation=dilation "
     "groups=groups "
     "weight=*weight bias=*bias"},
    {"linear.Linear", "linear", "weight=*weight bias=*bias"},
    {"sparse.Embedding", "embedding", "weight=*weight"},
    {"batchnorm.BatchNorm1d", "batch_norm", kNorm},
    {"batchnorm.BatchNorm2d", "batch_norm", kNorm},
    {"batchnorm.BatchNorm3d", "batch_norm", kNorm},
    {"batchnorm.SyncBatchNorm", "batch_norm", kNorm},
    {"instancenorm.InstanceNorm1d", "instance_norm", kInstance},
    {"instancenorm.InstanceNorm2d", "instance_norm", kInstance},
    {"instancenorm.InstanceNorm3d", "instance_norm", kInstance},
    {"normalization.RMSNorm", "rms_norm",
     "normalized_shape=normalized_shape weight=*weight eps=eps"},
    {"normalization.LayerNorm", "layer_norm",
     "normalized_shape=normalized_shape weight=*weight bias=*bias eps=eps"},
    {"normalization.GroupNorm", "group_norm",
     "num_groups=num_groups weight=*weight bias=*bias eps=eps"},
    {"pooling.MaxPool1d", "max_pool1d",
     "kernel_size=kernel_size stride=stride padding=padding dilation=dilation "
     "ceil_mode=ceil_mode"},
    {"pooling.MaxPool2d", "max_pool2d",
     "kernel_size=kernel_size stride=stride padding=padding dilation=dilation "
     "ceil_mode=ceil_mode"},
    {"pooling.AvgPool1d", "avg_pool1d",
     "kernel_size=kernel_size stride=stride padding=padding ceil_mode=ceil_mode "
     "count_include_pad=count_include_pad"},
    {"pooling.AvgPool2d", "avg_pool2d",
     "kernel_size=kernel_size stride=stride padding=padding ceil_mode=ceil_mode "
     "count_include_pad=count_include_pad divisor_override=divisor_override"},
    {"pooling.AdaptiveAvgPool1d", "adaptive_avg_pool1d", "output_size=output_size"},
    {"pooling.AdaptiveAvgPool2d", "adaptive_avg_pool2d", "output_size=output_size"},
    {"pooling.MaxPool3d", "max_pool3d",
     "kernel_size=kernel_size stride=stride padding=padding dilation=dilation "
     "ceil_mode=ceil_mode"},
    {"pooling.AvgPool3d", "avg_pool3d",
     "kernel_size=kernel_size stride=stride padding=padding ceil_mode=ceil_mode "
     "count_include_pad=count_include_pad divisor_override=divisor_override"},
    {"pooling.AdaptiveAvgPool3d", "adaptive_avg_pool3d", "output_size=output_size"},
    {"pooling.AdaptiveMaxPool1d", "adaptive_max_pool1d", "output_size=output_size"},
    {"pooling.AdaptiveMaxPool2d", "adaptive_max_pool2d", "output_size=output_size"},
    {"pooling.AdaptiveMaxPool3d", "adaptive_max_pool3d", "output_size=output_size"},
    {"pixelshuffle.PixelShuffle", "pixel_shuffle", "upscale_factor=upscale_factor"},
    {"pixelshuffle.PixelUnshuffle", "pixel_unshuffle", "downscale_factor=downscale_factor"},
    {"channelshuffle.ChannelShuffle", "channel_shuffle", "groups=groups"},
    {"fold.Unfold", "im2col",
     "kernel_size=kernel_size dilation=dilation padding=padding stride=stride"},
    {"padding.ZeroPad1d", "constant_pad_nd", "pad=padding"},
    {"padding.ZeroPad2d", "constant_pad_nd", "pad=padding"},
    {"padding.ZeroPad3d", "constant_pad_nd", "pad=padding"},
    {"padding.ConstantPad1d", "constant_pad_nd", "pad=padding value=value"},
    {"padding.ConstantPad2d", "constant_pad_nd", "pad=padding value=value"},
    {"padding.ConstantPad3d", "constant_pad_nd", "pad=padding value=value"},
    {"padding.ReflectionPad1d", "reflection_pad1d", "padding=padding"},
    {"padding.ReflectionPad2d", "reflection_pad2d", "padding=padding"},
    {"padding.ReflectionPad3d", "reflection_pad3d", "padding=padding"},
    {"padding.ReplicationPad1d", "replication_pad1d", "padding=padding"},
    {"padding.ReplicationPad2d", "replication_pad2d", "padding=padding"},
    {"padding.ReplicationPad3d", "replication_pad3d", "padding=padding"},
    {"activation.SELU", "selu", ""},
    {"activation.CELU", "celu", "alpha=alpha"},
    {"activation.Mish", "mish", ""},
    {"activation.Hardshrink", "hardshrink", "lambd=lambd"},
    {"activation.Softshrink", "softshrink", "lambd=lambd"},
    {"activation.Softsign", "softsign", ""},
    {"activation.LogSigmoid", "log_sigmoid", ""},
    {"activation.RReLU", "rrelu", "lower=lower upper=upper"},
    {"activation.GLU", "glu", "dim=dim"},
    {"activation.Threshold", "threshold", "threshold=threshold value=value"},
    {"activation.ReLU", "relu", ""},
    {"activation.ReLU6", "relu6", ""},
    {"activation.Tanh", "tanh", ""},
    {"activation.Sigmoid", "sigmoid", ""},
    {"activation.SiLU", "silu", ""},
    {"activation.Hardsigmoid", "hardsigmoid", ""},
    {"activation.Hardswish", "hardswish", ""},
    {"activation.GELU", "gelu", "approximate=approximate"},
    {"activation.LeakyReLU", "leaky_relu", "negative_slope=negative_slope"},
    {"activation.ELU", "elu", "alpha=alpha"},
    {"activation.Hardtanh", "hardtanh", "min_val=min_val max_val=max_val"},
    {"activation.Softplus", "softplus", "beta=beta threshold=threshold"},
    {"activation.PReLU", "prelu", "weight=*weight"},
    {"activation.Softmax", "softmax", "dim=dim"},
    {"activation.LogSoftmax", "log_softmax", "dim=dim"},
    {"flatten.Unflatten", "unflatten", "dim=dim sizes=unflattened_size"},
    {"flatten.Flatten", "flatten", "start_dim=start_dim end_dim=end_dim"},
    {"linear.Identity", "", ""},
    {"dropout.Dropout", "", ""},
    {"dropout.Dropout2d", "", ""},
    {"dropout.AlphaDropout", "", ""},
    {"dropout.Dropout1d", "", ""},
    {"dropout.Dropout3d", "", ""},
    {"dropout.FeatureAlphaDropout", "", ""},
};

constexpr std::string_view kNamespace = "torch.nn.modules.";
constexpr std::string_view kSequential = "torch.nn.modules.container.Sequential";

const PickleValue* state_of(const PickleValue& v) {
  const PickleValue* state = v.state;
  if (state != nullptr && state->is(PickleKind::tuple) && !state->items.empty())
    state = state->items.back();
  return state != nullptr && state->is(PickleKind::dict) ? state : nullptr;
}

struct Child {
  std::string name;
  const PickleValue* module;
};

std::vector<Child> children(const PickleValue& module) {
  std::vector<Child> out;
  const PickleValue* state = state_of(module);
  const PickleValue* modules = state == nullptr ? nullptr : state->find("_modules");
  if (modules == nullptr) return out;
  const auto& items = modules->items;  // of an OrderedDict
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i]->is_text() && items[i + 1]->is(PickleKind::object))
      out.push_back({std::string(items[i]->text), items[i + 1]});
  return out;
}

const PickleValue* parameter(const PickleValue& module, std::string_view name) {
  const PickleValue* state = state_of(module);
  if (state == nullptr) return nullptr;
  for (const char* part : {"_parameters", "_buffers"})
    if (const PickleValue* held = state->find(part))
      if (const PickleValue* v = held->find(name); v != nullptr && !v->is(PickleKind::none))
        return v;
  return nullptr;
}

AtenValue setting(const PickleValue& v) {
  switch (v.kind) {
    case PickleKind::boolean:
      return AtenValue::of_flag(v.integer != 0);
    case PickleKind::integer:
      return AtenValue::of_integer(v.integer);
    case PickleKind::real:
      return {.kind = Kind::number, .number = v.real};
    case PickleKind::text:
    case PickleKind::bytes:
      return {.kind = Kind::text, .text = std::string(v.text)};
    case PickleKind::tuple:
    case PickleKind::list: {
      AtenValue list{.kind = Kind::list};
      for (const PickleValue* i : v.items)
        if (i->is(PickleKind::integer)) list.items.push_back(AtenValue::of_integer(i->integer));
      if (list.items.size() != v.items.size())
        throw AtenUnknown{"a setting that is no list of integers"};
      return list;
    }
    case PickleKind::object:  // torch.Size holds its extents
      if (v.args != nullptr && v.args->items.size() == 1 && v.args->items[0]->is(PickleKind::tuple))
        return setting(*v.args->items[0]);
      [[fallthrough]];
    default:
      throw AtenUnknown{"a setting that is no number, text or list"};
    case PickleKind::none:
      return {};
  }
}

// What changes a module's result and is no argument of its call.
void refuse_extras(const PickleValue& state) {
  if (const PickleValue* mode = state.find("padding_mode");
      mode != nullptr && mode->is_text() && mode->text != "zeros")
    throw AtenUnknown{"padding by " + std::string(mode->text)};
  if (const PickleValue* v = state.find("return_indices");
      v != nullptr && v->is(PickleKind::boolean) && v->integer != 0)
    throw AtenUnknown{"a pool that gives indices"};
  if (const PickleValue* v = state.find("max_norm"); v != nullptr && !v->is(PickleKind::none))
    throw AtenUnknown{"an embedding that scales its rows (max_norm)"};
  for (const char* hooks : {"_forward_hooks", "_forward_pre_hooks"})
    if (const PickleValue* v = state.find(hooks); v != nullptr && !v->items.empty())
      throw AtenUnknown{std::string(hooks) + ", code that runs around a module"};
}

class ModuleWalker {
 public:
  // `visits` are left to all walkers of a file.
  ModuleWalker(Storages& storages, std::map<const PickleValue*, Tensor>& tensors, GraphBuilder& b,
               int& visits)
      : storages_(storages), tensors_(tensors), b_(b), visits_(visits) {}

  ValueId walk(const PickleValue& m, const std::string& name, ValueId x, int depth) {
    if (depth > kMaxDepth || ++visited_ > kMaxModules || --visits_ < 0)
      throw AtenUnknown{"modules nested too deeply, or too many"};
    if (m.text == kSequential) {
      for (const Child& c : children(m))
        x = walk(*c.module, name.empty() ? c.name : name + "." + c.name, x, depth + 1);
      return x;
    }
    const ModuleRow* row = nullptr;
    for (const ModuleRow& r : kModules)
      if (m.text.starts_with(kNamespace) && m.text.substr(kNamespace.size()) == r.type) row = &r;
    if (const ModuleRecipe* recipe = recipe_of(m.text); recipe != nullptr)
      return composed(*recipe, m, name, x, depth);
    if (row == nullptr)
      throw AtenUnknown{"the class " + std::string(m.text) + ", whose code is not in the file"};
    const PickleValue* state = state_of(m);
    if (row->op.empty() || state == nullptr) return x;
    const ErrorScope scope("module " + printable(name.empty() ? row->type : name));
    refuse_extras(*state);
    if (const PickleValue* training = state->find("training");
        training != nullptr && training->is(PickleKind::boolean) && training->integer != 0)
      b_.note("Saved in training: read for inference (statistics of batch norms, no dropout).");
    AtenCall call;
    call.args.emplace(row->op == "embedding" ? "indices" : "input", AtenValue::of(x));
    std::istringstream settings{std::string(row->settings)};
    for (std::string argument, field;
         std::getline(settings, argument, '=') && std::getline(settings, field, ' ');) {
      if (field.starts_with('*')) {
        if (const PickleValue* v = parameter(m, field.substr(1)))
          call.args.emplace(argument, weight(*v, name, field.substr(1)));
      } else if (field.starts_with('!')) {
        const PickleValue* v = state->find(field.substr(1));
        call.args.emplace(argument, AtenValue::of_flag(v == nullptr || v->integer == 0));
      } else if (const PickleValue* v = state->find(field)) {
        call.args.emplace(argument, setting(*v));
      }
    }
    for (const char* flag : {"ceil_mode", "count_include_pad"})
      if (const auto at = call.args.find(flag); at != call.args.end())
        at->second.kind = at->second.kind == Kind::integer ? Kind::boolean : at->second.kind;
    return translate_aten(b_, std::string(row->op), name.empty() ? std::string(row->op) : name,
                          call)
        .at(0);
  }

 private:
  // The words of a recipe from `at` on, up to the end of a branch.
  ValueId follow(const std::vector<std::string>& words, std::size_t& at, const PickleValue& m,
                 const std::string& name, ValueId x, int depth) {
    for (; at < words.size() && words[at] != "|" && words[at][0] != ']'; ++at) {
      const std::string& word = words[at];
      if (word == "[") {
        x = branches(words, at, m, name, x, depth);
      } else if (word[0] == ':') {
        x = step(word.substr(1), m, name, x, depth);
      } else if (word[0] == '*') {
        const PickleValue* v = parameter(m, word.substr(1));
        if (v == nullptr) throw AtenUnknown{"a module without its parameter " + word.substr(1)};
        x = b_.op("mul", name + ".scaled", {x, weight(*v, name, word.substr(1)).tensor});
      } else {
        const bool optional = word.ends_with('?');
        const std::string child = optional ? word.substr(0, word.size() - 1) : word;
        const PickleValue* module = nullptr;
        for (const Child& c : children(m))
          if (c.name == child) module = c.module;
        if (module != nullptr)
          x = walk(*module, name.empty() ? child : name + "." + child, x, depth + 1);
        else if (!optional)
          throw AtenUnknown{"a module " + std::string(m.text) + " without its part " + child};
      }
    }
    return x;
  }

  // At "[" on entry, at its "]" behind.
  ValueId branches(const std::vector<std::string>& words, std::size_t& at, const PickleValue& m,
                   const std::string& name, ValueId x, int depth) {
    std::vector<ValueId> made;
    while (words.at(at)[0] != ']') made.push_back(follow(words, ++at, m, name, x, depth));
    const std::string how = words[at].substr(1);
    if (how == "cat") return b_.op("concat", name + ".cat", made, {{"axis", std::int64_t{1}}});
    ValueId y = made.at(0);
    for (std::size_t i = 1; i < made.size(); ++i) y = b_.op(how, name + "." + how, {y, made[i]});
    return y;
  }

  ValueId step(const std::string& word, const PickleValue& m, const std::string& name, ValueId x,
               int depth) {
    const auto call = [&](const std::string& op,
                          const std::vector<std::pair<std::string, AtenValue>>& settings) {
      AtenCall c;
      c.args.emplace("self", AtenValue::of(x));
      for (const auto& [key, value] : settings) c.args.emplace(key, value);
      return translate_inner(b_, op, name.empty() ? op : name + "." + op, c);
    };
    const auto number = [](std::int64_t v) { return AtenValue::of_integer(v); };
    if (word == "flatten") return call("flatten", {{"start_dim", number(1)}})[0];
    if (word == "relu") return call("relu", {})[0];
    if (word == "pool1") return b_.op("global_avg_pool", name + ".pool", {x});
    if (word == "mean23")
      return b_.op("reduce_mean", name + ".mean", {x}, {{"axes", Ints{2, 3}}, {"keepdims", false}});
    if (word == "avg3")
      return call("avg_pool2d",
                  {{"kernel_size", number(3)}, {"stride", number(1)}, {"padding", number(1)}})[0];
    if (word == "max3s2")
      return call("max_pool2d", {{"kernel_size", number(3)}, {"stride", number(2)}})[0];
    if (word == "shuffle2") return call("channel_shuffle", {{"groups", number(2)}})[0];
    if (word == "first" || word == "second")
      return call("chunk", {{"chunks", number(2)}, {"dim", number(1)}}).at(word == "first" ? 0 : 1);
    if (word == "permute") {
      const PickleValue* dims = state_of(m) == nullptr ? nullptr : state_of(m)->find("dims");
      if (dims == nullptr) throw AtenUnknown{"a permutation without axes"};
      return call("permute", {{"dims", setting(*dims)}})[0];
    }
    if (word == "norm") {
      const PickleValue *w = parameter(m, "weight"), *shift = parameter(m, "bias"),
                        *eps = state_of(m) == nullptr ? nullptr : state_of(m)->find("eps");
      if (w == nullptr || shift == nullptr || eps == nullptr || !eps->is(PickleKind::real))
        throw AtenUnknown{"a norm without weights"};
      const ValueId last = b_.transpose(name + ".last", x, {0, 2, 3, 1});
      const ValueId y =
          b_.op("layer_norm", name,
                {last, weight(*w, name, "weight").tensor, weight(*shift, name, "bias").tensor},
                {{"axis", std::int64_t{-1}}, {"eps", static_cast<float>(eps->real)}});
      return b_.transpose(name + ".second", y, {0, 3, 1, 2});
    }
    const auto each = [&](const Child& c, ValueId v) {
      return walk(*c.module, name.empty() ? c.name : name + "." + c.name, v, depth + 1);
    };
    if (word == "all") {
      for (const Child& c : children(m)) x = each(c, x);
      return x;
    }
    std::vector<ValueId> features{x};  // dense
    for (const Child& c : children(m)) {
      x = features.size() == 1
              ? x
              : b_.op("concat", name + ".features", features, {{"axis", std::int64_t{1}}});
      features.push_back(each(c, x));
    }
    return b_.op("concat", name + ".all", features, {{"axis", std::int64_t{1}}});
  }

  ValueId composed(const ModuleRecipe& recipe, const PickleValue& m, const std::string& name,
                   ValueId x, int depth) {
    const ErrorScope scope("module " + printable(name.empty() ? recipe.type : name));
    const PickleValue* state = state_of(m);
    if (state == nullptr) throw AtenUnknown{"a module without a state"};
    refuse_extras(*state);
    bool holds = true;
    if (!recipe.condition.empty()) {
      const std::size_t equals = recipe.condition.find('=');
      const PickleValue* v = state->find(recipe.condition.substr(0, equals));
      if (v == nullptr) throw AtenUnknown{"a module without its " + std::string(recipe.condition)};
      holds = equals == std::string_view::npos
                  ? v->integer != 0
                  : std::to_string(v->integer) == recipe.condition.substr(equals + 1);
    }
    const std::string_view text = holds ? recipe.recipe : recipe.otherwise;
    if (text.empty() && !recipe.condition.empty())
      throw AtenUnknown{"the class " + std::string(m.text) + " with " +
                        std::string(recipe.condition)};
    std::istringstream in{std::string(text)};
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    b_.note("Modules of torchvision do what their classes do in torchvision itself.");
    std::size_t at = 0;
    return follow(words, at, m, name, x, depth);
  }

  AtenValue weight(const PickleValue& v, const std::string& module, std::string_view field) {
    if (const auto at = values_.find(&v); at != values_.end()) return AtenValue::of(at->second);
    auto kept = tensors_.find(&v);
    if (kept == tensors_.end()) {
      auto t = storages_.tensor(v);
      if (!t) throw AtenUnknown{"a weight that is no tensor"};
      kept = tensors_.emplace(&v, std::move(*t)).first;
    }
    const ValueId id =
        b_.constant(module.empty() ? std::string(field) : module + "." + std::string(field),
                    kept->second.share());
    values_.emplace(&v, id);
    return AtenValue::of(id);
  }

  Storages& storages_;
  std::map<const PickleValue*, Tensor>& tensors_;
  GraphBuilder& b_;
  std::map<const PickleValue*, ValueId> values_;
  int visited_ = 0;
  int& visits_;
};

bool first_weight(const PickleValue& m, Storages& storages, int depth,
                  std::set<const PickleValue*>& seen, Shape& shape, FirstModule& first) {
  if (depth > kMaxDepth || !seen.insert(&m).second) return false;
  if (const PickleValue* w = parameter(m, "weight"))
    if (const auto t = storages.tensor(*w); t && t->shape().rank() >= 2) {
      shape = t->shape();
      if (m.text.find("Embedding") != std::string_view::npos) first = FirstModule::embedding;
      return true;
    }
  return std::ranges::any_of(children(m), [&](const Child& c) {
    return first_weight(*c.module, storages, depth + 1, seen, shape, first);
  });
}

}  // namespace

bool open_module(const Pickle& pickle, Storages& storages, Model& model) {
  const PickleValue& root = pickle.root();
  if (!root.is(PickleKind::object) ||
      (!root.text.starts_with(kNamespace) && recipe_of(root.text) == nullptr))
    return false;
  std::string why = "no module with weights";
  WantedInputs wanted{.arguments = {{"input", "Tensor"}}};
  std::set<const PickleValue*> seen;
  if (first_weight(root, storages, 0, seen, wanted.first_weight, wanted.first) ||
      !InputHints::given().empty()) {
    why.clear();
    std::map<const PickleValue*, Tensor> tensors;
    std::vector<InputGuesses> guesses;
    try {
      guesses = input_guesses(wanted);
    } catch (const AtenUnknown& unknown) {
      why = unknown.what;
    }
    int visits = 10 * kMaxModules;
    for (const InputGuesses& guess : guesses) {
      try {
        GraphBuilder b("module");
        const InputGuess& in = guess.inputs.at(0);
        const ValueId x = b.input(in.name, in.dtype, in.dims, in.nominal);
        ModuleWalker walker(storages, tensors, b, visits);
        b.output(walker.walk(root, "", x, 0), "output");
        *model.graph = b.finish();
        for (std::string& note : b.take_notes()) model.notes.push_back(std::move(note));
        model.notes.push_back(guess.said);
        return true;
      } catch (const Error& e) {
        if (why.empty()) why = e.what();
      } catch (const AtenUnknown& unknown) {
        if (why.empty()) why = unknown.what;
      }
    }
  }
  model.notes.push_back("No graph: " + printable(why) + ".");
  return false;
}

}  // namespace etalon::pytorch_format
