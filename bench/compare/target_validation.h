// One target of a validation: the framework is started, given the network, run, and its layers,
// outputs and times become one row of the record. A target's fault is in its row.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/compare/library_accuracy.h"
#include "bench/compare/parameter_check.h"
#include "bench/compare/validate.h"
#include "engine/graph/executor.h"

namespace etalon {

class TargetValidation {
 public:
  TargetValidation(const Model& model, const TensorMap& inputs, const ValidateOptions& options,
                   const Trace& reference, Executor& executor)
      : model_(model),
        graph_(*model.graph),
        inputs_(inputs),
        options_(options),
        reference_(reference),
        executor_(executor) {}

  nlohmann::json run(const std::string& target, TensorMap& finals);

 private:
  void judge(nlohmann::json& t, Runner& runner, const LoadedNetwork& network, TensorMap& finals);
  JudgeOptions judge_options(const LibraryAccuracy& accuracy) const;
  const Tensor* theirs(ValueId v, const RunAnswer& answer) const;
  void layers(nlohmann::json& t, const RunAnswer& answer, const ParameterCheck& parameters,
              const LibraryAccuracy& accuracy);
  static void blame_parameter(Judgement& j, const std::string& known);
  void add(nlohmann::json& t, nlohmann::json& list, Verdict& worst, const Node& node, std::size_t o,
           const Judgement& j, const Tensor& got, const Layer* layer);
  static nlohmann::json propagated(const Tensor& got, const Tensor& ours);
  void outputs(nlohmann::json& t, const RunAnswer& answer);
  nlohmann::json labels_json(const Tensor& got, const Tensor& ours) const;
  void time(nlohmann::json& t, Runner& runner);

  const Model& model_;
  const Graph& graph_;
  const TensorMap& inputs_;
  const ValidateOptions& options_;
  const Trace& reference_;
  Executor& executor_;
};

nlohmann::json times_json(std::vector<double> seconds, int threads);
double now_s();  // monotonic

}  // namespace etalon
