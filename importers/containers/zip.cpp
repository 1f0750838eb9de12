#include "importers/containers/zip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"

namespace etalon {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint32_t kFull = 0xffffffff;  // "the value is in the zip64 field"
constexpr std::uint64_t kDeflateLimit = 1032;

std::uint32_t crc_of(std::span<const std::byte> bytes, std::uint32_t crc = 0) {
  return static_cast<std::uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

struct Directory {
  std::uint64_t offset, bytes, members;
};

// The end record lies in the last 65 557 bytes: 22 of its own and a comment.
Directory find_directory(std::span<const std::byte> file) {
  if (file.size() < 22)
    throw bad_input(
        "{} bytes, where a zip archive ends with a record of 22; the file is cut short, fetch it "
        "again",
        file.size());
  const std::size_t last = file.size() - 22;
  const std::size_t first = last > 65535 ? last - 65535 : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    if (load_le<std::uint32_t>(file, at) != kEnd) continue;
    if (at + 22 + load_le<std::uint16_t>(file, at + 20) != file.size()) continue;
    if (load_le<std::uint16_t>(file, at + 4) != 0 || load_le<std::uint16_t>(file, at + 6) != 0)
      throw bad_input("byte {}: a zip archive split over several disks; join it first", at);
    Directory d{load_le<std::uint32_t>(file, at + 16), load_le<std::uint32_t>(file, at + 12),
                load_le<std::uint16_t>(file, at + 10)};
    if (at >= 20 && load_le<std::uint32_t>(file, at - 20) == kLocator64) {
      const auto where = load_le<std::uint64_t>(file, at - 12);
      if (where > at - 20 || at - 20 - where < 56 || load_le<std::uint32_t>(file, where) != kEnd64)
        throw bad_input("zip64 end record expected at byte {}; the file is damaged", where);
      d = {load_le<std::uint64_t>(file, where + 48), load_le<std::uint64_t>(file, where + 40),
           load_le<std::uint64_t>(file, where + 32)};
    }
    if (d.offset > at || d.bytes > at - d.offset)
      throw bad_input("the zip directory claims bytes {} to {} of {}; the file is cut short",
                      d.offset, d.offset + d.bytes, file.size());
    if (d.members > d.bytes / 46)
      throw bad_input("the zip directory claims {} members in {} bytes; the file is damaged",
                      d.members, d.bytes);
    return d;
  }
  throw bad_input(
      "no zip directory from byte {} to the end, {}; the file is cut short, fetch it again", first,
      file.size());
}

bool leads_elsewhere(const std::string& name) {
  bool bad = name.empty() || name.front() == '/' || name.find('\\') != std::string::npos ||
             name.find('\0') != std::string::npos;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    bad = bad || name.substr(at, end - at) == "..";
    at = end + 1;
  }
  return bad;
}

void check_name(const std::string& name) {
  if (leads_elsewhere(name))
    throw bad_input("zip member '{}' has a name that leads elsewhere", printable(name));
  // Names stand in messages, which are one line.
  if (std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    throw bad_input("zip member '{}' has a name with control characters", printable(name));
}

// The zip64 extra field holds, in this order, only the values that are full in the record itself.
void read_zip64(std::span<const std::byte> extra, ZipMember& m, std::uint64_t& offset) {
  while (extra.size() >= 4) {
    const auto id = load_le<std::uint16_t>(extra, 0);
    const std::size_t size = load_le<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) break;
    auto body = extra.subspan(4, size);
    extra = extra.subspan(4 + size);
    if (id != 1) continue;
    for (std::uint64_t* value : {&m.bytes, &m.packed_bytes, &offset}) {
      if (*value != kFull) continue;
      if (body.size() < 8)
        throw bad_input("zip member {}: its zip64 field is cut short", printable(m.name));
      *value = load_le<std::uint64_t>(body, 0);
      body = body.subspan(8);
    }
    return;
  }
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

}  // namespace

bool is_zip(std::span<const std::byte> prefix) {
  return prefix.size() >= 4 &&
         (load_le<std::uint32_t>(prefix, 0) == kLocal || load_le<std::uint32_t>(prefix, 0) == kEnd);
}

std::string_view first_zip_member(std::span<const std::byte> prefix) {
  if (!is_zip(prefix) || prefix.size() < 30) return {};
  const std::size_t length = load_le<std::uint16_t>(prefix, 26);
  if (length > prefix.size() - 30) return {};
  return Blob{prefix.subspan(30, length), nullptr}.text();
}

