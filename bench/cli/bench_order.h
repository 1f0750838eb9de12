// etalon bench order: a vendor call that gives other bits for other threads, batches or instruction
// sets, found on this machine, saved, explained, and the same call through a defined kernel.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/cli/cli.h"

namespace etalon::cli {

struct OrderOptions {
  std::vector<std::string> vs;  // empty: onednn, openblas, onnxruntime, pytorch
  std::string folder = "etalon-order";
  bool all = false;
};

// Prints, fills `out`; 0 where every defined kernel was equal, 1 where one was not. A missing Error
// where no library is here at all.
int bench_order(const OrderOptions& options, const Globals& globals, nlohmann::json& out);

}  // namespace etalon::cli
