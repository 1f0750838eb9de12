#include "bench/cli/bench_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "bench/cli/terminal.h"
#include "bench/report/bench_record.h"
#include "bench/shell_word.h"
#include "engine/core/error.h"

namespace etalon::cli {
namespace {

using json = nlohmann::json;

// What a library's figures are a summary of: its rows that take and give row-major tensors, and
// all of them with conversions left out of the time.
constexpr std::string_view kBlocked = ".blocked";

std::string view_text(const std::string& view, std::string_view kind) {
  if (kind == "contract") return fmt::format("our kernels under {}", view);
  if (kind == "framework") return fmt::format("{}, called in its own language", view);
  if (!view.ends_with(kBlocked))
    return fmt::format("the fastest of {}, tensors row-major as ours", view);
  return fmt::format("the fastest of {}, tensors in its own layouts",
                     view.substr(0, view.size() - kBlocked.size()));
}

std::string ulp_text(const json& row) {
  const auto at = row.find("max_ulp");
  if (at == row.end()) return "-";
  if (at->is_string()) return at->get<std::string>();  // "inf", as records spell it
  return at->is_number() ? fmt::format("{:.3g}", at->get<double>()) : "-";
}

// To sort by: what is no number is worse than any.
double error_of(const json& row) {
  const auto at = row.find("max_ulp");
  if (at == row.end()) return 0;
  const double error = at->is_number() ? at->get<double>() : HUGE_VAL;
  return std::isnan(error) ? HUGE_VAL : error;
}

void add_entry(json& out, const BenchEntry& e) {
  out["median_s"] = e.timing.median_s;
  out["spread"] = e.timing.spread;
  out["repetitions"] = e.timing.repetitions;
  out["samples"] = e.timing.samples;
  if (!e.timing.line_round_trips.empty()) out["line_round_trips_s"] = e.timing.line_round_trips;
  out["gflops"] = e.gflops;
  out["gbytes"] = e.gbytes;
  out["set_up_s"] = e.set_up_s;
  out["set_up_bytes"] = e.set_up_bytes;
  out["workspace_bytes"] = e.workspace_bytes;
  out["memory_by"] = e.memory_by == MemoryBy::counted   ? "counted"
                     : e.memory_by == MemoryBy::library ? "library"
                                                        : "resident";
  out["hash"] = e.hash;
  if (!e.error) return;
  out["max_ulp"] = e.error->max;
  out["mean_ulp"] = e.error->mean;
}

std::string spread_text(const json& row) {
  return fmt::format("{:.0f} %", 100 * row.value("spread", 0.0));
}
std::string memory_text(const json& row) {
  if (!row.contains("workspace_bytes")) return "";
  const std::string text = human_bytes(row.value("set_up_bytes", std::uint64_t{0}) +
                                       row.value("workspace_bytes", std::uint64_t{0}));
  return (row.value("memory_by", "") == "resident" ? "~" : "") + text;
}
double best_ratio(const json& row) {
  double ratio = 0;
  if (row.contains("vs"))
    for (const json& peer : row["vs"]) ratio = std::max(ratio, peer.value("ratio", 0.0));
  return ratio;
}

// Rows of one key keep the record's sequence.
std::vector<const json*> in_order(const json& rows, BenchOrder order) {
  struct Keyed {
    double key;  // largest first
    std::string name;
    std::size_t at;
    const json* row;
  };
  std::vector<Keyed> list;
  for (const json& r : rows) {
    Keyed k{0, "", list.size(), &r};
    if (order == BenchOrder::name) k.name = r.value("op", "") + " " + r.value("name", "");
    if (order == BenchOrder::time) k.key = r.value("median_s", 0.0);
    if (order == BenchOrder::ratio) k.key = best_ratio(r);
    if (order == BenchOrder::speed) k.key = r.value("of_peak", 0.0);
    if (order == BenchOrder::error) k.key = error_of(r);
    list.push_back(std::move(k));
  }
  std::ranges::sort(list, [](const Keyed& a, const Keyed& b) {
    return std::tie(b.key, a.name, a.at) < std::tie(a.key, b.name, b.at);
  });
  std::vector<const json*> sorted;
  for (const Keyed& k : list) sorted.push_back(k.row);
  return sorted;
}

}  // namespace

json bench_row_json(const BenchRow& row, const BenchOptions& options, const std::string& again) {
  json out = {
      {"suite", row.shape.suite},
      {"name", row.shape.full_name()},
      {"op", row.shape.op->name},
      {"shape", row.shape.line},
      {"contract", row.contract},
      {"contract_name", short_name(options.contract)},
      {"kernel", row.ours.kernel},
      {"threads", options.threads},
      {"cache", options.timing.cache == Cache::cold ? "cold" : "warm"},
      {"flops", row.flops},
      {"bytes", row.bytes},
      {"load",
       {{"others", row.load.others}, {"stolen", row.load.stolen}, {"seconds", row.load.seconds}}},
      {"again", again},
      {"refused", row.refused}};
  add_entry(out, row.ours);
  if (!row.no_error_because.empty()) out["no_error_because"] = row.no_error_because;
  for (const BenchEntry& peer : row.vs) {
    json theirs = {{"version", peer.version}, {"status", peer.status}};
    if (peer.status == "ok") {
      add_entry(theirs, peer);
      const bool framework = peer.ours_beside_s > 0;
      const double ours = framework ? peer.ours_beside_s : row.ours.timing.median_s;
      theirs["ratio"] = ours / peer.timing.median_s;
      theirs["kind"] = framework ? "framework" : !peer.contract.empty() ? "contract" : "library";
      if (framework) theirs["ours_beside_s"] = ours;
      if (!peer.dispatched.empty()) theirs["dispatched"] = peer.dispatched;
    } else {
      theirs["kind"] = "framework";
      theirs["reason"] = peer.reason;
    }
    if (!peer.contract.empty()) theirs["kernel"] = peer.kernel;
    out["vs"][peer.contract.empty() ? peer.kernel : peer.contract] = std::move(theirs);
  }
  return out;
}

std::string again_options(const std::vector<std::string>& vs, int threads, Isa isa) {
  std::string text;
  if (!vs.empty()) text += " --vs " + shell_word(fmt::format("{}", fmt::join(vs, ",")));
  return text + fmt::format(" --threads {} --isa {}", threads, name(isa));
}

bool is_shape_row(const json& row) {
  const std::string suite = row.value("suite", "");
  return suite != "functions" && suite != "network" && suite != "import";
}

bool is_bench_row(const json& row) {
  const auto numbers = [](const json& of, std::initializer_list<const char*> names) {
    return std::ranges::all_of(names, [&](const char* name) {
      const auto at = of.find(name);
      return at != of.end() && at->is_number();
    });
  };
  try {
    check_bench_record({{"bench", {{"rows", json::array({row})}}}});
  } catch (const Error&) {
    return false;
  }
  for (const char* text : {"op", "name", "kernel", "cache", "contract"})
    if (!row.contains(text)) return false;
  if (!row.contains("threads") || !row.contains("load") || !row.contains("samples") ||
      !numbers(row, {"median_s", "gflops", "gbytes", "flops", "bytes"}) ||
      !row["load"].is_object() || !numbers(row["load"], {"others", "stolen"}))
    return false;
  return !row.contains("vs") || std::ranges::all_of(row["vs"], [&](const json& peer) {
    return peer.value("status", "ok") != "ok" ||
           numbers(peer, {"median_s", "ratio", "gflops", "gbytes"});
  });
}

std::string again_command(const NamedShape& shape, const BenchOptions& options,
                          const std::vector<std::string>& vs) {
  std::string text = "etalon bench ";
  if (shape.suite == kTypedSuite)
    text += "--shape " + shell_word(fmt::format("{} {}", shape.op->name, shape.line));
  else
    text += fmt::format("{}.{}", shape.op->name, shape.full_name());
  text += " -c " + shell_word(short_name(options.contract));
  for (const Contract& c : options.also) text += " -c " + shell_word(short_name(c));
  if (!options.kernels.empty()) text += " --kernels " + shell_word(options.kernels);
  text += again_options(vs, options.threads, options.isa);
  if (options.timing.cache == Cache::cold) text += " --cache cold";
  return text;
}

BenchOrder parse_bench_order(std::string_view text) {
  const std::pair<std::string_view, BenchOrder> names[] = {
      {"file", BenchOrder::file},   {"name", BenchOrder::name},   {"time", BenchOrder::time},
      {"ratio", BenchOrder::ratio}, {"error", BenchOrder::error}, {"speed", BenchOrder::speed}};
  for (const auto& [name, order] : names)
    if (name == text) return order;
  throw usage_error("--sort {}: the orders are file, name, time, ratio, error, speed", text);
}

std::string ratio_text(double ratio) {
  const std::string text = fmt::format("{:.2f}", ratio);
  return coloured(text, ratio <= 1 ? Colour::green : ratio <= 1.2 ? Colour::plain : Colour::yellow);
}

void print_bench_rows(const json& bench, BenchOrder order, bool wide) {
  const auto right = Table::Align::right;
  bool sweep = false;
  for (const json& row : bench["rows"])
    sweep = sweep || row.value("threads", 1) != bench["rows"][0].value("threads", 1);
  std::vector<Table::Column> columns{{"shape"}};
  if (sweep) columns.push_back({"threads", right});
  columns.insert(columns.end(), {{"kernel"},
                                 {"time", right},
                                 {"spread", right},
                                 {"GFLOP/s", right},
                                 {"GB/s", right},
                                 {"of peak", right}});
  if (wide) columns.insert(columns.end(), {{"set-up", right}, {"memory", right}, {"hash"}});
  columns.insert(
      columns.end(),
      {{"max ULP", right}, {"against"}, {"time", right}, {"spread", right}, {"ratio", right}});
  if (wide) columns.insert(columns.end(), {{"set-up", right}, {"memory", right}, {"hash"}});
  columns.push_back({"max ULP", right});
  Table table(columns);
  for (const json* row : in_order(bench["rows"], order)) {
    if (!is_shape_row(*row)) continue;
    std::vector<std::string> cells{row->value("op", "") + " " + row->value("name", "")};
    if (sweep) cells.push_back(fmt::to_string(row->value("threads", 1)));
    const auto rate = [&](const char* field) {
      return (*row)[field].get<double>() > 0 ? fmt::format("{:.1f}", (*row)[field].get<double>())
                                             : std::string();
    };
    cells.insert(cells.end(), {row->value("kernel", ""), human_seconds((*row)["median_s"]),
                               spread_text(*row), rate("gflops"), rate("gbytes"),
                               fmt::format("{:.0f} %", 100 * (*row)["of_peak"].get<double>())});
    const auto costs = [&](const json& of) {
      if (wide)
        cells.insert(cells.end(), {human_seconds(of.value("set_up_s", 0.0)), memory_text(of),
                                   of.value("hash", "").substr(0, 8)});
    };
    costs(*row);
    cells.push_back(ulp_text(*row));
    const std::size_t own = cells.size();
    bool any = false;
    if (row->contains("vs"))
      for (const auto& [name, peer] : (*row)["vs"].items()) {
        any = true;
        if (peer.value("status", "ok") != "ok") {
          cells.insert(cells.end(), {peer.value("reason", name), "-", "", "-"});
        } else {
          cells.insert(
              cells.end(),
              {peer.contains("kernel")
                   ? fmt::format("{} ({})", name, peer["kernel"].get<std::string>())
                   : name,
               human_seconds(peer["median_s"]), spread_text(peer), ratio_text(peer["ratio"])});
          costs(peer);
          cells.push_back(ulp_text(peer));
        }
        table.row(std::move(cells));
        cells.assign(own, "");
      }
    if (!any) table.row(std::move(cells));
  }
  if (table.rows() > 0) table.print();
}

void print_skipped(const json& bench) {
  if (bench.contains("skipped"))
    for (const json& text : bench["skipped"])
      fmt::print("not timed: {}\n", text.get<std::string>());
}

bool timed_what_was_asked(const json& bench, const std::set<std::string>& asked) {
  if (bench["rows"].empty()) return false;
  if (bench.contains("skipped"))
    for (const json& text : bench["skipped"])
      for (const std::string& name : asked)
        if (text.get_ref<const std::string&>().starts_with(name + ": ")) return false;
  return true;
}

void Ratios::add(double ratio, const std::string& shape) {
  log_sum_ += std::log(ratio);
  if (ratio > worst_) worst_shape_ = shape;
  worst_ = std::max(worst_, ratio);
  ++count_;
}
json Ratios::json() const {
  return {{"geomean", std::exp(log_sum_ / count_)},
          {"worst", worst_},
          {"worst_shape", worst_shape_},
          {"shapes", count_}};
}

void summarize_bench(json& bench) {
  std::map<std::string, Ratios> ratios;
  std::map<std::string, std::string> kinds;
  for (const json& row : bench["rows"]) {
    if (!is_shape_row(row) || !row.contains("vs")) continue;
    std::map<std::string, double> best;  // by library and view: ratio to its fastest row
    for (const auto& [name, peer] : row["vs"].items()) {
      if (peer.value("status", "ok") != "ok") continue;
      const double ratio = peer["ratio"];
      const std::string kind = peer.value("kind", "library");
      if (kind != "library") {
        best[name] = ratio;
        kinds[name] = kind;
        continue;
      }
      const std::string library = name.substr(0, name.find('.'));
      const bool blocked = name.ends_with(kBlocked);
      if (library == "onednn") {
        double& own = best[library + std::string(kBlocked)];
        own = std::max(own, ratio);
      }
      if (blocked) continue;
      double& plain = best[library];
      plain = std::max(plain, ratio);
    }
    for (const auto& [view, ratio] : best) ratios[view].add(ratio, row.value("name", ""));
  }
  for (const auto& [view, r] : ratios) {
    const json j = r.json();
    bench["summary"][view] = j;
    fmt::print("\n{} shapes against {}: geometric mean {:.2f} of its time, worst {:.2f} ({})\n",
               j["shapes"].get<int>(), view_text(view, kinds[view]), j["geomean"].get<double>(),
               j["worst"].get<double>(), j["worst_shape"].get<std::string>());
  }
}

}  // namespace etalon::cli
