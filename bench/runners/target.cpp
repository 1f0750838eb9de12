#include "bench/runners/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/resources.h"
#include "bench/runners/interpreters.h"
#include "bench/runners/process.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/core/nearest.h"
#include "importers/containers/json.h"

namespace etalon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string expand_home(std::string path) {
  const char* home = std::getenv("HOME");
  if (home != nullptr && (path == "~" || path.starts_with("~/"))) return home + path.substr(1);
  return path;
}

// A program's path; "" when there is none.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return fs::exists(name) ? name : "";
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "" : path, ':')) {
    const fs::path candidate = fs::path(folder) / name;
    std::error_code error;
    if (fs::is_regular_file(candidate, error)) return candidate;
  }
  return "";
}

}  // namespace

std::vector<std::string> interpreter_candidates(const RunnerFolder& runner) {
  std::vector<std::string> list;
  if (const char* given = std::getenv("ETALON_PYTHONS"); given != nullptr)
    for (const std::string& path : split(given, ':'))
      if (!path.empty()) list.push_back(path);
  for (const std::string& root : resource_roots()) {
    list.push_back(fmt::format("{}/.etalon/runners/{}/bin/python", root, runner.name));
    list.push_back(root + "/.etalon/venv/bin/python");
    list.push_back(root + "/.venv/bin/python");
  }
  list.push_back(
      expand_home(fmt::format("~/.local/share/etalon/runners/{}/bin/python", runner.name)));
  list.insert(list.end(), runner.interpreters.begin(), runner.interpreters.end());
  return list;
}

namespace {

std::string how_to_add(const RunnerFolder& runner) {
  return fmt::format("run 'etalon frameworks add {}', or name an interpreter that has it: {}@PATH",
                     runner.name, runner.name);
}

// Prints a JSON object: the version of each module (null where unknown), and which are lacking.
constexpr const char* kProbe = R"(
import importlib.util, json, sys
versions, lacking = {}, []
for module in sys.argv[1:]:
    try:
        found = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        lacking.append(module)
        continue
    try:
        import importlib.metadata
        versions[module] = importlib.metadata.version(module)
    except Exception:
        versions[module] = ""
print(json.dumps({"python": sys.version.split()[0], "versions": versions, "lacking": lacking}))
)";

}  // namespace

RunnerTarget parse_target(std::string_view text) {
  RunnerTarget target;
  target.text = text;
  std::string rest(text);
  // Options follow the last colon that has key=value behind it; an interpreter may hold colons.
  if (const auto colon = rest.rfind(':');
      colon != std::string::npos && rest.find('=', colon) != std::string::npos) {
    for (const std::string& option : split(std::string_view(rest).substr(colon + 1), ',')) {
      const auto equals = option.find('=');
      if (equals == std::string::npos || equals == 0)
        throw usage_error("target '{}': '{}' is not key=value", text, option);
      target.options[option.substr(0, equals)] = option.substr(equals + 1);
    }
    rest.erase(colon);
  }
  if (const auto at = rest.find('@'); at != std::string::npos) {
    target.interpreter = expand_home(rest.substr(at + 1));
    if (target.interpreter.empty())
      throw usage_error("target '{}': an interpreter must follow '@'", text);
    rest.erase(at);
  }
  target.runner = rest;
  if (target.runner.empty() || target.runner.find_first_not_of(
                                   "abcdefghijklmnopqrstuvwxyz0123456789-_.") != std::string::npos)
    throw usage_error("target '{}' is not NAME[@INTERPRETER][:key=value,...]", text);
  if (const auto threads = target.options.find("threads"); threads != target.options.end()) {
    const std::string& n = threads->second;
    if (n.empty() || n.size() > 4 || n.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(n) < 1)
      throw usage_error("target '{}': threads is '{}', it must be a number above 0", text, n);
  }
  return target;
}

std::vector<RunnerTarget> parse_targets(std::string_view text) {
  std::vector<std::string> texts;
  for (const std::string& part : split(text, ',')) {
    // key=value without a target in front continues the options of the target before it.
    const bool continues = part.find('=') != std::string::npos &&
                           part.find_first_of(":@") == std::string::npos && !texts.empty();
    if (continues)
      texts.back() += "," + part;
    else
      texts.push_back(part);
  }
  std::vector<RunnerTarget> targets;
  for (const std::string& t : texts) targets.push_back(parse_target(t));
  return targets;
}

