// Two sides of runs: told apart only where they differ by more than runs do, by more than libraries
// that did not change, and where nothing else can be the reason.
#include "bench/cli/bench_compare.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "bench/cli/bench_runs.h"
#include "bench/micro/significance.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/core/philox.h"
#include "tests/importer_files.h"

using namespace etalon;
using namespace etalon::cli;
using nlohmann::json;

namespace {

// What one run on a made-up machine measures: five rows, row 0 `ours` times as slow; the machine's
// own `speed`; noise that rows of this run share in part.
struct Machine {
  Philox random{.seed = 8};
  std::uint64_t drawn = 0;
  double noise = 0.01;
  double busy = 0;  // other programs stretch a repetition by this share, exponentially distributed
  int repetitions = 3;
  bool peers = true;
  int minute = 0;

  double draw() { return static_cast<double>(random.uniform(drawn++)); }
  json run(double ours, double speed, const char* hash = "aa") {
    const double together = speed * (1 + noise * draw());
    json rows = json::array();
    const auto timed = [&](double t) {
      t *= together * (1 + noise * draw());
      std::vector<double> samples;
      for (int i = 0; i < repetitions; ++i) {
        const double stretch = busy == 0 ? 0 : -busy * std::log((1 - draw()) / 2);
        samples.push_back(t * (1 + stretch) * (1 + 0.01 * (i % 3 - 1)));
      }
      const double median = median_of(samples);
      return json{{"median_s", median}, {"samples", samples}, {"gflops", 1 / median}};
    };
    for (int i = 0; i < 5; ++i) {
      json row = {{"op", "conv"},      {"name", "a.b" + std::to_string(i)},
                  {"contract", "seq"}, {"threads", 1},
                  {"cache", "warm"},   {"hash", i == 1 ? hash : "00"}};
      row.update(timed(i == 0 ? ours : 1.0 + i));
      if (peers) {
        json peer = {{"kind", "library"}, {"version", "3"}, {"status", "ok"}, {"ratio", 1.0}};
        peer.update(timed(2.0 + i));
        row["vs"]["onednn.conv"] = peer;
      }
      rows.push_back(std::move(row));
    }
    ++minute;
    return {{"bench",
             {{"started", fmt::format("2026-01-01T00:{:02}:00.000Z", minute)}, {"rows", rows}}}};
  }
};

struct Sides {
  BenchRecords a{{"a.json"}, {}}, b{{"b.json"}, {}};
  void add(json one, json other) {
    a.records.push_back(std::move(one));
    b.records.push_back(std::move(other));
  }
};

std::string verdict(const json& out, std::size_t row) { return out["rows"][row]["verdict"]; }
bool called(const json& out, std::size_t row) {
  return verdict(out, row) == "slower" || verdict(out, row) == "faster";
}

}  // namespace

TEST_CASE("bench compare: a slower program is told from a slower machine, and from noise") {
  for (const bool peers : {true, false}) {
    CAPTURE(peers);
    Machine machine;
    machine.peers = peers;
    Sides same, slow, fast, moved;
    for (int run = 0; run < 5; ++run) {
      const double speed = 1 + 0.3 * (run % 2);  // a machine that changes its clock
      same.add(machine.run(1, speed), machine.run(1, peers ? 1.2 * speed : speed));
      slow.add(machine.run(1, 1), machine.run(1.2, peers ? 1.3 : 1));
      fast.add(machine.run(1, 1), machine.run(0.8, 1));
      moved.add(machine.run(1, 1), machine.run(1, 1, "bb"));
    }
    json out;
    CHECK(compare_benches(same.a, same.b, out));
    for (std::size_t i = 0; i < 5; ++i) CHECK_FALSE(called(out, i));
    if (peers) {
      CHECK(out["drift"].get<double>() == doctest::Approx(1.2).epsilon(0.02));
      CHECK(out["controls"]["rows"] == 5);
    }
    CHECK_FALSE(compare_benches(slow.a, slow.b, out = json()));
    CHECK(verdict(out, 0) == "slower");
    CHECK(out["rows"][0]["low"].get<double>() > 1.1);
    CHECK(out["rows"][0]["high"].get<double>() < 1.3);
    for (std::size_t i = 1; i < 5; ++i) CHECK_FALSE((peers && called(out, i)));
    CHECK(compare_benches(fast.a, fast.b, out = json()));
    CHECK(verdict(out, 0) == "faster");
    CHECK_FALSE(compare_benches(moved.a, moved.b, out = json()));
    CHECK(out["rows"][1]["bits_moved"] == true);
  }
}

