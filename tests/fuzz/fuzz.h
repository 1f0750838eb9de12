// A libFuzzer entry over one ending: the bytes become a file, which is opened or refused. Anything
// but a bad-input Error is a finding. Built with -DETALON_FUZZ=ON under clang; run with a folder of
// seeds: fuzz_onnx corpus tests/fixtures/onnx_nodes.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/core/error.h"
#include "importers/importers.h"

namespace etalon::fuzz {

inline int open_bytes(const std::uint8_t* data, std::size_t size, const char* ending) {
  static const std::string path = "/tmp/etalon-fuzz-" + std::to_string(::getpid()) + ending;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    open_model(path);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::bad_input) std::abort();
  }
  return 0;
}

}  // namespace etalon::fuzz
