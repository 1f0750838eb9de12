// etalon report: the HTML page of a record.
#include "bench/report/report.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/containers/json.h"

namespace etalon::cli {

Action report_command(Options& options) {
  struct Arguments {
    std::string record, page;
  };
  auto a = std::make_shared<Arguments>();
  options.word("RECORD", a->record, "a record that a command wrote with --json")
      .value("-o,--output", a->page, "PAGE", "the page; RECORD with .html when not given");
  return [a](const Globals&) {
    const std::string text = read_text_file(a->record);
    const std::string page =
        a->page.empty() ? std::filesystem::path(a->record).replace_extension(".html").string()
                        : a->page;
    std::error_code none;
    if (std::filesystem::equivalent(page, a->record, none))
      throw usage_error("{}: the page would take the place of its record; name it with -o PAGE",
                        page);
    std::string drawn;
    {
      const ErrorScope scope(a->record);
      drawn = render_report(parse_json(text));
    }
    write_file(page, drawn);
    fmt::print("{}\n", page);
    return 0;
  };
}

}  // namespace etalon::cli
