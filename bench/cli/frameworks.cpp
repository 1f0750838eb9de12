// etalon frameworks: the live frameworks, what each found on this machine; and installing one.
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/terminal.h"
#include "bench/report/record.h"
#include "bench/runners/install.h"
#include "bench/runners/target.h"
#include "engine/core/error.h"

namespace etalon::cli {
namespace {

std::string version_of(const FrameworkState& state) {
  if (state.runner.modules.empty()) return "";
  const auto it = state.interpreter.versions.find(state.runner.modules[0]);
  return it == state.interpreter.versions.end() ? "" : it->second;
}

int list(const Globals& g) {
  Table table({{""},
               {"Name"},
               {"Framework"},
               {"Version"},
               {"With all packages", Table::Align::right},
               {"Interpreter, or what is missing"}});
  nlohmann::json record = base_record(g.command_line, g.isa);
  record["frameworks"] = nlohmann::json::array();
  for (const FrameworkState& s : framework_states()) {
    table.row({s.ready ? coloured("✓", Colour::green) : coloured("–", Colour::yellow),
               s.runner.name, s.runner.framework, version_of(s),
               human_bytes(static_cast<std::uint64_t>(s.runner.size_mb) * 1'000'000),
               s.ready ? s.interpreter.path : s.reason});
    record["frameworks"].push_back({{"name", s.runner.name},
                                    {"framework", s.runner.framework},
                                    {"ready", s.ready},
                                    {"version", version_of(s)},
                                    {"versions", s.interpreter.versions},
                                    {"interpreter", s.interpreter.path},
                                    {"reason", s.reason},
                                    {"size_mb", s.runner.size_mb},
                                    {"packages", s.runner.packages},
                                    {"debian", s.runner.debian}});
  }
  table.print();
  if (!g.json_path.empty()) write_record(g.json_path, record);
  return 0;
}

int add(const std::string& name) {
  const RunnerFolder runner = find_runner(name);
  if (const FrameworkState state = framework_state(runner); state.ready) {
    fmt::print("{} is here: {}\n", runner.framework, state.interpreter.path);
    return 0;
  }
  fmt::print("{}, about {} installed: {}\n", runner.framework,
             human_bytes(static_cast<std::uint64_t>(runner.size_mb) * 1'000'000),
             install_summary(runner));
  install_runner(runner);
  const FrameworkState state = framework_state(runner);
  if (!state.ready) throw missing("{}", state.reason);
  fmt::print("{} {} in {}\n", runner.framework, version_of(state), state.interpreter.path);
  return 0;
}

}  // namespace

Action frameworks_command(Options& options) {
  auto words = std::make_shared<std::vector<std::string>>();
  options.words("ACTION", *words, "'add NAME' installs the framework NAME", false);
  return [words](const Globals& g) {
    if (words->empty()) return list(g);
    if (words->size() != 2 || (*words)[0] != "add")
      throw usage_error(
          "'etalon frameworks' lists them, 'etalon frameworks add NAME' installs one");
    return add((*words)[1]);
  };
}

}  // namespace etalon::cli
