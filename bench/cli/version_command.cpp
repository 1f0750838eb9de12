#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/report/record.h"
#include "bench/report/version.h"

namespace etalon::cli {

Action version_command(Options&) {
  return [](const Globals& g) {
    fmt::print("etalon {}\ncommit   {}\ncompiler {}\nbuild    {}\n", version(), commit(),
               compiler(), build_type());
    if (!g.json_path.empty()) write_record(g.json_path, base_record(g.command_line, g.isa));
    return 0;
  };
}

}  // namespace etalon::cli
