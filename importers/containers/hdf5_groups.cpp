#include "importers/containers/hdf5_file.h"

namespace etalon {

using namespace hdf5;

void Hdf5File::Impl::records(std::uint64_t address, const std::function<void(Cursor)>& each) const {
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

std::span<const std::byte> Hdf5File::Impl::heap_object(std::uint64_t heap,
                                                       std::span<const std::byte> id) const {
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

void Hdf5File::Impl::link(std::span<const std::byte> data, Hdf5Object& group,
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
    throw bad_input("the link '{}' leads to another file; copy it into this one", printable(name));
}

void Hdf5File::Impl::symbol_table(std::uint64_t tree, std::uint64_t heap, Hdf5Object& group,
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

Hdf5Object Hdf5File::Impl::object(const std::string& name, std::uint64_t address, int depth) const {
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
  if (!o.is_group && !(has_type && has_space))
    throw bad_input("at byte {} stands neither a group nor a dataset", address);
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

std::optional<std::uint64_t> Hdf5File::Impl::resolve(std::string_view target,
                                                     const Hdf5Object& from, int depth) const {
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

}  // namespace etalon
