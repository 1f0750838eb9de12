// Zip archives, stored or deflated members, zip64 where sizes need it.
//
// The central directory alone is believed, and only after every member's local header was found
// where it says, within the file and overlapping no other member. A deflated member may expand by
// at most 1032 (deflate's own limit), so a small file cannot ask for much memory. Refused by name:
// encryption, other methods, members split over disks, names that are absolute, climb ("..") or
// stand twice. Source: PKWARE APPNOTE 6.3.10.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/file.h"
#include "importers/containers/bytes.h"

namespace etalon {

struct ZipMember {
  std::string name;
  std::uint16_t method = 0;  // 0 stored, 8 deflated
  std::uint32_t crc = 0;
  std::uint64_t packed_bytes = 0, bytes = 0, data_offset = 0;
};

class ZipReader {
 public:
  explicit ZipReader(Blob file);
  const std::vector<ZipMember>& members() const { return members_; }
  // A stored member is read in place, a deflated one inflated; both are held to their CRC-32.
  Blob read(const ZipMember& member) const;
  // The same, but a stored member's bytes are not read now and so not checked: weights of big files
  // stay on the disk until they are used.
  Blob view(const ZipMember& member) const;
  const ZipMember* find(std::string_view name) const;  // nullptr when there is none

 private:
  void place(ZipMember& member, std::uint64_t header_offset, std::uint64_t directory_offset) const;
  Blob file_;
  std::vector<ZipMember> members_;
};

bool is_zip(std::span<const std::byte> prefix);
// What the first member calls itself, "" where that is cut off: it tells most archives apart before
// their directories are read.
std::string_view first_zip_member(std::span<const std::byte> prefix);

// Writes members uncompressed, their data at multiples of 64 bytes, so that a reader can map them.
// Dates are fixed: the same content gives the same file.
class ZipWriter {
 public:
  explicit ZipWriter(FileWriter& out) : out_(out) {}
  void add(const std::string& name, std::span<const std::span<const std::byte>> parts);
  void finish();

 private:
  struct Written {
    std::string name;
    std::uint32_t crc;
    std::uint64_t bytes, offset;
  };
  FileWriter& out_;
  std::vector<Written> written_;
};

}  // namespace etalon
