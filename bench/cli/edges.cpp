// etalon edges FUNCTION: the inputs whose exact value lies next to a rounding boundary.
#include "bench/survey/edges.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/measures.h"
#include "bench/cli/terminal.h"
#include "bench/report/record.h"
#include "engine/core/error.h"
#include "engine/numerics/fp.h"

namespace etalon::cli {
namespace {

struct Args {
  std::string function;
  double within = 0x1p-20;
  std::int64_t most = 20;
};

int run(const Args& args, const Globals& g) {
  const SurveyedFunction& f = surveyed_function(args.function);
  if (args.most < 1 || args.most > 1000000) throw usage_error("--most takes 1 to 1000000");
  Edges edges;
  {
    Progress progress(fmt::format("edges of {}", f.name), kRangeBlocks);
    edges = find_edges(f, args.within, static_cast<std::size_t>(args.most), g.isa, g.threads,
                       [&](int done, int) { progress.update(done); });
  }
  nlohmann::json record = base_record(g.command_line, g.isa);
  nlohmann::json& out = record["edges"];
  out = {{"function", f.name}, {"within", args.within}, {"count", edges.count}};
  out["nearest"] = nlohmann::json::array();
  Table table({{"x"}, {"bits"}, {"boundary"}, {"distance, ULP", Table::Align::right}, {"rounded"}});
  for (const Edge& e : edges.nearest) {
    const std::string x = fmt::format("{:a}", float_of(e.x)), bits = fmt::format("{:08x}", e.x),
                      y = fmt::format("{:a}", e.rounded), m = fmt::format("{:a}", e.midpoint);
    table.row({x, bits, m, fmt::format("{:.4g}", e.distance), y});
    out["nearest"].push_back(
        {{"x", x}, {"bits", bits}, {"boundary", m}, {"distance_ulp", e.distance}, {"rounded", y}});
  }
  fmt::print("{} of the 2^32 inputs of {} lie within {:.4g} ULP of a midpoint of two floats.\n",
             edges.count, f.name, args.within);
  if (!edges.nearest.empty()) {
    fmt::print("The nearest {}:\n", edges.nearest.size());
    table.print();
  }
  if (!g.json_path.empty()) write_record(g.json_path, record);
  return 0;
}

}  // namespace

Action edges_command(Options& options) {
  auto a = std::make_shared<Args>();
  options.word("FUNCTION", a->function, "exp, log, tanh, gelu, ...")
      .value("--within", a->within, "distance from the boundary in ULP (default: 2^-20)")
      .value("--most", a->most, "how many are listed, nearest first (default: 20)");
  return [a](const Globals& g) { return run(*a, g); };
}

}  // namespace etalon::cli
