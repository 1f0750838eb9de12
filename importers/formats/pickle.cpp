// Pickles of NumPy arrays: Theano's parameter lists, layers and shared variables, Lasagne's values,
// and theano.misc.pkl_utils' zip files (arrays as members without an ending, and a pickle).
//
// Names are paths (pickled_arrays.h). Python 2's texts are bytes. Everything else in the pickle
// (graphs, functions) is passed over: a network in it is Python code, which is not in the file;
// --arch says what the weights belong to. Theano stores convolution kernels for true convolution,
// that is flipped: that is the graph's affair (a note says so where the file is known to be
// Theano's).
#include "engine/core/error.h"
#include "importers/containers/npy.h"
#include "importers/containers/zip.h"
#include "importers/formats/neon.h"
#include "importers/formats/pickled_arrays.h"
#include "importers/formats/tensors.h"

namespace etalon {
namespace {

constexpr const char* kFlipped =
    "Theano's convolution flips its kernels: weights of such layers are stored for that and are "
    "read as stored; --arch turns them.";

Model open(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const auto pickle = std::make_shared<const Pickle>(file);
  if (is_neon(*pickle)) return open_neon(pickle, path);
  Model model;
  model.path = path;
  model.format = "pickle";
  PickledArrays found = pickled_arrays(pickle);
  for (NamedTensor& t : found.arrays)
    model.graph->initializers.emplace(model.graph->add_value(t.name.empty() ? "arr_0" : t.name),
                                      std::move(t.tensor));
  if (found.theano) {
    model.producer = "theano";
    model.notes.emplace_back(kFlipped);
  }
  if (model.graph->initializers.empty())
    throw bad_input("the pickle holds no array of numbers; nothing in it is a weight");
  return model;
}

bool match(const FileView& file) { return is_pickle(file.prefix) || has_ending(file.path, ".pkl"); }

Model open_theano_zip(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const ZipReader zip(file);
  Model model;
  model.path = path;
  model.format = "theano-zip";
  for (const ZipMember& m : zip.members()) {
    const ErrorScope member(fmt::format("member {}", printable(m.name)));
    const Blob bytes = zip.view(m);
    if (is_npy(bytes.bytes.first(std::min<std::size_t>(bytes.bytes.size(), 16))))
      model.graph->initializers.emplace(model.graph->add_value(m.name), read_npy(bytes));
  }
  model.notes.emplace_back(kFlipped);
  return model;
}

bool match_theano_zip(const FileView& file) {
  if (!is_zip(file.prefix) || first_zip_member(file.prefix).ends_with(".npy")) return false;
  try {
    const ZipReader zip(map_file(file.path));
    return zip.find("pkl") != nullptr;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

const FormatRow& pickle_format() {
  static const FormatRow row{.name = "pickle",
                             .endings = ".pkl .p .prm",
                             .summary = "Pickled NumPy arrays: Theano, Lasagne; Neon's models.",
                             .match = match,
                             .open = open};
  return row;
}

const FormatRow& theano_zip_format() {
  static const FormatRow row{.name = "theano-zip",
                             .endings = ".zip",
                             .summary = "Arrays of theano.misc.pkl_utils.dump.",
                             .match = match_theano_zip,
                             .open = open_theano_zip};
  return row;
}

}  // namespace etalon
