// LevelDB's sorted tables, as TensorFlow's checkpoints are: keys in order, values as bytes.
//
// A table ends with a footer of 48 bytes: two block handles (varint offset and size), padding, the
// magic number db4775248b80fb57. A block is entries (varints shared, unshared, value length; then
// the bytes), restart offsets, their count; behind it a byte says how it is stored (0 as it is, 1
// Snappy) and 4 bytes of checksum. The index block's values are the handles of data blocks.
// Source: LevelDB's doc/table_format.md; Snappy's format_description.txt.
#pragma once

#include <string>
#include <vector>

#include "importers/containers/bytes.h"

namespace etalon {

struct TableEntry {
  std::string key;
  Blob value;
};

bool is_sstable(std::span<const std::byte> suffix);  // the last bytes of a file, 8 at least
std::vector<TableEntry> read_sstable(const Blob& file);

// A bad-input Error where the bytes are not Snappy's or claim more than they can hold.
std::string snappy_decompress(std::span<const std::byte> bytes);

}  // namespace etalon
