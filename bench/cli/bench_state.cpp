#include "bench/cli/bench_state.h"

#include <filesystem>
#include <fstream>

#include "engine/core/error.h"
#include "engine/core/hash.h"

namespace etalon::cli {

BenchState::BenchState(const std::string& folder, const nlohmann::json& settings) {
  if (folder.empty()) return;
  std::filesystem::create_directories(folder);
  const std::string text = settings.dump();
  const std::string hash = to_string(hash_bytes(std::as_bytes(std::span(text)))).substr(0, 16);
  path_ = (std::filesystem::path(folder) / ("bench-" + hash + ".jsonl")).string();
  std::ifstream in(path_);
  bool whole = true;
  for (std::string line; std::getline(in, line);) {
    whole = !in.eof();  // a last line without its end was cut short
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (whole && j.is_object() && j.contains("key") && j.contains("row"))
      rows_[j["key"].get<std::string>()] = j["row"];
  }
  known_ = static_cast<int>(rows_.size());
  if (!whole) std::ofstream(path_, std::ios::app) << "\n";
}

const nlohmann::json* BenchState::find(const std::string& key) const {
  const auto it = rows_.find(key);
  return it == rows_.end() ? nullptr : &it->second;
}

void BenchState::add(const std::string& key, const nlohmann::json& row) {
  if (path_.empty()) return;
  std::ofstream out(path_, std::ios::app);
  out << nlohmann::json{{"key", key}, {"row", row}}.dump() << "\n";
  if (!out.flush()) throw bad_input("{}: a row could not be written", path_);
}

}  // namespace etalon::cli
