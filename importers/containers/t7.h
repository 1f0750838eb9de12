// Torch7's serialised objects (.t7), binary with 64- or 32-bit longs and ascii, as data: nothing is
// ever called; a function is an opaque value.
//
// A value is an i32 type (0 nil, 1 number, 2 string, 3 table, 4 object, 5 boolean, 6 to 8
// functions) and its content. Tables, objects and functions carry an index: one that was seen
// before is the same thing, so values may be shared and refer to themselves. An object is a version
// ("V 1"), a class name and content; tensors are rank, extents, strides, offset (from 1), storage.
// Source: torch7's File.lua and Tensor.c, as its documentation of serialisation describes them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "importers/containers/bytes.h"

namespace etalon {

struct T7Object;

struct T7Value {
  enum class Kind { nil, number, text, boolean, object, function };
  Kind kind = Kind::nil;
  double number = 0;  // of a boolean 0 or 1
  std::string text;
  std::shared_ptr<T7Object> object;  // a table, an object of some class, a tensor
};

// Objects live as long as the file's T7File does.
struct T7Object {
  std::string type;  // "table", "nn.Linear", "torch.FloatTensor"
  std::vector<std::pair<T7Value, T7Value>> entries;
  Tensor tensor;  // of a tensor; of a storage all of it

  const T7Value* find(std::string_view key) const;
  const T7Object* find_object(std::string_view key) const;
  double number(std::string_view key, double otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::vector<const T7Value*> list() const;  // elements 1, 2, ... of a table
};

struct T7File {
  T7Value root;
  std::vector<std::shared_ptr<T7Object>> objects;  // keeps cycles together; torn apart at the end
  ~T7File();
  T7File() = default;
  T7File(T7File&&) = default;
  T7File(const T7File&) = delete;
  T7File& operator=(const T7File&) = delete;
};

T7File read_t7(const Blob& file);
bool looks_like_t7(std::span<const std::byte> prefix);

}  // namespace etalon
