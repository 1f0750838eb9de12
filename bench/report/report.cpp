#include "bench/report/report.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/report/bench_record.h"
#include "bench/resources.h"
#include "engine/core/error.h"
#include "engine/core/file.h"

namespace etalon {
namespace {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

// JSON inside a script element: "</script" and "<!--" must not appear, and '<' stands only inside
// strings of JSON, where \u003c is the same text.
std::string escape_script(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

// The page's scripts, one function.
std::string script() {
  std::string text = "\"use strict\";\n(() => {\n";
  for (const char* file : {"draw.js", "bench_plots.js", "bench.js", "gpu.js", "page.js"})
    text += read_text_file(resource_path(std::string("bench/report/") + file));
  return text + "})();\n";
}

// validate.model.path, where there is one.
std::string model_path(const nlohmann::json& record) {
  const nlohmann::json* at = &record;
  std::string field;
  for (const char* name : {"validate", "model"}) {
    if (!at->contains(name)) return "";
    at = &(*at)[name];
    field += (field.empty() ? "" : ".") + std::string(name);
    if (!at->is_object())
      throw bad_input("{} is no object, and one is expected; the record is damaged", field);
  }
  if (!at->contains("path")) return "";
  if (!(*at)["path"].is_string())
    throw bad_input("validate.model.path is no text, and one is expected; the record is damaged");
  return (*at)["path"];
}

std::string title_of(const nlohmann::json& record) {
  const std::string path = model_path(record);
  if (record.contains("stages")) return "Etalon on a GPU";
  if (path.empty()) return record.contains("bench") ? "Etalon benchmark" : "Etalon report";
  return std::filesystem::path(path).filename().string() + ": Etalon report";
}

}  // namespace

std::string render_report(const nlohmann::json& record) {
  if (!record.is_object() || !(record.contains("etalon") || record.contains("stages")))
    throw bad_input(
        "this is no Etalon record: a JSON object with the field 'etalon' is expected, or one of "
        "bench/gpu_evidence.sh");
  check_bench_record(record);
  const std::string page = read_text_file(resource_path("bench/report/page.html"));
  std::string out;
  std::string_view rest = page;
  // One pass over the template: what is put in is never searched for placeholders.
  for (;;) {
    const auto begin = rest.find("{{");
    out += rest.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const auto end = rest.find("}}", begin);
    if (end == std::string_view::npos) throw internal_error("page.html has an open placeholder");
    const std::string_view name = rest.substr(begin + 2, end - begin - 2);
    if (name == "title")
      out += escape_html(title_of(record));
    else if (name == "style")
      out += read_text_file(resource_path("bench/report/page.css"));
    else if (name == "script")
      out += script();
    else if (name == "record")
      out += escape_script(record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    else
      throw internal_error("page.html has an unknown placeholder {}", name);
    rest.remove_prefix(end + 2);
  }
}

void write_report(const std::string& path, const nlohmann::json& record) {
  write_file(path, render_report(record));
}

}  // namespace etalon
