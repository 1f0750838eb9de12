#include "bench/cli/kernel_lines.h"

#include <doctest/doctest.h>

using namespace etalon;

TEST_CASE("kernels: a library's engines that say the same are one line") {
  std::vector<cli::KernelLine> lines;
  const auto add = [&](const char* name, const char* promises, const char* here) {
    add_line(lines,
             {.mark = "", .first = name, .needs = "cuda", .promises = promises, .here = here});
  };
  add("conv.f32.avx2", "seq", "");
  add("conv.f32.avx512", "seq", "");  // ours, each a line
  add("v.engine0", "nothing (9)", "refuses: a");
  add("v.engine1", "nothing (9)", "would run");
  add("v.engine2", "nothing (9)", "refuses: a");
  add("v.engine3", "nothing (9)", "refuses: a");
  add("v.engine10", "nothing (9)", "refuses: a");
  add("v.engine10_tf32", "nothing (9)", "refuses: a");
  REQUIRE(lines.size() == 6);
  CHECK(lines[1].last.empty());
  CHECK(lines[3].last.empty());
  CHECK(lines[4].first == "v.engine2");
  CHECK(lines[4].last == "v.engine10");
  CHECK(lines[5].first == "v.engine10_tf32");
}
