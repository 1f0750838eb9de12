// The workbench: what a row holds, that an interrupted run goes on, and that what `order` finds is
// what it says.
#include "bench/cli/bench.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/cli/bench_peaks.h"
#include "bench/cli/bench_state.h"
#include "bench/cli/bench_trips.h"
#include "bench/compare/ulp.h"
#include "bench/micro/machine_watch.h"
#include "bench/micro/order_search.h"
#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/importer_files.h"

using namespace etalon;
using namespace etalon::cli;
using nlohmann::json;

namespace {

BenchOptions quick() {
  BenchOptions options;
  options.timing = {.repetitions = 3, .min_time_s = 1e-4};
  options.also.push_back(Contract::parse("order=lanes:8"));
  return options;
}

}  // namespace

TEST_CASE("bench: a row says time, rates, costs, error, bits and the command that repeats it") {
  const NamedShape shape = typed_shape("conv f32[2,8,12,12] f32[16,8,3,3] pads_begin=1x1");
  for (const Cache cache : {Cache::warm, Cache::cold}) {
    BenchOptions options = quick();
    options.timing.cache = cache;
    const BenchRow row = bench_shape(shape, all_kernels(), options);
    const json j = bench_row_json(row, options, again_command(shape, options, {"onednn"}));
    CHECK(j["samples"].size() == 3);
    CHECK(j["median_s"].get<double>() > 0);
    CHECK(j["flops"] == 2.0 * 2 * 16 * 8 * (11 * 3 - 1) * (11 * 3 - 1));
    CHECK(j["bytes"] == 4.0 * (2 * 8 * 144 + 16 * 72 + 2 * 16 * 121));
    CHECK(j["gflops"].get<double>() ==
          doctest::Approx(1e-9 * j["flops"].get<double>() / j["median_s"].get<double>()));
    CHECK(j["max_ulp"].get<double>() > 0.5);
    CHECK(j["cache"] == (cache == Cache::cold ? "cold" : "warm"));
    CHECK(j["hash"] != j["vs"]["order=lanes:8"]["hash"]);
    CHECK(j["vs"]["order=lanes:8"]["kind"] == "contract");
    const std::string again = j["again"];
    CHECK(again.starts_with("etalon bench --shape 'conv f32[2,8,12,12] f32[16,8,3,3]"));
    CHECK(again.find("-c order=lanes:8") != std::string::npos);
    CHECK((again.find("--cache cold") != std::string::npos) == (cache == Cache::cold));
  }
  CHECK_THROWS_WITH_AS(typed_shape("conv"), doctest::Contains("--shape"), Error);
  CHECK_THROWS_WITH_AS(choose_shapes({"resnet50", "conv.resnet51"}),
                       doctest::Contains("named 'conv.resnet51'"), Error);
  for (const NamedShape& chosen : choose_shapes({"gemm.lenet", "conv.resnet50"})) {
    CAPTURE(chosen.full_name());
    CHECK(std::string(chosen.op->name) == (chosen.suite == "lenet" ? "gemm" : "conv"));
  }
  CHECK_THROWS_WITH_AS(typed_shape("conv f32[1,3,2,2] f32[4,3,5,5]"), doctest::Contains("--shape"),
                       Error);
  CHECK_THROWS_AS(parse_bench_order("speedy"), Error);
}

TEST_CASE("bench: a state keeps whole rows, and those of the same settings only") {
  const test::TemporaryFolder own;
  const json settings = {{"contract", "seq"}};
  {
    BenchState state(own / "s", settings);
    state.add("a", {{"median_s", 1}});
    state.add("b", {{"median_s", 2}});
  }
  const auto file = std::filesystem::directory_iterator(own / "s")->path();
  {
    BenchState state(own / "s", settings);
    CHECK(state.known() == 2);
    REQUIRE(state.find("b") != nullptr);
    CHECK((*state.find("b"))["median_s"] == 2);
    CHECK(state.find("c") == nullptr);
  }
  // Killed while it wrote the second row: that one is measured again, the next is whole.
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 5);
  {
    BenchState state(own / "s", settings);
    CHECK(state.known() == 1);
    CHECK(state.find("b") == nullptr);
    state.add("c", {{"median_s", 3}});
  }
  CHECK(BenchState(own / "s", settings).find("c") != nullptr);
  // Numbers that JSON lacks are kept as texts; lines that are none of ours are left out.
  {
    BenchState state(own / "s", settings);
    state.add("far", {{"max_ulp", HUGE_VAL}, {"mean_ulp", std::nan("")}});
    state.add("\xff", {{"median_s", 1}});
  }
  std::ofstream(file, std::ios::app) << R"({"key":5,"row":{}})" << "\n"
                                     << R"({"key":"d","row":7})" << "\n"
                                     << std::string(100000, '[') << "\n";
  const BenchState damaged(own / "s", settings);
  REQUIRE(damaged.find("far") != nullptr);
  CHECK(*damaged.find("far") == json{{"max_ulp", "inf"}, {"mean_ulp", "nan"}});
  CHECK(damaged.find("d") == nullptr);
  CHECK(BenchState(own / "s", {{"kernels", "\xff"}}).known() == 0);
  CHECK(BenchState(own / "s", {{"contract", "exact"}}).known() == 0);
  {
    BenchState state(own / "s", settings);
    state.add("d", {{"max_ulp", std::numeric_limits<double>::infinity()}});
  }
  CHECK((*BenchState(own / "s", settings).find("d"))["max_ulp"] == "inf");
  CHECK(BenchState("", settings).known() == 0);
}

