// The report's frame: the record goes in whole, and nothing in it becomes markup. What the page
// then shows is tested in a browser (report_browser_test.py).
#include "bench/report/report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "engine/core/error.h"

using namespace etalon;
using nlohmann::json;

TEST_CASE("report: the record survives inside the page, and text stays text") {
  const std::string hostile = "</script><script>alert(1)</script><!-- {{script}} \u2028 \" \\ &";
  nlohmann::json record{{"etalon", {{"version", "0"}}},
                        {"validate", {{"model", {{"path", "a/<b>&{{record}}.onnx"}}}}},
                        {"command", hostile}};
  const std::string page = render_report(record);
  const std::string open = "id=\"record\">";
  const auto begin = page.find(open) + open.size();
  const auto end = page.find("</script>", begin);
  REQUIRE(end != std::string::npos);
  CHECK(nlohmann::json::parse(page.substr(begin, end - begin)) == record);
  CHECK(page.find("<title>&lt;b&gt;&amp;{{record}}.onnx: Etalon report</title>") !=
        std::string::npos);
  CHECK(page.find("alert(1)</script>") == std::string::npos);
  // One file: nothing is loaded.
  for (const char* outside : {"http://", "https://", "src=", "@import", "url("}) {
    CAPTURE(outside);
    const bool only_names = std::string_view(outside) == "http://";  // SVG's namespace is a name
    std::size_t at = 0, found = 0;
    while ((at = page.find(outside, at)) != std::string::npos) {
      found += only_names && page.compare(at, 25, "http://www.w3.org/2000/sv") == 0 ? 0 : 1;
      ++at;
    }
    CHECK(found == 0);
  }
  CHECK(page.ends_with("</html>\n"));
  CHECK_THROWS_WITH_AS(render_report(nlohmann::json::array()),
                       doctest::Contains("no Etalon record"), Error);
}

TEST_CASE("report: a damaged record is refused by the name of its field") {
  const std::pair<json, const char*> damages[] = {
      {{{"validate", {{"model", {{"path", 5}}}}}}, "validate.model.path"},
      {{{"validate", {{"model", 5}}}}, "validate.model"},
      {{{"bench", 5}}, "bench is 5"},
      {{{"bench", {{"rows", 5}}}}, "bench.rows is 5"},
      {{{"bench", {{"rows", {nullptr}}}}}, "bench.rows[0] is null"},
      {{{"bench", {{"rows", {{{"vs", {{"onednn", nullptr}}}}}}}}}, "bench.rows[0].vs.onednn"}};
  for (const auto& [part, word] : damages) {
    json record = part;
    record["etalon"] = json::object();
    CAPTURE(record.dump());
    CHECK_THROWS_WITH_AS(render_report(record), doctest::Contains(word), Error);
  }
}

TEST_CASE("report: a text that is not UTF-8 does not stop it") {
  nlohmann::json record{{"etalon", nlohmann::json::object()}, {"command", "caf\xe9"}};
  CHECK(render_report(record).find("caf\xef\xbf\xbd") != std::string::npos);
}
