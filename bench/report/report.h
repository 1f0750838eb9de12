// The HTML report: one self-contained page, drawn from a JSON record and nothing else.
//
// The page (page.html, page.css and scripts beside this file, or in
// PREFIX/share/etalon/bench/report) gets the record put into it; it loads nothing, and no text of
// the record becomes markup. Which fields are read: docs/records.md.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace etalon {

std::string render_report(const nlohmann::json& record);

// Writes the page, whole or not at all.
void write_report(const std::string& path, const nlohmann::json& record);

}  // namespace etalon
