#include "bench/cli/bench_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "bench/cli/terminal.h"
#include "bench/micro/significance.h"
#include "bench/report/bench_record.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/numerics/contract.h"
#include "importers/containers/json.h"

namespace etalon::cli {
namespace {

using json = nlohmann::json;
constexpr double kAlpha = 0.05;
constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

// One way to compute one row: a time for each run of the side, kAbsent where a run lacks it.
struct Timed {
  std::vector<double> runs;
  std::string hash, version, file;
  std::size_t repetitions = 0;  // of each run
  bool steady = true;           // the same hash and version in all runs
  bool alike = true;            // and as many repetitions
};
using Rows = std::map<std::string, Timed>;

struct Side {
  std::vector<std::string> started;  // of each run; empty where an old record does not say
  Rows ours, peers;
  std::map<std::string, std::set<std::string>> machine;  // of all records: {"cpu": ...}
  std::size_t runs() const { return started.size(); }
};

void note(Rows& rows, const std::string& key, const json& j, std::size_t first, std::size_t count) {
  if (!j.contains("samples") || j["samples"].empty()) return;
  const auto samples = j["samples"].get<std::vector<double>>();
  std::vector<double> times;
  if (j.contains("run_fastest"))
    times = j["run_fastest"].get<std::vector<double>>();
  else
    times = {std::ranges::min(samples)};
  if (times.size() != count) return;
  const std::size_t repetitions = samples.size() / count;
  const std::string hash = j.value("hash", ""), version = j.value("version", "");
  const auto [it, fresh] =
      rows.try_emplace(key, Timed{{}, hash, version, j.value("file", ""), repetitions});
  it->second.steady = it->second.steady && it->second.hash == hash && it->second.version == version;
  it->second.alike = it->second.alike && it->second.repetitions == repetitions;
  it->second.runs.resize(first, kAbsent);
  it->second.runs.insert(it->second.runs.end(), times.begin(), times.end());
}

// What a row is of. A network's name does not say its batch; the types of its inputs do.
std::string operation(const json& row) {
  std::string name = row.value("name", row.value("shape", ""));
  if (const auto inputs = row.find("inputs"); inputs != row.end()) {
    name.resize(std::min(name.find(" batch "), name.size()));
    for (const auto& [input, type] : inputs->items())
      name += fmt::format(" {}={}", input, type.get<std::string>());
  }
  return fmt::format("{} {}", row.value("op", ""), name);
}

// As people write it; records of networks hold the whole of it.
std::string contract_name(const json& row) {
  if (const auto name = row.find("contract_name"); name != row.end()) return *name;
  std::string whole = row.value("contract", "");
  try {
    return whole.empty() ? whole : short_name(Contract::parse(whole));
  } catch (const Error&) {
    return whole;  // of another version, or its tree is elsewhere
  }
}

void add_machine(const json& record, Side& side) {
  const auto machine = record.find("machine");
  if (machine == record.end() || !machine->is_object()) return;
  for (const char* field : {"cpu", "isa", "cores", "os"})
    if (const auto at = machine->find(field); at != machine->end())
      side.machine[field].insert(at->is_string() ? at->get<std::string>() : at->dump());
}

void add(const json& bench, Side& side) {
  const std::size_t first = side.runs();
  if (bench.contains("runs"))
    for (const json& run : bench["runs"]) side.started.push_back(run.value("started", ""));
  else
    side.started.push_back(bench.value("started", ""));
  const std::size_t count = side.runs() - first;
  for (const json& row : bench["rows"]) {
    const std::string where =
        fmt::format("{}, {} thread{}{}", operation(row), row.value("threads", 1),
                    row.value("threads", 1) == 1 ? "" : "s",
                    row.value("cache", "warm") == "cold" ? ", cold" : "");
    note(side.ours, where + "\n" + contract_name(row), row, first, count);
    if (!row.contains("vs")) continue;
    for (const auto& [name, peer] : row["vs"].items())
      note(peer.value("kind", "library") == "contract" ? side.ours : side.peers,
           where + "\n" + name, peer, first, count);
  }
}

Side side_of(const BenchRecords& records) {
  Side side;
  for (const json& record : records.records) {
    add(record["bench"], side);
    add_machine(record, side);
  }
  for (Rows* rows : {&side.ours, &side.peers})
    for (auto& [key, timed] : *rows) timed.runs.resize(side.runs(), kAbsent);
  return side;
}

// The fastest of more repetitions is faster.
bool as_often(const Timed& a, const Timed& b) {
  return a.alike && b.alike && a.repetitions == b.repetitions;
}

std::vector<double> present(const std::vector<double>& runs) {
  std::vector<double> kept;
  std::ranges::copy_if(runs, std::back_inserter(kept), [](double t) { return !std::isnan(t); });
  return kept;
}

// Libraries that stand in every run of both sides under one version: by how much each run is slower
// than the mean of all runs, in logarithms, for each library's row.
class Unchanged {
 public:
  Unchanged(const Side& a, const Side& b) : runs_(a.runs() + b.runs()) {
    for (const auto& [key, before] : a.peers) {
      const auto after = b.peers.find(key);
      if (after == b.peers.end() || after->second.version != before.version || !before.steady ||
          !after->second.steady || !as_often(before, after->second))
        continue;
      std::vector<double> times = before.runs;
      times.insert(times.end(), after->second.runs.begin(), after->second.runs.end());
      if (present(times).size() != runs_) continue;
      double mean = 0;
      for (double& t : times) mean += (t = std::log(t)) / static_cast<double>(runs_);
      for (double& t : times) t -= mean;
      rows_.push_back(std::move(times));
    }
  }
  std::size_t count() const { return rows_.size(); }
  // What is divided out of each run: the median of these rows, or of all but one of them.
  std::vector<double> drift(std::size_t without = SIZE_MAX) const {
    std::vector<double> by_run(runs_, 1.0);
    for (std::size_t run = 0; run < runs_; ++run) {
      std::vector<double> all;
      for (std::size_t i = 0; i < rows_.size(); ++i)
        if (i != without) all.push_back(rows_[i][run]);
      if (!all.empty()) by_run[run] = std::exp(median_of(all));
    }
    return by_run;
  }
  // Each as if it were a row of ours, with the drift of the others divided out.
  std::vector<TimeRatio> controls(std::size_t of_a) const {
    std::vector<TimeRatio> list;
    if (rows_.size() < 2) return list;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::vector<double> by_run = drift(i);
      std::vector<double> times;
      for (std::size_t run = 0; run < runs_; ++run)
        times.push_back(std::exp(rows_[i][run]) / by_run[run]);
      const std::span<const double> all(times);
      list.push_back(compare_runs(all.first(of_a), all.subspan(of_a)));
    }
    return list;
  }

