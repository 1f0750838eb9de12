#include "bench/cli/bench_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/cli/terminal.h"
#include "bench/micro/order_search.h"
#include "bench/runners/target.h"
#include "bench/shell_word.h"
#include "engine/core/error.h"

namespace etalon::cli {
namespace {

std::string place(const Shape& shape, std::int64_t index) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[static_cast<std::size_t>(axis)] = index % shape[axis];
    index /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(at, ","));
}

nlohmann::json answer_json(const OrderAnswer& a) {
  return {{"how", a.how}, {"sentence", a.sentence}, {"order", a.order}, {"file", a.file}};
}

nlohmann::json finding_json(const OrderFinding& f) {
  return {{"library", f.library},
          {"version", f.version},
          {"kernel", f.kernel},
          {"op", f.shape.op->name},
          {"shape", f.shape.line},
          {"name", f.shape.full_name()},
          {"varied", f.varied},
          {"one", answer_json(f.one)},
          {"other", answer_json(f.other)},
          {"folder", f.folder},
          {"elements", f.elements},
          {"differ", f.differ},
          {"max_distance", f.max_distance},
          {"worst",
           {{"index", f.worst},
            {"one", fmt::format("{:a}", f.worst_one)},
            {"other", fmt::format("{:a}", f.worst_other)},
            {"exact", f.worst_exact}}},
          {"defined",
           {{"kernel", f.defined_kernel},
            {"one", f.defined_one},
            {"other", f.defined_other},
            {"equal", f.defined_equal()}}}};
}

void print(const OrderFinding& f) {
  fmt::print("\n{} ({}), {} {}\n", coloured(f.kernel, Colour::bold), f.version, f.shape.op->name,
             f.shape.line);
  fmt::print("  {}: {} against {}\n", f.varied, f.one.how, f.other.how);
  fmt::print(
      "  {} of {} outputs differ, by {:.0f} float{} at most, at {}: {:a} and {:a}, exact {:.9g}\n",
      f.differ, f.elements, f.max_distance, f.max_distance == 1 ? "" : "s",
      place(f.shape.outputs[0].shape, f.worst), f.worst_one, f.worst_other, f.worst_exact);
  for (const OrderAnswer* a : {&f.one, &f.other})
    fmt::print("  {:<28} {}\n", a->how + ":",
               a->order.empty() ? a->sentence : fmt::format("the bits of {}", a->order));
  fmt::print("  saved: {}; again: etalon ulp {} {}\n", f.folder, shell_word(f.one.file),
             shell_word(f.other.file));
  fmt::print(
      "  {} under seq, varied the same way: {} and {}: {}\n", f.defined_kernel,
      f.defined_one.substr(0, 16), f.defined_other.substr(0, 16),
      f.defined_equal() ? coloured("equal", Colour::green) : coloured("NOT EQUAL", Colour::red));
}

}  // namespace

int bench_order(const OrderOptions& options, const Globals& g, nlohmann::json& out) {
  OrderSearch search;
  const std::vector<std::string> all = {"onednn", "openblas", "onnxruntime", "pytorch"};
  const auto folders = runner_folders();
  for (const std::string& word : options.vs.empty() ? all : options.vs) {
    const std::string runner = parse_target(word).runner;
    const bool live =
        std::ranges::any_of(folders, [&](const RunnerFolder& f) { return f.name == runner; });
    (live ? search.frameworks : search.libraries).push_back(word);
  }
  search.folder = options.folder;
  search.program = std::filesystem::read_symlink("/proc/self/exe").string();
  search.threads = std::max(2, g.threads);
  search.isa = g.isa;
  search.all = options.all;
  OrderResult result;
  {
    Progress progress("looking", 1);
    search.progress = [&](const std::string& what) { progress.update(0, what); };
    result = search_orders(search);
  }
  out["tried"] = result.tried;
  out["threads"] = search.threads;
  out["absent"] = result.absent;
  out["findings"] = nlohmann::json::array();
  if (result.tried == 0) throw missing("no library to ask: {}", fmt::join(result.absent, "; "));
  bool equal = true;
  for (const OrderFinding& f : result.findings) {
    print(f);
    equal = equal && f.defined_equal();
    out["findings"].push_back(finding_json(f));
  }
  fmt::print("\n{} pairs of answers compared, {} pairs with other bits shown\n", result.tried,
             result.findings.size());
  for (const std::string& text : result.absent) fmt::print("not asked: {}\n", text);
  out["holds"] = equal;
  if (!result.interrupted) return equal ? 0 : 1;
  out["complete"] = false;
  fmt::print("interrupted: what was found until then is kept\n");
  return static_cast<int>(ErrorKind::interrupted);
}

}  // namespace etalon::cli
