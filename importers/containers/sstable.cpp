#include "importers/containers/sstable.h"

#include "engine/core/error.h"

namespace etalon {
namespace {

constexpr std::uint64_t kMagic = 0xdb4775248b80fb57;

std::uint64_t varint(std::span<const std::byte> bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto b = std::to_integer<std::uint64_t>(bytes[at++]);
    value |= (b & 0x7f) << shift;
    if (b < 0x80) return value;
  }
  throw bad_input("a number of the table does not end at byte {} of its {}; the file is damaged",
                  at, bytes.size());
}

struct Handle {
  std::uint64_t offset = 0, size = 0;
};
Handle handle(std::span<const std::byte> bytes, std::size_t& at) {
  Handle h;
  h.offset = varint(bytes, at);
  h.size = varint(bytes, at);
  return h;
}

Blob block(const Blob& file, const Handle& h) {
  const std::size_t size = file.bytes.size();
  if (h.offset > size || h.size > size - h.offset || size - h.offset - h.size < 5)
    throw bad_input("a block claims bytes {} to {}, the file has {}; it is cut short", h.offset,
                    h.offset + h.size, size);
  const auto bytes = file.bytes.subspan(h.offset, h.size);
  const int stored = std::to_integer<int>(file.bytes[h.offset + h.size]);
  if (stored == 0) return {bytes, file.keeper};
  if (stored != 1) throw bad_input("byte {}: a block stored by method {}", h.offset, stored);
  auto text = std::make_shared<const std::string>(snappy_decompress(bytes));
  return {std::as_bytes(std::span(text->data(), text->size())), text};
}

// Calls f(key, value) for each entry.
template <class F>
void each_entry(const Blob& block, std::size_t& budget, F&& f) {
  if (block.bytes.size() < 4) throw bad_input("a block of {} bytes", block.bytes.size());
  const auto restarts = load_le<std::uint32_t>(block.bytes, block.bytes.size() - 4);
  if (restarts > (block.bytes.size() - 4) / 4)
    throw bad_input("a block claims {} restart points", restarts);
  const auto entries = block.bytes.first(block.bytes.size() - 4 - 4 * std::size_t{restarts});
  std::string key;
  for (std::size_t at = 0; at < entries.size();) {
    const std::uint64_t shared = varint(entries, at), own = varint(entries, at),
                        length = varint(entries, at);
    const std::size_t left = entries.size() - at;
    if (shared > key.size() || own > left || length > left - own)
      throw bad_input("the entry at byte {} of a block of {} does not fit it; the file is damaged",
                      at, block.bytes.size());
    key.resize(shared);
    key.append(reinterpret_cast<const char*>(entries.data()) + at, own);
    at += own;
    // Keys share prefixes, so a small file could spell long ones many times.
    if (key.size() + 16 > budget) throw bad_input("the table's keys are longer than any model's");
    budget -= key.size() + 16;
    f(key, Blob{entries.subspan(at, length), block.keeper});
    at += length;
  }
}

}  // namespace

bool is_sstable(std::span<const std::byte> suffix) {
  return suffix.size() >= 8 && load_le<std::uint64_t>(suffix, suffix.size() - 8) == kMagic;
}

std::vector<TableEntry> read_sstable(const Blob& file) {
  if (file.bytes.size() < 48 || !is_sstable(file.bytes))
    throw bad_input("no sorted table: its {} bytes do not end with the mark of one; fetch it again",
                    file.bytes.size());
  const auto footer = file.bytes.last(48);
  std::size_t at = 0;
  handle(footer, at);
  const Blob index = block(file, handle(footer, at));
  std::size_t budget = file.bytes.size() * 16 + (1 << 16);
  std::vector<TableEntry> out;
  std::vector<Handle> blocks;
  each_entry(index, budget, [&](const std::string&, const Blob& value) {
    std::size_t begin = 0;
    blocks.push_back(handle(value.bytes, begin));
  });
  std::uint64_t total = 0;
  for (const Handle& h : blocks) {
    total += h.size;
    if (total > file.bytes.size()) throw bad_input("the table's blocks overlap; it is damaged");
    each_entry(block(file, h), budget,
               [&](const std::string& key, const Blob& value) { out.push_back({key, value}); });
  }
  return out;
}

std::string snappy_decompress(std::span<const std::byte> bytes) {
  std::size_t at = 0;
  const std::uint64_t length = varint(bytes, at);
  // An element of three bytes copies 64 at most.
  if (length > bytes.size() * 24 + 64)
    throw bad_input("compressed bytes claim {} of {}; no data is so regular", length, bytes.size());
  std::string out;
  out.reserve(length);
  const auto damaged = [&] { return bad_input("compressed bytes are damaged at {}", at); };
  const auto little = [&](std::size_t n) {
    if (n > bytes.size() - at) throw damaged();
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < n; ++i) v |= std::to_integer<std::uint64_t>(bytes[at++]) << (8 * i);
    return v;
  };
  while (at < bytes.size()) {
    const auto tag = little(1);
    if ((tag & 3) == 0) {
      std::uint64_t n = tag >> 2;
      if (n >= 60) n = little(n - 59);
      ++n;
      if (n > bytes.size() - at || n > length - out.size()) throw damaged();
      out.append(reinterpret_cast<const char*>(bytes.data()) + at, n);
      at += n;
      continue;
    }
    std::uint64_t n = 0, back = 0;
    if ((tag & 3) == 1) {
      n = (tag >> 2 & 7) + 4;
      back = (tag >> 5) << 8 | little(1);
    } else {
      n = (tag >> 2) + 1;
      back = little((tag & 3) == 2 ? 2 : 4);
    }
    if (back == 0 || back > out.size() || n > length - out.size()) throw damaged();
    for (; n > 0; --n) out.push_back(out[out.size() - back]);
  }
  if (out.size() != length) throw damaged();
  return out;
}

}  // namespace etalon
