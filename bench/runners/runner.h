// A live framework: a process that keeps a network loaded and answers requests (docs/runners.md).
//
// Whatever it does wrong costs its own row only: every method throws a RunnerError whose text is
// one sentence fit for the report, and after a crash, a hang or a garbled answer the process is
// ended (alive() is false) and later calls throw the same reason again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/runners/target.h"
#include "engine/core/error.h"
#include "engine/core/tensor.h"
#include "engine/graph/graph.h"

namespace etalon {

enum class RunnerStatus {
  unavailable,  // the framework is not here, or not in this interpreter
  refused,      // it is here and says that it cannot do this; the process goes on
  failed        // it crashed, hung or answered garbage
};
std::string_view name(RunnerStatus status);  // "unavailable", "refused", "failed"

class RunnerError : public Error {
 public:
  RunnerError(RunnerStatus status, std::string_view reason)
      : Error(ErrorKind::missing, reason), status_(status) {}
  RunnerStatus status() const { return status_; }

 private:
  RunnerStatus status_;
};

struct RunnerOptions {
  int threads = 1;  // the target's own threads=N stands above it
  double start_timeout_s = 120;
  double request_timeout_s = 900;
};

using TensorMap = std::map<std::string, Tensor, std::less<>>;

struct RunnerInfo {
  std::string target, framework, version, interpreter, python, build;
  std::map<std::string, std::string> versions;  // of the libraries inside: "oneDNN", "numpy"
  std::map<std::string, std::string> options;   // as the framework took them
  std::vector<std::string> capabilities;
  int threads = 1;
  bool can(std::string_view capability) const;
};

struct LoadedNetwork {
  struct Refusal {
    std::string node, op, reason;
  };
  std::vector<std::string> outputs;
  std::vector<std::string> values;  // every value that `run` can be asked for
  std::vector<Refusal> refused;     // nodes it cannot compute; what stands before them still runs
  std::vector<std::string> lost;    // outputs that therefore do not come
  std::string given;                // "onnx", "neutral", "exported onnx": what it was handed
};

struct RunRequest {
  std::vector<std::string> layers;  // values wanted beside the outputs
  bool every_layer = false;
  // Where an answer of another type or shape would be garbage.
  std::map<std::string, TensorType, std::less<>> expect;
};

struct RunAnswer {
  TensorMap tensors;                // outputs and layers
  bool perturbed = false;           // asking for layers changed the final outputs' bits
  std::string layers_from;          // the adapter's word for how layers were read
  std::vector<std::string> absent;  // asked for, but fused away
};

// A deliberate fault, planted in the live framework: how the verdicts are tested.
struct Fault {
  std::string kind;       // tf32, bf16, f16, bf16_accumulate, flush_denormals, epsilon, gate_order,
                          // padding, count_include_pad, weight_bit
  std::string node;       // not for flush_denormals and weight_bit
  double value = 0;       // epsilon
  std::string parameter;  // weight_bit: element `index`, bit `bit` of its storage
  std::int64_t index = 0;
  int bit = 0;
};

class Runner {
 public:
  virtual ~Runner() = default;

  virtual const RunnerInfo& info() const = 0;
  virtual bool alive() const = 0;

  // The user's own file where the framework reads its format; otherwise our export of it, in a
  // format that the framework reads, or as a neutral graph.
  virtual LoadedNetwork load(const Model& model) = 0;
  // A file as it is: one of a format that the runner reads, or a neutral graph (.json).
  virtual LoadedNetwork load_file(const std::string& path) = 0;

  virtual RunAnswer run(const TensorMap& inputs, const RunRequest& request = {}) = 0;
  // Seconds of each run. Callers interleave: a few runs of ours, a few of theirs.
  virtual std::vector<double> time(const TensorMap& inputs, int warmup, int runs) = 0;
  // Seconds of each opening of a file that the framework reads itself, up to where it could run.
  // What is loaded stays as it is.
  virtual std::vector<double> time_open(const std::string& path, int runs) = 0;
  // The parameters as the live framework holds them, under the graph's names.
  virtual TensorMap parameters() = 0;
  // Highest resident size in bytes since the last reset; nothing where the system does not tell.
  virtual std::optional<std::int64_t> peak_memory(bool reset) = 0;
  virtual void plant(const Fault& fault) = 0;
  // Writes the network in one of the framework's own formats (runner.json: "saves").
  virtual void save(const std::string& format, const std::string& path) = 0;
  // What the framework says it ran for these inputs, one line a kernel, by its own profiler; empty
  // where its adapter has none.
  virtual std::vector<std::string> profile(const TensorMap& inputs) = 0;
};

// Starts the adapter and says hello. Throws RunnerError (unavailable) with the reason.
std::unique_ptr<Runner> start_runner(const RunnerTarget& target, const RunnerOptions& options = {});
// The same with a runner folder given, for adapters that are not installed.
std::unique_ptr<Runner> start_runner(const RunnerFolder& folder, const RunnerTarget& target,
                                     const RunnerOptions& options = {});

}  // namespace etalon
