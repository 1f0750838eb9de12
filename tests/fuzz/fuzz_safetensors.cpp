#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return etalon::fuzz::open_bytes(data, size, ".safetensors");
}
