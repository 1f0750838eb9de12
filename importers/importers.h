// Files in, Model or tensors out; and back. One row per file format (formats.cpp).
//
// What a file claims is checked before memory is taken: nothing here allocates beyond a constant
// factor of the file's size. Every fault is a bad-input Error of one sentence that begins with the
// path and names the tensor, node or byte offset.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/graph/graph.h"

namespace etalon {

struct NamedTensor {
  std::string name;  // "" for the one array of a .npy
  Tensor tensor;
};
using TensorList = std::vector<NamedTensor>;  // in the order of the file

// What a format may look at to recognise a model: no more than the first kPrefixBytes of a file,
// its name, and what lies beside it; a model that is a folder (SavedModel, .mlpackage) has no
// prefix.
struct FileView {
  std::string path;
  std::span<const std::byte> prefix;
  bool is_folder = false;

  std::string_view text() const {
    return {reinterpret_cast<const char*>(prefix.data()), prefix.size()};
  }
};

// A format that holds networks has open and save, one that holds tensors only has load and store
// (and open where there is more to say of it); nullptr where a direction does not exist.
// What was written, the file that was asked for first, and what it does not say as the model did:
// one sentence each.
struct Saved {
  std::vector<std::string> files;
  std::vector<std::string> notes;
};

struct FormatRow {
  std::string_view name;     // "onnx"
  std::string_view endings;  // ".onnx .pb"; the first is the usual one
  std::string_view summary;  // one sentence
  bool (*match)(const FileView& file) = nullptr;
  // `with`: further files of the model; what is not given is looked for beside `path`, under the
  // same stem (companion.h).
  Model (*open)(const std::string& path, std::span<const std::string> with) = nullptr;
  // Whether `open` has a use for `with`.
  bool takes_more = false;
  Saved (*save)(const Model& model, const std::string& path) = nullptr;
  TensorList (*load)(const std::string& path) = nullptr;
  void (*store)(const TensorList& tensors, const std::string& path) = nullptr;
};
inline constexpr std::size_t kPrefixBytes = 4096;

std::span<const FormatRow> formats();
// The row that recognises the file or folder; a bad-input Error that lists the formats when none
// does.
const FormatRow& format_of(const std::string& path);

// A file of tensors only comes back as a graph of initializers without nodes. `with` names further
// files of the same model (weights beside a graph). "model:NAME" is a network of engine/models.
Model open_model(const std::string& path, std::span<const std::string> with = {});
// The tensors of a file; of a network, its weights.
TensorList load_tensors(const std::string& path);

// The format is chosen by the ending of `path`; a usage Error lists the endings otherwise. Formats
// of tensors receive a model's weights.
Saved save_model(const Model& model, const std::string& path);
void save_tensors(const TensorList& tensors, const std::string& path);
// Said before the work whose result is to be saved: throws where the ending names no format that
// can be written (with `tensors`: one that holds tensors without a network), or the place is none.
void check_saving(const std::string& path, bool tensors);

}  // namespace etalon