ZipReader::ZipReader(Blob file) : file_(std::move(file)) {
  const Directory d = find_directory(file_.bytes);
  auto rest = file_.bytes.subspan(d.offset, d.bytes);
  std::unordered_set<std::string_view> names;  // in the file
  names.reserve(d.members);
  members_.reserve(d.members);
  for (std::uint64_t i = 0; i < d.members; ++i) {
    if (rest.size() < 46 || load_le<std::uint32_t>(rest, 0) != kCentral)
      throw bad_input("zip directory entry {} is missing; the file is damaged", i);
    const std::size_t name = load_le<std::uint16_t>(rest, 28),
                      extra = load_le<std::uint16_t>(rest, 30),
                      comment = load_le<std::uint16_t>(rest, 32);
    if (name + extra + comment > rest.size() - 46)
      throw bad_input("zip directory entry {} is cut short", i);
    ZipMember m;
    const std::string_view own_name = Blob{rest.subspan(46, name), nullptr}.text();
    m.name = own_name;
    m.method = load_le<std::uint16_t>(rest, 10);
    m.crc = load_le<std::uint32_t>(rest, 16);
    m.packed_bytes = load_le<std::uint32_t>(rest, 20);
    m.bytes = load_le<std::uint32_t>(rest, 24);
    std::uint64_t offset = load_le<std::uint32_t>(rest, 42);
    read_zip64(rest.subspan(46 + name, extra), m, offset);
    check_name(m.name);
    const auto flags = load_le<std::uint16_t>(rest, 8);
    if (!names.insert(own_name).second)
      throw bad_input("zip member {} stands twice; which one is meant cannot be told", m.name);
    // Made on Unix: the upper half holds the mode.
    const auto made_by = load_le<std::uint16_t>(rest, 4);
    const auto mode = load_le<std::uint32_t>(rest, 38) >> 16;
    if (made_by >> 8 == 3 && (mode & 0170000) == 0120000)
      throw bad_input("zip member {} is a symbolic link; repack the archive with the file itself",
                      m.name);
    if ((flags & 1) != 0) throw bad_input("zip member {} is encrypted; decrypt it first", m.name);
    if (m.method != 0 && m.method != 8)
      throw bad_input("zip member {} is packed by method {}; repack it stored or deflated", m.name,
                      m.method);
    place(m, offset, d.offset);
    if (m.method == 8) MemoryBudget::add(4 * m.bytes);
    rest = rest.subspan(46 + name + extra + comment);
    if (m.name.back() != '/') members_.push_back(std::move(m));
  }
  // Members that share bytes let a small file expand without limit.
  std::vector<const ZipMember*> by_offset;
  by_offset.reserve(members_.size());
  for (const ZipMember& m : members_) by_offset.push_back(&m);
  if (!std::ranges::is_sorted(by_offset, {}, &ZipMember::data_offset))
    std::ranges::sort(by_offset, {}, &ZipMember::data_offset);
  for (std::size_t i = 1; i < by_offset.size(); ++i)
    if (by_offset[i - 1]->data_offset + by_offset[i - 1]->packed_bytes > by_offset[i]->data_offset)
      throw bad_input("zip members {} and {} overlap; the file is damaged", by_offset[i - 1]->name,
                      by_offset[i]->name);
}

void ZipReader::place(ZipMember& m, std::uint64_t header, std::uint64_t directory) const {
  const auto& file = file_.bytes;
  if (header > directory || directory - header < 30 ||
      load_le<std::uint32_t>(file, header) != kLocal)
    throw bad_input("zip member {}: no header at byte {}; the file is damaged", m.name, header);
  const std::uint64_t skip =
      30U + load_le<std::uint16_t>(file, header + 26) + load_le<std::uint16_t>(file, header + 28);
  if (skip > directory - header || m.packed_bytes > directory - header - skip)
    throw bad_input("zip member {} claims {} bytes, {} remain; the file is cut short", m.name,
                    m.packed_bytes, directory - header);
  m.data_offset = header + skip;
  const bool lies =
      m.method == 0 ? m.bytes != m.packed_bytes : m.bytes / kDeflateLimit > m.packed_bytes;
  if (lies)
    throw bad_input("zip member {} claims {} bytes out of {} packed ones, which cannot be", m.name,
                    m.bytes, m.packed_bytes);
}

Blob ZipReader::view(const ZipMember& m) const {
  if (m.method == 8) return read(m);
  return {file_.bytes.subspan(m.data_offset, m.packed_bytes), file_.keeper};
}

const ZipMember* ZipReader::find(std::string_view name) const {
  const auto at = std::ranges::find(members_, name, &ZipMember::name);
  return at == members_.end() ? nullptr : &*at;
}

