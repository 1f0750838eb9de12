// Mutations that keep a file's structure: what is broken is one field, opcode, member or offset at
// a time, with the lengths and checksums around it set right again, so that most mutants come past
// the container and reach what reads its content.
//
// Each function returns false, and changes nothing, where the bytes are not of its kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace etalon::fuzz {

using Bytes = std::vector<std::uint8_t>;

// Draws of one mutation; everything follows from the seed that libFuzzer gives.
class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed + 1) {}
  std::size_t below(std::size_t n) { return n == 0 ? 0 : engine_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  std::uint64_t number();  // of those that readers trip over: 0, powers of two, extremes

 private:
  std::minstd_rand engine_;
};

bool mutate_protobuf(Bytes& file, Draw& draw, int depth = 0);
bool mutate_zip(Bytes& file, Draw& draw);
bool mutate_pickle(Bytes& file, Draw& draw);
bool mutate_flatbuffers(Bytes& file, Draw& draw);
bool mutate_text(Bytes& file, Draw& draw);
// Of bytes without structure: libFuzzer's own in its program, a simple one among the tests. Each
// program defines it.
void mutate_bytes(Bytes& file, Draw& draw);
// By what the bytes look like; sometimes as bytes all the same.
void mutate(Bytes& file, Draw& draw);

}  // namespace etalon::fuzz
