// etalon bench MODEL: whole networks, or how their files are opened, beside live frameworks.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/micro/network_bench.h"

namespace etalon::cli {

struct FileBenchOptions {
  NetworkBenchOptions network;
  std::string data;  // a data set's name; empty: noise
  std::vector<std::int64_t> batches = {1};
  std::int64_t samples = 0;
  bool import = false;
  bool alone = true;  // one file and nothing else is timed: its error is the command's
};

// A row's name: the file's, or its path where several files of that name are timed.
std::string file_row_name(const std::string& file, const std::vector<std::string>& files);

// Prints a table; adds rows and summary to the record's field "bench". False when a GPU answered
// other bits than the CPU. One of several files that cannot be timed costs its own rows; the
// record's "skipped" says why.
bool bench_files(const std::vector<std::string>& files, const FileBenchOptions& options,
                 nlohmann::json& bench);

}  // namespace etalon::cli
