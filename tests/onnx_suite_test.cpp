// ONNX's own node suite, run by tests/onnx_node_suite.py where a Python with onnx is found. It
// fails when a case fails, or when more than one in twenty of those inside is refused.
#include <doctest/doctest.h>

#include <filesystem>

#include "bench/runners/process.h"
#include "bench/runners/runner.h"
#include "tests/importer_files.h"

using namespace etalon;

TEST_SUITE("long") {
  TEST_CASE("onnx: the node suite passes, or is refused for a reason") {
    const std::string program =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "etalon").string();
    const FrameworkState state = framework_state(find_runner("onnx_reference"));
    if (!state.ready || !std::filesystem::exists(program)) {
      MESSAGE("skipped: ", state.ready ? "etalon is not built beside these tests" : state.reason);
      return;
    }
    Process suite(
        {.command = {state.interpreter.path,
                     std::string(ETALON_SOURCE_DIR) + "/tests/onnx_node_suite.py", program},
         .environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}});
    std::string line, last;
    while (suite.receive_line(line, Seconds(300)) == Process::Status::line) {
      if (line.starts_with("failed")) FAIL_CHECK(line);
      last = line;
    }
    REQUIRE(suite.wait_for_end(Seconds(60)));
    MESSAGE("onnx_node_suite: ", last);
    CHECK(last.find(" passed, ") != std::string::npos);
    CHECK(suite.how_it_ended() == "exited with status 0");
  }
}