 private:
  std::size_t runs_;
  std::vector<std::vector<double>> rows_;
};

double change(double ratio) { return std::fabs(std::log(ratio)); }

// 19 of 20 controls moved by less.
double blind_below(const std::vector<TimeRatio>& controls) {
  if (controls.empty()) return 0;
  std::vector<double> moved;
  for (const TimeRatio& c : controls) moved.push_back(change(c.ratio));
  std::ranges::sort(moved);
  const auto at = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(moved.size())));
  return moved[at - 1];
}

std::string shown(const std::string& key) {
  const auto line = key.find('\n');
  return fmt::format("{} ({})", key.substr(0, line), key.substr(line + 1));
}

// "2 rows stand in A only: conv a.b0, 1 thread (seq), ..."; empty where there is none.
std::string only_in(const Rows& rows, const Rows& others, const char* what, const char* side) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> names;
  for (const auto& [key, timed] : rows)
    if (!others.contains(key)) names.push_back(shown(key));
  if (names.empty()) return "";
  const std::size_t count = names.size();
  names.resize(std::min(count, kShown));
  return fmt::format("{} {}{} in {} only, and not compared: {}{}", count, what,
                     count == 1 ? " stands" : "s stand", side, fmt::join(names, "; "),
                     count > kShown ? fmt::format("; and {} more", count - kShown) : "");
}

// What does not match between the sides, a sentence each.
std::vector<std::string> mismatches(const Side& a, const Side& b) {
  std::vector<std::string> notes;
  for (const auto& [field, of_a] : a.machine)
    if (const auto of_b = b.machine.find(field); of_b != b.machine.end() && of_b->second != of_a)
      notes.push_back(fmt::format("machine.{} differs: {} in A, {} in B", field,
                                  fmt::join(of_a, " and "), fmt::join(of_b->second, " and ")));
  for (const auto& [key, before] : a.ours)
    if (const auto after = b.ours.find(key); after != b.ours.end() && !before.file.empty() &&
                                             !after->second.file.empty() &&
                                             before.file != after->second.file)
      notes.push_back(
          fmt::format("{}: {} in A, {} in B", shown(key), before.file, after->second.file));
  for (const std::string& note :
       {only_in(a.ours, b.ours, "row", "A"), only_in(b.ours, a.ours, "row", "B"),
        only_in(a.peers, b.peers, "row of libraries", "A"),
        only_in(b.peers, a.peers, "row of libraries", "B")})
    if (!note.empty()) notes.push_back(note);
  return notes;
}

