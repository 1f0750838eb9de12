#include "importers/formats/pytorch/tensors.h"

#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "importers/containers/pickle_arrays.h"

namespace etalon::pytorch_format {
namespace {

constexpr std::pair<std::string_view, StorageType> kStorages[] = {
    {"FloatStorage", {DType::f32}},  {"DoubleStorage", {DType::f64}},
    {"HalfStorage", {DType::f16}},   {"BFloat16Storage", {DType::bf16}},
    {"LongStorage", {DType::i64}},   {"IntStorage", {DType::i32}},
    {"ShortStorage", {DType::i16}},  {"CharStorage", {DType::i8}},
    {"ByteStorage", {DType::u8}},    {"BoolStorage", {DType::boolean}},
    {"QInt8Storage", {DType::i8}},   {"QUInt8Storage", {DType::u8}},
    {"QInt32Storage", {DType::i32}}, {"ComplexFloatStorage", {DType::f32, true}},
    {"UntypedStorage", {DType::u8}}, {"ComplexDoubleStorage", {DType::f64, true}},
    {"UInt16Storage", {DType::u16}}, {"UInt32Storage", {DType::u32}},
    {"UInt64Storage", {DType::u64}},
};
// A parameter is one wrap around a tensor, a quantised or sparse tensor one around its parts.
constexpr int kMaxWraps = 8;
// torch.save's first pickle: 0x1950a86a20f9469cfc6c in ten bytes.
constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);

std::string key_text(const PickleValue& key) {
  return key.is(PickleKind::integer) ? std::to_string(key.integer)
                                     : std::string(pickle_text(key, "a storage's key"));
}

// ("storage", type, key, location, size[, view]).
struct StorageId {
  StorageType type;
  std::string key;
  std::int64_t size = 0;
  std::int64_t view_offset = 0;  // elements into the storage that the key names
};
StorageId parse_id(const PickleValue& id) {
  if (!id.is(PickleKind::persistent) || id.args == nullptr ||
      pickle_text(pickle_item(*id.args, 0, "a storage"), "a storage") != "storage")
    throw bad_input("a tensor without a storage in the pickle; the file is damaged");
  const PickleValue& type = pickle_item(*id.args, 1, "a storage");
  StorageId s;
  s.type =
      storage_type(type.is(PickleKind::global) ? type.text : pickle_text(type, "a storage's type"));
  s.key = key_text(pickle_item(*id.args, 2, "a storage"));
  s.size = pickle_integer(pickle_item(*id.args, 4, "a storage"), "a storage's size");
  if (id.args->items.size() > 5 && id.args->items[5]->is(PickleKind::tuple))
    s.view_offset = pickle_integer(pickle_item(*id.args->items[5], 1, "a view"), "a view's offset");
  return s;
}

}  // namespace

StorageType storage_type(std::string_view name) {
  name = name.substr(name.rfind('.') + 1);
  for (const auto& [text, type] : kStorages)
    if (text == name) return type;
  throw bad_input("a {}: the engine holds no such elements; convert the tensor", printable(name));
}

