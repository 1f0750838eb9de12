#include "bench/cli/bench_state.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bench/report/record.h"
#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "importers/containers/json.h"

namespace etalon::cli {
namespace {

// What was typed may be no UTF-8; such bytes become U+FFFD.
std::string line_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

BenchState::BenchState(const std::string& folder, const nlohmann::json& settings) {
  if (folder.empty()) return;
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (fault) throw bad_input("--state {}: the folder cannot be made: {}", folder, fault.message());
  const std::string text = line_of(settings);
  const std::string hash = to_string(hash_bytes(std::as_bytes(std::span(text)))).substr(0, 16);
  path_ = (std::filesystem::path(folder) / ("bench-" + hash + ".jsonl")).string();
  std::ifstream in(path_);
  bool whole = true;
  for (std::string line; std::getline(in, line);) {
    whole = !in.eof();  // a last line without its end was cut short
    const nlohmann::json j = whole ? parse_json_or_null(line) : nullptr;
    if (j.is_object() && j.contains("key") && j["key"].is_string() && j.contains("row") &&
        j["row"].is_object())
      rows_[j["key"].get<std::string>()] = j["row"];
  }
  if (!whole) std::ofstream(path_, std::ios::app) << "\n";
}

const nlohmann::json* BenchState::find(const std::string& key) const {
  const auto it = rows_.find(key);
  return it == rows_.end() ? nullptr : &it->second;
}

void BenchState::add(const std::string& key, const nlohmann::json& row) {
  if (path_.empty()) return;
  nlohmann::json line{{"key", key}, {"row", row}};
  spell_non_finite(line);
  lines_.push_back(line_of(line));
  std::error_code none;
  if (!std::filesystem::exists(path_, none)) written_ = 0;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), none);
  errno = 0;
  std::ofstream out(path_, std::ios::app);
  if (!fault_.empty()) out << "\n";  // ends a line that was cut short
  for (std::size_t i = written_; i < lines_.size(); ++i) out << lines_[i] << "\n";
  if (out.flush()) {
    written_ = lines_.size();
    fault_.clear();
  } else {
    fault_ = fmt::format("{}: {} rows could not be written: {}", path_, lines_.size() - written_,
                         std::strerror(errno));
  }
}

}  // namespace etalon::cli
