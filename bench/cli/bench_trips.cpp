#include "bench/cli/bench_trips.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/micro/significance.h"

namespace etalon::cli {
namespace {

using json = nlohmann::json;
constexpr double kFar = 2;

void add(const json& entry, std::vector<double>& to) {
  if (!entry.contains("line_round_trips_s")) return;
  for (const double trip : entry["line_round_trips_s"].get<std::vector<double>>())
    if (trip > 0) to.push_back(trip);
}

}  // namespace

void sum_up_trips(json& bench) {
  std::vector<double> trips;
  for (const json& row : bench["rows"]) {
    add(row, trips);
    if (row.contains("vs"))
      for (const json& peer : row["vs"]) add(peer, trips);
  }
  if (trips.empty()) return;
  const auto [least, most] = std::ranges::minmax(trips);
  const auto far = std::ranges::count_if(trips, [&](double t) { return t > kFar * least; });
  bench["load"]["line_round_trip"] = {
      {"least_s", least},
      {"median_s", median_of(trips)},
      {"most_s", most},
      {"far", static_cast<double>(far) / static_cast<double>(trips.size())}};
}

std::string trips_text(const json& bench) {
  const json load = bench.value("load", json::object());
  if (!load.contains("line_round_trip")) return "";
  const json& trip = load["line_round_trip"];
  const double least = trip["least_s"], most = trip["most_s"];
  if (most <= kFar * least) return "";
  return fmt::format(
      "a cache line took {:.0f} to {:.0f} ns from one of the processors to another and back, more "
      "than twice the least before {:.0f} % of the repetitions; what threads exchange took longer "
      "there (line_round_trips_s in the record)",
      1e9 * least, 1e9 * most, 100 * trip["far"].get<double>());
}

}  // namespace etalon::cli
