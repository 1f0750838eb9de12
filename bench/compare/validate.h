// A network judged in live frameworks: what `etalon validate` and the demo run.
//
// Isolated view, which gives the verdict: every layer of the reference is fed the framework's own
// input of that layer, so that an error counts where it is made. Propagated view, which tells how
// much it matters: both run end to end. Where a framework gives out final outputs only (or fused a
// value away), the layers between two values that are there are judged together, with a bound
// carried through them, and marked as such.
//
// The framework gets the user's own file when it reads that format, else the neutral graph. A
// target that is missing, crashes, hangs or answers garbage costs its own row.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/compare/verdict.h"
#include "bench/runners/runner.h"
#include "engine/graph/graph.h"

namespace etalon {

struct ValidateOptions {
  std::vector<std::string> targets;  // "onnxruntime:opt=off", "pytorch@/usr/bin/python3"
  Contract contract = Contract::seq();
  int threads = 1;
  Isa isa = detect_isa();
  std::string input_source;          // for the record: "mnist512.npz, 16 images"
  std::vector<std::int64_t> labels;  // of the samples, when known
  Verdict fail_on = Verdict::wrong;  // this verdict or a worse one does not hold
  std::string case_folder;           // where replayable cases go; empty: none are kept
  std::vector<std::string> with;     // further files of the model
  int timing_runs = 5;
  double request_timeout_s = 900;
  // Called when a target has been loaded, before it runs: how the tests plant faults in it.
  std::function<void(Runner&)> loaded;
  std::function<void(const std::string& target, const std::string& layer, std::size_t done,
                     std::size_t total)>
      progress;
};

// The record's field "validate" (docs/records.md). Throws for faults of the model or the input;
// a target's fault is in its row.
nlohmann::json validate(const Model& model, const TensorMap& inputs,
                        const ValidateOptions& options);

// What got worse than in another record's "validate", as sentences: a layer's verdict, a layer that
// was judged and is no longer (a target that broke loses all of its own), and a layer that is new
// and has the verdict fail_on or a worse one. A target that the baseline does not know is all new.
// Throws a bad-input Error that names the field where `baseline` is no such record.
void check_baseline(const nlohmann::json& baseline);
std::vector<std::string> worse_than_baseline(const nlohmann::json& validated,
                                             const nlohmann::json& baseline,
                                             Verdict fail_on = Verdict::wrong);

// One test case for each target and layer; a target that broke is one error, one that is not here
// one skipped case.
std::string junit_xml(const nlohmann::json& validated, Verdict fail_on);

}  // namespace etalon
