// Calls of ATen, PyTorch's library of ops, as nodes: one translation for exported programs (.pt2)
// and for the code of TorchScript.
//
// Conventions: an average pool counts its padding; strides are the kernel where none are given;
// recurrent gates i, f, g, o and r, z, n with a bias for input and state each, the GRU's reset
// behind the product (linear_before_reset). Source: ATen's native_functions.yaml (the names and
// order of arguments), the documentation of torch.nn (meaning).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/builder.h"

namespace etalon::pytorch_format {

struct AtenValue {
  enum class Kind { none, tensor, integer, number, boolean, text, list, zeros };
  Kind kind = Kind::none;
  ValueId tensor = kAbsent;
  std::int64_t integer = 0;  // of a boolean 0 or 1; -1 where free
  bool free = false;         // an extent that the graph leaves free; `number` is then its axis,
                             // below 0 where it was computed
  std::int64_t sizes[2] = {0, 0};  // of a free one: at either size that the builder tries
  double number = 0;
  std::string text;
  std::vector<AtenValue> items;  // of a list or tuple

  static AtenValue of(ValueId v) { return {.kind = Kind::tensor, .tensor = v}; }
  static AtenValue of_integer(std::int64_t v) { return {.kind = Kind::integer, .integer = v}; }
  // The extent of an axis, and what is computed of such: known, or free with its sizes.
  static AtenValue extent(const GraphBuilder& b, ValueId x, std::int64_t axis);
  static AtenValue computed(std::string_view arithmetic, const AtenValue& p, const AtenValue& q);
  static AtenValue of_flag(bool v) { return {.kind = Kind::boolean, .integer = v ? 1 : 0}; }
};

// What has no translation: the weights are then given alone.
struct AtenUnknown {
  std::string what;
};

// The arguments of a call, by the names of native_functions.yaml. Wrong kinds are AtenUnknown. What
// is read is noted, so that an argument that no translation looked at can be refused.
class AtenCall {
 public:
  std::map<std::string, AtenValue, std::less<>> args;

  ValueId tensor(std::string_view name) const;  // kAbsent where none is given
  std::vector<ValueId> tensors(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t missing) const;
  bool flag(std::string_view name, bool missing) const;
  float number(std::string_view name, float missing) const;
  double real(std::string_view name, double missing) const;     // of a number or a bool
  Ints ints(std::string_view name, const Ints& missing) const;  // an empty list is missing
  const AtenValue* find(std::string_view name) const;           // nullptr where none or None
  // The first argument that is given, was not read and can change the result; empty: none.
  std::string overlooked() const;

 private:
  // Of a call and its copies, which stand for the same call.
  std::shared_ptr<std::set<std::string, std::less<>>> read_ =
      std::make_shared<std::set<std::string, std::less<>>>();
};

// The order of an op's arguments, `places` of which are given by their place; empty where it has no
// translation.
std::span<const std::string_view> aten_arguments(std::string_view op, std::size_t places);

// Whether a call gives a list, which may be of one tensor.
bool aten_gives_list(std::string_view op);

// The node or nodes of a call; several values where the op gives several. An argument that the
// translation does not look at is AtenUnknown.
std::vector<ValueId> translate_aten(GraphBuilder& graph, const std::string& op,
                                    const std::string& name, const AtenCall& call);

}  // namespace etalon::pytorch_format
