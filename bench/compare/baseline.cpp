#include <map>
#include <nlohmann/json.hpp>

#include "bench/compare/validate.h"

namespace etalon {

using nlohmann::json;

std::vector<std::string> worse_than_baseline(const json& validated, const json& baseline) {
  std::map<std::string, Verdict> before;
  const auto each = [](const json& v, auto&& f) {
    for (const json& t : v.value("targets", json::array())) {
      const std::string target = t.value("target", "");
      for (const json& l : t.value("layers", json::array()))
        f(fmt::format("{}: layer {}", target, l.value("name", "")),
          l.value("verdict", "undecided"));
    }
  };
  each(baseline, [&](const std::string& key, const std::string& v) {
    before.emplace(key, parse_verdict(v));
  });
  std::vector<std::string> worse;
  each(validated, [&](const std::string& key, const std::string& v) {
    const auto at = before.find(key);
    if (at != before.end() && at->second < parse_verdict(v))
      worse.push_back(fmt::format("{} was {}, now it is {}", key, name(at->second), v));
  });
  return worse;
}

}  // namespace etalon
