// Single operations in live frameworks: a graph of one node, timed beside our kernel in turns.
//
// A framework stays up over all shapes and is handed each as it would be handed a file: weights as
// constants, so that it may pack them, the rest as inputs. What it cannot compute costs that row
// and no other. Its time is the call's in its own language, as a user of it sees it: a Python call
// and what the session does around the kernel are in it (2 to 20 microseconds).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/shape_bench.h"
#include "bench/runners/runner.h"

namespace etalon {

// A graph of one node: y = op(x, ...). Inputs after the first are constants if `constant`.
Model model_of(const NamedShape& shape, const std::vector<Tensor>& inputs, bool constant);

struct FrameworkAnswer {
  BenchEntry entry;  // `kernel` is the target as the user wrote it
  Tensor output;
};

class FrameworkPeers {
 public:
  // Starts them; one that is absent gives rows of status "unavailable".
  FrameworkPeers(const std::vector<RunnerTarget>& targets, int threads);
  ~FrameworkPeers();

  // `ours` is one run of our kernel. Repetitions as in `timing`: a burst of ours, one of each.
  std::vector<FrameworkAnswer> time(const NamedShape& shape, const std::vector<Tensor>& inputs,
                                    bool constant, const std::function<void()>& ours,
                                    const TimingOptions& timing);

 private:
  struct Peer {
    std::string name, version, status = "ok", reason;
    std::unique_ptr<Runner> runner;
  };
  std::vector<Peer> peers_;
};

}  // namespace etalon
