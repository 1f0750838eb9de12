#include <map>
#include <nlohmann/json.hpp>

#include "bench/compare/validate.h"

namespace etalon {

using nlohmann::json;

std::vector<std::string> worse_than_baseline(const json& validated, const json& baseline,
                                             Verdict fail_on) {
  using Layers = std::map<std::string, Verdict>;
  const auto layers_of = [](const json& target) {
    Layers layers;
    for (const json& l : target.value("layers", json::array()))
      layers.insert_or_assign(l.value("name", ""), parse_verdict(l.value("verdict", "undecided")));
    return layers;
  };
  std::map<std::string, Layers> before;
  for (const json& t : baseline.value("targets", json::array()))
    before.emplace(t.value("target", ""), layers_of(t));
  std::vector<std::string> worse;
  for (const json& t : validated.value("targets", json::array())) {
    const std::string target = t.value("target", "");
    const Layers now = layers_of(t), &known = before[target];
    for (const auto& [layer, verdict] : now) {
      const auto at = known.find(layer);
      if (at != known.end() && at->second < verdict)
        worse.push_back(fmt::format("{}: layer {} was {}, now it is {}", target, layer,
                                    name(at->second), name(verdict)));
      if (at == known.end() && !(verdict < fail_on))
        worse.push_back(fmt::format("{}: layer {} is not in the baseline, and it is {}", target,
                                    layer, name(verdict)));
    }
    if (now.empty() && !known.empty()) {
      worse.push_back(fmt::format("{}: {} layers were judged, now none is: {}", target,
                                  known.size(), t.value("reason", t.value("status", ""))));
      continue;
    }
    for (const auto& [layer, verdict] : known)
      if (!now.contains(layer))
        worse.push_back(
            fmt::format("{}: layer {} was {}, now it is not judged", target, layer, name(verdict)));
  }
  return worse;
}

}  // namespace etalon
