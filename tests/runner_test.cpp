// A runner that goes wrong costs its own row: each way of going wrong gives its own reason, ends
// that process and nothing else, and leaves nothing behind.
#include "bench/runners/runner.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "bench/runners/process.h"
#include "engine/core/hash.h"
#include "importers/importers.h"

using namespace etalon;
namespace fs = std::filesystem;

namespace {

RunnerFolder fake() {
  return read_runner_folder(std::string(ETALON_SOURCE_DIR) + "/tests/runners/fake");
}

TensorMap tensors_of(const std::string& path) {
  TensorMap map;
  for (NamedTensor& t : load_tensors(path)) map.emplace(t.name, std::move(t.tensor));
  return map;
}

std::unique_ptr<Runner> start_fake(const std::string& fault, double start_s = 60,
                                   double request_s = 60) {
  RunnerTarget target = parse_target("fake");
  if (!fault.empty()) target.options["fault"] = fault;
  return start_runner(fake(), target,
                      {.threads = 1, .start_timeout_s = start_s, .request_timeout_s = request_s});
}

TensorMap input() {
  TensorMap map;
  map.emplace("x", Tensor::of<float>({2, 2}, {1.0F, -0.0F, INFINITY, 5e-45F}));
  return map;
}

// The reason of the first request that fails; "" when none does.
std::string reason_of(const std::string& fault, double start_s, double request_s,
                      RunnerStatus& status, bool& alive) {
  alive = false;
  try {
    const auto runner = start_fake(fault, start_s, request_s);
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

// A temporary folder of the test's own, used by everything it starts.
class Scratch {
 public:
  Scratch() {
    std::string form = (fs::temp_directory_path() / "etalon-test-XXXXXX").string();
    REQUIRE(::mkdtemp(form.data()) != nullptr);
    path = form;
    if (const char* old = std::getenv("TMPDIR"); old != nullptr) old_ = old;
    ::setenv("TMPDIR", path.c_str(), 1);
  }
  ~Scratch() {
    if (old_.empty())
      ::unsetenv("TMPDIR");
    else
      ::setenv("TMPDIR", old_.c_str(), 1);
    fs::remove_all(path);
  }
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(path), fs::directory_iterator());
  }
  std::string file(const std::string& name) const { return path + "/" + name; }
  std::string path;

 private:
  std::string old_;
};

// A runner whose framework is on this machine, with the test network beside it.
struct LiveFixture {
  Scratch scratch;
  std::unique_ptr<Runner> runner;
  TensorMap inputs, values;  // values: computed in integers

  LiveFixture(const char* name, const std::string& target) {
    const FrameworkState state = framework_state(find_runner(name));
    if (!state.ready) {
      MESSAGE("skipped: ", state.reason);
      return;
    }
    Process make(
        {.command = {state.interpreter.path,
                     ETALON_SOURCE_DIR "/tests/fixtures/make_runner_model.py", scratch.path},
         .environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}});
    REQUIRE(make.wait_for_end(Seconds(120)));
    REQUIRE_MESSAGE(make.how_it_ended() == "exited with status 0", make.error_tail());
    inputs = tensors_of(scratch.file("x.safetensors"));
    values = tensors_of(scratch.file("values.safetensors"));
    runner = start_runner(parse_target(target), {.threads = 2});
  }
  bool same(const RunAnswer& answer, const std::string& value) const {
    return answer.tensors.contains(value) &&
           hash_tensor(answer.tensors.at(value)) == hash_tensor(values.at(value));
  }
};