TEST_CASE(
    "bench compare: nothing is claimed from one run, nor where the machine may have changed") {
  Machine machine;
  Sides one;
  one.add(machine.run(1, 1), machine.run(3, 1));
  json out;
  CHECK(compare_benches(one.a, one.b, out));
  CHECK(verdict(out, 0) == "too few runs");
  CHECK(out["rows"][0]["ratio"].get<double>() == doctest::Approx(3).epsilon(0.1));
  CHECK_FALSE(out["rows"][0].contains("p"));
  // All runs of A before all of B, and nobody who stayed the same: a slow machine looks like this.
  machine.peers = false;
  Sides later;
  for (int run = 0; run < 5; ++run) later.a.records.push_back(machine.run(1, 1));
  for (int run = 0; run < 5; ++run) later.b.records.push_back(machine.run(1.2, 1.2));
  CHECK(compare_benches(later.a, later.b, out = json()));
  for (std::size_t i = 0; i < 5; ++i) CHECK(verdict(out, i) == "or the machine changed");
  // A library whose rows moved apart: what it moved by is what cannot be seen in ours.
  machine.peers = true;
  Sides uneven;
  for (int run = 0; run < 5; ++run) {
    json after = machine.run(1.2, 1);
    for (json& sample : after["bench"]["rows"][3]["vs"]["onednn.conv"]["samples"])
      sample = 1.4 * sample.get<double>();
    uneven.add(machine.run(1, 1), std::move(after));
  }
  CHECK(compare_benches(uneven.a, uneven.b, out = json()));
  CHECK(verdict(out, 0) == "no more than libraries that did not change");
  CHECK(out["controls"]["blind_below"].get<double>() > 0.3);
}

TEST_CASE("bench compare: runs of one program are rarely called different") {
  // Of 100 comparisons of five rows each, Holm's correction lets about five name any, half of them
  // slower.
  int alarms = 0;
  Machine machine;
  machine.peers = false;
  machine.noise = 0.05;
  for (int trial = 0; trial < 100; ++trial) {
    Sides same;
    for (int run = 0; run < 4; ++run) same.add(machine.run(1, 1), machine.run(1, 1));
    json out;
    alarms += compare_benches(same.a, same.b, out) ? 0 : 1;
    machine.minute = 0;
  }
  CHECK(alarms <= 10);
}

TEST_CASE("bench compare: the fastest repetition of a run sees through other programs") {
  Machine machine;
  machine.busy = 0.5;
  machine.repetitions = 9;
  const auto median_only = [](json record) {
    for (json& row : record["bench"]["rows"]) {
      row["samples"] = json::array({row["median_s"]});
      row["vs"]["onednn.conv"]["samples"] = json::array({row["vs"]["onednn.conv"]["median_s"]});
    }
    return record;
  };
  int found = 0, found_by_median = 0, others = 0, alarms = 0;
  for (int trial = 0; trial < 20; ++trial) {
    Sides slow, medians, same;
    machine.minute = 0;
    for (int run = 0; run < 6; ++run) {
      slow.add(machine.run(1, 1), machine.run(1.2, 1));
      medians.add(median_only(slow.a.records.back()), median_only(slow.b.records.back()));
      same.add(machine.run(1, 1), machine.run(1, 1));
    }
    json out;
    compare_benches(slow.a, slow.b, out);
    found += verdict(out, 0) == "slower" ? 1 : 0;
    for (std::size_t i = 1; i < 5; ++i) others += called(out, i) ? 1 : 0;
    compare_benches(medians.a, medians.b, out = json());
    found_by_median += verdict(out, 0) == "slower" ? 1 : 0;
    alarms += compare_benches(same.a, same.b, out = json()) ? 0 : 1;
  }
  CHECK(found >= 16);
  CHECK(found_by_median <= 10);
  CHECK(others <= 4);
  CHECK(alarms <= 2);
  // As noisy as the busiest machine that was recorded: nothing is made up, and twice the time
  // found.
  machine.busy = 2;
  found = alarms = 0;
  for (int trial = 0; trial < 20; ++trial) {
    Sides slow, same;
    machine.minute = 0;
    for (int run = 0; run < 6; ++run) {
      slow.add(machine.run(1, 1), machine.run(2, 1));
      same.add(machine.run(1, 1), machine.run(1, 1));
    }
    json out;
    compare_benches(slow.a, slow.b, out);
    found += verdict(out, 0) == "slower" ? 1 : 0;
    alarms += compare_benches(same.a, same.b, out = json()) ? 0 : 1;
  }
  CHECK(found >= 16);
  CHECK(alarms <= 2);
}

