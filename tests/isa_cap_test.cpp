// `bench --isa avx2` beside a peer that chooses its own instruction set: a peer only where its own
// variable holds it to the same. The library reads that once, so each is a process of its own.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/cpu.h"
#include "kernels/kernels.h"
#include "tests/importer_files.h"

using namespace etalon;

TEST_CASE("program: oneDNN is a peer of --isa avx2 where it is held to AVX2 too") {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "etalon";
  if (!std::filesystem::exists(program) || detect_isa() <= Isa::avx2) return;
  bool built_in = false;
  for (const KernelRow* row : all_kernels().rows_of("gemm"))
    built_in = built_in || row->name.starts_with("onednn");
  if (!built_in) return;
  const test::TemporaryFolder folder;
  for (const bool held : {false, true}) {
    const std::string record = folder / (held ? "held.json" : "free.json");
    const std::string command =
        (held ? "ONEDNN_MAX_CPU_ISA=AVX2 " : "ONEDNN_MAX_CPU_ISA= ") + program.string() +
        " bench cube.128 --isa avx2 --vs onednn --threads 1 --no-errors --min-time 0.1"
        " --repetitions 1 --json " +
        record + " > " + (folder / "out") + " 2>&1";
    REQUIRE(std::system(command.c_str()) == 0);
    const auto row = nlohmann::json::parse(test::read_bytes(record)).at("bench").at("rows").at(0);
    CHECK(row.at("kernel").get<std::string>().starts_with("gemm.f32.avx2"));
    CHECK((row.contains("vs") && row["vs"].contains("onednn.gemm") &&
           row["vs"]["onednn.gemm"].contains("ratio")) == held);
  }
}
