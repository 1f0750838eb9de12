#include "importers/formats/pytorch/module.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten.h"
#include "importers/formats/pytorch/input_guess.h"
#include "importers/input_hints.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr int kMaxDepth = 64;
constexpr int kMaxModules = 100'000;

// A class of torch.nn, the ATen call it makes, and its settings as "argument=field".
struct ModuleRow {
  std::string_view type;  // behind torch.nn.modules.
  std::string_view op;    // "": the identity
  std::string_view settings;
};
constexpr std::string_view kConv =
    "stride=stride padding=padding dilation=dilation groups=groups weight=*weight bias=*bias";
constexpr std::string_view kNorm =
    "weight=*weight bias=*bias running_mean=*running_mean running_var=*running_var eps=eps";
constexpr ModuleRow kModules[] = {
    {"conv.Conv1d", "conv1d", kConv},
    {"conv.Conv2d", "conv2d", kConv},
    {"conv.Conv3d", "conv3d", kConv},
    {"conv.ConvTranspose1d", "conv_transpose1d",
     "stride=stride padding=padding output_padding=output_padding dilation=dilation groups=groups "
     "weight=*weight bias=*bias"},
    {"conv.ConvTranspose2d", "conv_transpose2d",
     "stride=stride padding=padding output_padding=output_padding dilation=dilation groups=groups "
     "weight=*weight bias=*bias"},
    {"linear.Linear", "linear", "weight=*weight bias=*bias"},
    {"sparse.Embedding", "embedding", "weight=*weight"},
    {"batchnorm.BatchNorm1d", "batch_norm", kNorm},
    {"batchnorm.BatchNorm2d", "batch_norm", kNorm},
    {"batchnorm.BatchNorm3d", "batch_norm", kNorm},
    {"normalization.LayerNorm", "layer_norm",
     "normalized_shape=normalized_shape weight=*weight bias=*bias eps=eps"},
    {"normalization.GroupNorm", "group_norm",
     "num_groups=num_groups weight=*weight bias=*bias eps=eps"},
    {"pooling.MaxPool1d", "max_pool1d",
     "kernel_size=kernel_size stride=stride padding=padding dilation=dilation ceil_mode=ceil_mode"},
    {"pooling.MaxPool2d", "max_pool2d",
     "kernel_size=kernel_size stride=stride padding=padding dilation=dilation ceil_mode=ceil_mode"},
    {"pooling.AvgPool1d", "avg_pool1d",
     "kernel_size=kernel_size stride=stride padding=padding ceil_mode=ceil_mode "
     "count_include_pad=count_include_pad"},
    {"pooling.AvgPool2d", "avg_pool2d",
     "kernel_size=kernel_size stride=stride padding=padding ceil_mode=ceil_mode "
     "count_include_pad=count_include_pad divisor_override=divisor_override"},
    {"pooling.AdaptiveAvgPool1d", "adaptive_avg_pool1d", "output_size=output_size"},
    {"pooling.AdaptiveAvgPool2d", "adaptive_avg_pool2d", "output_size=output_size"},
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
    {"flatten.Flatten", "flatten", "start_dim=start_dim end_dim=end_dim"},
    {"linear.Identity", "", ""},
    {"dropout.Dropout", "", ""},
    {"dropout.Dropout2d", "", ""},
    {"dropout.AlphaDropout", "", ""},
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
  ModuleWalker(Storages& storages, std::map<const PickleValue*, Tensor>& tensors, GraphBuilder& b)
      : storages_(storages), tensors_(tensors), b_(b) {}

  ValueId walk(const PickleValue& m, const std::string& name, ValueId x, int depth) {
    if (depth > kMaxDepth || ++visited_ > kMaxModules)
      throw AtenUnknown{"modules nested too deeply, or too many"};
    if (m.text == kSequential) {
      for (const Child& c : children(m))
        x = walk(*c.module, name.empty() ? c.name : name + "." + c.name, x, depth + 1);
      return x;
    }
    const ModuleRow* row = nullptr;
    for (const ModuleRow& r : kModules)
      if (m.text.starts_with(kNamespace) && m.text.substr(kNamespace.size()) == r.type) row = &r;
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
  if (!root.is(PickleKind::object) || !root.text.starts_with(kNamespace)) return false;
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
    for (const InputGuesses& guess : guesses) {
      try {
        GraphBuilder b("module");
        const InputGuess& in = guess.inputs.at(0);
        const ValueId x = b.input(in.name, in.dtype, in.dims, in.nominal);
        ModuleWalker walker(storages, tensors, b);
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