TEST_CASE("bench compare: rows that were not repeated equally often are not tested") {
  Machine machine;
  Sides sides;
  for (int run = 0; run < 3; ++run) sides.add(machine.run(1, 1), machine.run(3, 1));
  for (json& record : sides.b.records) record["bench"]["rows"][0]["samples"].push_back(9.0);
  json out;
  CHECK(compare_benches(sides.a, sides.b, out));
  CHECK(verdict(out, 0) == "other repetitions");
  CHECK_FALSE(out["rows"][0].contains("p"));
  CHECK(out["rows"][1].contains("p"));
}

TEST_CASE("bench compare: sides are files, lists of files, or folders") {
  const test::TemporaryFolder own;
  Machine machine;
  std::filesystem::create_directories(own / "runs");
  std::filesystem::create_directories(own / "empty");
  for (const char* name : {"runs/2.json", "runs/1.json", "c.json"})
    std::ofstream(own / name) << machine.run(1, 1).dump();
  CHECK(read_benches(own / "runs").names ==
        std::vector<std::string>{own / "runs/1.json", own / "runs/2.json"});
  CHECK(read_benches(own / "c.json" + "," + (own / "runs")).records.size() == 3);
  std::ofstream(own / "run.json") << R"({"run": {}})";
  for (const std::string& wrong : {own / "run.json", own / "empty", own / "none.json"})
    CHECK_THROWS_WITH_AS(read_benches(wrong), doctest::Contains(wrong.c_str()), Error);
  const std::string none = own / "none.json";
  CHECK_THROWS_WITH_AS(read_benches(none),
                       (none + ": No such file or directory; check the path").c_str(), Error);
  const BenchRecords one = read_benches(own / "c.json");
  // Damage is named: the file, the field, what stands there.
  const std::pair<const char*, json> damages[] = {{"/bench/runs", json::array()},
                                                  {"/bench/runs", 5},
                                                  {"/bench/started", 5},
                                                  {"/bench/rows/0", "x"},
                                                  {"/bench/rows/0", nullptr},
                                                  {"/bench/rows/0/op", 5},
                                                  {"/bench/rows/0/hash", 5},
                                                  {"/bench/rows/0/vs", 5},
                                                  {"/bench/rows/0/threads", "1"},
                                                  {"/bench/rows/0/samples", "x"},
                                                  {"/bench/rows/0/samples/0", "inf"},
                                                  {"/bench/rows/0/samples/0", 0},
                                                  {"/bench/rows/0/run_fastest", "fast"},
                                                  {"/bench/rows/0/run_fastest", {1.0, 2.0}}};
  for (const auto& [field, value] : damages) {
    CAPTURE(field);
    json record = one.records[0];
    record[json::json_pointer(field)] = value;
    std::ofstream(own / "damaged.json") << record;
    const std::string path = own / "damaged.json";
    CHECK_THROWS_WITH_AS(read_benches(path), doctest::Contains((path + ": bench.").c_str()), Error);
  }
  // What does not match is said, and no network is held against another batch of it.
  const auto network = [](const char* shape, const char* type, const char* file) {
    return json{{"bench",
                 {{"rows",
                   {{{"op", "network"},
                     {"shape", shape},
                     {"inputs", {{"x", type}}},
                     {"file", file},
                     {"samples", {1.0, 2.0}}}}}}},
                {"machine", {{"cpu", file}, {"isa", "avx2"}, {"cores", 2}}}};
  };
  const BenchRecords two{{"two"}, {network("net.onnx", "f32[2,3]", "m1/net.onnx")}},
      many{{"many"}, {network("net.onnx batch 2", "f32[2,3]", "m2/net.onnx")}},
      large{{"large"}, {network("net.onnx", "f32[16,3]", "m1/net.onnx")}};
  json matched;
  CHECK(compare_benches(two, many, matched));
  CHECK(matched["notes"] ==
        json{"machine.cpu differs: m1/net.onnx in A, m2/net.onnx in B",
             "network net.onnx x=f32[2,3], 1 thread (): m1/net.onnx in A, m2/net.onnx in B"});
  json unmatched;
  CHECK_THROWS_WITH_AS(compare_benches(two, large, unmatched),
                       doctest::Contains("B has network net.onnx x=f32[16,3], 1 thread"), Error);
  BenchRecords fewer = one;
  fewer.records[0]["bench"]["rows"].erase(0);
  json lacking;
  compare_benches(one, fewer, lacking);
  REQUIRE(lacking["notes"].size() == 2);  // our row, and its library's
  CHECK(lacking["notes"][0].get<std::string>().find("1 row stands in A only") == 0);
  BenchRecords other = one;
  for (json& row : other.records[0]["bench"]["rows"]) row["threads"] = 7;
  json out;
  CHECK_THROWS_WITH_AS(compare_benches(one, other, out), doctest::Contains("no row in common"),
                       Error);
}