void check_common(LiveFixture& f, const std::string& model) {
  const std::string path = f.scratch.file(model);
  const LoadedNetwork network = f.runner->load_file(path);
  CHECK(network.outputs == std::vector<std::string>{"y"});
  CHECK(network.refused.empty());
  // By way of the Model that the importer makes of the file, where there is an importer.
  if (model.ends_with(".json")) CHECK(f.runner->load(open_model(path)).given == "neutral");
  const RunAnswer all = f.runner->run(f.inputs, {.every_layer = true});
  CHECK(all.tensors.size() == 3);
  for (const char* value : {"t", "u", "y"}) CHECK_MESSAGE(f.same(all, value), value);
  CHECK_FALSE(all.perturbed);
  const RunAnswer some = f.runner->run(f.inputs, {.layers = {"u"}});
  CHECK(some.tensors.size() == 2);
  CHECK(f.same(some, "u"));
  CHECK_THROWS_WITH_AS(f.runner->run(f.inputs, {.layers = {"nosuch"}}),
                       doctest::Contains("the graph has no value 'nosuch'"), RunnerError);
  CHECK_THROWS_WITH_AS(f.runner->run({}), doctest::Contains("input 'x' was not given"),
                       RunnerError);
  CHECK(f.runner->alive());

  const std::vector<double> seconds = f.runner->time(f.inputs, 1, 4);
  CHECK(seconds.size() == 4);
  const auto peak = f.runner->peak_memory(true);
  REQUIRE(peak.has_value());
  CHECK(*peak > (std::int64_t{1} << 20));

  const TensorMap weights = tensors_of(f.scratch.file("small.safetensors"));
  const TensorMap held = f.runner->parameters();
  CHECK(held.size() == 4);
  for (const auto& [name, tensor] : weights)
    CHECK_MESSAGE(hash_tensor(held.at(name)) == hash_tensor(tensor), name);

  // One weight bit: named by the parameters, and small integers turn it into a visible change.
  f.runner->plant({.kind = "weight_bit", .parameter = "conv2.weight", .index = 3, .bit = 31});
  const TensorMap bent = f.runner->parameters();
  int changed = 0;
  for (const auto& [name, tensor] : weights)
    if (hash_tensor(bent.at(name)) != hash_tensor(tensor)) {
      ++changed;
      CHECK(name == "conv2.weight");
      CHECK(bent.at(name).data<float>()[3] == -tensor.data<float>()[3]);
    }
  CHECK(changed == 1);
  const RunAnswer off = f.runner->run(f.inputs, {.layers = {"u"}});
  CHECK(f.same(off, "u"));
  CHECK_FALSE(f.same(off, "y"));

  // Padding on the other side changes conv1, from where on everything differs.
  f.runner->load_file(path);
  f.runner->plant({.kind = "padding", .node = "conv1"});
  CHECK_FALSE(f.same(f.runner->run(f.inputs, {.layers = {"t"}}), "t"));
  CHECK_THROWS_AS(f.runner->plant({.kind = "padding", .node = "conv2"}), RunnerError);
  // A fault does not outlive its network. Small integers survive 11 bits, so tf32 changes nothing
  // here; 2^24 - 1 does not.
  f.runner->load_file(path);
  f.runner->plant({.kind = "tf32", .node = "conv1"});
  CHECK(f.same(f.runner->run(f.inputs), "y"));
  TensorMap wide;
  Tensor x = f.inputs.at("x").clone();
  for (float& v : x.mutable_data<float>()) v = v + 1.0F / 8192;
  wide.emplace("x", std::move(x));
  const RunAnswer cut = f.runner->run(wide, {.layers = {"t"}});
  f.runner->load_file(path);
  const RunAnswer full = f.runner->run(wide, {.layers = {"t"}});
  CHECK(hash_tensor(cut.tensors.at("t")) != hash_tensor(full.tensors.at("t")));
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

TEST_CASE("runner: a fault gives its reason and ends only its own process") {
  if (!framework_state(fake()).ready) {
    MESSAGE("skipped: no python3 on this machine");
    return;
  }
  const Scratch scratch;
  const auto healthy = start_fake("");
  healthy->load_file("/x.fake");
  struct Row {
    const char *fault, *reason;
    RunnerStatus status = RunnerStatus::failed;
    bool alive = false;
    double start_s = 60, request_s = 60;
  };
  const Row rows[] = {
      {"crash@run",
       "was ended by signal 11 (Segmentation fault) during 'run'; its last words: "
       "Fatal: the tensor fell over"},
      {"exit@hello",
       "exited with status 3 during 'hello'; its last words: libfake.so: cannot open"},
      {"hang@run", "did not answer 'run' within 1 s and was ended", RunnerStatus::failed, false, 60,
       1},
      {"hang@hello", "did not answer 'hello' within 0.2 s", RunnerStatus::failed, false, 0.2},
      {"babble@run", "a line that is no JSON object: Loading plugin libfake ... done"},
      {"array@load", "answered 'load' with a line that is no JSON object: [1, 2, 3]"},
      {"stale@run", "answered 'run' under id 2, expected 3"},
      {"empty@load", "answered 'load' without a field that it needs"},
      {"empty@run", "left no readable tensors"},
      {"flood@run", "exited with status 1 during 'run'; its last words: last line"},
      {"wrong name@run", "left out the value y"},
      {"wrong dtype@run", "described y as f32[2,2] and wrote i32[2,2]"},
      {"wrong count@run", "counted 7 NaN in y, its file holds 0"},
      {"cut@run", "claims data bytes 0 to 16, the file has 12"},
      {"too few@time", "answered 1 times for 3 runs"},
      {"refuse@load", "node n7 (lstm): no peepholes here", RunnerStatus::refused, true},
      {"absent@hello", "libfake 3 is not installed", RunnerStatus::unavailable},
  };
  int checked = 0;
  for (const Row& row : rows) {
    CAPTURE(row.fault);
    RunnerStatus status{};
    bool alive = true;
    const std::string reason = reason_of(row.fault, row.start_s, row.request_s, status, alive);
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
  CHECK(scratch.entries() == 1);  // the healthy one's
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

TEST_CASE("runner: ONNX Runtime gives the integers' bits, at every optimisation level") {
  for (const char* target : {"onnxruntime", "onnxruntime:opt=off,threads=1"}) {
    LiveFixture f("onnxruntime", target);
    if (!f.runner) return;
    CAPTURE(target);
    CHECK(f.runner->info().framework == "ONNX Runtime");
    CHECK(f.runner->info().threads == (std::string_view(target).ends_with("1") ? 1 : 2));
    check_common(f, "small.onnx");
    const auto before = hash_tensor(f.runner->run(f.inputs).tensors.begin()->second);
    CHECK(f.runner->time_open(f.scratch.file("folded.onnx"), 3).size() == 3);
    CHECK_THROWS_WITH_AS(f.runner->time_open(f.scratch.file("none.onnx"), 1),
                         doctest::Contains("none.onnx"), RunnerError);
    CHECK(hash_tensor(f.runner->run(f.inputs).tensors.begin()->second) == before);
    // A normalisation that the optimiser folds into the convolution before it: the value between
    // them is absent, or nothing was changed.
    f.runner->load_file(f.scratch.file("folded.onnx"));
    const RunAnswer untouched = f.runner->run(f.inputs);
    const RunAnswer folded = f.runner->run(f.inputs, {.layers = {"t"}});
    const bool optimises = f.runner->info().options.at("opt") == "all";
    CHECK(folded.perturbed == optimises);
    CHECK(folded.absent ==
          (optimises ? std::vector<std::string>{"t"} : std::vector<std::string>{}));
    CHECK(folded.tensors.contains("t") == !optimises);
    CHECK(hash_tensor(folded.tensors.at("y")) == hash_tensor(untouched.tensors.at("y")));
    CHECK_THROWS_WITH_AS(f.runner->load_file(f.scratch.file("x.safetensors")),
                         doctest::Contains("reads onnx"), RunnerError);
  }
}

TEST_CASE("runner: PyTorch gives the integers' bits, and refuses a node by name") {
  LiveFixture f("pytorch", "pytorch");
  if (!f.runner) return;
  CHECK(f.runner->info().framework == "PyTorch");
  check_common(f, "small.json");
  const LoadedNetwork odd = f.runner->load_file(f.scratch.file("odd.json"));
  REQUIRE(odd.refused.size() == 1);
  CHECK(odd.refused[0].node == "odd1");
  CHECK(odd.refused[0].op == "no_such_op");
  CHECK(odd.lost == std::vector<std::string>{"odd", "y"});
  const RunAnswer before = f.runner->run(f.inputs, {.layers = {"t", "u"}});
  CHECK(f.same(before, "u"));
  CHECK_FALSE(before.tensors.contains("y"));
  CHECK_THROWS_WITH_AS(f.runner->time_open("net.pt", 1),
                       doctest::Contains("cannot time how a file is opened"), RunnerError);
  CHECK_THROWS_WITH_AS(f.runner->time(f.inputs, 0, 1), doctest::Contains("node odd1 (no_such_op)"),
                       RunnerError);
  f.runner->load_file(f.scratch.file("small.json"));
  for (const char* format : {"state_dict", "torchscript"}) {
    f.runner->save(format, f.scratch.file(format));
    CHECK(fs::file_size(f.scratch.file(format)) > 500);
  }
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