RunnerFolder read_runner_folder(const std::string& path) {
  const std::string file = (fs::path(path) / "runner.json").string();
  const ErrorScope scope(file);
  RunnerFolder folder;
  folder.path = path;
  folder.name = fs::path(path).filename().string();
  try {
    const json j = parse_json(read_text_file(file));
    folder.framework = j.at("framework").get<std::string>();
    folder.adapter = (fs::path(path) / j.at("adapter").get<std::string>()).string();
    folder.modules = j.value("modules", std::vector<std::string>{});
    folder.interpreters = j.value("interpreters", std::vector<std::string>{"python3"});
    folder.packages = j.value("packages", std::vector<std::string>{});
    folder.debian = j.value("debian", std::vector<std::string>{});
    folder.reads = j.value("reads", std::vector<std::string>{});
    folder.options = j.value("options", std::map<std::string, std::string>{});
    folder.notes = j.value("notes", std::vector<std::string>{});
    folder.size_mb = j.value("size_mb", 0);
  } catch (const json::exception& e) {
    throw bad_input("not a runner description ({}); docs/runners.md has its fields", e.what());
  }
  return folder;
}

std::vector<RunnerFolder> runner_folders() {
  std::map<std::string, RunnerFolder> found;
  for (const std::string& root : resource_roots()) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(root) / "bench" / "runners", error))
      if (fs::exists(entry.path() / "runner.json") && !found.contains(entry.path().filename()))
        found.emplace(entry.path().filename(), read_runner_folder(entry.path().string()));
  }
  std::vector<RunnerFolder> list;
  for (auto& [name, folder] : found) list.push_back(std::move(folder));
  return list;
}

RunnerFolder find_runner(std::string_view name) {
  std::vector<std::string> known;
  for (RunnerFolder& folder : runner_folders()) {
    if (folder.name == name) return folder;
    known.push_back(folder.name);
  }
  const std::string all = known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "));
  throw usage_error("there is no runner '{}'{}", name,
                    did_you_mean(name, known, "; there are " + all));
}

void require_options(const RunnerFolder& folder, const RunnerTarget& target) {
  std::string known;
  for (const auto& [key, what] : folder.options) known += (known.empty() ? "" : ", ") + key;
  for (const auto& [key, value] : target.options)
    if (!folder.options.contains(key))
      throw usage_error("target '{}': {} has no option '{}'; it has {}",
                        target.text.empty() ? target.runner : target.text, folder.name, key,
                        known.empty() ? "none" : known);
}

InterpreterState ask_interpreter(const RunnerFolder& runner, const std::string& interpreter) {
  InterpreterState state;
  state.path = find_program(expand_home(interpreter));
  if (state.path.empty()) {
    state.path = interpreter;
    state.reason = fmt::format("there is no program {}", interpreter);
    return state;
  }
  std::vector<std::string> command{state.path, "-c", kProbe};
  command.insert(command.end(), runner.modules.begin(), runner.modules.end());
  try {
    Process process({.command = command});
    std::string line;
    const auto status = process.receive_line(line, Seconds(30));
    if (status == Process::Status::line) {
      const json answer = parse_json_or_null(line);
      state.python = answer.at("python").get<std::string>();
      state.lacking = answer.at("lacking").get<std::vector<std::string>>();
      state.versions = answer.at("versions").get<std::map<std::string, std::string>>();
      state.runs = true;
      if (!state.lacking.empty())
        state.reason =
            fmt::format("no module {} in {}", fmt::join(state.lacking, ", "), state.path);
    } else if (status == Process::Status::timed_out) {
      state.reason = fmt::format("{} did not answer within 30 s", state.path);
    } else {
      state.reason = fmt::format("{} {}", state.path, process.how_it_ended());
    }
  } catch (const json::exception&) {
    state.reason = fmt::format("{} does not answer as a Python interpreter does", state.path);
  } catch (const Error& e) {
    state.reason = e.what();
  }
  return state;
}

FrameworkState framework_state(const RunnerFolder& runner, const std::string& interpreter) {
  FrameworkState state{.runner = runner};
  if (!interpreter.empty()) {
    state.interpreter = ask_interpreter(runner, interpreter);
    state.ready = state.interpreter.reason.empty();
    if (!state.ready)
      state.reason = fmt::format("{}; {}", state.interpreter.reason, how_to_add(runner));
    return state;
  }
  std::vector<std::string> seen;
  for (const std::string& candidate : interpreter_candidates(runner)) {
    const std::string path = find_program(expand_home(candidate));
    std::error_code error;
    if (path.empty() || std::ranges::find(seen, path) != seen.end()) continue;
    seen.push_back(path);
    InterpreterState asked = ask_interpreter(runner, path);
    // The one that lacks least is worth reporting when none has all.
    if (seen.size() == 1 || asked.reason.empty() ||
        (asked.runs && asked.lacking.size() < state.interpreter.lacking.size()))
      state.interpreter = std::move(asked);
    if (state.interpreter.reason.empty()) {
      state.ready = true;
      return state;
    }
  }
  state.reason = seen.empty()
                     ? fmt::format("no Python interpreter was found; {}", how_to_add(runner))
                     : fmt::format("{}; {}", state.interpreter.reason, how_to_add(runner));
  return state;
}

std::vector<FrameworkState> framework_states() {
  std::vector<FrameworkState> states;
  for (const RunnerFolder& runner : runner_folders()) states.push_back(framework_state(runner));
  return states;
}

}  // namespace etalon
