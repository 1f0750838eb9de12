#include "bench/cli/bench_functions.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/cli/bench_rows.h"
#include "bench/cli/terminal.h"
#include "bench/micro/machine_watch.h"
#include "bench/survey/peers.h"
#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/core/threads.h"
#include "engine/numerics/fp.h"

namespace etalon::cli {
namespace {

struct Range {
  float low, high;
};
Range range_of(std::string_view f) {
  if (f == "asin" || f == "acos" || f == "atanh") return {-0.99F, 0.99F};
  if (f == "acosh") return {1, 50};
  if (f == "log" || f == "log2" || f == "log10" || f == "sqrt" || f == "rsqrt") return {0.01F, 100};
  if (f == "log1p") return {-0.9F, 50};
  return {-8, 8};
}

// The largest error and the share of results that are not correctly rounded, of every 16th element:
// an exact value in f64 costs as much as ten thousand of the results that are timed.
struct Accuracy {
  double max_ulp = 0, wrong = 0;
};
constexpr std::size_t kEvery = 16;
Accuracy accuracy(const SurveyedFunction& f, std::span<const float> x, std::span<const float> y) {
  Accuracy a;
  for (std::size_t i = 0; i < x.size(); i += kEvery) {
    const auto v = static_cast<double>(x[i]);
    const double exact = f.value(v, DType::f64, Round::nearest_even);
    const auto right = static_cast<float>(f.value(v, DType::f32, Round::nearest_even));
    if (!(right == y[i])) a.wrong += 1;
    // NaN, where the range has none, is infinitely wrong.
    const double ulps = std::isnan(y[i]) ? kInfinity
                                         : std::fabs(static_cast<double>(y[i]) - exact) /
                                               ulp_of(static_cast<double>(right), DType::f32);
    a.max_ulp = std::max(a.max_ulp, ulps);
  }
  a.wrong *= static_cast<double>(kEvery) / static_cast<double>(x.size());
  return a;
}

}  // namespace

void bench_functions(const FunctionBenchOptions& options, nlohmann::json& bench) {
  constexpr std::int64_t kCount = 1 << 15;
  Table table({{"function"},
               {"ns"},
               {"max ULP", Table::Align::right},
               {"against"},
               {"ns", Table::Align::right},
               {"ratio", Table::Align::right},
               {"max ULP", Table::Align::right},
               {"not rounded right", Table::Align::right}});
  std::string again =
      "etalon bench functions" + again_options(options.vs, options.threads, options.isa);
  if (options.timing.cache == Cache::cold) again += " --cache cold";
  std::map<std::string, std::pair<double, int>> sums;
  std::map<std::string, std::pair<double, std::string>> worst;
  const auto time_one = [&](const SurveyedFunction& f) {
    check_interrupt();
    std::vector<std::unique_ptr<ElementwiseRow>> rows;
    rows.push_back(ElementwiseRow::make(f, "", kCount, options.threads, options.isa));
    for (const std::string& peer : options.vs)
      if (auto row = ElementwiseRow::make(f, peer + ".", kCount, options.threads, detect_isa()))
        rows.push_back(std::move(row));
    const Range range = range_of(f.name);
    const Philox random{.seed = 71};
    for (auto& row : rows)
      for (std::int64_t i = 0; i < kCount; ++i) {
        const float u = 0.5F * (1 + random.uniform(static_cast<std::uint64_t>(i)));
        row->x()[static_cast<std::size_t>(i)] = range.low + (range.high - range.low) * u;
      }
    std::vector<TimedCandidate> candidates;
    for (auto& row : rows) {
      row->run();
      candidates.push_back({row->kernel(), [r = row.get()] { r->run(); }});
    }
    TimingOptions timing = options.timing;
    timing.threads = options.threads;
    const MachineWatch watch;
    const std::vector<Timing> times = time_interleaved(candidates, timing);
    const MachineLoad load = watch.load();
    const auto errors_of = [&](ElementwiseRow& row) {
      return options.errors ? accuracy(f, row.x(), row.y()) : Accuracy{};
    };
    const auto ulp_text = [&](const char* form, double v) {
      return options.errors ? fmt::format(fmt::runtime(form), v) : std::string("-");
    };
    const Accuracy own = errors_of(*rows[0]);
    nlohmann::json j = {
        {"suite", "functions"},
        {"op", f.name},
        {"shape", fmt::format("f32[{}] in [{}, {}]", kCount, range.low, range.high)},
        {"contract", "exact"},
        {"contract_name", "exact"},
        {"kernel", rows[0]->kernel()},
        {"threads", options.threads},
        {"cache", timing.cache == Cache::cold ? "cold" : "warm"},
        {"load", {{"others", load.others}, {"stolen", load.stolen}}},
        {"again", again},
        {"ns_per_element", times[0].median_s * 1e9 / kCount}};
    const auto add_timing = [&](nlohmann::json& to, std::size_t i) {
      to["median_s"] = times[i].median_s;
      to["spread"] = times[i].spread;
      to["repetitions"] = times[i].repetitions;
      to["samples"] = times[i].samples;
      if (!times[i].line_round_trips.empty()) to["line_round_trips_s"] = times[i].line_round_trips;
      to["hash"] = to_string(hash_tensor(Tensor::of<float>(Shape{kCount}, rows[i]->y())));
    };
    add_timing(j, 0);
    const auto note = [&](nlohmann::json& to, const Accuracy& a) {
      if (!options.errors) return;
      to["max_ulp"] = a.max_ulp;
      to["not_correctly_rounded"] = a.wrong;
    };
    note(j, own);
    const auto ns = [&](std::size_t i) {
      return fmt::format("{:.2f}", times[i].median_s * 1e9 / static_cast<double>(kCount));
    };
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const double ratio = times[0].median_s / times[i].median_s;
      const Accuracy theirs = errors_of(*rows[i]);
      const std::string peer = rows[i]->kernel().substr(0, rows[i]->kernel().find('.'));
      j["vs"][peer] = {{"kind", "library"},
                       {"status", "ok"},
                       {"version", rows[i]->version()},
                       {"kernel", rows[i]->kernel()},
                       {"ratio", ratio}};
      add_timing(j["vs"][peer], i);
      note(j["vs"][peer], theirs);
      sums[peer].first += std::log(ratio);
      ++sums[peer].second;
      if (ratio > worst[peer].first) worst[peer] = {ratio, std::string(f.name)};
      table.row({i == 1 ? std::string(f.name) : "", i == 1 ? ns(0) : "",
                 i == 1 ? ulp_text("{:.3f}", own.max_ulp) : "", peer, ns(i),
                 fmt::format("{:.2f}", ratio), ulp_text("{:.3g}", theirs.max_ulp),
                 ulp_text("{:.2f} %", 100 * theirs.wrong)});
    }
    if (rows.size() == 1) table.row({std::string(f.name), ns(0), ulp_text("{:.3f}", own.max_ulp)});
    bench["rows"].push_back(std::move(j));
  };
  bool interrupted_early = false;
  try {
    for (const SurveyedFunction& f : surveyed_functions()) time_one(f);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::interrupted) throw;
    bench["complete"] = false;
    interrupted_early = true;
  }
  table.print();
  for (const auto& [peer, sum] : sums) {
    const double mean = std::exp(sum.first / sum.second);
    bench["summary"]["functions." + peer] = {{"geomean", mean},
                                             {"worst", worst[peer].first},
                                             {"worst_shape", worst[peer].second},
                                             {"shapes", sum.second}};
    fmt::print("against {}: {:.2f} of its time (geometric mean of {}), worst {:.2f} ({})\n", peer,
               mean, sum.second, worst[peer].first, worst[peer].second);
  }
  if (interrupted_early)
    fmt::print("\ninterrupted: {} functions are kept\n",
               std::ranges::count_if(bench["rows"], [](const nlohmann::json& row) {
                 return row.value("suite", "") == "functions";
               }));
}

}  // namespace etalon::cli
