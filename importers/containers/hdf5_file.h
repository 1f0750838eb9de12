// What one open HDF5 file is made of, for the files hdf5_*.cpp, one part of the format each:
//   hdf5_headers.cpp  superblock, object headers, dataspaces, types
//   hdf5_values.cpp   attributes and texts
//   hdf5_groups.cpp   names: symbol tables, links, B-trees, heaps
//   hdf5_layout.cpp   where a dataset's bytes lie: chunk indexes
//   hdf5_data.cpp     filters, and chunks put together
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "importers/containers/hdf5.h"

namespace etalon {
namespace hdf5 {

inline constexpr std::uint64_t kUndefined = ~std::uint64_t{0};
inline constexpr std::size_t kMaxExpansion = 1032;
inline constexpr int kMaxDepth = 64;

inline constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);

enum : int {
  kDataspace = 1,
  kLinkInfo = 2,
  kDatatype = 3,
  kLink = 6,
  kFillValue = 5,
  kLayout = 8,
  kFilters = 11,
  kAttribute = 12,
  kContinuation = 16,
  kSymbolTable = 17,
  kAttributeInfo = 21
};

// Bytes of the file that are read one after the other; reading past the end is refused.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, int offsets, int lengths)
      : rest_(bytes), offset_size_(offsets), length_size_(lengths) {}
  std::span<const std::byte> take(std::size_t n) {
    if (n > rest_.size())
      throw bad_input(
          "an HDF5 structure of {} bytes is expected where {} remain; the file is cut "
          "short or damaged",
          n, rest_.size());
    const auto taken = rest_.first(n);
    rest_ = rest_.subspan(n);
    return taken;
  }
  std::uint64_t number(int bytes) {
    std::uint64_t value = 0;
    const auto b = take(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < b.size() && i < 8; ++i)
      value |= std::to_integer<std::uint64_t>(b[i]) << (8 * i);
    return value;
  }
  int u8() { return static_cast<int>(number(1)); }
  int u16() { return static_cast<int>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  // An address; all ones is "undefined", whatever the width.
  std::uint64_t offset() {
    const std::uint64_t v = number(offset_size_);
    return offset_size_ < 8 && v == (std::uint64_t{1} << (8 * offset_size_)) - 1 ? kUndefined : v;
  }
  std::uint64_t length() { return number(length_size_); }
  std::string_view text(std::size_t n) {
    const auto b = take(n);
    return {reinterpret_cast<const char*>(b.data()), b.size()};
  }
  void expect(std::string_view signature) {
    if (text(signature.size()) != signature)
      throw bad_input("an HDF5 structure '{}' is missing; the file is damaged", signature);
  }
  void skip(std::size_t n) { static_cast<void>(take(n)); }
  std::size_t remaining() const { return rest_.size(); }
  std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
  int offset_size_, length_size_;
};

inline int bits(std::uint64_t value) { return static_cast<int>(std::bit_width(value)); }
inline int bytes_for(std::uint64_t limit) { return limit == 0 ? 1 : (bits(limit) - 1) / 8 + 1; }

inline std::string_view until_null(std::string_view text) {
  return text.substr(0, text.find('\0'));
}

struct Message {
  int type = 0;
  int flags = 0;
  std::span<const std::byte> data;
};

struct Filter {
  int id = 0;
  std::vector<std::uint32_t> values;
};

struct Chunk {
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t skipped = 0;  // filters by bit
  std::vector<std::uint64_t> offset;
};

struct Layout {
  int kind = 0;  // 0 compact, 1 contiguous, 2 chunked
  std::span<const std::byte> compact;
  std::uint64_t address = kUndefined, bytes = 0;
  int version = 0, index = 0, flags = 0, page_bits = 0;
  std::vector<std::uint64_t> chunk;  // without the element size
  std::uint64_t single_bytes = 0;
  std::uint32_t single_mask = 0;
};

}  // namespace hdf5

struct Hdf5File::Impl {
  using Cursor = hdf5::Cursor;
  using Message = hdf5::Message;
  using Filter = hdf5::Filter;
  using Chunk = hdf5::Chunk;
  using Layout = hdf5::Layout;