// Whether the runs of one side all came before those of the other, as far as records say.
bool one_after_the_other(const Side& a, const Side& b) {
  std::vector<std::string> x = a.started, y = b.started;
  std::ranges::sort(x);
  std::ranges::sort(y);
  if (x.front().empty() || y.front().empty()) return true;
  return x.back() < y.front() || y.back() < x.front();
}

}  // namespace

BenchRecords read_benches(const std::string& words) {
  BenchRecords side;
  for (std::size_t from = 0; from <= words.size();) {
    const std::size_t comma = std::min(words.find(',', from), words.size());
    const std::string word = words.substr(from, comma - from);
    from = comma + 1;
    if (!std::filesystem::is_directory(word)) {
      side.names.push_back(word);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(word))
      if (entry.path().extension() == ".json") inside.push_back(entry.path().string());
    if (inside.empty()) throw bad_input("{}: no record (*.json) lies in this folder", word);
    std::ranges::sort(inside);
    side.names.insert(side.names.end(), inside.begin(), inside.end());
  }
  for (const std::string& path : side.names) {
    const std::string text = read_text_file(path);  // its errors name the file
    const ErrorScope scope(path);
    json record = parse_json(text);
    if (!record.is_object() || !record.contains("bench") || !record["bench"].is_object() ||
        !record["bench"].contains("rows") || !record["bench"]["rows"].is_array())
      throw bad_input("this is no record of 'etalon bench': the field bench.rows is expected");
    const json& bench = record["bench"];
    if (bench["rows"].empty()) {
      const bool told = bench.contains("skipped") && bench["skipped"].is_array() &&
                        !bench["skipped"].empty() && bench["skipped"][0].is_string();
      throw bad_input("nothing was timed in this record{}; give one that has rows",
                      told ? " (" + bench["skipped"][0].get<std::string>() + ")" : "");
    }
    check_bench_record(record);
    side.records.push_back(std::move(record));
  }
  return side;
}

