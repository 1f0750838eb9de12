// Golden hashes: tests/golden/ops.txt holds, for every case of tests/op_cases under each of a few
// contracts, the hash of all outputs. They must be what this build computes, at every thread count
// and under every cap of the instruction set; compilers and build types meet here, because each
// compares with the same file. The quick test runs each once as the machine is and once without
// vectors; the long one every thread count and cap. Both print what was proven, op by op.
//
// A hash moves only with a decision on record (docs/adr). To write the file anew:
//   etalon_tests -tc="golden: write*" --no-skip
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <map>

#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"
#include "tests/proven.h"

using namespace etalon;

namespace {

constexpr const char* kFile = ETALON_SOURCE_DIR "/tests/golden/ops.txt";
constexpr const char* kContracts[] = {"seq", "exact", "order=lanes:8", "fma=off,round=rz"};

std::string hash_of(const OpCase& c, const std::vector<Tensor>& in, const char* contract,
                    int threads, Isa isa) {
  const ErrorScope where(c.line + " [" + contract + "]");
  const auto p = pointers(in);
  const OpRun r = run_op(*c.op, c.params, p, all_kernels(),
                         {.contract = Contract::parse(contract), .isa = isa, .threads = threads});
  HashStream all;
  for (const Tensor& t : r.outputs) all.update(t);
  return to_string(all.digest());
}

void compare_all(const std::vector<int>& thread_counts, const std::vector<Isa>& isas) {
  std::map<std::string, std::string> recorded;
  std::ifstream in(kFile);
  for (std::string name, contract, hash; in >> name >> contract >> hash;)
    recorded[name + " " + contract] = hash;
  REQUIRE(!recorded.empty());

  struct Row {
    int cases = 0, hashes = 0, runs = 0, equal = 0;
  };
  std::map<std::string_view, Row> table;
  for (const OpCase& c : op_cases()) {
    const std::vector<Tensor> inputs = case_inputs(c);
    Row& row = table[c.op->name];
    ++row.cases;
    for (const char* contract : kContracts) {
      const auto at = recorded.find(c.name + " " + contract);
      CHECK_MESSAGE(at != recorded.end(), c.name, " [", std::string(contract), "] is not in ",
                    std::string(kFile));
      if (at == recorded.end()) continue;
      ++row.hashes;
      const auto compare = [&](int threads, Isa isa) {
        const std::string got = hash_of(c, inputs, contract, threads, isa);
        ++row.runs;
        row.equal += got == at->second ? 1 : 0;
        CHECK_MESSAGE(got == at->second, c.line, " [", std::string(contract), "] threads=", threads,
                      " isa=", name(isa));
      };
      for (const int threads : thread_counts) compare(threads, detect_isa());
      for (const Isa isa : isas) compare(2, isa);
      recorded.erase(at);
    }
  }
  for (const auto& [what, hash] : recorded)
    FAIL_CHECK(what, " is on record and there is no such case");

  std::string isa_text;
  for (const Isa isa : isas) isa_text += " " + std::string(name(isa));
  std::cout << fmt::format("golden hashes, threads {}, instruction sets up to {}{}\n",
                           fmt::join(thread_counts, " "), name(detect_isa()), isa_text)
            << fmt::format("{:<30}{:>7}{:>8}{:>7}{:>7}\n", "op", "cases", "hashes", "runs",
                           "equal");
  for (const auto& [op, row] : table)
    std::cout << fmt::format("{:<30}{:>7}{:>8}{:>7}{:>7}\n", op, row.cases, row.hashes, row.runs,
                             row.equal);
  Proven all;
  for (const auto& [op, row] : table) {
    all.runs += row.runs;
    all.equal += row.equal;
  }
  all.print("ops");
}

}  // namespace

TEST_CASE("golden: every case has the hash on record") { compare_all({3}, {Isa::sse2}); }

TEST_SUITE("long") {
  TEST_CASE("golden: threads and instruction sets do not show") {
    std::vector<Isa> lower = instruction_sets();
    if (lower.size() > 1) lower.pop_back();
    compare_all({1, 2, 3, 7}, lower);
  }
}

TEST_CASE("golden: write tests/golden/ops.txt" * doctest::skip()) {
  std::ofstream out(kFile);
  REQUIRE(out.good());
  for (const OpCase& c : op_cases()) {
    const std::vector<Tensor> inputs = case_inputs(c);
    for (const char* contract : kContracts)
      out << c.name << " " << contract << " " << hash_of(c, inputs, contract, 1, detect_isa())
          << "\n";
  }
}