TEST_CASE("bench runs: one program several times, two in turns, merged into one record") {
  const test::TemporaryFolder own;
  // A program that notes when it ran and leaves the record that lies beside it.
  Machine machine;
  const auto program = [&](const std::string& name, const json& record) {
    std::ofstream(own / (name + ".record")) << record.dump();
    std::ofstream(own / name) << "#!/bin/sh\necho " << name << " \"$1\" >> '" << (own / "log")
                              << "'\nwhile [ \"$1\" != --json ]; do shift; done\ncp '"
                              << (own / (name + ".record")) << "' \"$2\"\n";
    std::filesystem::permissions(own / name, std::filesystem::perms::owner_all);
    return own / name;
  };
  BenchRuns how{.program = program("new", machine.run(2, 1)),
                .against = program("old", machine.run(1, 1)),
                .arguments = {"bench", "conv"},
                .runs = 3};
  const BenchSides sides = run_benches(how);
  REQUIRE(sides.own.size() == 3);
  REQUIRE(sides.other.size() == 3);
  CHECK(read_text_file(own / "log") ==
        "new bench\nold bench\nold bench\nnew bench\nnew bench\nold bench\n");
  json out;
  compare_benches({{"old"}, sides.other}, {{"new"}, sides.own}, out);
  CHECK(out["runs"] == json{3, 3});
  CHECK(out["rows"][0]["ratio"].get<double>() == doctest::Approx(2).epsilon(0.1));

  std::vector<json> runs{machine.run(1, 1), machine.run(1, 2), machine.run(1, 4)};
  runs[2]["bench"]["rows"].erase(4);  // interrupted
  const json merged = merged_benches(runs);
  REQUIRE(merged["rows"].size() == 4);
  CHECK(merged["skipped"] == json{"a.b4: timed in 2 of 3 runs"});
  const json& row = merged["rows"][0];
  CHECK(row["samples"].size() == 9);
  REQUIRE(row["run_fastest"].size() == 3);
  const std::vector<double> second = runs[1]["bench"]["rows"][0]["samples"];
  CHECK(row["run_fastest"][1] == std::ranges::min(second));
  CHECK(row["median_s"] == runs[1]["bench"]["rows"][0]["median_s"]);  // the middle one's samples
  CHECK(row["gflops"].get<double>() == doctest::Approx(1 / row["median_s"].get<double>()));
  CHECK(row["vs"]["onednn.conv"]["run_fastest"].size() == 3);
  CHECK(merged["runs"].size() == 3);
  // A merged record is three runs to a comparison.
  const BenchRecords side{{"merged"}, {json{{"bench", merged}}}};
  compare_benches(side, side, out = json());
  CHECK(out["runs"] == json{3, 3});
  CHECK(out["rows"][0]["p"] == 1.0);

  std::ofstream(own / "new") << "#!/bin/sh\necho 'etalon: no such thing' >&2\nexit 2\n";
  CHECK_THROWS_WITH_AS(run_benches(how), doctest::Contains("no such thing"), Error);
}
