#include "importers/formats/tf/checkpoint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
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

// Where a slice of a partitioned variable lies in it.
struct Slice {
  Ints begin, extent;
};

// Extents of [] are the whole variable's.
Slice slice_of(const PbMessage& m, const Shape& whole) {
  const auto extents = m.messages("extent");
  if (static_cast<int>(extents.size()) != whole.rank())
    throw bad_input("a slice of rank {} of {}", extents.size(), to_string(whole));
  Slice s;
  for (int a = 0; a < whole.rank(); ++a) {
    const PbMessage& e = extents[static_cast<std::size_t>(a)];
    const bool part = e.has("length");
    const std::int64_t begin = part ? e.integer("start") : 0,
                       extent = part ? e.integer("length") : whole[a];
    if (begin < 0 || extent < 0 || begin > whole[a] || extent > whole[a] - begin)
      throw bad_input("a slice of {} from {} of {}", extent, begin, whole[a]);
    s.begin.push_back(begin);
    s.extent.push_back(extent);
  }
  return s;
}

// Slices of one variable, put together as they come.
class Whole {
 public:
  Whole(DType dtype, const Shape& shape) : type_{dtype, shape} {}
  void add(const Slice& slice, const Tensor& part) {
    if (part.dtype() != type_.dtype || part.shape() != Shape(slice.extent))
      throw bad_input("a slice {} holds {}", to_string(Shape(slice.extent)),
                      to_string(part.type()));
    parts_.push_back({slice, part.share()});
  }
  // Slices that overlap leave elements out, for their count has to be that of the variable.
  Tensor made() const {
    std::int64_t elements = 0;
    for (const auto& [slice, part] : parts_) elements += part.numel();
    if (elements != type_.shape.numel())
      throw bad_input("slices of {} elements for {}", elements, to_string(type_));
    Tensor out = Tensor::zeros(type_.dtype, type_.shape);
    const auto size = static_cast<std::size_t>(size_bytes(type_.dtype));
    const auto strides = strides_of(type_.shape);
    const int rank = type_.shape.rank();
    for (const auto& [slice, part] : parts_) {
      if (part.numel() == 0) continue;
      const auto row = static_cast<std::size_t>(rank == 0 ? 1 : slice.extent.back());
      Ints at(static_cast<std::size_t>(rank), 0);
      const std::byte* from = part.bytes().data();
      for (std::size_t done = 0; done < static_cast<std::size_t>(part.numel()); done += row) {
        std::int64_t to = 0;
        for (std::size_t a = 0; a < at.size(); ++a) to += (slice.begin[a] + at[a]) * strides[a];
        std::memcpy(out.mutable_bytes().data() + static_cast<std::size_t>(to) * size,
                    from + done * size, row * size);
        for (std::size_t a = at.size(); a-- > 1;) {
          if (++at[a - 1] < slice.extent[a - 1]) break;
          at[a - 1] = 0;
        }
      }
    }
    return out;
  }

 private:
  TensorType type_;
  std::vector<std::pair<Slice, Tensor>> parts_;
};

// The key under which a bundle keeps a slice: 0, the name, the rank, then begins and lengths (-1
// where whole), in a form whose bytes sort as the numbers do. Source: TensorFlow's ordered codes.
std::string slice_key(const std::string& name, const PbMessage& slice) {
  std::string key(1, '\0');
  for (const char c : name) {
    key += c;
    if (c == '\0') key += '\xff';
    if (c == '\xff') key += '\0';
  }
  key += std::string("\0\1", 2);
  const auto extents = slice.messages("extent");
  if (!extents.empty()) key += '\1';
  key += static_cast<char>(extents.size());
  const auto add = [&](std::int64_t v) {
    const auto magnitude = static_cast<std::uint64_t>(v < 0 ? ~v : v);
    const int length = static_cast<int>(std::bit_width(magnitude)) / 7 + 1;
    std::array<unsigned char, 10> buffer{};
    for (std::size_t i = 0; i < 10; ++i)
      buffer[9 - i] = i < 8 ? static_cast<unsigned char>(static_cast<std::uint64_t>(v) >> (8 * i))
                            : static_cast<unsigned char>(v < 0 ? 0xff : 0);
    // As many ones in front as there are bytes.
    for (int bit = 0; bit < length; ++bit)
      buffer[static_cast<std::size_t>(10 - length + bit / 8)] ^=
          static_cast<unsigned char>(0x80 >> bit % 8);
    key.append(reinterpret_cast<const char*>(buffer.data()) + (10 - length),
               static_cast<std::size_t>(length));
  };
  for (const PbMessage& e : extents) {
    add(e.has("length") ? e.integer("start") : 0);
    add(e.has("length") ? e.integer("length") : -1);
  }
  return key;
}

// Elements of the other byte order.
Tensor turned(const Tensor& t) {
  Tensor out = Tensor::uninitialized(t.dtype(), t.shape());
  const auto size = static_cast<std::size_t>(size_bytes(t.dtype()));
  for (std::size_t i = 0; i < t.size_bytes(); ++i)
    out.mutable_bytes()[i] = t.bytes()[i - i % size + size - 1 - i % size];
  return out;
}