Tensor strided_view(const Blob& storage, const StridedView& v, std::size_t& budget) {
  const TensorType& type = v.type;
  const auto size = v.element_bytes;
  const std::int64_t available = static_cast<std::int64_t>(storage.bytes.size() / size);
  const Ints &dims = v.dims, &strides = v.strides;
  if (dims.size() != strides.size()) throw bad_input("a tensor with unequal sizes and strides");
  std::int64_t last = v.offset, dense = 1;
  bool contiguous = true;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] < 0 || strides[i] < 0) throw bad_input("a tensor with a negative size or stride");
    contiguous = contiguous && (strides[i] == dense || dims[i] == 1);
    dense = checked_mul(dense, dims[i]);
    if (dims[i] > 0) last = checked_add(last, checked_mul(dims[i] - 1, strides[i]));
  }
  if (dense == 0) return Tensor::zeros(type.dtype, type.shape);
  if (v.offset < 0 || last >= available)
    throw bad_input("{} ends at element {} of a storage of {}; the file is cut short or damaged",
                    to_string(type), last + 1, available);
  const std::size_t wanted = claimed_bytes(type);
  if (contiguous)
    return tensor_from_bytes(
        type,
        {storage.bytes.subspan(static_cast<std::size_t>(v.offset) * size, wanted), storage.keeper});
  if (wanted > budget)
    throw bad_input("{} is spread by its strides over more memory than the file can justify",
                    to_string(type));
  budget -= wanted;
  Tensor out = Tensor::uninitialized(type.dtype, type.shape);
  std::byte* to = out.mutable_bytes().data();
  Ints index(dims.size(), 0);
  for (std::int64_t n = 0; n < dense; ++n) {
    std::int64_t from = v.offset;
    for (std::size_t i = 0; i < dims.size(); ++i) from += index[i] * strides[i];
    std::memcpy(to + static_cast<std::size_t>(n) * size,
                storage.bytes.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
  return tensor_from_bytes(type, {out.bytes(), std::make_shared<Tensor>(out.share())});
}

Tensor Storages::view(const PickleValue& id, std::int64_t offset, const Ints& dims,
                      const Ints& strides) {
  const StorageId s = parse_id(id);
  const Blob blob = storage(id, s.type);
  Ints held = dims;
  if (s.type.complex) held.push_back(2);
  return strided_view(blob,
                      {.type = {s.type.dtype, Shape(held)},
                       .element_bytes = static_cast<std::size_t>(size_bytes(s.type.dtype)) *
                                        (s.type.complex ? 2 : 1),
                       .offset = checked_add(offset, s.view_offset),
                       .dims = dims,
                       .strides = strides},
                      budget_);
}

std::optional<Tensor> Storages::tensor(const PickleValue& v, int depth) {
  if (depth > kMaxWraps)
    throw bad_input("a parameter of a parameter of {} more, or one that holds itself", kMaxWraps);
  if (!v.is(PickleKind::object) || v.args == nullptr) return std::nullopt;
  if (v.text == "torch._utils._rebuild_parameter" ||
      v.text == "torch._utils._rebuild_parameter_with_state")
    return tensor(pickle_item(*v.args, 0, "a parameter"), depth + 1);
  if (v.text == "torch._tensor._rebuild_from_type_v2") {  // a subclass: function, class, arguments
    PickleValue inner;
    inner.kind = PickleKind::object;
    inner.text = pickle_item(*v.args, 0, "a tensor's class").text;
    inner.args = &pickle_item(*v.args, 2, "a tensor's class");
    return inner.text == v.text ? std::nullopt : tensor(inner, depth + 1);
  }
  if (!v.text.starts_with("torch._utils._rebuild_tensor") &&
      v.text != "torch._utils._rebuild_qtensor") {
    // torch 0.3's Parameter, made without a call: its state holds the tensor.
    if (v.text == "torch.nn.parameter.Parameter" && v.state != nullptr && !v.state->items.empty())
      return v.state->is(PickleKind::tuple) ? tensor(*v.state->items[0], depth + 1) : std::nullopt;
    return numpy_array(v);
  }
  const auto arg = [&](std::size_t i) -> const PickleValue& {
    return pickle_item(*v.args, i, "a tensor");
  };
  return view(arg(0), pickle_integer(arg(1), "a tensor's offset"),
              pickle_ints(arg(2), "a tensor's size"), pickle_ints(arg(3), "a tensor's strides"));
}

bool Storages::append(const PickleValue& v, const std::string& name, TensorList& to, int depth) {
  if (depth > kMaxWraps) throw bad_input("tensor {} is made of itself", printable(name));
  const ErrorScope scope(fmt::format("tensor {}", printable(name)));
  const auto note = [&](std::string text) {
    if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(std::move(text));
  };
  if (v.is_object("torch._utils._rebuild_sparse_tensor")) {
    const PickleValue& parts = pickle_item(*v.args, 1, "a sparse tensor");
    append(pickle_item(parts, 0, "a sparse tensor"), name + ".indices", to, depth + 1);
    append(pickle_item(parts, 1, "a sparse tensor"), name + ".values", to, depth + 1);
    note("A sparse tensor is kept as its indices and values, NAME.indices and NAME.values.");
    return true;
  }
  std::optional<Tensor> t = tensor(v);
  if (!t) return false;
  if (v.is_object("torch._utils._rebuild_qtensor")) {
    const PickleValue& how = pickle_item(*v.args, 4, "a quantised tensor");
    const PickleValue& scheme = pickle_item(how, 0, "a quantised tensor");
    const PickleValue &scale = pickle_item(how, 1, "a quantised tensor"),
                      &zero = pickle_item(how, 2, "a quantised tensor");
    if (scheme.text.find("per_channel") != std::string_view::npos) {
      append(scale, name + ".scale", to, depth + 1);
      append(zero, name + ".zero_point", to, depth + 1);
      note(
          "A tensor quantised by channel is kept as its integers, with NAME.scale and "
          "NAME.zero_point: x = (q - zero_point) * scale.");
    } else {
      to.push_back({name + ".scale", Tensor::of<double>({}, {scale.real})});
      to.push_back({name + ".zero_point",
                    Tensor::of<std::int64_t>({}, {pickle_integer(zero, "a zero point")})});
      note(
          "A quantised tensor is kept as its integers, with NAME.scale and NAME.zero_point: x = "
          "(q - zero_point) * scale.");
    }
  }
  if (v.args != nullptr && !v.args->items.empty() && v.args->items[0]->is(PickleKind::persistent) &&
      parse_id(*v.args->items[0]).type.complex)
    note("A complex tensor has a last axis of two: real and imaginary part.");
  to.push_back({name, std::move(*t)});
  return true;
}

ZipStorages::ZipStorages(const ZipReader& zip, const std::string& folder, std::size_t file_bytes)
    : Storages(file_bytes), zip_(zip) {
  for (const ZipMember& m : zip.members())
    if (m.name.starts_with(folder)) members_.emplace(m.name.substr(folder.size()), &m);
}

Blob ZipStorages::storage(const PickleValue& id, StorageType type) {
  const StorageId s = parse_id(id);
  const auto at = members_.find(s.key);
  if (at == members_.end())
    throw bad_input("the storage '{}' is missing in the archive; fetch the file again",
                    printable(s.key));
  Blob blob = zip_.view(*at->second);
  const auto size = static_cast<std::size_t>(size_bytes(type.dtype)) * (type.complex ? 2 : 1);
  if (s.size < 0 || static_cast<std::uint64_t>(s.size) > blob.bytes.size() / size)
    throw bad_input("the storage '{}' has {} bytes and claims {} elements; the file is cut short",
                    printable(s.key), blob.bytes.size(), s.size);
  return blob;
}

bool is_legacy(std::span<const std::byte> prefix) {
  // PROTO 2, LONG1 of ten bytes.
  return prefix.size() > 14 &&
         Blob{prefix.first(15), nullptr}.text().substr(2, 12) == "\x8a\x0a" + std::string(kMagic);
}

LegacyFile::LegacyFile(const Blob& file) : Storages(file.bytes.size()) {
  auto rest = file.bytes;
  const auto next = [&](std::string_view what) {
    const ErrorScope scope{std::string(what)};
    auto p = std::make_unique<Pickle>(Blob{rest, file.keeper});
    rest = rest.subspan(p->size_bytes());
    return p;
  };
  static_cast<void>(next("magic"));
  const auto protocol = next("protocol");
  if (pickle_integer(protocol->root(), "the protocol") != 1001)
    throw bad_input("PyTorch protocol {}; 1001 is known", protocol->root().integer);
  const auto system = next("system");
  const PickleValue* little = system->root().find("little_endian");
  if (little != nullptr && little->integer == 0)
    throw bad_input("written on a big-endian machine; save it again on another");
  pickle_ = next("object");
  std::map<std::string, StorageType, std::less<>> types;
  std::map<std::string, std::int64_t, std::less<>> sizes;
  for (const PickleValue& v : pickle_->values())
    if (v.is(PickleKind::persistent) && v.args->is(PickleKind::tuple) && !v.args->items.empty() &&
        v.args->items[0]->is_text() && v.args->items[0]->text == "storage") {
      const StorageId s = parse_id(v);
      types.emplace(s.key, s.type);
    }
  const auto keys = next("storage keys");
  if (!keys->root().is(PickleKind::list)) throw bad_input("the list of storages is missing");
  for (const PickleValue* key : keys->root().items) {
    const std::string name = key_text(*key);
    const auto type = types.find(name);
    if (type == types.end())
      throw bad_input("the storage '{}' belongs to no tensor; the file is damaged",
                      printable(name));
    const auto size =
        static_cast<std::size_t>(size_bytes(type->second.dtype)) * (type->second.complex ? 2 : 1);
    if (rest.size() < 8)
      throw bad_input("the storage '{}' is missing; the file is cut short", name);
    const auto count = load_le<std::uint64_t>(rest, 0);
    if (count > (rest.size() - 8) / size)
      throw bad_input(
          "the storage '{}' claims {} elements of {} bytes, {} bytes remain; the file "
          "is cut short, fetch it again",
          printable(name), count, size, rest.size() - 8);
    storages_.emplace(name, Blob{rest.subspan(8, count * size), file.keeper});
    rest = rest.subspan(8 + count * size);
  }
}

Blob LegacyFile::storage(const PickleValue& id, StorageType) {
  const StorageId s = parse_id(id);
  const auto at = storages_.find(s.key);
  if (at == storages_.end())
    throw bad_input("the storage '{}' is missing; the file is damaged", printable(s.key));
  return at->second;
}

}  // namespace etalon::pytorch_format
