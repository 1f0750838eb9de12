// The table of commands, in the order that --help shows them.
#include <array>

#include "bench/cli/cli.h"

namespace etalon::cli {
namespace {

constexpr std::array kCommands{
    Command{"doctor", "What this machine has, what is missing, and the command that adds it",
            &doctor_command},
    Command{"frameworks",
            "The live frameworks: which are here, which version; 'add NAME' installs one",
            &frameworks_command, "etalon frameworks add onnxruntime"},
    Command{"report", "The HTML page of a record", &report_command,
            "etalon report record.json -o page.html"},
    Command{"version", "Version, commit, compiler", &version_command},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace etalon::cli
