#include "importers/containers/hdf5_file.h"

namespace etalon {

using namespace hdf5;

void Hdf5File::Impl::open() {
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

std::vector<Message> Hdf5File::Impl::messages(std::uint64_t address) const {
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

void Hdf5File::Impl::resolve_shared(Message& m) const {
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

Ints Hdf5File::Impl::dataspace(std::span<const std::byte> data) const {
  Cursor c = over(data);
  const int version = c.u8(), rank = c.u8(), flags = c.u8();
  if (version == 1)
    c.skip(5);
  else if (version == 2) {
    if (c.u8() == 2) return {0};  // null: no elements
  } else
    throw bad_input("HDF5 dataspace version {}", version);
  static_cast<void>(flags);
  if (rank > kMaxRank) throw bad_input("a dataset of {} axes; at most {} are held", rank, kMaxRank);
  Ints dims;
  for (int i = 0; i < rank; ++i) {
    const std::uint64_t n = c.length();
    if (n > std::uint64_t{1} << 62) throw bad_input("a dataset's extent {} is beyond any file", n);
    dims.push_back(static_cast<std::int64_t>(n));
  }
  return dims;
}

Hdf5Type Hdf5File::Impl::datatype(Cursor& c, int depth) const {
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
          Blob{c.rest().first(std::min<std::size_t>(c.remaining(), 5)), nullptr}.text() == "FALSE";
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

}  // namespace etalon
