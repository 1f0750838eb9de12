// A libFuzzer entry over one format: the bytes become a file, which is opened or refused. Anything
// but a bad-input Error of one line is a finding. The format is ETALON_FUZZ_ENDING, so that a
// harness is a name in CMakeLists.txt. At the end it says what share of the inputs became a model:
// mutations that all die in the container test nothing else.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "importers/importers.h"

namespace {

std::size_t opened = 0, runs = 0;

// Beside other fuzzers' files and gone with the process; memory-backed where the system has it.
struct Scratch {
  std::string path = "/dev/shm/etalon-fuzz-" + std::to_string(::getpid()) + ETALON_FUZZ_ENDING;
  ~Scratch() {
    ::unlink(path.c_str());
    std::fprintf(stderr, "%s: %zu of %zu inputs became a model\n", ETALON_FUZZ_ENDING, opened,
                 runs);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  std::ofstream(scratch.path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  ++runs;
  try {
    for (const etalon::NamedTensor& tensor : etalon::load_tensors(scratch.path))
      static_cast<void>(etalon::hash_tensor(tensor.tensor));  // every byte is read
    ++opened;
  } catch (const etalon::Error& e) {
    if (e.kind() != etalon::ErrorKind::bad_input ||
        std::string(e.what()).find('\n') != std::string::npos)
      std::abort();
  }
  return 0;
}
