// What `bench` and `demo` share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/micro/shape_bench.h"

namespace etalon::cli {

// Ops, suites or full names; all but the edge cases when empty. usage Error when nothing matches.
std::vector<NamedShape> choose_shapes(const std::vector<std::string>& words);

// Times them with a progress bar, prints the table and the summary, adds rows, summary and what
// was skipped to the record's field "bench".
void bench_shapes(const std::vector<NamedShape>& shapes, const BenchOptions& options,
                  nlohmann::json& bench);

}  // namespace etalon::cli
