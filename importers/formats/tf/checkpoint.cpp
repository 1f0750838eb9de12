#include "importers/formats/tf/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "engine/core/error.h"
#include "importers/containers/sstable.h"
#include "importers/formats/tf/schema.h"

namespace etalon::tf {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kString = 7;

bool is_checkpoint_file(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed) || fs::file_size(path, failed) < 48) return false;
  const Blob file = map_file(path.string());
  return is_sstable(file.bytes.last(8));
}

TensorList read_bundle(const std::string& path, const std::vector<TableEntry>& entries) {
  const std::string prefix = path.ends_with(".index") ? path.substr(0, path.size() - 6) : path;
  const PbMessage header =
      PbMessage::from_wire(schema().type("BundleHeaderProto"), entries[0].value);
  const std::int64_t shards = header.integer("num_shards", 1);
  if (header.integer("endianness") != 0)
    throw bad_input("a big-endian checkpoint is not supported");
  if (shards < 1 || shards > 1 << 16) throw bad_input("{} shards", shards);
  std::map<std::int64_t, Blob> files;
  TensorList tensors;
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const ErrorScope where(fmt::format("tensor {}", printable(entries[i].key)));
    const PbMessage e = PbMessage::from_wire(schema().type("BundleEntryProto"), entries[i].value);
    if (e.integer("dtype") == kString) continue;  // the object graph, and other texts
    if (e.has("slices"))
      throw bad_input("a variable in slices (a partitioned one) is not supported; save it whole");
    const std::int64_t shard = e.integer("shard_id");
    if (shard < 0 || shard >= shards) throw bad_input("shard {} of {}", shard, shards);
    auto [file, is_new] = files.try_emplace(shard);
    if (is_new)
      file->second = map_file(fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, shards));
    const auto size = static_cast<std::uint64_t>(e.integer("size")),
               offset = static_cast<std::uint64_t>(e.integer("offset"));
    const auto bytes = file->second.bytes;
    if (offset > bytes.size() || size > bytes.size() - offset)
      throw bad_input("claims bytes {} to {} of its shard, which has {}; it is cut short", offset,
                      offset + size, bytes.size());
    tensors.push_back(
        {entries[i].key,
         tensor_from_bytes({dtype_of_number(e.integer("dtype")), shape_of(e.message("shape"))},
                           {bytes.subspan(offset, size), file->second.keeper})});
  }
  return tensors;
}

TensorList read_v1(const std::vector<TableEntry>& entries, std::size_t fill_budget) {
  TensorList tensors;
  std::map<std::string, Shape> shapes;
  for (const TableEntry& entry : entries) {
    const PbMessage m = PbMessage::from_wire(schema().type("SavedTensorSlices"), entry.value);
    for (const PbMessage& t : m.message("meta").messages("tensor"))
      if (t.integer("type") != kString)
        shapes.emplace(t.text("name"), shape_of(t.message("shape")));
    if (!m.has("data")) continue;
    const PbMessage data = m.message("data");
    const std::string name = data.text("name");
    const ErrorScope where(fmt::format("tensor {}", printable(name)));
    const auto shape = shapes.find(name);
    if (shape == shapes.end()) continue;
    for (const PbMessage& e : data.message("slice").messages("extent"))
      if (e.has("start") || e.has("length"))
        throw bad_input("a variable in slices (a partitioned one) is not supported; save it whole");
    // The slice's own message carries no shape: the elements are the whole variable's, in order.
    const PbMessage values = data.message("data");
    Tensor t;
    if (values.has("float_val"))
      t = values.tensor("float_val");
    else if (values.has("double_val"))
      t = values.tensor("double_val");
    else if (values.has("int64_val"))
      t = Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.integers("int64_val").size())},
                                   values.integers("int64_val"));
    else
      t = tensor_of(values, fill_budget);
    if (t.numel() != shape->second.numel())
      throw bad_input("holds {} elements for {}", t.numel(), to_string(shape->second));
    tensors.push_back({name, t.reshaped(shape->second)});
  }
  return tensors;
}

}  // namespace

TensorList read_checkpoint(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const std::vector<TableEntry> entries = read_sstable(file);
  if (entries.empty() || !entries[0].key.empty())
    throw bad_input("the table is no checkpoint: it has no header");
  // V1's first entry is a message that holds another (field 1 of type 2), a bundle's a number.
  const auto head = peek_fields(entries[0].value.bytes, 1);
  if (!head.empty() && head[0].wire == 2 && head[0].number == 1)
    return read_v1(entries, file.bytes.size() * 16 + (1 << 16));
  return read_bundle(path, entries);
}

std::string find_checkpoint(const std::string& path) {
  if (fs::is_directory(path)) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".index" && is_checkpoint_file(entry.path()))
        found.push_back(entry.path());
    std::ranges::sort(found);
    if (found.size() > 1)
      throw bad_input("{}: {} checkpoints lie in it; name one .index", path, found.size());
    return found.empty() ? "" : found[0].string();
  }
  std::string prefix = path;
  if (const std::size_t data = path.rfind(".data-"); data != std::string::npos)
    prefix = path.substr(0, data);
  for (const std::string_view ending : {".index", ".meta"})
    if (prefix.ends_with(ending)) prefix = prefix.substr(0, prefix.size() - ending.size());
  for (const std::string& file : {prefix + ".index", prefix + "-00000-of-00001", prefix, path})
    if (is_checkpoint_file(file)) return file;
  return "";
}

}  // namespace etalon::tf
