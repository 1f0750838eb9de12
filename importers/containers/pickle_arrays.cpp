#include "importers/containers/pickle_arrays.h"

#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/npy.h"

namespace etalon {
namespace {

// Theano's arrays on a GPU, of its three back ends: the array, and for two of them where it was.
bool is_gpu_array(std::string_view name) {
  return name == "theano.sandbox.cuda.type.CudaNdarray_unpickler" ||
         name == "theano.gpuarray.type.GpuArray_unpickler" ||
         name == "theano.sandbox.gpuarray.type.GpuArray_unpickler";
}

constexpr const char* kBrain = "bfloat16";

// numpy.dtype('f4', 0, 1) with the state (3, '<', ...): "<f4". Empty where elements are no numbers.
std::string descr_of(const PickleValue& dtype) {
  if (!dtype.is_object("numpy.dtype") || dtype.args == nullptr)
    throw bad_input("a NumPy array without its element type in the pickle");
  const PickleValue& element = pickle_item(*dtype.args, 0, "an element type");
  // An element type beside NumPy's own is its class.
  if (element.is(PickleKind::global) && element.text.ends_with(".bfloat16")) return kBrain;
  const std::string kind(
      pickle_text(pickle_item(*dtype.args, 0, "an element type"), "an element type"));
  if (kind.empty() || std::string_view("OVUSMmc").find(kind[0]) != std::string_view::npos)
    return "";
  std::string order = "|";
  if (dtype.state != nullptr)
    order = pickle_text(pickle_item(*dtype.state, 1, "an element type"), "a byte order");
  if (order == "=" || order.empty()) order = "<";
  return order + kind;
}

Tensor array(const std::shared_ptr<const Pickle>& keeper, const std::string& descr, bool fortran,
             const Ints& shape, std::string_view bytes) {
  const auto raw = std::as_bytes(std::span(bytes.data(), bytes.size()));
  if (descr == kBrain) {
    const TensorType type{DType::bf16, Shape(shape)};
    if (fortran && shape.size() > 1) throw bad_input("an array of bfloat16 by columns");
    if (raw.size() != claimed_bytes(type))
      throw bad_input("the array {} has {} bytes", to_string(type), raw.size());
    const Tensor brain = tensor_from_bytes(type, {raw, keeper});
    return keeper != nullptr ? brain.share() : brain.clone();
  }
  Tensor t = array_from_bytes(descr, fortran, shape, {raw, keeper});
  return keeper != nullptr ? std::move(t) : t.clone();
}

}  // namespace

std::optional<Tensor> numpy_array(const PickleValue& v,
                                  const std::shared_ptr<const Pickle>& keeper) {
  if (!v.is(PickleKind::object) || v.args == nullptr) return std::nullopt;
  const std::string_view name = v.text;
  if (is_gpu_array(name)) {
    const PickleValue& inner = pickle_item(*v.args, 0, "an array on a GPU");
    if (inner.is(PickleKind::object) && is_gpu_array(inner.text))
      throw bad_input("an array on a GPU made of another");
    return numpy_array(inner, keeper);
  }
  // An array of JAX is the constructor of NumPy's, its arguments and its state.
  const bool of_jax = name.ends_with("._reconstruct_array");
  if (of_jax || name.ends_with(".multiarray._reconstruct")) {
    const PickleValue* state = of_jax ? &pickle_item(*v.args, 2, "an array of JAX") : v.state;
    if (state == nullptr) throw bad_input("a NumPy array without its state in the pickle");
    const std::string descr = descr_of(pickle_item(*state, 2, "an array"));
    const PickleValue& data = pickle_item(*state, 4, "an array");
    if (descr.empty() || data.is(PickleKind::list)) return std::nullopt;
    return array(keeper, descr, pickle_bool(pickle_item(*state, 3, "an array"), "an array's order"),
                 pickle_ints(pickle_item(*state, 1, "an array"), "an array's shape"),
                 pickle_text(data, "an array's bytes"));
  }
  if (name.ends_with(".multiarray.scalar")) {
    const std::string descr = descr_of(pickle_item(*v.args, 0, "a scalar"));
    if (descr.empty() || v.args->items.size() < 2) return std::nullopt;
    return array(keeper, descr, false, {}, pickle_text(*v.args->items[1], "a scalar's bytes"));
  }
  if (name.ends_with(".numeric._frombuffer")) {
    const PickleValue* buffer = &pickle_item(*v.args, 0, "an array");
    const std::string descr = descr_of(pickle_item(*v.args, 1, "an array"));
    if (descr.empty()) return std::nullopt;
    return array(keeper, descr, pickle_text(pickle_item(*v.args, 3, "an array"), "an order") == "F",
                 pickle_ints(pickle_item(*v.args, 2, "an array"), "an array's shape"),
                 pickle_text(*buffer, "an array's bytes"));
  }
  return std::nullopt;
}

}  // namespace etalon
