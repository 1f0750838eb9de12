// The table of commands, in the order that --help shows them.
#include <array>

#include "bench/cli/cli.h"

namespace etalon::cli {
namespace {

constexpr std::array kCommands{
    Command{"doctor", "What this machine has, what is missing, and the command that adds it",
            &doctor_command},
    Command{"version", "Version, commit, compiler", &version_command},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace etalon::cli
