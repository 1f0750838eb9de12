// One layer of an ncnn network, and the file its weights follow one another in.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/containers/bytes.h"
#include "importers/formats/translate.h"

namespace etalon::ncnn {

// Weights lie in the sequence of the layers, without names or lengths.
class Weights {
 public:
  explicit Weights(const Blob& file) : file_(file) {}
  // Behind a tag of 4 bytes that says how they are kept; as f32.
  Tensor tagged(std::int64_t count, const Shape& shape);
  Tensor tagged_codes(std::int64_t count, const Shape& shape);  // i8 stays i8
  Tensor plain(std::int64_t count);                             // f32 as they lie
  std::size_t left() const { return file_.bytes.size() - at_; }
  bool widened = false;  // some were f16 or a table

 private:
  std::span<const std::byte> take(std::size_t bytes);
  const Blob& file_;
  std::size_t at_ = 0;
};

struct Layer {
  GraphBuilder& g;
  std::string type, name;
  std::map<int, std::vector<double>> params;
  std::set<int> written_as_integers = {};
  std::vector<ValueId> inputs;
  std::size_t outputs = 1;
  std::set<int>* read = nullptr;  // what the translation looked at

  // A setting that nobody looked at and that is not 0 may change the layer: a bad-input Error.
  void refuse_overlooked() const;
  const std::vector<double>* find(int id) const;
  std::int64_t integer(int id, std::int64_t otherwise) const;
  float number(int id, float otherwise) const;
  Ints integers(int id) const;
  std::vector<float> numbers(int id) const;
  ValueId input(std::size_t i = 0) const;
  // An axis of a sample, which has no batch.
  std::int64_t axis(std::int64_t a) const;
};

// A layer type and what becomes of it.
struct LayerRow {
  std::string_view type;
  ValueId (*make)(const Layer& layer, Weights& weights);
};
std::span<const LayerRow> arithmetic_rows();
std::span<const LayerRow> arrangement_rows();
std::span<const LayerRow> convolution_rows();
std::span<const LayerRow> detection_rows();
std::span<const LayerRow> product_rows();
std::span<const LayerRow> region_rows();
std::span<const LayerRow> sampling_rows();
std::span<const LayerRow> signal_rows();

// A window of two axes, its dilations, strides and pads.
struct WindowTaps {
  std::int64_t kw, kh, dw, dh, sw, sh, left, right, top, bottom;
};
WindowTaps window_taps(const Layer& layer);
// By the settings of a kind of activation and its numbers.
ValueId activated(const Layer& layer, ValueId y, int kind_id, int params_id);

std::vector<ValueId> translate(const Layer& layer, Weights& weights);
// The operands of an operation with 1s for the axes that one of them lacks.
std::pair<ValueId, ValueId> of_one_rank(const Layer& layer, ValueId a, ValueId b);
ValueId crop(const Layer& layer);
// Those with weights; kAbsent where the type is none of them.
ValueId translate_weighted(const Layer& layer, Weights& weights);

}  // namespace etalon::ncnn
