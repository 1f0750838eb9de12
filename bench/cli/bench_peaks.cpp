#include "bench/cli/bench_peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/cli/bench_rows.h"

namespace etalon::cli {
namespace {

using json = nlohmann::json;

// A roof becomes what was reached; what was measured stays beside it.
void raise(json& roof, const char* field, double reached) {
  const double stood = roof.value(field, 0.0);
  if (reached <= stood) return;
  const std::string measured = std::string(field) + "_measured";
  if (!roof.contains(measured)) roof[measured] = stood;
  roof[field] = reached;
}

bool multiplies_less(const std::string& text) {
  return text.find("winograd") != std::string::npos || text.find("fft") != std::string::npos;
}

// The bytes that a row moves come from the smallest cache that holds what a thread works on; a cold
// run's from memory.
json& level_of(json& peak, const json& row) {
  json& levels = peak["levels"];
  const double of_a_thread = row.value("bytes", 0.0) / row.value("threads", 1);
  if (row.value("cache", "") != "cold")
    for (json& level : levels)
      if (of_a_thread <= level["bytes"].get<double>()) return level;
  return levels.back();
}

// Calls back for the row itself and for each peer that was timed.
template <class Row, class Callback>
void each_entry(Row& row, const Callback& callback) {
  callback(row, row.value("contract", ""));
  if (row.contains("vs"))
    for (auto& [name, peer] : row["vs"].items())
      if (peer.contains("median_s")) callback(peer, name + " " + peer.value("kernel", ""));
}

}  // namespace

json peak_json(int threads, const Peak& peak) {
  json out = {{"threads", threads},
              {"gflops", peak.gflops},
              {"gbytes", peak.levels.back().gbytes},
              {"levels", json::array()}};
  for (const Peak::Level& level : peak.levels)
    out["levels"].push_back({{"bytes", level.bytes}, {"gbytes", level.gbytes}});
  return out;
}

void merge_peaks(json& into, const json& other) {
  if (!into.contains("peaks") || !other.contains("peaks")) return;
  for (json& peak : into["peaks"])
    for (const json& more : other["peaks"]) {
      if (more["threads"] != peak["threads"]) continue;
      peak["gflops"] = std::max(peak["gflops"].get<double>(), more["gflops"].get<double>());
      for (std::size_t i = 0; i < peak["levels"].size() && i < more["levels"].size(); ++i) {
        json& rate = peak["levels"][i]["gbytes"];
        rate = std::max(rate.get<double>(), more["levels"][i]["gbytes"].get<double>());
      }
    }
}

void settle_peaks(json& bench) {
  if (!bench.contains("peaks")) return;
  for (json& peak : bench["peaks"]) {
    const auto for_rows = [&](const auto& callback) {
      for (json& row : bench["rows"])
        if (is_shape_row(row) && row.value("threads", 1) == peak["threads"]) callback(row);
    };
    for_rows([&](json& row) {
      each_entry(row, [&](const json& entry, const std::string& by) {
        if (multiplies_less(by)) return;
        raise(peak, "gflops", entry.value("gflops", 0.0));
        raise(level_of(peak, row), "gbytes", entry.value("gbytes", 0.0));
      });
    });
    // A larger set of data is not faster to reach than a smaller one.
    for (std::size_t i = peak["levels"].size(); i-- > 1;)
      raise(peak["levels"][i - 1], "gbytes", peak["levels"][i]["gbytes"]);
    const json& memory = peak["levels"].back();
    peak["gbytes"] = memory["gbytes"];
    if (memory.contains("gbytes_measured")) peak["gbytes_measured"] = memory["gbytes_measured"];
    for_rows([&](json& row) {
      const double gflops = peak["gflops"], gbytes = level_of(peak, row)["gbytes"];
      const bool sums = row.value("flops", 0.0) > 0;
      each_entry(row, [&](json& entry, const std::string&) {
        const double roof = sums ? gflops : gbytes;
        entry["of_peak"] = roof > 0 ? entry[sums ? "gflops" : "gbytes"].get<double>() / roof : 0;
      });
    });
  }
  bench["peak"] = {{"gflops", bench["peaks"][0]["gflops"]},
                   {"gbytes", bench["peaks"][0]["gbytes"]}};
}

void print_peaks(const json& bench) {
  if (!bench.contains("peaks")) return;
  const auto beside = [](const json& roof, const char* measured) {
    return roof.contains(measured)
               ? fmt::format(" (reached by a row; measured {:.3g})", roof[measured].get<double>())
               : std::string();
  };
  for (const json& p : bench["peaks"]) {
    fmt::print("peak here on {} thread{}: {:.3g} GFLOP/s of f32{}, {:.3g} GB/s from memory{}",
               p["threads"].get<int>(), p["threads"] == 1 ? "" : "s", p["gflops"].get<double>(),
               beside(p, "gflops_measured"), p["gbytes"].get<double>(),
               beside(p, "gbytes_measured"));
    fmt::print(", {:.3g} GB/s from the first cache{}\n",
               p["levels"].front()["gbytes"].get<double>(),
               beside(p["levels"].front(), "gbytes_measured"));
  }
}

}  // namespace etalon::cli
