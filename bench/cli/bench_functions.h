// etalon bench functions: correctly rounded functions against glibc's and oneDNN's, per element.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/micro/timing.h"
#include "engine/core/cpu.h"

namespace etalon::cli {

struct FunctionBenchOptions {
  std::vector<std::string> vs;  // glibc, onednn
  int threads = 1;
  Isa isa = Isa::sse2;
  bool errors = true;  // count them, on 2^11 of the 2^15 elements
  TimingOptions timing;
};

// Arrays of 2^15 floats, in cache, over the range where each function is used. Prints a table and
// adds rows and summary to the record's field "bench".
void bench_functions(const FunctionBenchOptions& options, nlohmann::json& bench);

}  // namespace etalon::cli
