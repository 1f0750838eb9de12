// The canonical 128-bit hash of a tensor: XXH3-128 (xxHash 0.8, seed 0) over the text of its type,
// a newline, and its elements in row-major order, little-endian. Raw bits are hashed: two NaNs with
// different payloads, and -0 and +0, hash differently. In Python:
//
//   import numpy, xxhash
//   a = numpy.load("y.npy"); kind = {"f": "f", "i": "i", "u": "u"}[a.dtype.kind]
//   head = f"{kind}{8 * a.itemsize}[{','.join(map(str, a.shape))}]\n"   # "bool[...]", "bf16[...]"
//   likewise print(xxhash.xxh3_128_hexdigest(head.encode() +
//   a.astype(a.dtype.newbyteorder("<")).tobytes()))
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/core/tensor.h"

namespace etalon {

struct Hash128 {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};
std::string to_string(const Hash128& hash);  // 32 hexadecimal digits, as xxhash prints them

Hash128 hash_bytes(std::span<const std::byte> bytes);
Hash128 hash_tensor(const Tensor& tensor);

// For data that arrives in pieces; the order of the pieces is part of the hash.
class HashStream {
 public:
  HashStream();
  ~HashStream();
  HashStream(const HashStream&) = delete;
  HashStream& operator=(const HashStream&) = delete;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  void update(const Tensor& tensor);
  Hash128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etalon
