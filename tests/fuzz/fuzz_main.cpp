// The libFuzzer program of all harnesses (harnesses.h): --harness=NAME says which, --list names
// them with their files. An input is opened and every tensor of it read, or refused; anything but a
// bad-input Error of one line is a finding.
//
// --harness=NAME --inputs=FOLDER --blocks=FILE runs a folder of inputs and writes which basic
// blocks of the importers they reach (run.py --evidence makes lines of them).
//
// The last line says how many inputs became a model, and how many reached the graph builder or a
// tensor. Mutants that all die in the container test nothing else.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "tests/fuzz/targets.h"

// What -fsanitize=fuzzer-no-link laid into the importers: a counter for each basic block, and where
// that block begins.
extern "C" {
extern std::uint8_t __start___sancov_cntrs[], __stop___sancov_cntrs[];
extern const std::uintptr_t __start___sancov_pcs[];
extern const char __executable_start[];
}

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

void run_one(Bytes input) {
  const Outcome outcome = run_input(state->target, state->folder, input);
  ++state->runs;
  state->opened += outcome.opened ? 1 : 0;
  state->reached += outcome.reached ? 1 : 0;
  if (!outcome.finding.empty()) {
    std::fprintf(stderr, "FINDING: %s\n", outcome.finding.c_str());
    std::abort();
  }
}

// Runs the files of a folder and writes the blocks of the importers, one a line: its address in the
// program, and 1 where it was reached.
void write_blocks(const std::string& inputs, const std::string& to) {
  for (const auto& entry : std::filesystem::directory_iterator(inputs)) {
    std::ifstream in(entry.path(), std::ios::binary);
    run_one({std::istreambuf_iterator<char>(in), {}});
  }
  std::ofstream out(to);
  const std::ptrdiff_t blocks = __stop___sancov_cntrs - __start___sancov_cntrs;
  for (std::ptrdiff_t i = 0; i < blocks; ++i)
    out << fmt::format(
        "{:#x} {}\n",
        __start___sancov_pcs[2 * i] - reinterpret_cast<std::uintptr_t>(__executable_start),
        __start___sancov_cntrs[i] != 0 ? 1 : 0);
}

}  // namespace

namespace etalon::fuzz {

void mutate_bytes(Bytes& file, Draw& draw) {
  const std::size_t size = file.size(), most = size + 16 + draw.below(64);
  file.resize(most);
  file.resize(LLVMFuzzerMutate(file.data(), size, most));
}

}  // namespace etalon::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::string name, inputs, blocks;
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
    if (word.starts_with("--inputs=")) inputs = word.substr(9);
    if (word.starts_with("--blocks=")) blocks = word.substr(9);
  }
  for (const Target& t : all)
    if (t.name == name) state = std::make_unique<State>(t);
  if (!state) {
    std::fprintf(stderr, "no harness '%s'; --list names them\n", name.c_str());
    std::exit(2);
  }
  if (!blocks.empty()) {
    write_blocks(inputs, blocks);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run_one(Bytes(data, data + size));
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
