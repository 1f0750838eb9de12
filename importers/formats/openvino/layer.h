// One layer of OpenVINO's representation as its translator sees it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "importers/formats/translate.h"

namespace etalon::openvino {

// What the file says of a value: extents of -1 are free.
struct Said {
  std::optional<DType> dtype;
  Ints dims;
};

struct Layer {
  GraphBuilder& g;
  std::string type, name, version;  // "Convolution", "conv1", "opset1"
  std::map<std::string, std::string, std::less<>> data;
  std::vector<ValueId> inputs;
  std::size_t outputs = 1;
  std::vector<Said> said;  // of the inputs
  // Settings that a translation has looked at; shared with copies of the layer.
  std::shared_ptr<std::set<std::string, std::less<>>> read =
      std::make_shared<std::set<std::string, std::less<>>>();

  bool has(std::size_t i) const { return i < inputs.size(); }
  ValueId input(std::size_t i) const;  // a bad-input Error where it is not there
  // An input's type as it is inferred; where that hangs on the run, as the file says.
  DType dtype(std::size_t i) const;
  int rank(std::size_t i) const;
  Ints dims(std::size_t i) const;                      // -1 where free
  std::int64_t extent(std::size_t i, int axis) const;  // a bad-input Error where it is free
  // An input of integers as i64.
  ValueId integers_of(std::size_t i) const;
  // The elements of an input that is a constant, or hangs on known extents alone.
  bool known(std::size_t i) const;
  Ints constant(std::size_t i) const;
  float constant_number(std::size_t i) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  Ints integers(std::string_view key, Ints otherwise = {}) const;  // "1, 2"
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  float number(std::string_view key, float otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;

 private:
  const Tensor* elements(std::size_t i) const;
  const std::string* find(std::string_view key) const;
};

DType dtype_named(const std::string& name);
std::vector<std::int64_t> parse_integers(std::string_view text);

// The values of its outputs. A setting that no translation looks at is refused by its name.
std::vector<ValueId> translate(const Layer& layer);
// Windows, norms and recurrent cells; empty where the type is none of them.
std::vector<ValueId> translate_window(const Layer& layer);
std::vector<ValueId> translate_recurrent(const Layer& layer);
// Slices, paddings and splits, whose bounds may hang on the run; images in other extents.
std::vector<ValueId> translate_part(const Layer& layer);
std::vector<ValueId> translate_resize(const Layer& layer);
// What chooses, looks up and puts in place; blocks, regions and patches of images.
std::vector<ValueId> translate_selection(const Layer& layer);
std::vector<ValueId> translate_image(const Layer& layer);
// Boxes: priors, what detectors keep, regions of an image.
std::vector<ValueId> translate_boxes(const Layer& layer);
std::vector<ValueId> translate_regions(const Layer& layer);
// Fourier transforms.
std::vector<ValueId> translate_spectrum(const Layer& layer);

}  // namespace etalon::openvino
