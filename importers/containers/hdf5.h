// HDF5 as frameworks write it: an own reader of a subset, since what it reads is not to be trusted.
//
// Superblock 0 to 3; object headers 1 and 2; groups of symbol tables (old) and of links, in the
// header or in a fractal heap (new, "dense"); datasets compact, contiguous and chunked (B-tree 1,
// and the single, implicit, fixed array and B-tree 2 indexes), filters deflate, shuffle and
// fletcher32; fixed-point, floating, string, enumeration and variable-length string elements;
// attributes in the header or dense. Soft links inside the file are followed. Refused by name:
// extensible arrays, other filters, compound, reference and array elements, external storage, files
// of several pieces.
//
// Nothing is allocated that the file cannot justify: chunks of a dataset lie within the file, do
// not stand twice and deflate by at most 1032; a dataset larger than its chunks (fill values) may
// be as large as kMaxExpansion times the file; depth of groups and heaps is bounded, a group is
// visited once. Source: HDF5 File Format Specification 3.0 (The HDF Group).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/ops/params.h"
#include "importers/containers/bytes.h"

namespace etalon {

struct Hdf5Type {
  enum class Kind { fixed, floating, string, variable_string, other };
  Kind kind = Kind::other;
  std::uint32_t size = 0;
  bool big_endian = false, is_signed = false, is_bool = false;
  std::string refusal;  // of `other`: what it is
};

// An attribute or a dataset of texts or numbers, as values.
struct Hdf5Value {
  Hdf5Type type;
  Ints dims;  // empty: a scalar
  std::vector<std::string> texts;
  std::shared_ptr<const Tensor> numbers;  // nullptr for texts
};

class Hdf5File;

struct Hdf5Object {
  std::string name;  // its path, "/" for the root
  bool is_group = false;
  std::map<std::string, Hdf5Value, std::less<>> attributes;
  // In the order of creation where the file keeps it, else by name.
  std::vector<std::pair<std::string, std::uint64_t>> children;  // of a group: name, address
  Hdf5Type type;                                                // of a dataset
  Ints dims;
  std::uint64_t address = 0;

  const Hdf5Value* attribute(std::string_view attribute_name) const;
};

class Hdf5File {
 public:
  explicit Hdf5File(Blob file);
  ~Hdf5File();
  Hdf5Object root() const;
  // A bad-input Error names the path when there is no such object.
  Hdf5Object child(const Hdf5Object& group, std::string_view name) const;
  std::optional<Hdf5Object> find(const Hdf5Object& group, std::string_view path) const;
  // The elements of a dataset, in place where they lie in one piece.
  Tensor read(const Hdf5Object& dataset) const;
  // All datasets below a group, by path without the leading slash; texts are left out.
  std::vector<std::pair<std::string, Hdf5Object>> datasets(const Hdf5Object& group) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

bool is_hdf5(std::span<const std::byte> prefix);

}  // namespace etalon