Blob ZipReader::read(const ZipMember& m) const {
  Blob blob{file_.bytes.subspan(m.data_offset, m.packed_bytes), file_.keeper};
  if (m.method == 8) {
    auto memory = std::make_shared<Tensor>(
        Tensor::uninitialized(DType::u8, {static_cast<std::int64_t>(m.bytes)}));
    const auto out = memory->mutable_bytes();
    z_stream z{};
    if (inflateInit2(&z, -15) != Z_OK) throw internal_error("zlib did not start");
    int state = Z_OK;
    std::size_t read = 0, made = 0;
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    while (state == Z_OK) {
      z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(blob.bytes.data() + read));
      z.avail_in = static_cast<uInt>(std::min(kMost, blob.bytes.size() - read));
      z.next_out = reinterpret_cast<Bytef*>(out.data() + made);
      z.avail_out = static_cast<uInt>(std::min(kMost, out.size() - made));
      const uInt in_before = z.avail_in, out_before = z.avail_out;
      state = inflate(&z, Z_NO_FLUSH);
      read += in_before - z.avail_in;
      made += out_before - z.avail_out;
    }
    inflateEnd(&z);
    if (state != Z_STREAM_END || made != out.size() || read != blob.bytes.size())
      throw bad_input("zip member {} does not inflate to its {} bytes; fetch the file again",
                      m.name, m.bytes);
    blob = {memory->bytes(), memory};
  }
  if (crc_of(blob.bytes) != m.crc)
    throw bad_input("zip member {} fails its CRC-32 check; fetch the file again", m.name);
  return blob;
}

void ZipWriter::add(const std::string& name, std::span<const std::span<const std::byte>> parts) {
  if (leads_elsewhere(name))
    throw usage_error(
        "'{}' would lead elsewhere as the name of a member of an archive; save as safetensors",
        printable(name));
  check_name(name);
  Written w{name, 0, 0, out_.position()};
  for (const auto part : parts) {
    w.crc = crc_of(part, w.crc);
    w.bytes += part.size();
  }
  const bool big = w.bytes >= kFull;
  std::string extra;
  if (big) {
    put(extra, 1, 2);
    put(extra, 16, 2);
    put(extra, w.bytes, 8);
    put(extra, w.bytes, 8);
  }
  // The padding is an extra field of its own (the id that Android's zipalign uses).
  const std::size_t unpadded = w.offset + 30 + name.size() + extra.size() + 4;
  const std::size_t padding = (64 - unpadded % 64) % 64;
  put(extra, 0xd935, 2);
  put(extra, padding, 2);
  extra.append(padding, '\0');
  std::string head;
  put(head, kLocal, 4);
  put(head, big ? 45 : 20, 2);
  put(head, 0x0800, 2);  // names are UTF-8
  put(head, 0, 2);
  put(head, 0, 2);
  put(head, 0x21, 2);  // 1 January 1980
  put(head, w.crc, 4);
  put(head, big ? kFull : w.bytes, 4);
  put(head, big ? kFull : w.bytes, 4);
  put(head, name.size(), 2);
  put(head, extra.size(), 2);
  out_.write(head + name + extra);
  for (const auto part : parts) out_.write(part);
  written_.push_back(std::move(w));
}

void ZipWriter::finish() {
  const std::uint64_t start = out_.position();
  for (const Written& w : written_) {
    std::string extra;
    const bool big = w.bytes >= kFull, far = w.offset >= kFull;
    if (big) {
      put(extra, w.bytes, 8);
      put(extra, w.bytes, 8);
    }
    if (far) put(extra, w.offset, 8);
    std::string entry;
    put(entry, kCentral, 4);
    put(entry, 45, 2);
    put(entry, big || far ? 45 : 20, 2);
    put(entry, 0x0800, 2);
    put(entry, 0, 2);
    put(entry, 0, 2);
    put(entry, 0x21, 2);
    put(entry, w.crc, 4);
    put(entry, big ? kFull : w.bytes, 4);
    put(entry, big ? kFull : w.bytes, 4);
    put(entry, w.name.size(), 2);
    put(entry, extra.empty() ? 0 : extra.size() + 4, 2);
    put(entry, 0, 2);
    put(entry, 0, 2);
    put(entry, 0, 2);
    put(entry, 0, 4);
    put(entry, far ? kFull : w.offset, 4);
    entry += w.name;
    if (!extra.empty()) {
      put(entry, 1, 2);
      put(entry, extra.size(), 2);
      entry += extra;
    }
    out_.write(entry);
  }
  const std::uint64_t end = out_.position(), bytes = end - start, members = written_.size();
  std::string tail;
  const bool big = members >= 0xffff || bytes >= kFull || start >= kFull;
  if (big) {
    put(tail, kEnd64, 4);
    put(tail, 44, 8);
    put(tail, 45, 2);
    put(tail, 45, 2);
    put(tail, 0, 8);
    put(tail, members, 8);
    put(tail, members, 8);
    put(tail, bytes, 8);
    put(tail, start, 8);
    put(tail, kLocator64, 4);
    put(tail, 0, 4);
    put(tail, end, 8);
    put(tail, 1, 4);
  }
  put(tail, kEnd, 4);
  put(tail, 0, 4);
  put(tail, big ? 0xffff : members, 2);
  put(tail, big ? 0xffff : members, 2);
  put(tail, big ? kFull : bytes, 4);
  put(tail, big ? kFull : start, 4);
  put(tail, 0, 2);
  out_.write(tail);
}

}  // namespace etalon
