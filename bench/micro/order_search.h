// Looks, on this machine, for a vendor call whose bits hang on something that is no input: how many
// threads it has, which samples lie beside it in the batch, which instruction set it finds.
//
// A call is a shape of the suite "vendor_order" through one row of a library in this process, or as
// a graph of one node in a live framework. Another instruction set is asked for by the library's
// own environment variable, in a process of its own. What differs is explained by the verdicts
// (bench/compare): the contract whose bits each answer has, where one of ours replays it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/shapes.h"
#include "engine/core/cpu.h"

namespace etalon {

struct OrderAnswer {
  std::string how;       // "1 thread", "alone", "AVX2"
  std::string sentence;  // what the verdict says of it
  std::string order;     // the contract whose bits it has; empty where none is known
  std::string file;      // the saved output
};

struct OrderFinding {
  std::string library, version, kernel;  // kernel: a row's name or a framework's target
  NamedShape shape;
  std::string varied;  // "threads", "batch", "isa"
  OrderAnswer one, other;
  std::string folder;  // inputs, both outputs and the call as ONNX
  std::int64_t elements = 0, differ = 0;
  double max_distance = 0;  // in floats between the two
  std::int64_t worst = 0;   // where: index of the element, row-major
  float worst_one = 0, worst_other = 0;
  double worst_exact = 0;
  // The same call through our kernel of `seq`, varied the same way.
  std::string defined_kernel, defined_one, defined_other;  // hashes
  bool defined_equal() const { return defined_one == defined_other; }
};

struct OrderSearch {
  std::vector<std::string> libraries;  // prefixes of vendor rows: onednn, openblas
  std::vector<std::string> frameworks;
  std::string folder;   // where findings are saved
  std::string program;  // this program, for processes of their own
  int threads = 2;
  Isa isa = detect_isa();
  bool all = false;  // every shape, not the first that differs of each library and variation
  std::function<void(const std::string&)> progress;
};

struct OrderResult {
  std::vector<OrderFinding> findings;
  int tried = 0;                    // pairs of answers compared
  std::vector<std::string> absent;  // libraries that are not here, with the reason
  bool interrupted = false;         // by Ctrl-C: what was found until then
};

OrderResult search_orders(const OrderSearch& search);

}  // namespace etalon