bool compare_benches(const BenchRecords& of_a, const BenchRecords& of_b, json& out) {
  const Side a = side_of(of_a), b = side_of(of_b);
  const Unchanged unchanged(a, b);
  const std::vector<double> drift = unchanged.drift();
  const std::vector<TimeRatio> controls = unchanged.controls(a.runs());
  const double blind = blind_below(controls);
  // Without a library in both, only turns tell the machine's change from the program's.
  const bool confounded = unchanged.count() == 0 && one_after_the_other(a, b);

  struct Pair {
    std::string key;
    double before, after;
    bool moved, as_often;
    TimeRatio found;
  };
  std::vector<Pair> pairs;
  for (const auto& [key, before] : a.ours) {
    const auto found = b.ours.find(key);
    if (found == b.ours.end()) continue;
    std::vector<double> x = before.runs, y = found->second.runs;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] /= drift[i];
    for (std::size_t i = 0; i < y.size(); ++i) y[i] /= drift[a.runs() + i];
    x = present(x);
    y = present(y);
    if (x.empty() || y.empty()) continue;
    pairs.push_back({key, median_of(x), median_of(y),
                     before.hash != found->second.hash || !before.steady || !found->second.steady,
                     as_often(before, found->second), compare_runs(x, y)});
  }
  if (pairs.empty())
    throw bad_input(
        "{} and {} have no row in common: the same operation, shape or inputs, contract, threads "
        "and cache are expected in both{}",
        fmt::join(of_a.names, ","), fmt::join(of_b.names, ","),
        a.ours.empty() || b.ours.empty()
            ? ""
            : fmt::format("; A has {}, B has {}", shown(a.ours.begin()->first),
                          shown(b.ours.begin()->first)));
  std::vector<double> p;
  for (const Pair& pair : pairs)
    if (pair.found.tested && pair.as_often) p.push_back(pair.found.p);
  const std::vector<double> held = corrected(p);

  out["a"] = of_a.names;
  out["b"] = of_b.names;
  out["runs"] = {a.runs(), b.runs()};
  out["alpha"] = kAlpha;
  out["peers"] = unchanged.count();
  const auto right = Table::Align::right;
  Table table({{"shape"},
               {"contract"},
               {"A", right},
               {"B", right},
               {"B / A", right},
               {"95 % of it", right},
               {"p", right},
               {"bits"},
               {""}});
  int slower = 0, faster = 0, moved = 0;
  std::size_t tested = 0;
  for (const Pair& pair : pairs) {
    const TimeRatio& r = pair.found;
    const bool told = r.tested && pair.as_often;
    const double corrected_p = told ? held[tested++] : 1;
    const char* verdict = !pair.as_often             ? "other repetitions"
                          : !r.tested                ? "too few runs"
                          : corrected_p >= kAlpha    ? "no difference shown"
                          : confounded               ? "or the machine changed"
                          : change(r.ratio) <= blind ? "no more than libraries that did not change"
                          : r.ratio > 1              ? "slower"
                                                     : "faster";
    slower += *verdict == 's' ? 1 : 0;
    faster += *verdict == 'f' ? 1 : 0;
    moved += pair.moved ? 1 : 0;
    const auto line = pair.key.find('\n');
    const std::string where = pair.key.substr(0, line), contract = pair.key.substr(line + 1);
    table.row({where, contract, human_seconds(pair.before), human_seconds(pair.after),
               fmt::format("{:.3f}", r.ratio),
               told ? fmt::format("{:.3f} to {:.3f}", r.low, r.high) : "-",
               told ? fmt::format("{:.2g}", corrected_p) : "-", pair.moved ? "moved" : "same",
               coloured(verdict, *verdict == 's'   ? Colour::red
                                 : *verdict == 'f' ? Colour::green
                                                   : Colour::plain)});
    json row = {{"row", where},      {"contract", contract}, {"a_s", pair.before},
                {"b_s", pair.after}, {"ratio", r.ratio},     {"bits_moved", pair.moved},
                {"verdict", verdict}};
    if (told) row.update({{"low", r.low}, {"high", r.high}, {"p", corrected_p}});
    out["rows"].push_back(std::move(row));
  }
  table.print();

  const std::vector<std::string> notes = mismatches(a, b);
  if (!notes.empty()) out["notes"] = notes;
  fmt::print("{}", notes.empty() ? "" : "\n");
  for (const std::string& text : notes) fmt::print("{}\n", text);

  fmt::print("\n{} run{} of A, {} of B", a.runs(), a.runs() == 1 ? "" : "s", b.runs());
  const bool too_few = std::min(a.runs(), b.runs()) < kLeastRuns;
  if (too_few)
    fmt::print(
        ": nothing can be said about speed, for two runs of one program differ too. Measure each "
        "side {} times or more: --runs {}, or --compare a1.json,a2.json,... b1.json,b2.json,...",
        kLeastRuns, kLeastRuns + 2);
  fmt::print("\n");
  if (unchanged.count() > 0) {
    const std::span<const double> all(drift);
    const double by = std::exp(std::log(median_of(all.subspan(a.runs()))) -
                               std::log(median_of(all.first(a.runs()))));
    out["drift"] = by;
    fmt::print(
        "libraries of the same version took {:.3f} times as long in B ({} rows of them): the "
        "machine's own change, divided out of each run\n",
        by, unchanged.count());
  } else {
    fmt::print(
        "no library stands in both: a change of the machine looks like one of the program; --vs "
        "onednn on both sides tells them apart{}\n",
        confounded ? ", or runs of A and B in turns (--against)" : "");
  }
  if (!controls.empty() && tested > 0) {
    const auto alarms = std::ranges::count_if(
        controls, [](const TimeRatio& c) { return c.tested && c.p < kAlpha; });
    out["controls"] = {{"rows", controls.size()}, {"below_alpha", alarms}, {"blind_below", blind}};
    fmt::print(
        "the same test on {} rows of libraries that did not change: {} below {} (expected: "
        "{:.1f}); "
        "they differ by up to {:.1f} %, and smaller changes of ours are not called\n",
        controls.size(), alarms, kAlpha, kAlpha * static_cast<double>(controls.size()),
        100 * (std::exp(blind) - 1));
  }
  const bool holds = slower == 0 && moved == 0;
  out["holds"] = holds;
  fmt::print(
      "{} rows: {} slower, {} faster, {} with other bits{}\n", pairs.size(), slower, faster, moved,
      tested > 0 ? fmt::format(" (Welch's test over runs, Holm's correction, alpha {})", kAlpha)
                 : "");
  return holds;
}

}  // namespace etalon::cli
