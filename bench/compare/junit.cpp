#include <nlohmann/json.hpp>

#include "bench/compare/validate.h"

namespace etalon {

using nlohmann::json;

std::string junit_xml(const json& validated, Verdict fail_on) {
  const auto escape = [](std::string_view text) {
    std::string out;
    for (const char c : text) {
      switch (c) {
        case '&':
          out += "&amp;";
          break;
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '"':
          out += "&quot;";
          break;
        default:
          out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
      }
    }
    return out;
  };
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const json& t : validated.value("targets", json::array())) {
    const std::string target = t.value("target", "");
    std::string cases;
    int tests = 0, failures = 0, errors = 0, skipped = 0;
    const json layers = t.value("layers", json::array());
    for (const json& l : layers) {
      ++tests;
      cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", escape(target),
                           escape(l.value("name", "")));
      const std::string verdict = l.value("verdict", "undecided");
      if (parse_verdict(verdict) < fail_on) {
        cases += "/>\n";
        continue;
      }
      ++failures;
      cases += fmt::format(">\n      <failure type=\"{}\" message=\"{}\"/>\n    </testcase>\n",
                           escape(verdict), escape(l.value("sentence", "")));
    }
    if (layers.empty()) {
      ++tests;
      const bool broke = t.value("status", "") == "failed";
      ++(broke ? errors : skipped);
      cases += fmt::format(
          "    <testcase classname=\"{}\" name=\"{}\">\n      <{} message=\"{}\"/>\n    "
          "</testcase>\n",
          escape(target), escape(t.value("status", "")), broke ? "error" : "skipped",
          escape(t.value("reason", "")));
    }
    xml += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
        "skipped=\"{}\">\n{}  </testsuite>\n",
        escape(target), tests, failures, errors, skipped, cases);
  }
  return xml + "</testsuites>\n";
}

}  // namespace etalon