TEST_CASE("bench: rows that cannot be written are written later, and the run goes on") {
  const test::TemporaryFolder own;
  const std::string folder = own / "s";
  const json settings = {{"contract", "seq"}};
  BenchState state(folder, settings);
  state.add("a", {{"median_s", 1}});
  // Somebody removes the folder; a file of its name stands in the way, and is taken away again.
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "not a folder";
  state.add("b", {{"median_s", 2}});
  CHECK(state.fault().find("2 rows could not be written: Not a directory") != std::string::npos);
  CHECK_THROWS(BenchState(folder, settings));
  std::filesystem::remove(folder);
  state.add("c", {{"median_s", 3}});
  CHECK(state.fault().empty());
  const BenchState again(folder, settings);
  for (const char* key : {"a", "b", "c"}) CHECK(again.find(key) != nullptr);
}

TEST_CASE("bench: no row is above the roof, unless it multiplies less") {
  // As on a busy machine: measured too low, one row of each kind above it.
  const auto row = [](const char* name, double flops, double bytes, double seconds) {
    return json{{"name", name},
                {"cache", "warm"},
                {"threads", 1},
                {"contract", "etalon1:order=seq"},
                {"flops", flops},
                {"bytes", bytes},
                {"median_s", seconds},
                {"gflops", 1e-9 * flops / seconds},
                {"gbytes", 1e-9 * bytes / seconds}};
  };
  json bench = {{"rows", json::array()}, {"peaks", json::array()}};
  bench["peaks"].push_back(
      peak_json(1, {.gflops = 54, .levels = {{2e4, 80}, {6e5, 60}, {8e6, 30}, {1e8, 10}}}));
  bench["rows"].push_back(row("half", 42e6, 1e6, 1e-3));
  bench["rows"].push_back(row("above", 84e6, 1e6, 1e-3));
  bench["rows"][1]["vs"]["algo=winograd:4/3"] = {
      {"median_s", 5e-4}, {"gflops", 168}, {"gbytes", 2}};
  bench["rows"][1]["vs"]["absent"] = {{"status", "unavailable"}};
  bench["rows"].push_back(row("cached", 0, 1e4, 1e-7));  // 100 GB/s from the first cache
  bench["rows"].push_back(row("memory", 0, 5e7, 1e-2));  // 5 GB/s
  bench["rows"].push_back(bench["rows"][2]);
  bench["rows"][4].update({{"cache", "cold"}, {"gbytes", 12}});
  settle_peaks(bench);
  const json& peak = bench["peaks"][0];
  CHECK(peak["gflops"] == 84);
  CHECK(peak["gflops_measured"] == 54);
  CHECK(bench["peak"]["gflops"] == 84);
  CHECK(peak["gbytes"] == 12);
  CHECK(peak["gbytes_measured"] == 10);
  CHECK(peak["levels"][0]["gbytes"].get<double>() == doctest::Approx(100));
  CHECK(peak["levels"][0]["gbytes_measured"] == 80);
  CHECK_FALSE(peak["levels"][1].contains("gbytes_measured"));
  const auto share = [](const json& entry) { return entry["of_peak"].get<double>(); };
  CHECK(share(bench["rows"][0]) == doctest::Approx(0.5));
  CHECK(share(bench["rows"][1]) == 1);
  CHECK(share(bench["rows"][1]["vs"]["algo=winograd:4/3"]) == doctest::Approx(2));
  CHECK(share(bench["rows"][2]) == 1);
  CHECK(share(bench["rows"][3]) == doctest::Approx(5.0 / 12));
  CHECK(share(bench["rows"][4]) == 1);
  // Two runs of one program: the higher measurement counts, and what was raised stays raised.
  json other = {{"peaks", json::array()}};
  other["peaks"].push_back(
      peak_json(1, {.gflops = 168, .levels = {{2e4, 70}, {6e5, 70}, {8e6, 30}, {1e8, 10}}}));
  merge_peaks(bench, other);
  settle_peaks(bench);
  CHECK(share(bench["rows"][1]) == doctest::Approx(0.5));
  CHECK(bench["peaks"][0]["levels"][1]["gbytes"] == 70);
}

