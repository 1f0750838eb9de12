// docs/importers-table.md says which fixture shows an op in a format: each is opened and the op
// found. The table is made by tests/importers_table.py.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <sstream>

#include "importers/importers.h"
#include "tests/importer_files.h"

using namespace etalon;

TEST_CASE("importers: every row of the table of formats and ops holds") {
  const std::string root = std::string(ETALON_SOURCE_DIR) + "/";
  std::istringstream table(test::read_bytes(root + "docs/importers-table.md"));
  std::map<std::string, std::pair<std::string, std::set<std::string>>> opened;  // format, ops
  int rows = 0;
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("| ") || line.starts_with("| format")) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 2, end; (end = line.find(" |", at)) != std::string::npos; at = end + 3)
      cells.push_back(line.substr(at, end - at));
    REQUIRE(cells.size() == 3);
    const std::string file = cells[2].substr(1, cells[2].size() - 2);
    if (!opened.contains(file)) {
      const Model model = open_model(root + file);
      auto& [format, ops] = opened[file];
      format = model.format;
      for (const Node& node : model.graph->nodes) ops.emplace(node.op->name);
      if (ops.empty()) ops.emplace("(tensors)");
    }
    CAPTURE(line);
    CHECK(opened[file].first == cells[0]);
    CHECK(opened[file].second.contains(cells[1]));
    ++rows;
  }
  CHECK(rows >= 200);
}
