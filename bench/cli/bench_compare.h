// etalon bench --compare A B: records of `bench`, row by row.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace etalon::cli {

// The records of one side.
struct BenchRecords {
  std::vector<std::string> names;  // for the reader
  std::vector<nlohmann::json> records;
};
// "a.json", "a1.json,a2.json,a3.json", or a folder of them. A bad-input Error names a file that
// holds no rows of `bench`.
BenchRecords read_benches(const std::string& words);

// Rows of the same operation, shape, contract, kernel's side, threads and cache are held against
// each other. Each run of a record counts as one time, its fastest (significance.h), corrected for
// the number of rows; with fewer than three runs a side nothing is said about speed. Libraries that
// stand in all runs under the same version did not change: what they moved by in a run is the
// machine's, and is divided out of that run; what they still differ by is what this comparison
// cannot see below. Prints a table, fills `out`, and returns whether nothing is shown to be slower
// and no bits moved.
bool compare_benches(const BenchRecords& a, const BenchRecords& b, nlohmann::json& out);

}  // namespace etalon::cli
