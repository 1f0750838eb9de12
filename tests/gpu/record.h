// The JSON object that the stages of gpu_evidence write, and what a stage does with a failure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/core/error.h"

namespace etalon {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Record {
 public:
  Record(std::string path, double seconds) : path_(std::move(path)), end_(now_s() + seconds) {
    std::ifstream in(path_);
    if (in) all = nlohmann::json::parse(in, nullptr, false);
    if (!all.is_object()) all = nlohmann::json::object();
  }
  // In place of the file, so that it is whole at any time.
  void write() const {
    const std::string next = path_ + ".next";
    std::ofstream(next) << all.dump(1) << '\n';
    if (std::rename(next.c_str(), path_.c_str()) != 0) throw missing("{} cannot be written", path_);
  }
  // May something new be begun?
  bool time_left() const { return now_s() < end_; }
  // Was `name` done by a process before this one?
  static bool has(const nlohmann::json& list, const char* key, std::string_view name) {
    return list.is_array() && std::ranges::any_of(list, [&](const nlohmann::json& entry) {
             return entry.value(key, "") == name;
           });
  }
  nlohmann::json all;

 private:
  std::string path_;
  double end_;
};

// A CUDA failure that no later call of this process survives.
inline bool device_is_lost(const Error& e) {
  return e.kind() == ErrorKind::missing &&
         std::string_view(e.what()).find("the device is lost") != std::string_view::npos;
}

// A failure that is not the device's end is a result like any other.
template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    if (device_is_lost(e)) throw;
    return e.what();
  }
  return {};
}

}  // namespace etalon
