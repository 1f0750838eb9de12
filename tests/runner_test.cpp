// A runner that goes wrong costs its own row: each way of going wrong gives its own reason, ends
// that process and nothing else, and leaves nothing behind.
#include "bench/runners/runner.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "bench/runners/process.h"
#include "bench/runners/tensor_file.h"
#include "engine/core/hash.h"

using namespace etalon;
namespace fs = std::filesystem;

namespace {

RunnerFolder fake() {
  return read_runner_folder(std::string(ETALON_SOURCE_DIR) + "/tests/runners/fake");
}

std::unique_ptr<Runner> start_fake(const std::string& fault, double timeout_s = 20) {
  RunnerTarget target = parse_target("fake");
  if (!fault.empty()) target.options["fault"] = fault;
  return start_runner(fake(), target,
                      {.threads = 1, .start_timeout_s = timeout_s, .request_timeout_s = timeout_s});
}

TensorMap input() {
  TensorMap map;
  map.emplace("x", Tensor::of<float>({2, 2}, {1.0F, -0.0F, INFINITY, 5e-45F}));
  return map;
}

// The reason of the first request that fails; "" when none does.
std::string reason_of(const std::string& fault, double timeout_s, RunnerStatus& status,
                      bool& alive) {
  alive = false;
  try {
    const auto runner = start_fake(fault, timeout_s);
    try {
      runner->load_file("/x.fake");
      runner->run(input(), {.expect = {{"y", {DType::f32, {2, 2}}}}});
      runner->time(input(), 1, 3);
      alive = true;
    } catch (const RunnerError& e) {
      alive = runner->alive();
      status = e.status();
      if (!alive) CHECK_THROWS_WITH_AS(runner->run(input()), e.what(), RunnerError);
      return e.what();
    }
  } catch (const RunnerError& e) {
    status = e.status();
    return e.what();
  }
  return "";
}

int job_folders() {
  int n = 0;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
    n += entry.path().filename().string().starts_with("etalon-runner-") ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("target: name, interpreter, options") {
  const RunnerTarget t = parse_target("onnxruntime@/opt/py/bin/python3:opt=off,threads=2");
  CHECK(t.runner == "onnxruntime");
  CHECK(t.interpreter == "/opt/py/bin/python3");
  CHECK(t.options.at("opt") == "off");
  CHECK(t.options.at("threads") == "2");
  CHECK(parse_target("pytorch").interpreter.empty());
  const auto list = parse_targets("onnxruntime:opt=off,threads=2,pytorch,pytorch@/p:threads=3");
  REQUIRE(list.size() == 3);
  CHECK(list[0].options.size() == 2);
  CHECK(list[1].text == "pytorch");
  CHECK(list[2].text == "pytorch@/p:threads=3");
  CHECK_THROWS_AS(parse_target(""), Error);
  CHECK_THROWS_AS(parse_target("onnxruntime@"), Error);
  CHECK_THROWS_AS(parse_target("../etc"), Error);
  CHECK_THROWS_AS(parse_target("pytorch:threads=0"), Error);
  CHECK_THROWS_AS(parse_target("pytorch:threads=x"), Error);
  CHECK_THROWS_WITH_AS(find_runner("nosuch"), doctest::Contains("onnxruntime"), Error);
}

TEST_CASE("tensor file: every type comes back bit for bit") {
  TensorMap map;
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    Tensor t = Tensor::uninitialized(dtype, {3, 0});
    map.emplace(std::string("empty ") + std::string(name(dtype)), std::move(t));
    Tensor u = Tensor::uninitialized(dtype, {2, 3});
    auto bytes = u.mutable_bytes();
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = dtype == DType::boolean ? std::byte(i & 1) : std::byte(0xf1 * i + 0x7f);
    map.emplace(name(dtype), std::move(u));
  }
  map.emplace("scalar", Tensor::of<float>({}, {std::numeric_limits<float>::quiet_NaN()}));
  const std::string path =
      fs::temp_directory_path() / ("etalon-test-" + std::to_string(::getpid()));
  write_tensor_file(path, map);
  const TensorMap back = read_tensor_file(path);
  fs::remove(path);
  REQUIRE(back.size() == map.size());
  for (const auto& [key, tensor] : map)
    CHECK_MESSAGE(hash_tensor(tensor) == hash_tensor(back.at(key)), key);
}

TEST_CASE("runner: a fault gives its reason and ends only its own process") {
  if (!framework_state(fake()).ready) {
    MESSAGE("skipped: no python3 on this machine");
    return;
  }
  const int folders_before = job_folders();
  const auto healthy = start_fake("");
  healthy->load_file("/x.fake");
  struct Row {
    const char *fault, *reason;
    RunnerStatus status = RunnerStatus::failed;
    bool alive = false;
    double timeout_s = 20;
  };
  const Row rows[] = {
      {"crash@run",
       "was ended by signal 11 (Segmentation fault) during 'run'; its last words: "
       "Fatal: the tensor fell over"},
      {"exit@hello",
       "exited with status 3 during 'hello'; its last words: libfake.so: cannot open"},
      {"hang@run", "did not answer 'run' within 1 s and was ended", RunnerStatus::failed, false, 1},
      {"hang@hello", "did not answer 'hello' within 1 s", RunnerStatus::failed, false, 1},
      {"babble@run", "a line that is no JSON object: Loading plugin libfake ... done"},
      {"array@load", "answered 'load' with a line that is no JSON object: [1, 2, 3]"},
      {"stale@run", "answered 'run' under id 2, expected 3"},
      {"empty@load", "answered 'load' without a field that it needs"},
      {"empty@run", "left no readable tensors"},
      {"flood@run", "exited with status 1 during 'run'; its last words: last line"},
      {"wrong name@run", "left out the value y"},
      {"wrong dtype@run", "described y as f32[2,2] and wrote i32[2,2]"},
      {"wrong count@run", "counted 7 NaN in y, its file holds 0"},
      {"cut@run", "tensor y claims bytes 0 to 16 of 12"},
      {"too few@time", "answered 1 times for 3 runs"},
      {"refuse@load", "node n7 (lstm): no peepholes here", RunnerStatus::refused, true},
      {"absent@hello", "libfake 3 is not installed", RunnerStatus::unavailable},
  };
  int checked = 0;
  for (const Row& row : rows) {
    CAPTURE(row.fault);
    RunnerStatus status{};
    bool alive = true;
    const std::string reason = reason_of(row.fault, row.timeout_s, status, alive);
    CHECK_MESSAGE(reason.find(row.reason) != std::string::npos, "got: ", reason);
    CHECK(reason.starts_with("fake: "));
    CHECK(status == row.status);
    CHECK(alive == row.alive);
    // The neighbour noticed nothing.
    const RunAnswer answer = healthy->run(input());
    CHECK(hash_tensor(answer.tensors.at("y")) == hash_tensor(input().at("x")));
    ++checked;
  }
  CHECK(checked == 17);
  CHECK(job_folders() == folders_before + 1);  // the healthy one's
}

TEST_CASE("runner: a wrong shape is garbage, an unknown option or interpreter is said") {
  if (!framework_state(fake()).ready) {
    MESSAGE("skipped: no python3 on this machine");
    return;
  }
  const auto runner = start_fake("");
  runner->load_file("/x.fake");
  CHECK_THROWS_WITH_AS(runner->run(input(), {.expect = {{"y", {DType::f32, {4}}}}}),
                       doctest::Contains("answered y as f32[2,2], expected f32[4]"), RunnerError);
  CHECK_FALSE(runner->alive());
  CHECK_THROWS_WITH_AS(start_runner(fake(), parse_target("fake:speed=11"), {}),
                       doctest::Contains("has no option 'speed'; it has fault, threads"), Error);
  CHECK_THROWS_WITH_AS(start_runner(fake(), parse_target("fake@/no/such/python"), {}),
                       doctest::Contains("there is no program /no/such/python"), RunnerError);
  CHECK_THROWS_WITH_AS(start_runner(fake(), parse_target("fake@/bin/false"), {}),
                       doctest::Contains("/bin/false exited with status 1"), RunnerError);
  RunnerFolder lacking = fake();
  lacking.modules = {"json", "no_such_module"};
  CHECK_THROWS_WITH_AS(start_runner(lacking, parse_target("fake"), {}),
                       doctest::Contains("no module no_such_module in"), RunnerError);
}

TEST_CASE("process: the whole group ends, also when the leader ended first") {
  for (const bool leader_first : {false, true}) {
    std::string line;
    pid_t grandchild = 0;
    {
      Process p({.command = {"/bin/sh", "-c",
                             leader_first ? "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!"
                                          : "sleep 1000 & echo $!; wait"}});
      REQUIRE(p.receive_line(line, Seconds(10)) == Process::Status::line);
      grandchild = std::stoi(line);
      if (leader_first) CHECK(p.wait_for_end(Seconds(10)));
    }
    bool gone = false;
    for (int i = 0; i < 500 && !gone; ++i) {
      // A zombie that init has not collected yet counts as gone.
      std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
      std::string pid, command, state;
      gone = !(stat >> pid >> command >> state) || state == "Z";
      if (!gone) ::usleep(10000);
    }
    CHECK(gone);
  }
  // A reader that is gone does not end us with SIGPIPE.
  Process p({.command = {"/bin/true"}});
  CHECK(p.wait_for_end(Seconds(10)));
  CHECK(p.send_line(std::string(1 << 20, 'x'), Seconds(5)) == Process::Status::ended);
  CHECK(p.how_it_ended() == "exited with status 0");
}
