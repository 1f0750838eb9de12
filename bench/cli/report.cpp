// etalon report: the HTML page of a record.
#include "bench/report/report.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "engine/core/error.h"
#include "engine/core/file.h"

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
    const auto record = nlohmann::json::parse(text, nullptr, false);
    const ErrorScope scope(a->record);
    if (record.is_discarded()) throw bad_input("this is no JSON; a record of --json is expected");
    const std::string page =
        a->page.empty() ? std::filesystem::path(a->record).replace_extension(".html").string()
                        : a->page;
    write_report(page, record);
    fmt::print("{}\n", page);
    return 0;
  };
}

}  // namespace etalon::cli
