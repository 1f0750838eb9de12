// The JSON object that the stages of gpu_evidence write, whole at any time, and what a stage does
// with a failure.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/core/error.h"

namespace etalon {

double clock_s();
// A CUDA failure that no later call of this process survives.
bool device_is_lost(const Error& e);
// A failure that is not the device's end is a result like any other.
template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    if (device_is_lost(e)) throw;
    return e.what();
  } catch (const std::bad_alloc&) {
    return "the host is out of memory";
  }
  return {};
}

using nlohmann::json;

class Record {
 public:
  // An entry that takes more than `longest_s` ends the process.
  Record(std::string path, double seconds, double longest_s);
  // In place of the file, so that it is whole at any time.
  void write() const;
  // May something new be begun? Counts what may not.
  bool time_left();
  std::int64_t left_out() const { return left_out_; }
  // Was `name` done, or begun, by a process before this one?
  static bool has(const json& list, const char* key, std::string_view name);

  // One result. Until `fill` has ended the entry says that it was cut off, so that what loses the
  // device, crashes or hangs has its row, and is not tried again.
  template <class F>
  void entry(json& list, const json& keys, F&& fill) {
    list.push_back(keys);
    list.back()["failed"] = "cut off: the process ended while this ran";
    write();
    began_ = clock_s();
    json made = keys;
    const std::string failed = failure_of([&] { fill(made); });
    if (!failed.empty()) made["failed"] = failed;
    list.back() = std::move(made);
    write();
    began_ = clock_s();
    fmt::print(stderr, "{}\n", list.back().dump().substr(0, 400));
  }
  // Does every result that is judged hold?
  bool all_equal() const;

  json all;

 private:
  std::string path_;
  double end_;
  std::int64_t left_out_ = 0;
  // Where one entry takes longer than any should (a kernel that hangs) the process is ended by a
  // thread that outlives the record.
  static inline std::atomic<double> began_ = 0;
};

}  // namespace etalon
