// What `bench` and `demo` share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/cli/bench_rows.h"
#include "bench/micro/shape_bench.h"
#include "bench/runners/target.h"

namespace etalon::cli {

// Ops, suites, an op's part of a suite, or full names; all but those timed only by name when empty.
// usage Error for a word that names nothing.
std::vector<NamedShape> choose_shapes(const std::vector<std::string>& words);
// "conv f32[1,3,8,8] f32[4,3,3,3] strides=2x2", of suite kTypedSuite.
NamedShape typed_shape(const std::string& text);

struct ShapeBenchOptions {
  std::vector<RunnerTarget> frameworks;
  std::vector<std::string> framework_words;  // as the user wrote them
  std::vector<int> thread_counts;            // each in turn; empty: BenchOptions::threads
  std::string state;                         // a folder (bench_state.h)
  BenchOrder sort = BenchOrder::file;
  bool wide = false, pin = true;
};

// Times them with a progress bar, prints the table and the summary, adds rows, summary and what
// was skipped to the record's field "bench". Ctrl-C ends it early: what was measured is printed and
// in the record, whose "complete" is false.
void bench_shapes(const std::vector<NamedShape>& shapes, const BenchOptions& options,
                  const ShapeBenchOptions& how, nlohmann::json& bench);

}  // namespace etalon::cli
