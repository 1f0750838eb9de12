// The libFuzzer program of all harnesses (harnesses.h): --harness=NAME says which, --list names
// them with their files. An input is opened and every tensor of it read, or refused; anything but a
// bad-input Error of one line is a finding.
//
// The last line says how many inputs became a model, and how many reached the graph builder or a
// tensor. Mutants that all die in the container test nothing else.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "tests/fuzz/targets.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace etalon::fuzz;

// Beside other fuzzers' files and gone with the process; memory-backed.
struct State {
  Target target;
  std::string folder = "/dev/shm/etalon-fuzz-" + std::to_string(::getpid()) + "/";
  std::size_t runs = 0, opened = 0, reached = 0;

  explicit State(Target t) : target(std::move(t)) {}
  ~State() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    std::fprintf(stderr, "%s: %zu runs, %zu became a model, %zu reached a node or tensor\n",
                 target.name.c_str(), runs, opened, reached);
  }
};
std::unique_ptr<State> state;

}  // namespace

namespace etalon::fuzz {

void mutate_bytes(Bytes& file, Draw& draw) {
  const std::size_t size = file.size(), most = size + 16 + draw.below(64);
  file.resize(most);
  file.resize(LLVMFuzzerMutate(file.data(), size, most));
}

}  // namespace etalon::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::string name;
  const std::vector<Target> all = targets();
  for (int i = 1; i < *argc; ++i) {
    const std::string_view word = (*argv)[i];
    if (word == "--list") {
      for (const Target& t : all) {
        std::printf("%s", t.name.c_str());
        for (const std::string& f : t.files) std::printf(" %s", f.c_str());
        std::printf("\n");
      }
      std::exit(0);
    }
    if (word.starts_with("--harness=")) name = word.substr(10);
  }
  for (const Target& t : all)
    if (t.name == name) state = std::make_unique<State>(t);
  if (!state) {
    std::fprintf(stderr, "no harness '%s'; --list names them\n", name.c_str());
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Outcome outcome = run_input(state->target, state->folder, Bytes(data, data + size));
  ++state->runs;
  state->opened += outcome.opened ? 1 : 0;
  state->reached += outcome.reached ? 1 : 0;
  if (!outcome.finding.empty()) {
    std::fprintf(stderr, "FINDING: %s\n", outcome.finding.c_str());
    std::abort();
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  Draw draw(seed);
  Bytes out = mutated(state->target, Bytes(data, data + size), draw);
  if (out.size() > max_size) out.resize(max_size);
  if (!out.empty()) std::memcpy(data, out.data(), out.size());
  return out.size();
}
