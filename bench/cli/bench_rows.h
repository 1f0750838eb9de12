// Rows of `etalon bench` as records hold them, and what is printed of them: the table and the
// summary are made from the record alone, so that rows of an earlier run read like fresh ones.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "bench/micro/shape_bench.h"

namespace etalon::cli {

// `again`: the command that times this row alone.
nlohmann::json bench_row_json(const BenchRow& row, const BenchOptions& options,
                              const std::string& again);
// Whether a row that was read from a file has what the table and the summary are made from.
bool is_bench_row(const nlohmann::json& row);
// The command that times `shape` alone under the same options.
std::string again_command(const NamedShape& shape, const BenchOptions& options,
                          const std::vector<std::string>& vs);

// " --vs A,B --threads N --isa NAME": the end of a command that times something again.
std::string again_options(const std::vector<std::string>& vs, int threads, Isa isa);

// Functions, networks and imports have rows beside those of shapes, and tables of their own; a
// summary names them "functions.glibc", "network.pytorch", "import.onnxruntime".
bool is_shape_row(const nlohmann::json& row);

enum class BenchOrder { file, name, time, ratio, error, speed };
BenchOrder parse_bench_order(std::string_view text);  // usage Error that lists the names

// bench["rows"] as a table; `wide` adds set-up, memory and hashes.
void print_bench_rows(const nlohmann::json& bench, BenchOrder order, bool wide);
// "not timed: ..." for each of bench["skipped"].
void print_skipped(const nlohmann::json& bench);
// False where nothing at all was timed, or where bench["skipped"] has one of `asked`: the exit code
// is 1 then.
bool timed_what_was_asked(const nlohmann::json& bench, const std::set<std::string>& asked);
// Geometric mean and worst of the ratios to each library, contract and framework, into
// bench["summary"] and printed.
void summarize_bench(nlohmann::json& bench);

// Our median over theirs, coloured: green at or below 1.
std::string ratio_text(double ratio);

// Geometric mean and worst of some ratios.
class Ratios {
 public:
  void add(double ratio, const std::string& shape);
  nlohmann::json json() const;

 private:
  double log_sum_ = 0, worst_ = 0;
  int count_ = 0;
  std::string worst_shape_;
};

}  // namespace etalon::cli
