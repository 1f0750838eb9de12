// Mutated files: bits flipped, bytes cut out, doubled, overwritten by sizes and by pieces of the
// same file. Each is read or refused with exit kind bad_input; nothing else may happen (this test
// runs under the address and undefined-behaviour sanitizers too), and no read may take memory
// beyond a constant factor of the file's size.
//
// A failure prints seed and number: mutated(seed, number) is that file again.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <vector>

#include "engine/core/philox.h"
#include "importers/importers.h"
#include "tests/importer_files.h"
#include "tests/peak_memory.h"

using namespace etalon;
using test::fixture, test::peak_kib;

namespace {

// Counter-based, so that a number alone names a file.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t number) : random_{seed, number} {}
  std::uint64_t below(std::uint64_t n) {
    const auto b = random_.block(at_++);
    return (std::uint64_t{b[0]} << 32 | b[1]) % n;
  }

 private:
  Philox random_;
  std::uint64_t at_ = 0;
};

std::string mutated(const std::string& file, std::uint64_t seed, std::uint64_t number) {
  constexpr std::array<std::uint64_t, 8> kSizes{0,          1,          0x7f,        0xff,
                                                0x7fffffff, 0xffffffff, 0x1ffffffff, ~0ULL};
  Draw draw(seed, number);
  std::string out = file;
  for (std::uint64_t changes = draw.below(2) ? 1 : 1 + draw.below(4); changes > 0 && !out.empty();
       --changes) {
    // Headers are short and decide much: every second change falls into the first 200 bytes.
    const std::size_t span = draw.below(2) ? out.size() : std::min<std::size_t>(out.size(), 200);
    const std::size_t at = draw.below(span);
    const std::size_t n = std::min<std::size_t>(1 + draw.below(16), out.size() - at);
    switch (draw.below(10)) {
      case 0:
      case 6:
      case 7:
      case 8:
      case 9:
        out[at] = static_cast<char>(out[at] ^ (1 << draw.below(8)));
        break;
      case 1:
        out.erase(at, n);
        break;
      case 2:
        out.insert(at, out.substr(at, n));
        break;
      case 3: {
        const std::uint64_t size = kSizes[draw.below(kSizes.size())];
        const std::size_t bytes = std::min<std::size_t>(n, 8);
        std::memcpy(out.data() + at, &size, bytes);
        break;
      }
      case 4:
        out.replace(at, n, out.substr(draw.below(out.size()), n));
        break;
      default:
        out.resize(at);
    }
  }
  return out;
}

struct Counts {
  int files = 0, opened = 0;
  int reached = 0;  // opened, or refused for what a node, tensor or value says
};

Counts mutate(const std::string& name, std::uint64_t seed, int files) {
  const std::string file = test::read_bytes(fixture(name));
  REQUIRE(!file.empty());
  const test::TemporaryFolder folder;
  const std::string path = folder / name.substr(name.find('/') + 1);
  // The neutral graph names its weights: they lie beside it, whole.
  if (name.ends_with(".json"))
    std::filesystem::copy(fixture(name.substr(0, name.size() - 5) + ".safetensors"),
                          folder / "m.safetensors");
  Counts counts;
  for (int i = 0; i < files; ++i) {
    test::write_bytes(path, mutated(file, seed, static_cast<std::uint64_t>(i)));
    ++counts.files;
    try {
      open_model(path);
      ++counts.opened;
      ++counts.reached;
    } catch (const Error& e) {
      const std::string what = e.what();
      for (const char* inner : {": node ", ": tensor ", ": value ", ": member "})
        if (what.find(inner) != std::string::npos) {
          ++counts.reached;
          break;
        }
      if (e.kind() != ErrorKind::bad_input) {
        CAPTURE(name);
        CAPTURE(seed);
        CAPTURE(i);
        FAIL_CHECK(std::string(e.what()));
      }
    }
  }
  return counts;
}

constexpr std::array kFiles{"numpy/f4_be_F.npy",
                            "numpy/stored.npz",
                            "numpy/deflated.npz",
                            "neutral/m.safetensors",
                            "neutral/m.json",
                            "frameworks/small.prototxt",
                            "frameworks/small.pbtxt",
                            "pickles/state.pt",
                            "pickles/state_legacy.pt",
                            "pickles/module.pt",
                            "pickles/traced.pt",
                            "torch_graphs/plain.pt",
                            "torch_graphs/block_traced.pt",
                            "pickles/values_0.pkl",
                            "pickles/values_4.pkl",
                            "hdf5/old.h5",
                            "hdf5/new.h5",
                            "onnx_nodes/conv_1.onnx",
                            "onnx_nodes/split_13.onnx",
                            "onnx_nodes/resize_18_antialias.onnx",
                            "onnx_nodes/batch_norm_7.onnx"};

void run(std::uint64_t seed, int files) {
  const long before = peak_kib();
  for (const char* name : kFiles) {
    const Counts c = mutate(name, seed, files);
    MESSAGE(std::string(name) << ": of " << c.files << " mutated files " << c.reached
                              << " reach tensors or nodes, " << c.opened << " still open");
    CHECK(c.files == files);
    CHECK(c.opened < files);
    if (std::string(name).ends_with(".onnx")) CHECK(c.reached * 10 > files);
  }
  // The files are of a few kilobytes.
  CHECK(peak_kib() - before < test::kMostKib);
}

}  // namespace

TEST_CASE("mutated files are read or refused") { run(1, 100); }

TEST_SUITE("long") {
  TEST_CASE("mutated files are read or refused, many") {
    for (std::uint64_t seed = 2; seed < 12; ++seed) run(seed, 5000);
  }
}
