// The two files of Darknet: a .cfg of sections in sequence, and a .weights of f32 in the same
// sequence behind three i32 of version and a counter (i64 from 0.2 on).
#pragma once

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/ops/fields.h"
#include "importers/containers/bytes.h"
#include "importers/importers.h"

namespace etalon::darknet {

struct Section {
  std::string type;
  std::map<std::string, std::string, std::less<>> options;

  mutable std::set<std::string, std::less<>> read;  // by a translation

  std::string text(std::string_view key, std::string_view otherwise) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  float number(std::string_view key, float otherwise) const;
  Ints integers(std::string_view key) const;
  bool has(std::string_view key) const { return options.find(key) != options.end(); }
  // An option that has a translation for this value alone.
  void ordinary(std::string_view key, std::int64_t value) const;
};
std::vector<Section> sections_of(std::string_view text);

class Weights {
 public:
  explicit Weights(const Blob& file);
  Tensor take(const Shape& shape);
  std::size_t left() const { return file_.bytes.size() - at_; }
  bool transposed = false;  // of connected sections
  bool fork = false;        // written by AlexeyAB's fork of Darknet
  std::string version;

 private:
  const Blob& file_;
  std::size_t at_ = 0;
};

}  // namespace etalon::darknet