TEST_CASE("bench: a candidate of several threads is awake when its time begins") {
  int runs = 0;
  const auto run = [&] { ++runs; };
  wake(1, run);
  CHECK(runs == 0);
  const auto begin = std::chrono::steady_clock::now();
  wake(2, run);
  CHECK(runs > 0);
  CHECK(std::chrono::steady_clock::now() - begin >= kWakeTime);
  wake(2, [&] {
    std::this_thread::sleep_for(2 * kWakeTime);
    runs = -1;
  });
  CHECK(runs == -1);

  // Slow after each pause, as one whose threads sleep; those runs are not timed.
  auto last = std::chrono::steady_clock::now();
  int wakings = 0;
  const auto sleeper = [&] {
    if (std::chrono::steady_clock::now() - last > std::chrono::milliseconds(15)) {
      ++wakings;
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
    }
    last = std::chrono::steady_clock::now();
  };
  const std::vector<Timing> got = time_interleaved(
      {{"sleeper", sleeper}}, {.repetitions = 3, .min_time_s = 1e-3, .threads = 2});
  CHECK(wakings >= 3);  // one for each repetition
  CHECK(got[0].median_s < 1e-3);

  // How far apart the processors were is known of each repetition, where there are two.
  if (hardware_threads() > 1) {
    CHECK(got[0].line_round_trips.size() == 3);
    for (const double trip : got[0].line_round_trips) {
      CHECK((trip == 0 || trip > 5e-9));  // not known on a busy machine; no cache is nearer
      CHECK(trip < 1);
    }
  }
  CHECK(time_interleaved({{"alone", [] {}}}, {.repetitions = 3, .min_time_s = 1e-5})[0]
            .line_round_trips.empty());
}

TEST_CASE("bench: processors that came to lie apart are told") {
  json bench = {{"rows", {{{"line_round_trips_s", {5e-8, 6e-8}}, {"vs", json::object()}}}}};
  cli::sum_up_trips(bench);
  CHECK(bench["load"]["line_round_trip"]["far"] == 0);
  CHECK(cli::trips_text(bench).empty());
  bench["rows"][0]["vs"]["onednn"] = {{"line_round_trips_s", {3.2e-7, 5e-8}}};
  cli::sum_up_trips(bench);
  const json& trip = bench["load"]["line_round_trip"];
  CHECK(trip["least_s"] == 5e-8);
  CHECK(trip["most_s"] == 3.2e-7);
  CHECK(trip["far"] == 0.25);
  CHECK(cli::trips_text(bench).find("50 to 320 ns") != std::string::npos);
  json one_thread = {{"rows", {{{"samples", {1.0}}}}}};
  cli::sum_up_trips(one_thread);
  CHECK(!one_thread.contains("load"));
}

TEST_CASE("bench: a limit of time costs repetitions, never a row") {
  TimingOptions timing{.repetitions = 9, .min_time_s = 1e-4, .most_time_s = 0.02};
  CHECK(repetitions_within(timing, 1e-6) == 9);
  CHECK(repetitions_within(timing, 0.005) == 4);
  CHECK(repetitions_within(timing, 3) == 1);
  int runs = 0, slow_runs = 0;
  const auto wait = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  const std::vector<Timing> got = time_interleaved({{"short", [&] { ++runs; }},
                                                    {"known", [&] { ++slow_runs; }, 0.02},
                                                    {"long", [&] { wait(8); }}},
                                                   timing);
  CHECK(got[0].repetitions == 9);
  CHECK(runs > 9);
  CHECK(slow_runs == 0);  // its first run is its repetition
  CHECK(got[1].samples == std::vector<double>{0.02});
  CHECK(got[2].repetitions >= 1);
  CHECK(got[2].repetitions <= 2);
  CHECK(time_interleaved({{"known", [&] { ++slow_runs; }, 1}}, timing)[0].median_s == 1);
  CHECK(slow_runs == 0);
}