  Blob file;
  std::uint64_t base = 0, root = 0;
  int offsets = 8, lengths = 8;
  mutable std::size_t allocated = 0, objects = 0;

  // Counts the structures that one walk visits: more than the file can hold is a cycle.
  struct Budget {
    std::size_t left;
    void spend() {
      if (left-- == 0)
        throw bad_input("HDF5 structures refer to one another in a circle; the file is damaged");
    }
  };
  Budget budget() const { return {file.bytes.size() / 16 + 64}; }

  void allocate(std::size_t bytes) const {
    allocated += bytes;
    if (allocated > hdf5::kMaxExpansion * file.bytes.size() + (1U << 20))
      throw bad_input("the datasets claim more memory than the file can justify");
    MemoryBudget::add(4 * bytes);
  }

  std::span<const std::byte> at(std::uint64_t address, std::uint64_t size) const {
    if (address == hdf5::kUndefined || address > file.bytes.size() - base ||
        size > file.bytes.size() - base - address)
      throw bad_input(
          "HDF5 address {} with {} bytes lies outside the file of {}; it is cut short, "
          "fetch it again",
          address, size, file.bytes.size());
    return file.bytes.subspan(base + address, size);
  }
  Cursor cursor(std::uint64_t address) const {
    if (address == hdf5::kUndefined || address > file.bytes.size() - base)
      throw bad_input("HDF5 address {} lies outside the file of {} bytes; it is cut short", address,
                      file.bytes.size());
    return {file.bytes.subspan(base + address), offsets, lengths};
  }
  Cursor over(std::span<const std::byte> bytes) const { return {bytes, offsets, lengths}; }

  void open();

  std::vector<Message> messages(std::uint64_t address) const;

  // A committed datatype: the message lies in another object's header.
  void resolve_shared(Message& m) const;
  mutable int depth_ = 0;

  Ints dataspace(std::span<const std::byte> data) const;

  Hdf5Type datatype(Cursor& c, int depth = 0) const;

  std::string heap_text(std::uint64_t collection, std::uint32_t index, std::uint32_t length) const;

  std::vector<std::string> texts(const Hdf5Type& type, std::int64_t count,
                                 std::span<const std::byte> data) const;

  static std::string descr(const Hdf5Type& t);

  Hdf5Value value(const Hdf5Type& type, const Ints& dims, std::span<const std::byte> data) const;

  void attribute(std::span<const std::byte> data,
                 std::map<std::string, Hdf5Value, std::less<>>& to) const;

  // Records of a version 2 B-tree, in order.
  void records(std::uint64_t address, const std::function<void(Cursor)>& each) const;

  // An object of a fractal heap, by its id.
  std::span<const std::byte> heap_object(std::uint64_t heap, std::span<const std::byte> id) const;

  void link(std::span<const std::byte> data, Hdf5Object& group,
            std::map<std::string, std::string>& soft) const;

  void symbol_table(std::uint64_t tree, std::uint64_t heap, Hdf5Object& group,
                    std::map<std::string, std::string>& soft) const;

  Hdf5Object object(const std::string& name, std::uint64_t address, int depth = 0) const;

  // The address of what a soft link names, absolute or below its group.
  std::optional<std::uint64_t> resolve(std::string_view target, const Hdf5Object& from,
                                       int depth) const;

  std::vector<Filter> filters(std::span<const std::byte> data) const;

  Layout layout(std::span<const std::byte> data, int rank) const;

  std::vector<Chunk> chunks(const Layout& l, const Ints& dims, std::size_t element,
                            bool filtered) const;

  std::vector<std::byte> unfiltered(const Chunk& c, const std::vector<Filter>& pipeline,
                                    std::size_t chunk_bytes) const;

  static std::uint32_t fletcher32(std::span<const std::byte> data);

  Blob elements(const Hdf5Object& o) const;

  void assemble(const Hdf5Object& o, const Layout& l, const std::vector<Filter>& pipeline,
                std::span<std::byte> out) const;
};

}  // namespace etalon
