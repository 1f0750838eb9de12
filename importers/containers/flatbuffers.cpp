#include "importers/containers/flatbuffers.h"

#include "engine/core/error.h"

namespace etalon {

void FlatTable::check(std::size_t at, std::size_t bytes) const {
  const std::size_t size = file_->blob.bytes.size();
  if (at > size || bytes > size - at)
    throw bad_input("byte {}: {} bytes must follow, the file has {}; it is damaged or cut short",
                    at, bytes, size);
}

void FlatTable::charge(std::size_t bytes) const {
  if (bytes > file_->budget)
    throw bad_input("the file shares its parts more often than any model does; it is damaged");
  file_->budget -= bytes;
}

FlatTable::FlatTable(std::shared_ptr<File> file, std::size_t at) : file_(std::move(file)), at_(at) {
  charge(8);
  const auto back = read<std::int32_t>(at);
  const auto to = static_cast<std::int64_t>(at) - back;
  if (to < 0) throw bad_input("byte {}: the table's description lies before the file", at);
  vtable_ = static_cast<std::size_t>(to);
  vtable_bytes_ = read<std::uint16_t>(vtable_);
  if (vtable_bytes_ < 4) throw bad_input("byte {}: no description of a table", vtable_);
  check(vtable_, vtable_bytes_);
}

FlatTable FlatTable::root(const Blob& file, std::size_t offset) {
  FlatTable none;
  none.file_ = std::make_shared<File>(File{file, file.bytes.size() * 16 + (1 << 16)});
  return {none.file_, none.follow(offset)};
}

std::size_t FlatTable::place(int field) const {
  if (file_ == nullptr) return 0;
  const std::size_t slot = 4 + 2 * static_cast<std::size_t>(field);
  if (slot + 2 > vtable_bytes_) return 0;
  const auto offset = read<std::uint16_t>(vtable_ + slot);
  return offset == 0 ? 0 : at_ + offset;
}

std::size_t FlatTable::follow(std::size_t at) const {
  const std::size_t to = at + read<std::uint32_t>(at);
  check(to, 4);
  return to;
}

std::size_t FlatTable::vector_at(int field, std::size_t element, std::size_t& count) const {
  count = 0;
  const std::size_t at = place(field);
  if (at == 0) return 0;
  const std::size_t begin = follow(at);
  count = read<std::uint32_t>(begin);
  check(begin + 4, 0);
  if (count > (file_->blob.bytes.size() - begin - 4) / element)
    throw bad_input("byte {}: a list claims {} elements, the file ends before; it is cut short",
                    begin, count);
  return begin + 4;
}

std::span<const std::byte> FlatTable::vector_bytes(int field, std::size_t element) const {
  std::size_t count = 0;
  const std::size_t begin = vector_at(field, element, count);
  if (count == 0) return {};
  charge(count * element);
  return file_->blob.bytes.subspan(begin, count * element);
}

std::string FlatTable::text(int field) const {
  const auto bytes = vector_bytes(field, 1);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Blob FlatTable::blob(int field) const {
  std::size_t count = 0;
  const std::size_t begin = vector_at(field, 1, count);
  if (count == 0) return {};
  return {file_->blob.bytes.subspan(begin, count), file_->blob.keeper};
}

FlatTable FlatTable::table(int field) const {
  const std::size_t at = place(field);
  if (at == 0) return {};
  return {file_, follow(at)};
}

std::vector<FlatTable> FlatTable::tables(int field) const {
  std::size_t count = 0;
  const std::size_t begin = vector_at(field, 4, count);
  if (count == 0) return {};  // also of a table that is not there
  charge(4 * count);
  std::vector<FlatTable> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({file_, follow(begin + 4 * i)});
  return out;
}

std::vector<std::string> FlatTable::texts(int field) const {
  std::size_t count = 0;
  const std::size_t begin = vector_at(field, 4, count);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = follow(begin + 4 * i);
    const auto length = read<std::uint32_t>(at);
    check(at + 4, length);
    charge(8 + std::size_t{length});
    out.emplace_back(reinterpret_cast<const char*>(file_->blob.bytes.data()) + at + 4, length);
  }
  return out;
}

}  // namespace etalon