TEST_CASE("bench: rows of an earlier run are not timed again") {
  const test::TemporaryFolder own;
  const std::vector<NamedShape> shapes{typed_shape("relu f32[4096]"),
                                       typed_shape("gemm f32[32,32] f32[32,32]")};
  ShapeBenchOptions how;
  how.state = own / "s";
  json first, second;
  BenchOptions options = quick();
  options.also.clear();
  bench_shapes(shapes, options, how, first);
  bench_shapes(shapes, options, how, second);
  REQUIRE(first["rows"].size() == 2);
  // What the machine did then is told, though nothing was timed now.
  CHECK(second["load"]["others"].get<double>() ==
        doctest::Approx(first["load"]["others"].get<double>()));
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(own / "s"), {});
  };
  CHECK(files() == 1);
  // A peer's own variable makes another file, and so do threads that are not held.
  REQUIRE(std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr);
  ::setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  json third;
  bench_shapes({shapes[0]}, options, how, third);
  ::unsetenv("ONEDNN_MAX_CPU_ISA");
  CHECK(files() == 2);
  how.pin = false;
  bench_shapes({shapes[0]}, options, how, third);
  CHECK(files() == 3);
  how.pin = true;
  // A row that lost a field is timed again.
  json broken = first["rows"][0];
  CHECK(is_bench_row(broken));
  broken.erase("gflops");
  CHECK_FALSE(is_bench_row(broken));
  CHECK_FALSE(is_bench_row(json::object()));
  // Times and all, but for the share of the peak, which is told against the run's own.
  for (json* bench : {&first, &second})
    for (json& row : (*bench)["rows"]) row.erase("of_peak");
  CHECK(first["rows"] == second["rows"]);
  CHECK(second["complete"] == true);
}

TEST_CASE("bench: a shape beyond the memory costs its own line, not the run") {
  json out;
  BenchOptions options = quick();
  options.also.clear();
  bench_shapes({typed_shape("relu f32[1000000,1000000]"), typed_shape("relu f32[4096]")}, options,
               {}, out);
  CHECK(out["rows"].size() == 1);
  REQUIRE(out["skipped"].size() == 1);
  CHECK(out["skipped"][0].get<std::string>().find("8000.0 GB") != std::string::npos);
}

TEST_CASE("bench: a shape that no kernel takes costs its own line, whatever the error") {
  json out;
  BenchOptions options = quick();
  options.also.clear();
  NamedShape broken = typed_shape("gemm f32[4,8] f32[8,16]");
  broken.inputs[1].shape = Shape{9, 16};
  bench_shapes({broken, typed_shape("gemm f32[4,8] f32[8,16] f32[4,16]"),
                typed_shape("matmul f32[8] f32[8,16]"), typed_shape("prelu f32[4,8] f32[4,8]")},
               options, {}, out);
  CHECK(out["rows"].size() == 3);
  REQUIRE(out["skipped"].size() == 1);
  CHECK(out["skipped"][0].get<std::string>().find("[9,16]") != std::string::npos);
}

TEST_CASE("bench: processors are bound and freed, and the machine's load is a share") {
  const MachineWatch watch;
  {
    const Pinned one(1);
    CHECK(one.processors().size() <= 1);
    const Pinned many(100000);
    CHECK(many.processors().empty());
  }
  MachineLoad load = watch.load();
  CHECK(load.others >= 0);
  CHECK(load.others <= 1);
  load.add({.others = 1, .stolen = 0, .seconds = 1e9});
  CHECK(load.noisy());
  CHECK(noise_text({.others = 0.42, .stolen = 0.02, .seconds = 1}).find("took 42 % of") !=
        std::string::npos);
  CHECK(noise_text({.others = 0.01, .stolen = 0, .seconds = 1}).empty());
  CHECK(resident_bytes() > 1 << 20);
  reset_peak_resident_bytes();
  CHECK(peak_resident_bytes() >= resident_bytes() - (1 << 20));
}

TEST_CASE("bench order: what is found differs, is saved, and is equal through a defined kernel") {
  const test::TemporaryFolder own;
  OrderSearch search;
  search.libraries = {"onednn", "openblas", "none"};
  search.folder = own / "found";
  search.program = "/nonexistent";  // the instruction set is varied by tests of the program
  const OrderResult result = search_orders(search);
  CHECK(result.absent.size() >= 1);  // "none", at least
  for (const OrderFinding& f : result.findings) {
    CAPTURE(f.kernel);
    CAPTURE(f.varied);
    const Tensor one = std::move(load_tensors(f.one.file).at(0).tensor);
    const Tensor other = std::move(load_tensors(f.other.file).at(0).tensor);
    CHECK(f.differ > 0);
    CHECK(bits_equal(one, other) == one.numel() - f.differ);
    CHECK(f.max_distance >= 1);
    CHECK(!f.one.sentence.empty());
    CHECK(f.one.order != (f.other.order.empty() ? "?" : f.other.order));
    CHECK(f.defined_equal());
    CHECK(!f.defined_one.empty());
    CHECK(open_model(f.folder + "/call.onnx").graph->nodes.size() == 1);
  }
}
