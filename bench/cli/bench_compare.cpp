#include "bench/cli/bench_compare.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bench/cli/terminal.h"
#include "bench/micro/significance.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/containers/json.h"

namespace etalon::cli {
namespace {

using json = nlohmann::json;
constexpr double kAlpha = 0.05;

struct Timed {
  std::vector<double> samples;
  std::string hash, version;
};
struct Rows {
  std::map<std::string, Timed> ours, peers;
};

Rows read(const std::string& path) {
  const ErrorScope scope(path);
  const json record = parse_json(read_text_file(path));
  if (!record.is_object() || !record.contains("bench") || !record["bench"].contains("rows"))
    throw bad_input("this is no record of 'etalon bench': the field bench.rows is expected");
  Rows rows;
  const auto timed = [](const json& j) -> std::optional<Timed> {
    if (!j.contains("samples") || !j["samples"].is_array()) return std::nullopt;
    return Timed{j["samples"].get<std::vector<double>>(), j.value("hash", ""),
                 j.value("version", "")};
  };
  for (const json& row : record["bench"]["rows"]) {
    const std::string where = fmt::format(
        "{} {}, {} threads{}", row.value("op", ""), row.value("name", row.value("shape", "")),
        row.value("threads", 1), row.value("cache", "warm") == "cold" ? ", cold" : "");
    if (const auto t = timed(row)) rows.ours[where + "\n" + row.value("contract", "")] = *t;
    if (!row.contains("vs")) continue;
    for (const auto& [name, peer] : row["vs"].items())
      if (const auto t = timed(peer))
        (peer.value("kind", "library") == "contract" ? rows.ours
                                                     : rows.peers)[where + "\n" + name] = *t;
  }
  if (rows.ours.empty())
    throw bad_input(
        "no row of this record holds samples; records hold them since this command exists: measure "
        "again with 'etalon bench ... --json FILE'");
  return rows;
}

// The median ratio of the times of those who did not change; nullopt where there are none.
std::optional<double> drift_of(const Rows& a, const Rows& b, int& count) {
  std::vector<double> logs;
  for (const auto& [key, before] : a.peers) {
    const auto after = b.peers.find(key);
    if (after == b.peers.end() || after->second.version != before.version) continue;
    logs.push_back(std::log(median_of(after->second.samples) / median_of(before.samples)));
  }
  count = static_cast<int>(logs.size());
  if (logs.empty()) return std::nullopt;
  return std::exp(median_of(logs));
}

}  // namespace

bool compare_benches(const std::string& a_path, const std::string& b_path, json& out) {
  const Rows a = read(a_path), b = read(b_path);
  int peers = 0;
  const std::optional<double> drift = drift_of(a, b, peers);
  struct Pair {
    std::string key;
    const Timed* before;
    std::vector<double> after;
    bool moved;
    double p;
  };
  std::vector<Pair> pairs;
  for (const auto& [key, before] : a.ours) {
    const auto found = b.ours.find(key);
    if (found == b.ours.end()) continue;
    Pair pair{key, &before, found->second.samples, before.hash != found->second.hash, 1};
    for (double& s : pair.after) s /= drift.value_or(1);
    pair.p = rank_test(before.samples, pair.after);
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty())
    throw bad_input(
        "{} and {} have no row in common: the same operation, shape, contract, threads "
        "and cache are expected in both",
        a_path, b_path);
  std::vector<double> p;
  for (const Pair& pair : pairs) p.push_back(pair.p);
  const std::vector<double> held = corrected(p);

  out["a"] = a_path;
  out["b"] = b_path;
  out["alpha"] = kAlpha;
  if (drift) out["drift"] = *drift;
  out["peers"] = peers;
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
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Pair& pair = pairs[i];
    const double before = median_of(pair.before->samples), after = median_of(pair.after);
    const Interval interval = ratio_interval(pair.before->samples, pair.after);
    const char* verdict = held[i] >= kAlpha ? "no difference shown"
                          : after > before  ? "slower"
                                            : "faster";
    slower += *verdict == 's' ? 1 : 0;
    faster += *verdict == 'f' ? 1 : 0;
    moved += pair.moved ? 1 : 0;
    const auto line = pair.key.find('\n');
    const std::string where = pair.key.substr(0, line), contract = pair.key.substr(line + 1);
    table.row({where, contract, human_seconds(before), human_seconds(after),
               fmt::format("{:.3f}", after / before),
               fmt::format("{:.3f} to {:.3f}", interval.low, interval.high),
               fmt::format("{:.2g}", held[i]), pair.moved ? "moved" : "same",
               coloured(verdict, *verdict == 's'   ? Colour::red
                                 : *verdict == 'f' ? Colour::green
                                                   : Colour::plain)});
    out["rows"].push_back({{"row", where},
                           {"contract", contract},
                           {"a_s", before},
                           {"b_s", after},
                           {"ratio", after / before},
                           {"low", interval.low},
                           {"high", interval.high},
                           {"p", held[i]},
                           {"bits_moved", pair.moved},
                           {"verdict", verdict}});
  }
  table.print();
  if (drift)
    fmt::print(
        "\nlibraries of the same version took {:.3f} times as long in B (median of {} rows): the "
        "machine's own change, divided out of B's times above\n",
        *drift, peers);
  else
    fmt::print(
        "\nno library stands in both records: a change of the machine looks like one of the "
        "program; --vs onednn in both runs tells them apart\n");
  const bool holds = slower == 0 && moved == 0;
  out["holds"] = holds;
  fmt::print(
      "{} rows: {} slower, {} faster, {} with other bits (Mann-Whitney, Holm's correction, "
      "alpha {})\n",
      pairs.size(), slower, faster, moved, kAlpha);
  return holds;
}

}  // namespace etalon::cli
