#include "importers/containers/pickle_machine.h"

namespace etalon {
namespace {

// What may stand before REDUCE, INST or OBJ. None of them does more than hold its arguments.
constexpr std::string_view kConstructors[] = {
    "__builtin__.bytearray",
    "__builtin__.bytes",
    "__builtin__.complex",
    "__builtin__.dict",
    "__builtin__.frozenset",
    "__builtin__.list",
    "__builtin__.object",
    "__builtin__.set",
    "__builtin__.slice",
    "__builtin__.tuple",
    "__builtin__.xrange",
    "_codecs.encode",
    "argparse.Namespace",
    "builtins.bytearray",
    "builtins.bytes",
    "builtins.complex",
    "builtins.dict",
    "builtins.frozenset",
    "builtins.list",
    "builtins.object",
    "builtins.range",
    "builtins.set",
    "builtins.slice",
    "builtins.tuple",
    "collections.Counter",
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.deque",
    "copy_reg.__newobj__",
    "copy_reg._reconstructor",
    "copyreg.__newobj__",
    "copyreg._reconstructor",
    "datetime.date",
    "datetime.datetime",
    "datetime.timedelta",
    "jax._src.array._reconstruct_array",
    "neon.backends.nervanacpu.CPUTensor",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.numeric._frombuffer",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy.core.numeric._frombuffer",
    "numpy.dtype",
    "numpy.ndarray",
    "numpy.random.__RandomState_ctor",
    "numpy.random._pickle.__bit_generator_ctor",
    "numpy.random._pickle.__generator_ctor",
    "numpy.random._pickle.__randomstate_ctor",
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "pathlib.WindowsPath",
    "theano.compile.sharedvalue._make_shared",
    "theano.gpuarray.type.GpuArray_unpickler",
    "theano.sandbox.cuda.type.CudaNdarray_unpickler",
    "theano.sandbox.gpuarray.type.GpuArray_unpickler",
    "torch.Size",
    "torch._tensor._rebuild_from_type_v2",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch.device",
    "torch.jit._pickle.build_boollist",
    "torch.jit._pickle.build_doublelist",
    "torch.jit._pickle.build_intlist",
    "torch.jit._pickle.build_tensorlist",
    "torch.jit._pickle.restore_type_tag",
    "torch.nn.backends.thnn._get_thnn_function_backend",
    "torch.serialization._get_layout",
    "torch.storage._load_from_bytes",
    "torch.tensor._rebuild_from_type_v2",
};

bool is_constructor(std::string_view name) {
  return std::ranges::binary_search(kConstructors, name);
}

}  // namespace

// "module.attribute", one text for each pair of a file.
PickleValue* PickleMachine::global(std::string_view module, std::string_view attribute) {
  Value* v = make(PickleKind::global);
  v->text = keep(std::string(module) + "." + std::string(attribute));
  return v;
}

PickleValue* PickleMachine::object(std::string_view name, const Value* args) {
  Value* v = make(PickleKind::object);
  v->text = name;
  v->args = args;
  return v;
}

// The one place where something would be called.
void PickleMachine::construct(const Value* callable, Value* args) {
  if (callable->kind != PickleKind::global) throw fault("something is called that is not a name");
  const std::string_view name = callable->text;
  if (!is_constructor(name))
    throw bad_input(
        "pickle, byte {}: wants to call {}, which is not on the list of known constructors; "
        "nothing was run, and a file that asks for this should not be trusted",
        at_op_, printable(name));
  if (args->kind != PickleKind::tuple) throw fault("a constructor without a tuple of arguments");
  if (name.ends_with("._reconstructor") || name.ends_with(".__newobj__")) {
    if (args->items.empty() || args->items[0]->kind != PickleKind::global)
      throw fault("an object without a class");
    return push(object(args->items[0]->text, args));
  }
  if (name.ends_with("builtin__.set") || name.ends_with("frozenset") || name == "builtins.set") {
    Value* v = make(PickleKind::set);
    if (!args->items.empty()) {
      copies(args->items[0]->items.size() * sizeof(Value*));
      v->items = args->items[0]->items;
    }
    return push(v);
  }
  if (name == "_codecs.encode" && args->items.size() == 2 && args->items[0]->is_text())
    return push(encoded(args->items[0]->text,
                        pickle_text(*args->items[1], "'_codecs.encode', its encoding")));
  if ((name.ends_with(".bytes") || name.ends_with(".bytearray")) && args->items.empty())
    return push(make(PickleKind::bytes));
  Value* v = object(name, args);
  v->entries = name == "collections.OrderedDict" || name == "collections.defaultdict" ||
               name == "collections.Counter" || name.ends_with(".dict");
  // Python 2 hands the entries of an ordered dict over as a list of pairs.
  if (name == "collections.OrderedDict" && !args->items.empty()) {
    const auto& pairs = args->items[0]->items;
    const auto is_pair = [](const Value* p) {
      return (p->kind == PickleKind::list || p->kind == PickleKind::tuple) && p->items.size() == 2;
    };
    if (args->items[0]->kind == PickleKind::list && std::ranges::all_of(pairs, is_pair)) {
      copies(2 * pairs.size() * sizeof(Value*));
      for (const Value* p : pairs)
        v->items.insert(v->items.end(), p->items.begin(), p->items.end());
    }
  }
  push(v);
}

void PickleMachine::append(Value* to, Value* item) {
  if (to->kind != PickleKind::list && to->kind != PickleKind::object)
    throw fault("an element for something that is no list");
  to->items.push_back(item);
}

void PickleMachine::set_items(Value* to, std::span<Value* const> pairs) {
  if (to->kind == PickleKind::object && (to->entries || to->items.empty()))
    to->entries = true;
  else if (to->kind != PickleKind::dict)
    throw fault("an entry for something that is no dict");
  if (pairs.size() % 2 != 0) throw fault("a key without a value");
  to->items.insert(to->items.end(), pairs.begin(), pairs.end());
}

PickleValue* PickleMachine::tuple_of(std::size_t count) {
  Value* v = make(PickleKind::tuple);
  v->items.resize(count);
  for (std::size_t i = count; i-- > 0;) v->items[i] = pop();
  return v;
}

PickleValue* PickleMachine::collected(PickleKind kind) {
  const std::vector<Value*> items = pop_mark();
  Value* v = make(kind);
  if (kind == PickleKind::dict)
    set_items(v, items);
  else
    v->items.assign(items.begin(), items.end());
  return v;
}

// An old-style instance has no arguments; with some it is a call like REDUCE.
void PickleMachine::construct_without_call(const Value* callable,
                                           const std::vector<Value*>& items) {
  if (callable->kind != PickleKind::global) throw fault("something is called that is not a name");
  if (items.empty()) return push(object(callable->text, empty_tuple()));
  Value* args = make(PickleKind::tuple);
  args->items.assign(items.begin(), items.end());
  construct(callable, args);
}

void PickleMachine::new_object(const Value* cls, const Value* args) {
  // PyTorch's old files hold a class beside its source text, under a persistent id.
  if (cls->kind == PickleKind::persistent && cls->args->kind == PickleKind::tuple &&
      cls->args->items.size() > 1)
    cls = cls->args->items[1];
  if (cls->kind != PickleKind::global || args->kind != PickleKind::tuple)
    throw fault("an object without a class or arguments");
  Value* v = object(cls->text, args);
  v->entries = cls->text == "collections.OrderedDict";
  push(v);
}

}  // namespace etalon
