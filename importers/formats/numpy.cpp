// NumPy's files: .npy holds one array, .npz is a zip of them, each member named "<name>.npy".
// An array of objects (a pickle, read as data) gives the arrays in it; a member of which none is an
// array, such as the None that Chainer keeps, gives nothing.
// Written .npz members are stored and aligned, so that they are read in place.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/containers/npy.h"
#include "importers/containers/zip.h"
#include "importers/formats/pickled_arrays.h"
#include "importers/formats/tensors.h"

namespace etalon {
namespace {

// An array of numbers, or those that stand in an array of objects, under `name`.
void read_arrays(const Blob& blob, const std::string& name, TensorList& to) {
  const Blob objects = npy_pickle(blob);
  if (objects.bytes.empty()) {
    to.push_back({name, read_npy(blob)});
    return;
  }
  for (NamedTensor& t : pickled_arrays(std::make_shared<const Pickle>(objects)).arrays) {
    const bool both = !name.empty() && !t.name.empty();
    to.push_back({name + (both ? "." : "") + t.name, std::move(t.tensor)});
  }
}

TensorList load_npy(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  TensorList tensors;
  read_arrays(file, "", tensors);
  if (tensors.empty())
    throw bad_input("an array of Python objects, none of which is an array of numbers");
  return tensors;
}

void store_npy(const TensorList& tensors, const std::string& path) {
  if (tensors.size() != 1)
    throw usage_error("{}: an npy file holds one array, got {}; use .npz or .safetensors", path,
                      tensors.size());
  const Tensor& t = tensors[0].tensor;
  const std::string header = npy_header(t.type());
  FileWriter out(path);
  out.write(header);
  out.write(t.bytes());
  out.commit();
}

TensorList load_npz(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const ZipReader zip(file);
  TensorList tensors;
  tensors.reserve(zip.members().size());
  for (const ZipMember& m : zip.members()) {
    const ErrorScope member(fmt::format("member {}", printable(m.name)));
    if (!m.name.ends_with(".npy")) throw bad_input("not an array; an npz holds .npy members");
    read_arrays(zip.read(m), m.name.substr(0, m.name.size() - 4), tensors);
  }
  // Arrays without names (Lasagne's values) are a list: arr_2 comes before arr_10, whatever the
  // order in the zip.
  const auto unnamed = [](const NamedTensor& t) {
    return t.name.starts_with("arr_") && t.name.size() > 4 && t.name.size() < 12 &&
           t.name.find_first_not_of("0123456789", 4) == std::string::npos;
  };
  if (std::ranges::all_of(tensors, unnamed))
    std::ranges::sort(tensors, {},
                      [](const NamedTensor& t) { return std::stol(t.name.substr(4)); });
  return tensors;
}

void store_npz(const TensorList& tensors, const std::string& path) {
  FileWriter out(path);
  ZipWriter zip(out);
  for (const NamedTensor& t : tensors) {
    const std::string header = npy_header(t.tensor.type());
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(header)), t.tensor.bytes()};
    zip.add((t.name.empty() ? "arr_0" : t.name) + ".npy", parts);
  }
  zip.finish();
  out.commit();
}

bool match_npy(const FileView& file) {
  return !file.is_folder && (is_npy(file.prefix) || has_ending(file.path, ".npy"));
}
// A zip alone says nothing (.keras, .pt and .mlpackage are zips too): the first member's name does.
bool match_npz(const FileView& file) {
  if (has_ending(file.path, ".npz")) return !file.is_folder;
  return first_zip_member(file.prefix).ends_with(".npy");
}

}  // namespace

const FormatRow& npy_format() {
  static const FormatRow row{.name = "npy",
                             .endings = ".npy",
                             .summary = "One NumPy array.",
                             .match = match_npy,
                             .load = load_npy,
                             .store = store_npy};
  return row;
}

const FormatRow& npz_format() {
  static const FormatRow row{.name = "npz",
                             .endings = ".npz",
                             .summary = "A zip of NumPy arrays.",
                             .match = match_npz,
                             .load = load_npz,
                             .store = store_npz};
  return row;
}

}  // namespace etalon
