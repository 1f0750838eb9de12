#include "importers/containers/hdf5_file.h"
#include "importers/containers/npy.h"

namespace etalon {

using namespace hdf5;

std::string Hdf5File::Impl::heap_text(std::uint64_t collection, std::uint32_t index,
                                      std::uint32_t length) const {
  if (length == 0 || collection == 0 || collection == kUndefined) return "";
  Cursor c = cursor(collection);
  c.expect("GCOL");
  c.skip(4);
  const std::uint64_t size = c.length();
  const auto whole = at(collection, size);
  Cursor o = over(whole.subspan(std::min<std::size_t>(whole.size(), 8U + lengths)));
  while (o.remaining() >= 8U + static_cast<std::size_t>(lengths)) {
    const int number = o.u16();
    o.skip(6);
    const std::uint64_t bytes = o.length();
    if (number == 0) break;
    const std::string_view text = o.text(bytes);
    o.skip(std::min<std::size_t>(o.remaining(), (8 - bytes % 8) % 8));
    if (number == static_cast<int>(index)) {
      allocate(text.size());
      return std::string(text.substr(0, length));
    }
  }
  throw bad_input("HDF5 text {} is missing in its heap; the file is damaged", index);
}

std::vector<std::string> Hdf5File::Impl::texts(const Hdf5Type& type, std::int64_t count,
                                               std::span<const std::byte> data) const {
  std::vector<std::string> out;
  Cursor c = over(data);
  if (static_cast<std::uint64_t>(count) > data.size())
    throw bad_input("{} texts in {} bytes", count, data.size());
  for (std::int64_t i = 0; i < count; ++i) {
    if (type.kind == Hdf5Type::Kind::string) {
      const std::string_view text = until_null(c.text(type.size));
      allocate(text.size());
      out.emplace_back(text);
    } else {
      const std::uint32_t length = c.u32();
      const std::uint64_t collection = c.offset();
      out.push_back(heap_text(collection, c.u32(), length));
    }
  }
  return out;
}

std::string Hdf5File::Impl::descr(const Hdf5Type& t) {
  if (t.kind == Hdf5Type::Kind::other) throw bad_input("{} are not read", t.refusal);
  const std::string order = t.size == 1 ? "|" : t.big_endian ? ">" : "<";
  if (t.kind == Hdf5Type::Kind::floating) return order + "f" + std::to_string(t.size);
  return order + (t.is_bool ? "b" : t.is_signed ? "i" : "u") + std::to_string(t.size);
}

Hdf5Value Hdf5File::Impl::value(const Hdf5Type& type, const Ints& dims,
                                std::span<const std::byte> data) const {
  Hdf5Value v{type, dims, {}, {}};
  const std::int64_t count = Shape(dims).numel();
  if (type.kind == Hdf5Type::Kind::string || type.kind == Hdf5Type::Kind::variable_string) {
    v.texts = texts(type, count, data);
  } else if (type.kind != Hdf5Type::Kind::other) {
    const auto bytes = static_cast<std::size_t>(checked_mul(count, type.size));
    if (bytes > data.size()) throw bad_input("an HDF5 attribute is cut short");
    v.numbers = std::make_shared<Tensor>(
        array_from_bytes(descr(type), false, dims, {data.first(bytes), nullptr}).clone());
  }
  return v;
}

void Hdf5File::Impl::attribute(std::span<const std::byte> data,
                               std::map<std::string, Hdf5Value, std::less<>>& to) const {
  Cursor c = over(data);
  const int version = c.u8(), flags = c.u8();
  if (version < 1 || version > 3) throw bad_input("HDF5 attribute version {}", version);
  const auto name_size = static_cast<std::size_t>(c.u16());
  const auto type_size = static_cast<std::size_t>(c.u16());
  const auto space_size = static_cast<std::size_t>(c.u16());
  if (version == 3) c.skip(1);
  const auto padded = [&](std::size_t n) { return version == 1 ? (n + 7) / 8 * 8 : n; };
  const std::string name(until_null(c.text(padded(name_size))));
  const ErrorScope scope("attribute " + printable(name));
  Message type_message{kDatatype, (flags & 1) != 0 ? 2 : 0, c.take(padded(type_size))};
  resolve_shared(type_message);
  Cursor t = over(type_message.data);
  const Hdf5Type type = datatype(t);
  const Ints dims = dataspace(c.take(padded(space_size)));
  to.insert_or_assign(name, value(type, dims, c.rest()));
}

}  // namespace etalon
