// etalon bench --runs N [--against PROGRAM]: the same command several times, each in a process of
// its own, and two programs in turns, so that both see the same minutes of the machine.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace etalon::cli {

struct BenchRuns {
  std::string program;                 // this one
  std::string against;                 // the other one; empty: none
  std::vector<std::string> arguments;  // of each run: "bench", "conv", "--vs", "onednn"
  int runs = 5;
  std::string state;  // a folder: rows of finished runs are kept there, each run's in its own
};

// What this process was started with, less the options that the runs must not have.
BenchRuns these_runs(int runs, const std::string& against, const std::string& state);

struct BenchSides {
  std::vector<nlohmann::json> own, other;  // records, in the sequence of the runs
  bool interrupted = false;                // by Ctrl-C: the runs before it are all there is
};
// A missing Error with the program's last words where a run fails, an interrupted one where none of
// this program's was finished.
BenchSides run_benches(const BenchRuns& how);

// The fields "bench" of several runs as one: all samples of a row, each run's fastest in
// `run_fastest`, the median over the runs of the ratio to each library; `runs` says when each began
// and how noisy it was. Rows that a run lacks are left out,
// and `skipped` says so.
nlohmann::json merged_benches(const std::vector<nlohmann::json>& records);

}  // namespace etalon::cli
