// etalon bench --compare A B: two records of `bench`, row by row.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace etalon::cli {

// Rows of the same operation, shape, contract, kernel's side, threads and cache are held against
// each other by a rank test over their samples, corrected for the number of rows (significance.h).
// Libraries that stand in both records under the same version did not change: the median change of
// their times is the machine's, and is divided out of ours. Prints a table, fills `out`, and
// returns whether nothing is slower and no bits moved. A bad-input Error names the record that
// holds no samples.
bool compare_benches(const std::string& a_path, const std::string& b_path, nlohmann::json& out);

}  // namespace etalon::cli
