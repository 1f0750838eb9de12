// Modules by name, a row each, and what their translations share.
//   layers.cpp      what most networks are made of
//   containers.cpp  modules of modules, tables of tables
//   norms.cpp       normalisations, of values and of weights
//   tables.cpp      element by element, and tables of values
//   moves.cpp       what moves, cuts and reduces: dimensions count from 1
//   windows.cpp     convolutions and windows along sequences, images and volumes
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "importers/containers/t7.h"
#include "importers/formats/torch7/nested.h"
#include "importers/formats/translate.h"

namespace etalon::torch7 {

using Values = std::vector<ValueId>;

// Where it is one.
std::int64_t whole(double v);

struct Module {
  GraphBuilder& g;
  const T7Object& m;
  std::string_view type;     // without "nn."
  const std::string& path;   // of the module; the name of its node
  const std::string& place;  // its path without its type, empty for the network
  const Values& in;
  std::vector<const T7Object*> parts;
  // Part i, from 0, on values; a part that is used more than once has a number for each.
  std::function<Values(std::size_t part, const Values& in)> apply;
  // Any module on values, at a place.
  std::function<Values(const T7Object& m, const Values& in, const std::string& place)> run;
  Tables& tables;

  bool cudnn() const { return m.type.starts_with("cudnn."); }

  ValueId x(std::size_t i = 0) const;
  // The only value.
  ValueId single() const;
  std::string name(std::string_view role) const { return path + "." + std::string(role); }
  ValueId op(std::string_view op, const Values& v, const Fields& f = {}) const {
    return g.op(op, path, v, f);
  }
  ValueId part(std::string_view op, std::string_view role, const Values& v,
               const Fields& f = {}) const {
    return g.op(op, name(role), v, f);
  }
  ValueId number(float v) const { return g.constant(name("number"), scalar_f32(v)); }
  ValueId ints(std::string_view role, const Ints& v) const {
    return g.constant(name(role), ints_tensor(v));
  }
  std::int64_t integer(std::string_view key, double otherwise) const {
    return whole(m.number(key, otherwise));
  }
  float real(std::string_view key, double otherwise) const {
    return static_cast<float>(m.number(key, otherwise));
  }
  // A tensor of the module as f32; without elements where it has none.
  Tensor tensor(std::string_view key) const;
  Tensor need(std::string_view key) const;
  // The same of this shape, and no other number of elements.
  ValueId weight(std::string_view key, const Shape& shape) const;
  // A dimension of a value from 1, or from the end; where `samples` (the number of dimensions that
  // a sample has) says that the value holds a batch before it, one further.
  std::int64_t axis(std::string_view key, double otherwise, std::string_view samples = "") const;
  // An extent that has to be known.
  std::int64_t extent(ValueId v, std::int64_t axis) const;
};

struct ModuleRow {
  std::string_view name;
  Values (*translate)(const Module& m);
  bool tables = false;  // whether tables within tables may go in
};
// Part i, from 0, of a container; nullptr where it has none.
const T7Object* part_of(const T7Object& container, std::size_t i);
// Extents in a storage or a table; none where there is neither.
Ints sizes_in(const T7Object* held);
// Whole numbers that count from 1, as i64 from 0.
Tensor to_zero_based(const Tensor& numbers);

// Gives the module in a WeightNorm its weights, which are not stored. Many may share what they are
// computed from: no more than `room` bytes, which shrink, are made.
void restore_weights(T7Object& weight_norm, std::size_t& room);

std::span<const ModuleRow> layer_rows();
std::span<const ModuleRow> container_rows();
std::span<const ModuleRow> norm_rows();
std::span<const ModuleRow> table_rows();
std::span<const ModuleRow> move_rows();
std::span<const ModuleRow> window_rows();

}  // namespace etalon::torch7
