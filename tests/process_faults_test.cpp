// What the program leaves behind when it cannot go on: a disk (here a file-size limit) that is
// full, and Ctrl-C. Runs the program itself as a process, because both end one.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "engine/core/file.h"
#include "tests/importer_files.h"

namespace {

namespace fs = std::filesystem;
using etalon::test::TemporaryFolder;

struct Ended {
  int code = -1;  // -1: by a signal
  std::string error;
};

std::string program() { return (fs::read_symlink("/proc/self/exe").parent_path() / "etalon"); }

// Starts it with its standard error in a file; `file_limit` bytes is the largest file it may write.
template <class While>
Ended run(const TemporaryFolder& folder, std::vector<std::string> words, rlim_t file_limit,
          While&& meanwhile) {
  words.insert(words.begin(), program());
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const std::string log = folder / "stderr";
  const pid_t child = ::fork();
  if (child == 0) {
    // Only calls that are allowed between fork and exec.
    if (std::freopen(log.c_str(), "w", stderr) == nullptr) ::_exit(99);
    const rlimit limit{file_limit, file_limit};
    if (file_limit != 0 && ::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(98);
    ::execv(argv[0], argv.data());
    ::_exit(97);
  }
  meanwhile(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, etalon::test::read_bytes(log)};
}

std::vector<std::string> left_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("program: a full disk leaves a sentence and no file") {
  if (!fs::exists(program())) {
    MESSAGE("the program is not built beside these tests: build etalon_cli");
    return;
  }
  const TemporaryFolder folder;
  fs::create_directory(folder / "out");
  const std::string lenet = ETALON_SOURCE_DIR "/bench/demo/lenet.onnx";
  const std::vector<std::vector<std::string>> commands{
      {"convert", lenet, "-o", folder / "out/lenet.safetensors"},
      {"convert", lenet, "-o", folder / "out/lenet.onnx"},
      {"convert", lenet, "-o", folder / "out/lenet.npz"},
      {"run", lenet, "--data", "mnist", "-o", folder / "out/y.npz"},
      {"run", lenet, "--data", "mnist", "--samples", "2", "--json", folder / "out/record.json"},
  };
  for (const auto& command : commands) {
    CAPTURE(command.back());
    const Ended ended = run(folder, command, 512, [](pid_t) {});
    CHECK(ended.code == 3);
    CAPTURE(ended.error);
    CHECK(ended.error.find("nothing is left under that name") != std::string::npos);
    CHECK(ended.error.find(command.back()) == ended.error.rfind(command.back()));  // said once
    CHECK(std::count(ended.error.begin(), ended.error.end(), '\n') == 1);
    CHECK(left_in(folder / "out").empty());
  }
}

TEST_CASE("program: Ctrl-C in the middle ends it with its own exit code and no file") {
  if (!fs::exists(program())) {
    MESSAGE("the program is not built beside these tests: build etalon_cli");
    return;
  }
  const TemporaryFolder folder;
  fs::create_directory(folder / "out");
  // The definition of the exact contract takes minutes on these images.
  const Ended ended =
      run(folder,
          {"run", ETALON_SOURCE_DIR "/bench/demo/lenet.onnx", "--data", "mnist", "--contract",
           "exact", "--isa", "sse2", "--threads", "2", "-o", folder / "out/y.npz"},
          0, [](pid_t child) {
            std::this_thread::sleep_for(std::chrono::milliseconds(700));
            ::kill(child, SIGINT);
          });
  CAPTURE(ended.error);
  CHECK(ended.code == 130);
  CHECK(ended.error.find("stopped by Ctrl-C") != std::string::npos);
  CHECK(left_in(folder / "out").empty());
}

TEST_CASE("program: a bench that is interrupted keeps its rows, says so, and goes on from them") {
  if (!fs::exists(program())) {
    MESSAGE("the program is not built beside these tests: build etalon_cli");
    return;
  }
  const TemporaryFolder folder;
  const std::string record = folder / "r.json", state = folder / "s";
  // The second shape takes minutes of repetitions; Ctrl-C comes when the first row is kept.
  const auto bench = [&](const char* minutes, const std::function<void(pid_t)>& meanwhile) {
    return run(
        folder,
        {"bench", "--shape", "relu f32[64]", "--shape", minutes, "--no-errors", "--repetitions",
         "2", "--min-time", "1", "--threads", "1", "--state", state, "--json", record},
        0, meanwhile);
  };
  const Ended ended = bench("gemm f32[3000,3000] f32[3000,3000]", [&](pid_t child) {
    for (int i = 0; i < 600 && (!fs::exists(state) || left_in(state).empty()); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(child, SIGINT);
  });
  CAPTURE(ended.error);
  CHECK(ended.code == 130);
  CHECK(ended.error.find("nothing was written") == std::string::npos);
  const auto first = nlohmann::json::parse(etalon::read_text_file(record))["bench"];
  CHECK(first["complete"] == false);
  REQUIRE(first["rows"].size() == 1);
  CHECK(bench("relu f32[128]", [](pid_t) {}).code == 0);
  const auto second = nlohmann::json::parse(etalon::read_text_file(record))["bench"];
  CHECK(second["complete"] == true);
  REQUIRE(second["rows"].size() == 2);
  // Not timed again; its share of the peak is told against this run's.
  auto kept = second["rows"][0], before = first["rows"][0];
  kept.erase("of_peak");
  before.erase("of_peak");
  CHECK(kept == before);
}

TEST_CASE("program: Ctrl-C leaves what functions, runs and 'order' had done in their records") {
  if (!fs::exists(program())) {
    MESSAGE("the program is not built beside these tests: build etalon_cli");
    return;
  }
  const TemporaryFolder folder;
  const std::string record = folder / "r.json", found = folder / "found", state = folder / "s";
  const auto after = [](const std::function<bool()>& ready) {
    return [ready](pid_t child) {
      for (int i = 0; i < 600 && !ready(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ::kill(child, SIGINT);
    };
  };
  const auto begun = std::chrono::steady_clock::now();
  const Ended functions = run(
      folder,
      {"bench", "functions", "--threads", "1", "--no-errors", "--min-time", "20", "--repetitions",
       "5", "--json", record},
      0, after([&] { return std::chrono::steady_clock::now() - begun > std::chrono::seconds(1); }));
  CAPTURE(functions.error);
  CHECK(functions.code == 130);
  auto bench = nlohmann::json::parse(etalon::read_text_file(record))["bench"];
  CHECK(bench["complete"] == false);
  CHECK(!bench["rows"].empty());

  const Ended runs =
      run(folder,
          {"bench", "--shape", "relu f32[64]", "--no-errors", "--threads", "1", "--repetitions",
           "2", "--min-time", "1", "--runs", "500", "--state", state, "--json", record},
          0, after([&] { return fs::exists(state) && left_in(state).size() > 3; }));
  CAPTURE(runs.error);
  CHECK(runs.code == 130);
  bench = nlohmann::json::parse(etalon::read_text_file(record))["bench"];
  CHECK(bench["complete"] == false);
  CHECK(bench["runs"].size() > 1);
  CHECK(bench["rows"][0]["run_fastest"].size() == bench["runs"].size());

  const Ended order = run(folder,
                          {"bench", "order", "--vs", "onednn", "--all", "--threads", "2", "-o",
                           found, "--json", record},
                          0, after([&] { return fs::exists(found) && left_in(found).size() > 1; }));
  CAPTURE(order.error);
  // Without oneDNN there is nothing to ask; a machine where nothing differs ends by itself.
  if (order.code == 130) {
    const auto left = nlohmann::json::parse(etalon::read_text_file(record))["order"];
    CHECK(left["complete"] == false);
    CHECK(left["findings"].size() == left_in(found).size());
  }
}
