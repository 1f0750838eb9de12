// FlatBuffers read by field index, every offset checked before it is followed.
//
// A table begins with a signed offset back to its vtable: u16 sizes of vtable and table, then one
// u16 per field, the field's place in the table or 0 where it is absent. Vectors and strings are a
// u32 count and the elements; tables and vectors in fields are u32 offsets from the field itself.
// Parts may be shared, so the parts that a hostile file asks to be read are charged against a
// budget of some multiples of its size. Source: flatbuffers.dev, "FlatBuffers internals".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "importers/containers/bytes.h"

namespace etalon {

class FlatTable {
 public:
  FlatTable() = default;  // absent: every field is
  // The root; a bad-input Error where the first bytes lead nowhere.
  static FlatTable root(const Blob& file, std::size_t offset = 0);

  explicit operator bool() const { return file_ != nullptr; }
  bool has(int field) const { return place(field) != 0; }
  template <class T>
  T get(int field, T otherwise) const {
    const std::size_t at = place(field);
    return at == 0 ? otherwise : read<T>(at);
  }
  std::string text(int field) const;
  FlatTable table(int field) const;
  std::vector<FlatTable> tables(int field) const;
  std::vector<std::string> texts(int field) const;
  template <class T>
  std::vector<T> list(int field) const {
    const auto bytes = vector_bytes(field, sizeof(T));
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  Blob blob(int field) const;  // a vector of bytes, in place
  const Blob& file() const { return file_->blob; }
  std::span<const std::byte> vector_bytes(int field, std::size_t element) const;

 private:
  struct File {
    Blob blob;
    std::size_t budget = 0;
  };
  FlatTable(std::shared_ptr<File> file, std::size_t at);
  template <class T>
  T read(std::size_t at) const {
    check(at, sizeof(T));
    return load_le<T>(file_->blob.bytes, at);
  }
  void check(std::size_t at, std::size_t bytes) const;
  std::size_t place(int field) const;        // 0 where it is absent
  std::size_t follow(std::size_t at) const;  // the target of the offset at `at`
  std::size_t vector_at(int field, std::size_t element, std::size_t& count) const;
  void charge(std::size_t bytes) const;

  std::shared_ptr<File> file_;
  std::size_t at_ = 0, vtable_ = 0, vtable_bytes_ = 0;
};

}  // namespace etalon
