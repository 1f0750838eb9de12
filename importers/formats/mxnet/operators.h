// Operators by name, a row each, and what their translations share.
//   values.cpp     element by element
//   choices.cpp    reductions, orders, what indices choose
//   extents.cpp    what only moves or repeats elements, and shapes as values
//   sequences.cpp  sequences of different lengths, attention, products of matrices
//   regions.cpp    images sampled at other places
//   boxes.cpp      detectors' boxes and which of them are kept
//   arrays.cpp     ramps and unit matrices, what follows NumPy
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "importers/formats/mxnet/symbol.h"

namespace etalon::mxnet {

struct OperatorRow {
  std::string_view name;
  std::vector<ValueId> (*translate)(Translator& t);
};
std::span<const OperatorRow> choice_rows();
std::span<const OperatorRow> extent_rows();
std::span<const OperatorRow> sequence_rows();
std::span<const OperatorRow> region_rows();
std::span<const OperatorRow> box_rows();
std::span<const OperatorRow> array_rows();
// MXNet's own name for an operator of its NumPy interface that means the same; empty where there is
// none.
std::string_view name_of_numpy(std::string_view name);
// Operators of values.cpp, which have tables of their own; nothing where it is none of them.
std::optional<ValueId> value_of(Translator& t);

// Nodes of one operator, by what each is for.
struct Parts {
  Translator& t;
  std::string name(std::string_view role) const { return t.name() + "." + std::string(role); }
  ValueId op(std::string_view op, std::string_view role, const std::vector<ValueId>& in,
             const Fields& f = {}) const {
    return t.g.op(op, name(role), in, f);
  }
  // A constant of the type that `like` has.
  ValueId number(ValueId like, double v) const;
  ValueId ints(std::string_view role, const Ints& v) const {
    return t.g.constant(name(role), ints_tensor(v));
  }
  ValueId cast(std::string_view role, ValueId v, std::string_view to) const {
    return op("cast", role, {v}, {{"to", std::string(to)}});
  }
  ValueId as_ids(ValueId v) const { return cast("ids", v, "i64"); }
  ValueId unsqueeze(std::string_view role, ValueId v, const Ints& axes) const {
    return op("unsqueeze", role, {v}, {{"axes", axes}});
  }
  // A truth as MXNet gives it: 0 or 1 of the type that `like` has.
  ValueId truth(std::string_view role, ValueId v, ValueId like) const;
  // Whether an element is not zero (NaN is not).
  ValueId holds(std::string_view role, ValueId v) const;
  ValueId flat(ValueId v) const { return t.g.reshape(name("flat"), v, {-1}); }
  // The extents [begin, end) of a value, a constant where they are known.
  ValueId extents(std::string_view role, ValueId v, std::int64_t begin, std::int64_t end) const;
  // 0, 1, ... along an axis of `v`, i64.
  ValueId steps(ValueId v, std::int64_t axis) const;
  // Places along an axis of `v` as i64: those outside go to its ends, or around with mode=wrap.
  ValueId places(ValueId ids, ValueId v, std::int64_t axis, std::string_view mode) const;
  // An axis that is there, from 0.
  std::int64_t axis(std::string_view key, std::int64_t otherwise, int rank) const;
};

}  // namespace etalon::mxnet
