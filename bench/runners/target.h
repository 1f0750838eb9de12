// Runners: which frameworks there are, and which installation of one is meant.
//
// A runner is a folder bench/runners/NAME with runner.json and an adapter (docs/runners.md). A
// target names a runner and may say more:
//
//   onnxruntime                             the first interpreter that has the framework
//   pytorch@/usr/bin/python3                the installation behind this interpreter
//   onnxruntime:opt=off,threads=2           with options; runner.json lists them
//   pytorch@~/venv/bin/python:threads=2
//
// Interpreters are tried in this order: those of ETALON_PYTHONS (a list like PATH), the
// environments that Etalon made (.etalon/runners/NAME and .venv in the checkout,
// ~/.local/share/etalon/runners/NAME), then those that runner.json names. A variable chooses which
// installation is judged, and the record says which it was; it changes no number of ours.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace etalon {

struct RunnerTarget {
  std::string text;         // as the user wrote it
  std::string runner;       // "onnxruntime"
  std::string interpreter;  // "" when not given
  std::map<std::string, std::string> options;
};

// usage Error when the text has another form.
RunnerTarget parse_target(std::string_view text);
// Splits at the commas between targets; a comma inside options separates options:
// "onnxruntime:opt=off,threads=2,pytorch" is two targets.
std::vector<RunnerTarget> parse_targets(std::string_view text);

// What a runner.json says.
struct RunnerFolder {
  std::string name, path, framework, adapter;  // adapter: path of its program
  std::vector<std::string> modules;            // Python modules that must be importable
  std::vector<std::string> interpreters;       // candidates, best first
  std::vector<std::string> packages;           // pinned, as pip takes them
  std::vector<std::string> debian;             // Debian packages; these instead of pip's if any
  std::vector<std::string> reads;              // formats read natively; else the neutral graph
  std::map<std::string, std::string> options;  // name -> what it does
  std::vector<std::string> notes;
  int size_mb = 0;  // installed
};

std::vector<RunnerFolder> runner_folders();       // by name
RunnerFolder find_runner(std::string_view name);  // usage Error that lists the runners
// usage Error that lists the runner's options where the target has another.
void require_options(const RunnerFolder& folder, const RunnerTarget& target);
RunnerFolder read_runner_folder(const std::string& path);  // bad-input Error when it is malformed

// One interpreter, asked for the runner's modules without importing them.
struct InterpreterState {
  std::string path;  // as found on PATH
  bool runs = false;
  std::string python;                           // "3.11.2"
  std::vector<std::string> lacking;             // modules it does not have
  std::map<std::string, std::string> versions;  // of the modules it has, as far as it tells
  std::string reason;                           // why it is of no use; "" when it is
};
InterpreterState ask_interpreter(const RunnerFolder& runner, const std::string& interpreter);

// For `etalon frameworks` and `etalon doctor`: each runner with the interpreter that would be used.
struct FrameworkState {
  RunnerFolder runner;
  bool ready = false;
  InterpreterState interpreter;
  std::string reason;  // one sentence when not ready
};
FrameworkState framework_state(const RunnerFolder& runner, const std::string& interpreter = {});
std::vector<FrameworkState> framework_states();

}  // namespace etalon
