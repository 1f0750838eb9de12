#include "importers/containers/pickle_arrays.h"

#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/npy.h"

namespace etalon {
namespace {

constexpr std::string_view kCudaArray = "theano.sandbox.cuda.type.CudaNdarray_unpickler";

// numpy.dtype('f4', 0, 1) with the state (3, '<', ...): "<f4". Empty where elements are no numbers.
std::string descr_of(const PickleValue& dtype) {
  if (!dtype.is_object("numpy.dtype") || dtype.args == nullptr)
    throw bad_input("a NumPy array without its element type in the pickle");
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
  Tensor t = array_from_bytes(descr, fortran, shape, {raw, keeper});
  return keeper != nullptr ? std::move(t) : t.clone();
}

}  // namespace

std::optional<Tensor> numpy_array(const PickleValue& v,
                                  const std::shared_ptr<const Pickle>& keeper) {
  if (!v.is(PickleKind::object) || v.args == nullptr) return std::nullopt;
  const std::string_view name = v.text;
  if (name == kCudaArray) {
    const PickleValue& inner = pickle_item(*v.args, 0, "a CudaNdarray");
    if (inner.is_object(kCudaArray)) throw bad_input("a CudaNdarray made of a CudaNdarray");
    return numpy_array(inner, keeper);
  }
  if (name.ends_with(".multiarray._reconstruct")) {
    if (v.state == nullptr) throw bad_input("a NumPy array without its state in the pickle");
    const std::string descr = descr_of(pickle_item(*v.state, 2, "an array"));
    const PickleValue& data = pickle_item(*v.state, 4, "an array");
    if (descr.empty() || data.is(PickleKind::list)) return std::nullopt;
    return array(keeper, descr,
                 pickle_bool(pickle_item(*v.state, 3, "an array"), "an array's order"),
                 pickle_ints(pickle_item(*v.state, 1, "an array"), "an array's shape"),
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
