#include <map>
#include <nlohmann/json.hpp>

#include "bench/compare/validate.h"
#include "importers/containers/json.h"

namespace etalon {

using nlohmann::json;

namespace {

using Layers = std::map<std::string, Verdict>;

Layers layers_of(const json& target) {
  Layers layers;
  if (target.contains("layers"))
    for (const json& l : json_array(target, "layers"))
      layers.insert_or_assign(json_string(l, "name"), parse_verdict(json_string(l, "verdict")));
  return layers;
}

std::map<std::string, Layers> targets_of(const json& validated) {
  std::map<std::string, Layers> targets;
  for (const json& t : json_array(validated, "targets"))
    targets.emplace(json_string(t, "target"), layers_of(t));
  return targets;
}

}  // namespace

void check_baseline(const json& baseline) { targets_of(baseline); }

std::vector<std::string> worse_than_baseline(const json& validated, const json& baseline,
                                             Verdict fail_on) {
  std::map<std::string, Layers> before = targets_of(baseline);
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