TensorList read_bundle(const std::string& path, const std::vector<TableEntry>& entries) {
  const std::string prefix = path.ends_with(".index") ? path.substr(0, path.size() - 6) : path;
  const PbMessage header =
      PbMessage::from_wire(schema().type("BundleHeaderProto"), entries[0].value);
  const std::int64_t shards = header.integer("num_shards", 1);
  const bool big_endian = header.integer("endianness") == 1;
  if (shards < 1 || shards > 1 << 16) throw bad_input("{} shards", shards);
  std::map<std::int64_t, Blob> files;
  const auto read = [&](const PbMessage& e, const Shape& shape) {
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
    Tensor t = tensor_from_bytes({dtype_of_number(e.integer("dtype")), shape},
                                 {bytes.subspan(offset, size), file->second.keeper});
    return big_endian ? turned(t) : std::move(t);
  };
  TensorList tensors;
  std::map<std::string, PbMessage> slices;  // of partitioned variables, by key
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const std::string& key = entries[i].key;
    const ErrorScope where(fmt::format("tensor {}", printable(key)));
    const PbMessage e = PbMessage::from_wire(schema().type("BundleEntryProto"), entries[i].value);
    if (e.integer("dtype") == kString) continue;  // the object graph, and other texts
    if (key.starts_with('\0')) {
      slices.emplace(key, e);
      continue;
    }
    const Shape shape = shape_of(e.message("shape"));
    if (!e.has("slices")) {
      tensors.push_back({key, read(e, shape)});
      continue;
    }
    Whole whole(dtype_of_number(e.integer("dtype")), shape);
    for (const PbMessage& m : e.messages("slices")) {
      const auto part = slices.find(slice_key(key, m));
      if (part == slices.end()) throw bad_input("one of its slices is missing");
      const Slice slice = slice_of(m, shape);
      whole.add(slice, read(part->second, Shape(slice.extent)));
      slices.erase(part);  // named again, it would give more than the file holds
    }
    tensors.push_back({key, whole.made()});
  }
  return tensors;
}

// Values of a slice, whose message may leave its type to the variable's.
Tensor whole_values(const PbMessage& values, DType dtype, std::size_t& fill_budget) {
  if (values.integer("dtype") != 0) return tensor_of(values, fill_budget);
  const bool halves = dtype == DType::f16 || dtype == DType::bf16;
  const char* field = dtype == DType::i64       ? "int64_val"
                      : dtype == DType::boolean ? "bool_val"
                      : dtype == DType::u32     ? "uint32_val"
                      : dtype == DType::u64     ? "uint64_val"
                      : halves                  ? "half_val"
                                                : "int_val";
  const Ints all = values.integers(field);
  Tensor t = Tensor::uninitialized(dtype, {static_cast<std::int64_t>(all.size())});
  visit_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    auto data = t.mutable_data<T>();
    for (std::size_t i = 0; i < data.size(); ++i) {
      if constexpr (std::is_same_v<T, Bool>)
        data[i].value = all[i] != 0 ? 1 : 0;
      else if constexpr (std::is_arithmetic_v<T>)
        data[i] = static_cast<T>(all[i]);
      else
        data[i].bits = static_cast<std::uint16_t>(all[i]);
    }
  });
  return t;
}

TensorList read_v1(const std::vector<TableEntry>& entries, std::size_t fill_budget) {
  TensorList tensors;
  std::map<std::string, TensorType> types;
  std::map<std::string, Whole> wholes;  // partitioned variables
  for (const TableEntry& entry : entries) {
    const PbMessage m = PbMessage::from_wire(schema().type("SavedTensorSlices"), entry.value);
    for (const PbMessage& t : m.message("meta").messages("tensor"))
      if (t.integer("type") != kString)
        types.try_emplace(t.text("name"), TensorType{dtype_of_number(t.integer("type")),
                                                     shape_of(t.message("shape"))});
    if (!m.has("data")) continue;
    const PbMessage data = m.message("data");
    const std::string name = data.text("name");
    const ErrorScope where(fmt::format("tensor {}", printable(name)));
    const auto type = types.find(name);
    if (type == types.end()) continue;
    const Shape& shape = type->second.shape;
    // The slice's own message carries no shape: the elements are the slice's, in order.
    const PbMessage extents = data.message("slice");
    const bool partial = std::ranges::any_of(extents.messages("extent"),
                                             [](const PbMessage& e) { return e.has("length"); });
    const Slice slice = partial ? slice_of(extents, shape) : Slice{};
    const Shape part = partial ? Shape(slice.extent) : shape;
    const PbMessage values = data.message("data");
    Tensor t;
    if (values.has("float_val"))
      t = values.tensor("float_val");
    else if (values.has("double_val"))
      t = values.tensor("double_val");
    else
      t = whole_values(values, type->second.dtype, fill_budget);
    if (t.numel() != part.numel())
      throw bad_input("holds {} elements for {}", t.numel(), to_string(part));
    if (partial)
      wholes.try_emplace(name, t.dtype(), shape).first->second.add(slice, t.reshaped(part));
    else
      tensors.push_back({name, t.reshaped(part)});
  }
  for (const auto& [name, whole] : wholes) {
    const ErrorScope where(fmt::format("tensor {}", printable(name)));
    tensors.push_back({name, whole.made()});
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
