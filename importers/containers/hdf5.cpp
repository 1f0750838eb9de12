#include "importers/containers/hdf5.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/npy.h"

namespace etalon {
namespace {

constexpr std::uint64_t kUndefined = ~std::uint64_t{0};
constexpr std::size_t kMaxExpansion = 1032;
constexpr int kMaxDepth = 64;

constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);

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

int bits(std::uint64_t value) { return static_cast<int>(std::bit_width(value)); }
int bytes_for(std::uint64_t limit) { return limit == 0 ? 1 : (bits(limit) - 1) / 8 + 1; }

std::string_view until_null(std::string_view text) { return text.substr(0, text.find('\0')); }

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

}  // namespace

struct Hdf5File::Impl {
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
    if (allocated > kMaxExpansion * file.bytes.size() + (1U << 20))
      throw bad_input("the datasets claim more memory than the file can justify");
  }

  std::span<const std::byte> at(std::uint64_t address, std::uint64_t size) const {
    if (address == kUndefined || address > file.bytes.size() - base ||
        size > file.bytes.size() - base - address)
      throw bad_input(
          "HDF5 address {} with {} bytes lies outside the file of {}; it is cut short, "
          "fetch it again",
          address, size, file.bytes.size());
    return file.bytes.subspan(base + address, size);
  }
  Cursor cursor(std::uint64_t address) const {
    if (address == kUndefined || address > file.bytes.size() - base)
      throw bad_input("HDF5 address {} lies outside the file of {} bytes; it is cut short", address,
                      file.bytes.size());
    return {file.bytes.subspan(base + address), offsets, lengths};
  }
  Cursor over(std::span<const std::byte> bytes) const { return {bytes, offsets, lengths}; }

  void open() {
    std::size_t start = 0;
    for (;; start = start == 0 ? 512 : start * 2) {
      if (start + 16 > file.bytes.size()) throw bad_input("not an HDF5 file: no signature");
      if (Blob{file.bytes.subspan(start, 8), nullptr}.text() == kSignature) break;
    }
    base = start;
    Cursor c = cursor(8);
    const int version = c.u8();
    if (version <= 1) {
      c.skip(4);
      offsets = c.u8();
      lengths = c.u8();
      c.skip(1 + 4 + 4 + (version == 1 ? 4 : 0));
    } else if (version <= 3) {
      offsets = c.u8();
      lengths = c.u8();
      c.skip(1);
    } else {
      throw bad_input("HDF5 superblock version {}; 0 to 3 are known", version);
    }
    if ((offsets != 4 && offsets != 8) || (lengths != 4 && lengths != 8))
      throw bad_input("HDF5 with offsets of {} and lengths of {} bytes; 4 and 8 are known", offsets,
                      lengths);
    Cursor rest = over(c.rest());
    const std::uint64_t given_base = rest.offset();
    if (given_base != 0 && given_base != start)
      throw bad_input("HDF5 base address {} where the file begins at {}", given_base, start);
    rest.offset();
    rest.offset();
    if (version <= 1) {
      rest.offset();
      rest.offset();  // the root's link name
    }
    root = rest.offset();
  }

  std::vector<Message> messages(std::uint64_t address) const {
    std::vector<Message> found;
    Cursor c = cursor(address);
    struct Block {
      std::span<const std::byte> bytes;
    };
    std::vector<Block> blocks;
    Budget left = budget();
    const bool modern = c.rest().size() >= 4 && Blob{c.rest().first(4), nullptr}.text() == "OHDR";
    bool ordered = false;
    if (modern) {
      c.skip(4);
      if (const int version = c.u8(); version != 2)
        throw bad_input("HDF5 object header version {}", version);
      const int flags = c.u8();
      if ((flags & 0x20) != 0) c.skip(16);
      if ((flags & 0x10) != 0) c.skip(4);
      ordered = (flags & 4) != 0;
      const std::uint64_t size = c.number(1 << (flags & 3));
      blocks.push_back({c.take(size)});
    } else {
      if (const int version = c.u8(); version != 1)
        throw bad_input("HDF5 object header version {} at address {}", version, address);
      c.skip(1 + 2 + 4);
      const std::uint32_t size = c.u32();
      c.skip(4);
      blocks.push_back({c.take(size)});
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Cursor b = over(blocks[i].bytes);
      const std::size_t head = modern ? (ordered ? 6U : 4U) : 8U;
      while (b.remaining() >= head) {
        left.spend();
        Message m;
        std::size_t size;
        if (modern) {
          m.type = b.u8();
          size = static_cast<std::size_t>(b.u16());
          m.flags = b.u8();
          if (ordered) b.skip(2);
        } else {
          m.type = b.u16();
          size = static_cast<std::size_t>(b.u16());
          m.flags = b.u8();
          b.skip(3);
        }
        if (modern && m.type == 0 && size > b.remaining()) break;  // a gap
        m.data = b.take(size);
        if (m.type == kContinuation) {
          Cursor k = over(m.data);
          const std::uint64_t where = k.offset(), length = k.length();
          auto bytes = at(where, length);
          if (modern) {
            if (length < 8) throw bad_input("an HDF5 continuation block is cut short");
            Cursor s = over(bytes);
            s.expect("OCHK");
            bytes = bytes.subspan(4, length - 8);
          }
          left.spend();
          blocks.push_back({bytes});
        } else if (m.type != 0) {
          found.push_back(m);
        }
      }
    }
    for (Message& m : found) resolve_shared(m);
    return found;
  }

  // A committed datatype: the message lies in another object's header.
  void resolve_shared(Message& m) const {
    if ((m.flags & 2) == 0) return;
    Cursor c = over(m.data);
    const int version = c.u8(), type = c.u8();
    if (version == 1) c.skip(6);
    if (version < 1 || version > 3 || (version == 3 && type != 2))
      throw bad_input(
          "an HDF5 message shared through a heap is not read; copy the file with h5repack");
    const std::uint64_t address = c.offset();
    const int wanted = m.type;
    if (depth_ > 2) throw bad_input("HDF5 messages shared in a circle");
    ++depth_;
    const auto others = messages(address);
    --depth_;
    for (const Message& other : others)
      if (other.type == wanted && (other.flags & 2) == 0) {
        m.data = other.data;
        return;
      }
    throw bad_input("an HDF5 message refers to one that is not there");
  }
  mutable int depth_ = 0;

  Ints dataspace(std::span<const std::byte> data) const {
    Cursor c = over(data);
    const int version = c.u8(), rank = c.u8(), flags = c.u8();
    if (version == 1)
      c.skip(5);
    else if (version == 2) {
      if (c.u8() == 2) return {0};  // null: no elements
    } else
      throw bad_input("HDF5 dataspace version {}", version);
    static_cast<void>(flags);
    if (rank > kMaxRank)
      throw bad_input("a dataset of {} axes; at most {} are held", rank, kMaxRank);
    Ints dims;
    for (int i = 0; i < rank; ++i) {
      const std::uint64_t n = c.length();
      if (n > std::uint64_t{1} << 62)
        throw bad_input("a dataset's extent {} is beyond any file", n);
      dims.push_back(static_cast<std::int64_t>(n));
    }
    return dims;
  }

  Hdf5Type datatype(Cursor& c, int depth = 0) const {
    const int first = c.u8();
    const auto flags = static_cast<std::uint32_t>(c.number(3));
    Hdf5Type t;
    t.size = c.u32();
    t.big_endian = (flags & 1) != 0;
    if (t.size == 0) throw bad_input("an HDF5 element type of no bytes");
    if (depth > 4) throw bad_input("HDF5 element types nest too deep");
    switch (first & 15) {
      case 0: {
        t.kind = Hdf5Type::Kind::fixed;
        t.is_signed = (flags & 8) != 0;
        const int begin = c.u16(), precision = c.u16();
        if (begin != 0 || precision != static_cast<int>(8 * t.size)) {
          t.kind = Hdf5Type::Kind::other;
          t.refusal = "integers of " + std::to_string(precision) + " bits";
        }
        return t;
      }
      case 1: {
        t.kind = Hdf5Type::Kind::floating;
        c.skip(2);
        const int precision = c.u16();
        c.skip(1);
        const int exponent = c.u8();
        c.skip(2 + 4);
        const bool ieee = (t.size == 2 && exponent == 5) || (t.size == 4 && exponent == 8) ||
                          (t.size == 8 && exponent == 11);
        if (!ieee || precision != static_cast<int>(8 * t.size)) {
          t.kind = Hdf5Type::Kind::other;
          t.refusal = "floating-point numbers that are not of IEEE 754";
        }
        return t;
      }
      case 3:
        t.kind = Hdf5Type::Kind::string;
        return t;
      case 8: {
        Hdf5Type element = datatype(c, depth + 1);
        element.is_bool =
            (flags & 0xffff) == 2 && element.size == 1 &&
            Blob{c.rest().first(std::min<std::size_t>(c.remaining(), 5)), nullptr}.text() ==
                "FALSE";
        return element;
      }
      case 9:
        if ((flags & 15) == 1) {
          t.kind = Hdf5Type::Kind::variable_string;
          return t;
        }
        t.refusal = "variable-length sequences";
        return t;
      default:
        t.refusal = first % 16 == 6 ? "compound elements" : "elements of another class";
        return t;
    }
  }

  std::string heap_text(std::uint64_t collection, std::uint32_t index, std::uint32_t length) const {
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

  std::vector<std::string> texts(const Hdf5Type& type, std::int64_t count,
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

  static std::string descr(const Hdf5Type& t) {
    if (t.kind == Hdf5Type::Kind::other) throw bad_input("{} are not read", t.refusal);
    const std::string order = t.size == 1 ? "|" : t.big_endian ? ">" : "<";
    if (t.kind == Hdf5Type::Kind::floating) return order + "f" + std::to_string(t.size);
    return order + (t.is_bool ? "b" : t.is_signed ? "i" : "u") + std::to_string(t.size);
  }

  Hdf5Value value(const Hdf5Type& type, const Ints& dims, std::span<const std::byte> data) const {
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

  void attribute(std::span<const std::byte> data,
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

  // ---- groups ----

  // Records of a version 2 B-tree, in order.
  void records(std::uint64_t address, const std::function<void(Cursor)>& each) const {
    Cursor c = cursor(address);
    c.expect("BTHD");
    c.skip(2);
    const std::uint32_t node = c.u32();
    const auto record = static_cast<std::size_t>(c.u16());
    const int depth = c.u16();
    c.skip(2);
    const std::uint64_t root_node = c.offset();
    const int in_root = c.u16();
    if (root_node == kUndefined) return;
    if (record == 0 || node < 32 || depth > 16) throw bad_input("a damaged HDF5 B-tree");
    // How wide child pointers are follows from how many records a node can hold.
    struct Level {
      std::uint64_t most, total;
      int total_size;
    };
    std::vector<Level> levels{{(node - 10) / record, (node - 10) / record, 0}};
    const int count_size = bytes_for(levels[0].most);
    for (int d = 1; d <= depth; ++d) {
      const std::uint64_t pointer =
          static_cast<std::uint64_t>(offsets + count_size + levels.back().total_size);
      if (node < 10 + pointer) throw bad_input("a damaged HDF5 B-tree");
      Level l{(node - 10 - pointer) / (record + pointer), 0, 0};
      if (l.most > 1U << 20 || levels.back().total > std::uint64_t{1} << 40)
        l.total = std::uint64_t{1} << 60;
      else
        l.total = (l.most + 1) * levels.back().total + l.most;
      l.total_size = bytes_for(l.total);
      levels.push_back(l);
    }
    Budget left = budget();
    const std::function<void(std::uint64_t, int, std::uint64_t)> walk = [&](std::uint64_t where,
                                                                            int level,
                                                                            std::uint64_t count) {
      left.spend();
      Cursor n = cursor(where);
      n.expect(level > 0 ? "BTIN" : "BTLF");
      n.skip(2);
      if (count > n.remaining() / record) throw bad_input("an HDF5 B-tree node is cut short");
      std::vector<std::span<const std::byte>> own;
      for (std::uint64_t i = 0; i < count; ++i) own.push_back(n.take(record));
      for (std::uint64_t i = 0; i <= count; ++i) {
        if (level > 0) {
          const std::uint64_t child = n.offset();
          const std::uint64_t in_child = n.number(count_size);
          n.skip(static_cast<std::size_t>(levels[static_cast<std::size_t>(level - 1)].total_size));
          walk(child, level - 1, in_child);
        }
        if (i < count) {
          left.spend();
          each(over(own[i]));
        }
      }
    };
    walk(root_node, depth, static_cast<std::uint64_t>(in_root));
  }

  // An object of a fractal heap, by its id.
  std::span<const std::byte> heap_object(std::uint64_t heap, std::span<const std::byte> id) const {
    Cursor c = cursor(heap);
    c.expect("FRHP");
    c.skip(1 + 2);
    const int filters = c.u16();
    c.skip(1);
    const std::uint32_t most_managed = c.u32();
    c.length();
    c.offset();
    c.length();
    c.offset();
    for (int i = 0; i < 8; ++i) c.length();
    const int width = c.u16();
    const std::uint64_t start = c.length(), most_direct = c.length();
    const int heap_bits = c.u16();
    c.skip(2);
    const std::uint64_t root_block = c.offset();
    const int rows = c.u16();
    if (filters != 0) throw bad_input("an HDF5 heap with filters is not read; use h5repack");
    if (width == 0 || start == 0 || most_direct < start || heap_bits > 64)
      throw bad_input("a damaged HDF5 heap");
    Cursor key = over(id);
    const int kind = key.u8();
    if (kind >> 6 != 0 || (kind >> 4 & 3) != 0)
      throw bad_input("an HDF5 heap object that is not managed is not read; use h5repack");
    const int offset_bytes = (heap_bits + 7) / 8;
    const std::uint64_t offset = key.number(offset_bytes);
    const std::uint64_t length =
        key.number(bytes_for(std::min<std::uint64_t>(most_direct, most_managed)));
    std::uint64_t block = root_block, begin = 0;
    int block_rows = rows;
    Budget left = budget();
    while (block_rows > 0) {  // an indirect block: find the child that holds the offset
      left.spend();
      Cursor n = cursor(block);
      n.expect("FHIB");
      n.skip(1);
      n.offset();
      n.skip(static_cast<std::size_t>(offset_bytes));
      const int direct_rows = bits(most_direct) - bits(start) + 2;
      std::uint64_t size = start, at_offset = begin;
      bool found = false;
      for (int r = 0; r < block_rows && !found; ++r) {
        if (r > 1) {
          if (size > std::uint64_t{1} << 60) throw bad_input("a damaged HDF5 heap");
          size *= 2;
        }
        for (int w = 0; w < width; ++w) {
          const std::uint64_t child = n.offset();
          if (offset >= at_offset && offset - at_offset < size) {
            block = child;
            begin = at_offset;
            // An indirect child of this size has as many rows as fill it.
            block_rows = r < direct_rows ? 0
                                         : bits(size) - bits(start) -
                                               (bits(static_cast<std::uint64_t>(width)) - 1) + 1;
            if (r >= direct_rows && block_rows <= 0) throw bad_input("a damaged HDF5 heap");
            found = true;
            break;
          }
          at_offset += size;
        }
      }
      if (!found) throw bad_input("an HDF5 heap object lies outside its heap");
    }
    if (offset < begin) throw bad_input("a damaged HDF5 heap");
    return at(block + (offset - begin), length);
  }

  void link(std::span<const std::byte> data, Hdf5Object& group,
            std::map<std::string, std::string>& soft) const {
    Cursor c = over(data);
    if (const int version = c.u8(); version != 1) throw bad_input("HDF5 link version {}", version);
    const int flags = c.u8();
    const int kind = (flags & 8) != 0 ? c.u8() : 0;
    if ((flags & 4) != 0) c.skip(8);
    if ((flags & 16) != 0) c.skip(1);
    const std::uint64_t size = c.number(1 << (flags & 3));
    const std::string name(c.text(size));
    if (kind == 0)
      group.children.emplace_back(name, c.offset());
    else if (kind == 1)
      soft[name] = std::string(c.text(static_cast<std::size_t>(c.u16())));
    else
      throw bad_input("the link '{}' leads to another file; copy it into this one",
                      printable(name));
  }

  void symbol_table(std::uint64_t tree, std::uint64_t heap, Hdf5Object& group,
                    std::map<std::string, std::string>& soft) const {
    Cursor h = cursor(heap);
    h.expect("HEAP");
    h.skip(4);
    const std::uint64_t heap_bytes = h.length();
    h.length();
    const auto names = at(h.offset(), heap_bytes);
    const auto text = [&](std::uint64_t offset) {
      if (offset >= names.size()) throw bad_input("an HDF5 name lies outside its heap");
      const Blob tail{names.subspan(offset), nullptr};
      const std::string_view n = until_null(tail.text());
      if (n.size() == tail.text().size()) throw bad_input("an HDF5 name without an end");
      return std::string(n);
    };
    Budget left = budget();
    const std::function<void(std::uint64_t, int)> walk = [&](std::uint64_t where, int depth) {
      left.spend();
      if (depth > kMaxDepth) throw bad_input("an HDF5 group nests its nodes too deep");
      Cursor n = cursor(where);
      if (n.rest().size() >= 4 && Blob{n.rest().first(4), nullptr}.text() == "SNOD") {
        n.skip(6);
        for (int i = n.u16(); i > 0; --i) {
          left.spend();
          const std::string name = text(n.offset());
          const std::uint64_t header = n.offset();
          const std::uint32_t cache = n.u32();
          n.skip(4);
          const std::uint32_t link_value = n.u32();
          n.skip(12);
          if (cache == 2)
            soft[name] = text(link_value);
          else
            group.children.emplace_back(name, header);
        }
        return;
      }
      n.expect("TREE");
      if (n.u8() != 0) throw bad_input("an HDF5 group with a tree of chunks");
      n.skip(1);
      const int entries = n.u16();
      n.offset();
      n.offset();
      for (int i = 0; i < entries; ++i) {
        n.length();
        walk(n.offset(), depth + 1);
      }
    };
    walk(tree, 0);
  }

  Hdf5Object object(const std::string& name, std::uint64_t address, int depth = 0) const {
    const ErrorScope scope(printable(name));
    // Soft links that lead back to their own groups would multiply.
    if (++objects > file.bytes.size() + 1024)
      throw bad_input("HDF5 links lead to the same objects over and over; the file is damaged");
    Hdf5Object o;
    o.name = name;
    o.address = address;
    std::map<std::string, std::string> soft;
    bool has_type = false, has_space = false;
    for (const Message& m : messages(address)) {
      Cursor c = over(m.data);
      switch (m.type) {
        case kDataspace:
          o.dims = dataspace(m.data);
          has_space = true;
          break;
        case kDatatype:
          o.type = datatype(c);
          has_type = true;
          break;
        case kAttribute:
          attribute(m.data, o.attributes);
          break;
        case kAttributeInfo: {
          c.skip(1);
          const int flags = c.u8();
          if ((flags & 1) != 0) c.skip(2);
          const std::uint64_t heap = c.offset(), tree = c.offset();
          if (heap != kUndefined && tree != kUndefined)
            records(tree, [&](Cursor r) { attribute(heap_object(heap, r.take(8)), o.attributes); });
          break;
        }
        case kLink:
          o.is_group = true;
          link(m.data, o, soft);
          break;
        case kLinkInfo: {
          o.is_group = true;
          c.skip(1);
          const int flags = c.u8();
          if ((flags & 1) != 0) c.skip(8);
          const std::uint64_t heap = c.offset();
          std::uint64_t tree = c.offset();
          bool by_order = false;
          if ((flags & 2) != 0)
            if (const std::uint64_t order = c.offset(); order != kUndefined) {
              tree = order;
              by_order = true;
            }
          if (heap != kUndefined && tree != kUndefined)
            records(tree, [&](Cursor r) {
              r.skip(by_order ? 8 : 4);
              link(heap_object(heap, r.take(7)), o, soft);
            });
          break;
        }
        case kSymbolTable: {
          o.is_group = true;
          const std::uint64_t tree = c.offset();
          symbol_table(tree, c.offset(), o, soft);
          break;
        }
        default:
          break;
      }
    }
    if (!o.is_group && !(has_type && has_space)) throw bad_input("neither a group nor a dataset");
    for (const auto& [link_name, target] : soft) {
      if (depth > 8) throw bad_input("soft links lead in a circle");
      if (const auto found = resolve(target, o, depth + 1))
        o.children.emplace_back(link_name, *found);
    }
    std::set<std::string_view> seen;
    for (const auto& [child, where] : o.children)
      if (!seen.insert(child).second)
        throw bad_input("the name '{}' stands twice in a group", printable(child));
    return o;
  }

  // The address of what a soft link names, absolute or below its group.
  std::optional<std::uint64_t> resolve(std::string_view target, const Hdf5Object& from,
                                       int depth) const {
    Hdf5Object here = target.starts_with('/') ? object("/", root, depth) : from;
    std::uint64_t address = here.address;
    while (!target.empty()) {
      const std::size_t end = std::min(target.find('/'), target.size());
      const std::string_view part = target.substr(0, end);
      target.remove_prefix(std::min(end + 1, target.size()));
      if (part.empty() || part == ".") continue;
      const auto at_child =
          std::ranges::find(here.children, part, &std::pair<std::string, std::uint64_t>::first);
      if (at_child == here.children.end()) return std::nullopt;
      address = at_child->second;
      if (!target.empty()) here = object(here.name + "/" + std::string(part), address, depth);
    }
    return address;
  }

  // ---- datasets ----

  std::vector<Filter> filters(std::span<const std::byte> data) const {
    Cursor c = over(data);
    const int version = c.u8(), count = c.u8();
    if (version == 1) c.skip(6);
    std::vector<Filter> out;
    for (int i = 0; i < count; ++i) {
      Filter f;
      f.id = c.u16();
      const int name = version == 1 || f.id >= 256 ? c.u16() : 0;
      c.skip(2);
      const int values = c.u16();
      c.skip(static_cast<std::size_t>(version == 1 ? (name + 7) / 8 * 8 : name));
      for (int v = 0; v < values; ++v) f.values.push_back(c.u32());
      if (version == 1 && values % 2 != 0) c.skip(4);
      if (f.id < 1 || f.id > 3)
        throw bad_input(
            "HDF5 filter {} is not read (deflate, shuffle and fletcher32 are); repack "
            "the file with h5repack -f GZIP=4",
            f.id);
      out.push_back(std::move(f));
    }
    return out;
  }

  Layout layout(std::span<const std::byte> data, int rank) const {
    Cursor c = over(data);
    Layout l;
    l.version = c.u8();
    if (l.version == 1 || l.version == 2) {
      const int axes = c.u8();
      l.kind = c.u8();
      c.skip(5);
      if (l.kind != 0) l.address = c.offset();
      for (int i = 0; i < axes; ++i) l.chunk.push_back(c.u32());
      if (l.kind == 0) l.compact = c.take(c.u32());
      l.bytes = kUndefined;
      if (l.kind == 2) {
        if (axes != rank + 1)
          throw bad_input("chunks of {} axes for a dataset of {}", axes - 1, rank);
        l.chunk.pop_back();
      }
      return l;
    }
    if (l.version < 3 || l.version > 5) throw bad_input("HDF5 layout version {}", l.version);
    l.kind = c.u8();
    if (l.kind == 0) {
      l.compact = c.take(static_cast<std::size_t>(c.u16()));
    } else if (l.kind == 1) {
      l.address = c.offset();
      l.bytes = c.length();
    } else if (l.kind == 2) {
      if (l.version >= 4) l.flags = c.u8();
      const int axes = c.u8();
      if (axes != rank + 1)
        throw bad_input("chunks of {} axes for a dataset of {}", axes - 1, rank);
      if (l.version == 3) {
        l.address = c.offset();
        for (int i = 0; i < axes; ++i) l.chunk.push_back(c.u32());
      } else {
        const int width = c.u8();
        if (width < 1 || width > 8) throw bad_input("a damaged HDF5 layout");
        for (int i = 0; i < axes; ++i) l.chunk.push_back(c.number(width));
        l.index = c.u8();
        if (l.index == 1 && (l.flags & 2) != 0) {
          l.single_bytes = c.length();
          l.single_mask = c.u32();
        } else if (l.index == 3) {
          l.page_bits = c.u8();
        } else if (l.index == 5) {
          c.skip(6);
        } else if (l.index == 4) {
          throw bad_input(
              "a dataset without a limit (extensible array) is not read; repack the file with "
              "h5repack -l CONTI");
        }
        l.address = c.offset();
      }
      l.chunk.pop_back();
    } else {
      throw bad_input("an HDF5 virtual dataset is not read; copy the file with h5repack");
    }
    return l;
  }

  std::vector<Chunk> chunks(const Layout& l, const Ints& dims, std::size_t element,
                            bool filtered) const {
    std::vector<Chunk> found;
    if (l.address == kUndefined) return found;
    const std::size_t rank = dims.size();
    std::uint64_t chunk_bytes = element;
    std::vector<std::uint64_t> across;
    std::uint64_t count = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      if (l.chunk[i] == 0) throw bad_input("an HDF5 chunk of no extent");
      chunk_bytes = static_cast<std::uint64_t>(checked_mul(static_cast<std::int64_t>(chunk_bytes),
                                                           static_cast<std::int64_t>(l.chunk[i])));
      across.push_back((static_cast<std::uint64_t>(dims[i]) + l.chunk[i] - 1) / l.chunk[i]);
      count = static_cast<std::uint64_t>(
          checked_mul(static_cast<std::int64_t>(count), static_cast<std::int64_t>(across.back())));
    }
    const auto place = [&](std::uint64_t index) {
      std::vector<std::uint64_t> offset(rank);
      for (std::size_t i = rank; i-- > 0;) {
        offset[i] = index % across[i] * l.chunk[i];
        index /= across[i];
      }
      return offset;
    };
    // Version 5 (HDF5 2.0) gives packed sizes their full width.
    const int size_width =
        l.version == 5 ? lengths : std::min(8, 1 + (bits(chunk_bytes) - 1 + 8) / 8);
    if (l.version <= 3) {
      Budget left = budget();
      const std::function<void(std::uint64_t, int)> walk = [&](std::uint64_t where, int depth) {
        left.spend();
        if (depth > kMaxDepth) throw bad_input("HDF5 chunks nest too deep");
        Cursor n = cursor(where);
        n.expect("TREE");
        if (n.u8() != 1) throw bad_input("an HDF5 dataset with a tree of names");
        const int level = n.u8(), entries = n.u16();
        n.offset();
        n.offset();
        for (int i = 0; i < entries; ++i) {
          left.spend();
          Chunk c;
          c.bytes = n.u32();
          c.skipped = n.u32();
          for (std::size_t a = 0; a < rank; ++a) c.offset.push_back(n.number(8));
          n.number(8);
          c.address = n.offset();
          if (level > 0)
            walk(c.address, depth + 1);
          else
            found.push_back(std::move(c));
        }
      };
      walk(l.address, 0);
      return found;
    }
    if (count > file.bytes.size())
      throw bad_input("{} chunks in a file of {} bytes", count, file.bytes.size());
    const auto element_of = [&](Cursor& c, std::uint64_t index) {
      Chunk k;
      k.address = c.offset();
      k.bytes = chunk_bytes;
      if (filtered) {
        k.bytes = c.number(size_width);
        k.skipped = c.u32();
      }
      k.offset = place(index);
      if (k.address != kUndefined) found.push_back(std::move(k));
    };
    switch (l.index) {
      case 1:
        found.push_back({l.address, (l.flags & 2) != 0 ? l.single_bytes : chunk_bytes,
                         l.single_mask, std::vector<std::uint64_t>(rank, 0)});
        return found;
      case 2:
        for (std::uint64_t i = 0; i < count; ++i)
          found.push_back({l.address + i * chunk_bytes, chunk_bytes, 0, place(i)});
        return found;
      case 3: {
        Cursor head = cursor(l.address);
        head.expect("FAHD");
        head.skip(3);
        const int page_bits = head.u8();
        const std::uint64_t entries = head.length();
        const std::uint64_t block = head.offset();
        if (block == kUndefined) return found;
        if (entries > file.bytes.size() || page_bits > 32) throw bad_input("a damaged HDF5 array");
        Cursor d = cursor(block);
        d.expect("FADB");
        d.skip(2);
        d.offset();
        const std::uint64_t page = std::uint64_t{1} << page_bits;
        const bool paged = entries > page;
        if (paged) d.skip((((entries + page - 1) / page) + 7) / 8 + 4);
        for (std::uint64_t i = 0; i < std::min(entries, count); ++i) {
          if (paged && i != 0 && i % page == 0) d.skip(4);
          element_of(d, i);
        }
        return found;
      }
      case 5:
        records(l.address, [&](Cursor r) {
          Chunk k;
          k.address = r.offset();
          k.bytes = chunk_bytes;
          if (filtered) {
            k.bytes = r.number(size_width);
            k.skipped = r.u32();
          }
          for (std::size_t i = 0; i < rank; ++i) {
            const std::uint64_t scaled = r.number(8);
            if (scaled >= across[i]) throw bad_input("an HDF5 chunk lies outside its dataset");
            k.offset.push_back(scaled * l.chunk[i]);
          }
          found.push_back(std::move(k));
        });
        return found;
      default:
        throw bad_input("HDF5 chunk index {} is not known", l.index);
    }
  }

  std::vector<std::byte> unfiltered(const Chunk& c, const std::vector<Filter>& pipeline,
                                    std::size_t chunk_bytes) const {
    const auto raw = at(c.address, c.bytes);
    std::vector<std::byte> data(raw.begin(), raw.end());
    for (std::size_t i = pipeline.size(); i-- > 0;) {
      if (i < 32 && (c.skipped >> i & 1U) != 0) continue;
      const Filter& f = pipeline[i];
      if (f.id == 3) {
        if (data.size() < 4) throw bad_input("an HDF5 chunk without its checksum");
        const auto stored = load_le<std::uint32_t>(data, data.size() - 4);
        data.resize(data.size() - 4);
        if (fletcher32(data) != stored)
          throw bad_input("an HDF5 chunk fails its Fletcher-32 check; fetch the file again");
      } else if (f.id == 1) {
        if (chunk_bytes / kMaxExpansion > data.size() + 64)
          throw bad_input("an HDF5 chunk claims {} bytes out of {} packed ones, which cannot be",
                          chunk_bytes, data.size());
        // A later checksum stands behind the data when it was added before deflating.
        std::vector<std::byte> out(chunk_bytes + 4);
        uLongf made = out.size();
        if (uncompress(reinterpret_cast<Bytef*>(out.data()), &made,
                       reinterpret_cast<const Bytef*>(data.data()), data.size()) != Z_OK)
          throw bad_input("an HDF5 chunk does not inflate; fetch the file again");
        out.resize(made);
        data = std::move(out);
      } else {
        const std::size_t size = f.values.empty() ? 1 : f.values[0];
        if (size > 1 && size <= data.size()) {
          const std::size_t count = data.size() / size;
          std::vector<std::byte> out(data);
          for (std::size_t b = 0; b < size; ++b)
            for (std::size_t e = 0; e < count; ++e) out[e * size + b] = data[b * count + e];
          data = std::move(out);
        }
      }
    }
    if (data.size() != chunk_bytes)
      throw bad_input("an HDF5 chunk has {} bytes, {} are expected; the file is damaged",
                      data.size(), chunk_bytes);
    return data;
  }

  static std::uint32_t fletcher32(std::span<const std::byte> data) {
    std::uint32_t a = 0, b = 0;
    std::size_t words = data.size() / 2, at_byte = 0;
    while (words > 0) {
      const std::size_t run = std::min<std::size_t>(words, 360);
      words -= run;
      for (std::size_t i = 0; i < run; ++i, at_byte += 2) {
        a += std::to_integer<std::uint32_t>(data[at_byte]) << 8 |
             std::to_integer<std::uint32_t>(data[at_byte + 1]);
        b += a;
      }
      a = (a & 0xffff) + (a >> 16);
      b = (b & 0xffff) + (b >> 16);
    }
    if (data.size() % 2 != 0) {
      a += std::to_integer<std::uint32_t>(data.back()) << 8;
      b += a;
      a = (a & 0xffff) + (a >> 16);
      b = (b & 0xffff) + (b >> 16);
    }
    a = (a & 0xffff) + (a >> 16);
    b = (b & 0xffff) + (b >> 16);
    return b << 16 | a;
  }

  Blob elements(const Hdf5Object& o) const {
    const std::int64_t count = Shape(o.dims).numel();
    const auto bytes = static_cast<std::size_t>(checked_mul(count, o.type.size));
    std::optional<Layout> l;
    std::vector<Filter> pipeline;
    std::span<const std::byte> fill;
    for (const Message& m : messages(o.address)) {
      if (m.type == kLayout) l = layout(m.data, static_cast<int>(o.dims.size()));
      if (m.type == kFilters) pipeline = filters(m.data);
      if (m.type == kFillValue) {
        Cursor c = over(m.data);
        const int version = c.u8();
        bool defined;
        if (version == 3) {
          defined = (c.u8() & 0x20) != 0;
        } else {
          c.skip(2);
          defined = c.u8() != 0;
        }
        if (defined && c.remaining() >= 4) {
          const std::uint32_t size = c.u32();
          if (size == o.type.size) fill = c.take(size);
        }
      }
    }
    if (!l) throw bad_input("a dataset without a layout");
    if (bytes == 0) return {{}, file.keeper};
    if (l->kind == 0) {
      if (l->compact.size() < bytes) throw bad_input("a compact dataset is cut short");
      return {l->compact.first(bytes), file.keeper};
    }
    if (l->kind == 1 && l->address != kUndefined) {
      if (l->bytes != kUndefined && l->bytes < bytes)
        throw bad_input("a dataset of {} bytes has {} in the file", bytes, l->bytes);
      return {at(l->address, bytes), file.keeper};
    }
    allocate(bytes);
    auto memory =
        std::make_shared<Tensor>(Tensor::zeros(DType::u8, {static_cast<std::int64_t>(bytes)}));
    const auto out = memory->mutable_bytes();
    if (!fill.empty() && std::ranges::any_of(fill, [](std::byte b) { return b != std::byte{0}; }))
      for (std::size_t i = 0; i < bytes; ++i) out[i] = fill[i % fill.size()];
    if (l->kind == 2) assemble(o, *l, pipeline, out);
    return {memory->bytes(), memory};
  }

  void assemble(const Hdf5Object& o, const Layout& l, const std::vector<Filter>& pipeline,
                std::span<std::byte> out) const {
    const std::size_t size = o.type.size, rank = o.dims.size();
    std::size_t chunk_bytes = size;
    for (const std::uint64_t n : l.chunk)
      chunk_bytes = static_cast<std::size_t>(
          checked_mul(static_cast<std::int64_t>(chunk_bytes), static_cast<std::int64_t>(n)));
    std::size_t packed = 0;
    for (const Chunk& c : chunks(l, o.dims, size, !pipeline.empty())) {
      packed += c.bytes;
      if (c.bytes > file.bytes.size() || packed > file.bytes.size())
        throw bad_input("the chunks of a dataset claim more bytes than the file has");
      const std::vector<std::byte> data = unfiltered(c, pipeline, chunk_bytes);
      for (std::size_t i = 0; i < rank; ++i)
        if (c.offset[i] >= static_cast<std::uint64_t>(o.dims[i]) || c.offset[i] % l.chunk[i] != 0)
          throw bad_input("an HDF5 chunk lies outside its dataset");
      if (rank == 0) {
        std::memcpy(out.data(), data.data(), size);
        continue;
      }
      // Runs along the last axis.
      std::vector<std::uint64_t> index(rank, 0), extent(rank);
      for (std::size_t i = 0; i < rank; ++i)
        extent[i] = std::min<std::uint64_t>(l.chunk[i],
                                            static_cast<std::uint64_t>(o.dims[i]) - c.offset[i]);
      for (bool more = true; more;) {
        std::uint64_t to = 0, from = 0;
        for (std::size_t i = 0; i < rank; ++i) {
          to = to * static_cast<std::uint64_t>(o.dims[i]) + c.offset[i] + index[i];
          from = from * l.chunk[i] + index[i];
        }
        std::memcpy(out.data() + to * size, data.data() + from * size, extent[rank - 1] * size);
        more = false;
        for (std::size_t i = rank - 1; i-- > 0;) {
          if (++index[i] < extent[i]) {
            more = true;
            break;
          }
          index[i] = 0;
        }
      }
    }
  }
};

Hdf5File::Hdf5File(Blob file) : impl_(std::make_unique<Impl>()) {
  impl_->file = std::move(file);
  impl_->open();
}
Hdf5File::~Hdf5File() = default;

const Hdf5Value* Hdf5Object::attribute(std::string_view attribute_name) const {
  const auto found = attributes.find(attribute_name);
  return found == attributes.end() ? nullptr : &found->second;
}

Hdf5Object Hdf5File::root() const { return impl_->object("/", impl_->root); }

std::optional<Hdf5Object> Hdf5File::find(const Hdf5Object& group, std::string_view path) const {
  const auto address = impl_->resolve(path, group, 0);
  if (!address) return std::nullopt;
  return impl_->object(group.name + (group.name.ends_with('/') ? "" : "/") + std::string(path),
                       *address);
}

Hdf5Object Hdf5File::child(const Hdf5Object& group, std::string_view name) const {
  auto found = find(group, name);
  if (!found) throw bad_input("{}: no object '{}' in it", printable(group.name), printable(name));
  return std::move(*found);
}

Tensor Hdf5File::read(const Hdf5Object& o) const {
  const ErrorScope scope(printable(o.name));
  if (o.is_group) throw bad_input("a group where a dataset is expected");
  if (o.type.kind == Hdf5Type::Kind::string || o.type.kind == Hdf5Type::Kind::variable_string)
    throw bad_input("texts where numbers are expected");
  return array_from_bytes(Impl::descr(o.type), false, o.dims, impl_->elements(o));
}

std::vector<std::string> Hdf5File::read_texts(const Hdf5Object& o) const {
  const ErrorScope scope(printable(o.name));
  const Blob data = impl_->elements(o);
  return impl_->texts(o.type, Shape(o.dims).numel(), data.bytes);
}

std::vector<std::pair<std::string, Hdf5Object>> Hdf5File::datasets(const Hdf5Object& group) const {
  std::vector<std::pair<std::string, Hdf5Object>> out;
  std::set<std::uint64_t> visited;
  const std::function<void(const Hdf5Object&, const std::string&, int)> walk =
      [&](const Hdf5Object& g, const std::string& prefix, int depth) {
        if (depth > kMaxDepth) throw bad_input("HDF5 groups nest too deep");
        if (!visited.insert(g.address).second) return;
        for (const auto& [name, address] : g.children) {
          Hdf5Object o = impl_->object(g.name + (g.name.ends_with('/') ? "" : "/") + name, address);
          if (o.is_group) {
            walk(o, prefix + name + "/", depth + 1);
          } else if (o.type.kind != Hdf5Type::Kind::string &&
                     o.type.kind != Hdf5Type::Kind::variable_string) {
            out.emplace_back(prefix + name, std::move(o));
          }
        }
      };
  walk(group, "", 0);
  return out;
}

bool is_hdf5(std::span<const std::byte> prefix) {
  for (std::size_t at = 0; at + 8 <= prefix.size(); at = at == 0 ? 512 : at * 2)
    if (Blob{prefix.subspan(at, 8), nullptr}.text() == kSignature) return true;
  return false;
}

}  // namespace etalon
