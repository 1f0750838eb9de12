#include "bench/cli/bench_runs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/cli/bench_peaks.h"
#include "bench/cli/bench_trips.h"
#include "bench/cli/terminal.h"
#include "bench/micro/significance.h"
#include "bench/micro/timing.h"
#include "bench/report/bench_record.h"
#include "bench/runners/process.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/core/threads.h"
#include "importers/containers/json.h"

namespace etalon::cli {
namespace {

using json = nlohmann::json;
namespace fs = std::filesystem;

json run_once(const std::string& program, const BenchRuns& how, const std::string& side, int run,
              const fs::path& folder) {
  const std::string record = (folder / fmt::format("{}-{}.json", side, run)).string();
  ProcessOptions start{.command = {program}};
  start.command.insert(start.command.end(), how.arguments.begin(), how.arguments.end());
  start.command.insert(start.command.end(), {"--json", record});
  if (!how.state.empty())
    start.command.insert(
        start.command.end(),
        {"--state", (fs::path(how.state) / fmt::format("{}-{}", side, run)).string()});
  Process process(std::move(start));
  std::string line;
  Process::Status status = Process::Status::line;
  while (status != Process::Status::ended && status != Process::Status::too_long) {
    check_interrupt();
    status = process.receive_line(line, Seconds(0.2));
  }
  process.wait_for_end(Seconds(10));
  check_interrupt();  // a run that Ctrl-C ended left a part of its rows
  std::error_code none;
  if (!fs::exists(record, none))
    throw missing("run {} of {} left no record ({}): {}", run, program, process.how_it_ended(),
                  process.error_tail(400));
  const ErrorScope scope(fmt::format("run {} of {}", run, program));
  json made = parse_json(read_text_file(record));
  if (!made.contains("bench") || !made["bench"].is_object() || !made["bench"].contains("rows"))
    throw bad_input("its record has no field bench.rows; give a build of etalon");
  check_bench_record(made);
  for (const json& row : made["bench"]["rows"])
    if (!row.contains("samples") || row["samples"].empty() || !row.contains("median_s"))
      throw bad_input("a row of its record has no samples or no median_s; give a build of etalon");
  return made;
}

std::string key_of(const json& row) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", row.value("op", ""), row.value("name", ""),
                     row.value("shape", ""), row.value("contract", ""), row.value("threads", 1),
                     row.value("cache", ""));
}

double median_field(const std::vector<const json*>& of, const char* field) {
  std::vector<double> values;
  for (const json* one : of) values.push_back(one->value(field, 0.0));
  return median_of(values);
}

// One timed thing of all runs, into the first run's.
void merge_timing(json& to, const std::vector<const json*>& of) {
  std::vector<double> samples, fastest, trips;
  bool same_bits = true;
  for (const json* one : of) {
    const auto own = (*one)["samples"].get<std::vector<double>>();
    fastest.push_back(std::ranges::min(own));
    samples.insert(samples.end(), own.begin(), own.end());
    // One for each sample: 0 where a run does not know.
    const auto before = one->value("line_round_trips_s", std::vector<double>(own.size(), 0.0));
    trips.insert(trips.end(), before.begin(), before.end());
    same_bits = same_bits && one->value("hash", "") == of[0]->value("hash", "");
  }
  const Timing all = summarize(std::move(samples));
  const double scale = to["median_s"].get<double>() / all.median_s;
  for (const char* rate : {"gflops", "gbytes"})
    if (to.contains(rate)) to[rate] = to[rate].get<double>() * scale;
  for (const char* field : {"ratio", "ours_beside_s", "set_up_s"})
    if (to.contains(field)) to[field] = median_field(of, field);
  to["median_s"] = all.median_s;
  to["spread"] = all.spread;
  to["repetitions"] = all.repetitions;
  to["samples"] = all.samples;
  if (std::ranges::any_of(trips, [](double trip) { return trip > 0; }))
    to["line_round_trips_s"] = trips;
  to["run_fastest"] = fastest;
  if (!same_bits) to["hash"] = "varies";
}

}  // namespace

