// What `etalon bench --state DIR` has measured: a file of one line a row, appended as each is done,
// so that a run that was interrupted or killed goes on where it stopped.
//
// The file's name holds a hash of everything that a row hangs on (program, machine, options): other
// settings have another file. A line that was cut short is measured again.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace etalon::cli {

class BenchState {
 public:
  // Nothing is kept when `folder` is empty.
  BenchState(const std::string& folder, const nlohmann::json& settings);
  const nlohmann::json* find(const std::string& key) const;  // nullptr: not yet measured
  void add(const std::string& key, const nlohmann::json& row);
  int known() const { return known_; }  // rows that an earlier run left

 private:
  std::string path_;
  std::map<std::string, nlohmann::json> rows_;
  int known_ = 0;
};

}  // namespace etalon::cli
