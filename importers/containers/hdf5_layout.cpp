#include "importers/containers/hdf5_file.h"

namespace etalon {

using namespace hdf5;

std::vector<Filter> Hdf5File::Impl::filters(std::span<const std::byte> data) const {
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

Layout Hdf5File::Impl::layout(std::span<const std::byte> data, int rank) const {
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
    if (axes != rank + 1) throw bad_input("chunks of {} axes for a dataset of {}", axes - 1, rank);
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

std::vector<Chunk> Hdf5File::Impl::chunks(const Layout& l, const Ints& dims, std::size_t element,
                                          bool filtered) const {
  std::vector<Chunk> found;
  if (l.address == kUndefined) return found;
  const std::size_t rank = dims.size();
  std::uint64_t chunk_bytes = element;
  std::vector<std::uint64_t> across;
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    if (l.chunk[i] == 0) throw bad_input("an HDF5 chunk of no extent");
    chunk_bytes = static_cast<std::uint64_t>(
        checked_mul(static_cast<std::int64_t>(chunk_bytes), static_cast<std::int64_t>(l.chunk[i])));
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
      found.push_back({l.address, (l.flags & 2) != 0 ? l.single_bytes : chunk_bytes, l.single_mask,
                       std::vector<std::uint64_t>(rank, 0)});
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

}  // namespace etalon
