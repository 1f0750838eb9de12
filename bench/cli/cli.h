// The command line: one table of commands (commands.cpp), one file per command.
//
// A command is a function that declares its options and returns the action to run once they are
// read. The action returns 0 when all holds and 1 when a verdict failed; everything else is an
// etalon::Error, whose kind is the exit code (2 usage, 3 bad input, 4 missing, 130 Ctrl-C) and
// whose text is the one sentence on stderr. Results go to stdout, progress and errors to stderr.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "bench/cli/options.h"
#include "engine/backend/kernel.h"
#include "engine/core/cpu.h"

namespace etalon::cli {

// Options that every command takes.
struct Globals {
  int threads = 1;      // --threads; the machine's processors when not given
  Isa isa = Isa::sse2;  // --isa: a cap; what the machine has when not given
  Device device = Device::cpu;
  std::string json_path;     // --json; empty: no record is wanted
  std::string command_line;  // for the record: "etalon run lenet.onnx --contract seq"
};

// The help of a word that takes a model: every command takes the same.
inline constexpr const char* kModelWord =
    "A model file, or model:NAME for a built-in network ('etalon --help' lists them)";

using Action = std::function<int(const Globals&)>;

struct Command {
  std::string_view name;
  std::string_view summary;  // one sentence for the list and the head of --help
  Action (*declare)(Options&);
  std::string_view example = {};  // shown at the end of --help
};

std::span<const Command> commands();

// Parses, runs, reports. Never throws; returns the exit code.
int main_program(int argc, char** argv);

Action bench_command(Options&);
Action convert_command(Options&);
Action demo_command(Options&);
Action doctor_command(Options&);
Action frameworks_command(Options&);
Action inspect_command(Options&);
Action judge_command(Options&);
Action kernels_command(Options&);
Action lab_command(Options&);
Action report_command(Options&);
Action run_command(Options&);
Action validate_command(Options&);
Action version_command(Options&);

}  // namespace etalon::cli
