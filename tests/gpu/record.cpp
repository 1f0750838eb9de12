#include "tests/gpu/record.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace etalon {

double clock_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool device_is_lost(const Error& e) {
  return e.kind() == ErrorKind::missing &&
         std::string_view(e.what()).find("the device is lost") != std::string_view::npos;
}

Record::Record(std::string path, double seconds, double longest_s)
    : path_(std::move(path)), end_(clock_s() + seconds) {
  began_ = clock_s();
  std::ifstream in(path_);
  if (in) all = json::parse(in, nullptr, false);
  if (!all.is_object()) all = json::object();
  std::thread([longest_s] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      if (clock_s() - began_ < longest_s) continue;
      fmt::print(stderr, "gpu_evidence: no answer for {} s\n", longest_s);
      std::_Exit(75);
    }
  }).detach();
}

void Record::write() const {
  const std::string next = path_ + ".next";
  std::ofstream(next) << all.dump(1) << '\n';
  if (std::rename(next.c_str(), path_.c_str()) != 0) throw missing("{} cannot be written", path_);
}

bool Record::time_left() {
  if (clock_s() < end_) return true;
  ++left_out_;
  return false;
}

bool Record::has(const json& list, const char* key, std::string_view name) {
  return list.is_array() &&
         std::ranges::any_of(list, [&](const json& entry) { return entry.value(key, "") == name; });
}

bool Record::all_equal() const {
  for (const char* stage : {"rows", "functions", "sizes", "networks", "tensor_cores"})
    if (all.contains(stage))
      for (const json& entry : all[stage])
        if (entry.value("decides", true) &&
            (entry.contains("failed") || !entry.value("equal", false)))
          return false;
  return true;
}

}  // namespace etalon
