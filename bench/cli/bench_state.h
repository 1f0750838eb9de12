// What `etalon bench --state DIR` has measured: a file of one line a row, appended as each is done,
// so that a run that was interrupted or killed goes on where it stopped.
//
// The file's name holds a hash of everything that a row hangs on (program, machine, options): other
// settings have another file. A line that was cut short, or is no such line, is measured again. A
// row that cannot be written (a full disk, a folder that somebody removed) does not end the run: it
// is written with the next one, and fault() says what is still missing.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace etalon::cli {

class BenchState {
 public:
  // Nothing is kept when `folder` is empty.
  BenchState(const std::string& folder, const nlohmann::json& settings);
  const nlohmann::json* find(const std::string& key) const;  // nullptr: not yet measured
  void add(const std::string& key, const nlohmann::json& row);
  std::size_t known() const { return rows_.size(); }  // rows that an earlier run left
  const std::string& fault() const { return fault_; }

 private:
  std::string path_, fault_;
  std::vector<std::string> lines_;  // of this run
  std::size_t written_ = 0;         // of these, to the file as it stands
  std::map<std::string, nlohmann::json> rows_;
};

}  // namespace etalon::cli