BenchRuns these_runs(int runs, const std::string& against, const std::string& state) {
  BenchRuns how{.program = fs::read_symlink("/proc/self/exe").string(),
                .against = against,
                .arguments = {},
                .runs = runs,
                .state = state};
  std::ifstream file("/proc/self/cmdline", std::ios::binary);  // of no size, as the system says
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find('\0', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  constexpr std::array<std::string_view, 4> kOurs{"--runs", "--against", "--json", "--state"};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (std::ranges::find(kOurs, name) == kOurs.end())
      how.arguments.push_back(words[i]);
    else if (name == words[i])
      ++i;  // its value
  }
  return how;
}

BenchSides run_benches(const BenchRuns& how) {
  const fs::path folder =
      fs::temp_directory_path() / fmt::format("etalon-bench-runs-{}", ::getpid());
  struct Gone {
    fs::path path;
    ~Gone() {
      std::error_code none;
      fs::remove_all(path, none);
    }
  } const gone{folder};
  fs::create_directories(folder);
  BenchSides sides;
  const bool two = !how.against.empty();
  Progress progress("run", two ? 2 * how.runs : how.runs);
  std::int64_t done = 0;
  for (int run = 1; run <= how.runs; ++run)
    // In turns, and who begins takes turns too.
    for (const bool own : run % 2 == 1 ? std::array{true, false} : std::array{false, true}) {
      if (!own && !two) continue;
      progress.update(done++, own ? how.program : how.against);
      try {
        (own ? sides.own : sides.other)
            .push_back(
                run_once(own ? how.program : how.against, how, own ? "own" : "other", run, folder));
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::interrupted || sides.own.empty()) throw;
        sides.interrupted = true;
        return sides;
      }
    }
  return sides;
}

json merged_benches(const std::vector<json>& records) {
  json merged = records.at(0)["bench"];
  std::vector<std::map<std::string, const json*>> rows;
  merged["runs"] = json::array();
  double others = 0, stolen = 0;
  bool noisy = false, complete = true;
  for (const json& record : records) {
    const json& bench = record["bench"];
    auto& by_key = rows.emplace_back();
    for (const json& row : bench["rows"]) by_key[key_of(row)] = &row;
    const json load = bench.value("load", json::object());
    merged["runs"].push_back({{"started", bench.value("started", "")}, {"load", load}});
    others += load.value("others", 0.0) / static_cast<double>(records.size());
    stolen += load.value("stolen", 0.0) / static_cast<double>(records.size());
    noisy = noisy || load.value("noisy", false);
    complete = complete && bench.value("complete", true);
  }
  merged["load"] = {{"others", others}, {"stolen", stolen}, {"noisy", noisy}};
  merged["complete"] = complete;
  merged["summary"] = json::object();
  json skipped = json::array();
  const auto is_skipped = [&](const std::string& name) {
    return std::ranges::any_of(skipped, [&](const json& text) {
      return text.get_ref<const std::string&>().starts_with(name + ": ");
    });
  };
  for (const json& record : records)
    for (const json& told : record["bench"].value("skipped", json::array())) {
      const std::string text = told;
      if (!is_skipped(text.substr(0, text.find(": ")))) skipped.push_back(text);
    }
  json kept = json::array();
  for (json& row : merged["rows"]) {
    std::vector<const json*> all;
    for (const auto& by_key : rows)
      if (const auto found = by_key.find(key_of(row)); found != by_key.end())
        all.push_back(found->second);
    if (all.size() != records.size()) {
      const std::string name = row.value("name", "");
      if (!is_skipped(name))
        skipped.push_back(
            fmt::format("{}: timed in {} of {} runs", name, all.size(), records.size()));
      continue;
    }
    if (row.contains("vs"))
      for (auto& [name, peer] : row["vs"].items()) {
        std::vector<const json*> theirs;
        for (const json* one : all)
          if (one->contains("vs") && (*one)["vs"].contains(name) &&
              (*one)["vs"][name].contains("samples"))
            theirs.push_back(&(*one)["vs"][name]);
        if (theirs.size() == all.size()) merge_timing(peer, theirs);
      }
    merge_timing(row, all);
    kept.push_back(row);
  }
  merged["rows"] = std::move(kept);
  if (!skipped.empty()) merged["skipped"] = std::move(skipped);
  sum_up_trips(merged);
  for (const json& record : records) merge_peaks(merged, record["bench"]);
  settle_peaks(merged);
  return merged;
}

}  // namespace etalon::cli
