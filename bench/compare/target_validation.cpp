#include "bench/compare/target_validation.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/compare/carried.h"
#include "bench/compare/case.h"
#include "bench/compare/judgement_json.h"
#include "bench/shell_word.h"
#include "engine/core/threads.h"
#include "engine/numerics/element.h"
#include "engine/ops/control.h"
#include "kernels/kernels.h"

namespace etalon {

using nlohmann::json;

namespace {

std::vector<std::int64_t> labels_of(const Tensor& scores) {
  std::vector<std::int64_t> labels;
  const std::int64_t rows = scores.shape()[0], classes = scores.shape()[1];
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes; ++c)
      if (load_as_double(scores, r * classes + c) > load_as_double(scores, r * classes + best))
        best = c;
    labels.push_back(best);
  }
  return labels;
}

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

json times_json(std::vector<double> seconds, int threads) {
  std::ranges::sort(seconds);
  return {{"median_s", seconds[seconds.size() / 2]},
          {"min_s", seconds.front()},
          {"max_s", seconds.back()},
          {"runs", seconds.size()},
          {"threads", threads}};
}

json TargetValidation::run(const std::string& target, TensorMap& finals) {
  json t = {{"target", target}};
  try {
    const RunnerTarget parsed = parse_target(target);
    const auto runner = start_runner(
        parsed, {.threads = options_.threads, .request_timeout_s = options_.request_timeout_s});
    const RunnerInfo& info = runner->info();
    t["framework"] = info.framework;
    t["version"] = info.version;
    t["versions"] = info.versions;
    t["interpreter"] = info.interpreter;
    t["python"] = info.python;
    t["build"] = info.build;
    t["options"] = info.options;
    t["threads"] = info.threads;
    const LoadedNetwork network = runner->load(model_);
    t["given"] = network.given;
    if (options_.loaded) options_.loaded(*runner);
    judge(t, *runner, network, finals);
    t["status"] = "ok";
  } catch (const RunnerError& e) {
    t["status"] = name(e.status());
    t["reason"] = e.what();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::interrupted || e.kind() == ErrorKind::usage) throw;
    t["status"] = "failed";
    t["reason"] = e.what();
  }
  return t;
}

void TargetValidation::judge(json& t, Runner& runner, const LoadedNetwork& network,
                             TensorMap& finals) {
  json refused = json::array();
  for (const LoadedNetwork::Refusal& r : network.refused)
    refused.push_back({{"node", r.node}, {"op", r.op}, {"reason", r.reason}});
  if (!refused.empty()) t["refused"] = refused;

  RunRequest request;
  // By name: a framework may hold values of its own making beside the graph's.
  if (runner.info().can("layers"))
    for (const std::string& value : network.values)
      if (graph_.find_value(value) != kAbsent) request.layers.push_back(value);
  for (const auto& [value, tensor] : reference_.values)
    request.expect.emplace(value, tensor.type());
  RunAnswer answer;
  try {
    answer = runner.run(inputs_, request);
  } catch (const RunnerError& e) {
    if (e.status() != RunnerStatus::refused || request.layers.empty()) throw;
    request.layers.clear();
    answer = runner.run(inputs_, request);
    answer.layers_from = fmt::format("none: {}", e.what());
  }
  t["perturbed"] = answer.perturbed;
  t["layers_from"] = answer.layers_from;
  if (!answer.absent.empty()) t["absent"] = answer.absent;
  for (const Declaration& d : graph_.outputs) {
    const auto at = answer.tensors.find(graph_.value_name(d.value));
    if (at != answer.tensors.end()) finals.emplace(at->first, at->second.share());
  }

  ParameterCheck parameters;
  if (runner.info().can("parameters")) {
    try {
      parameters = check_parameters(graph_, runner.parameters());
      t["parameters"] = parameters.record;
    } catch (const RunnerError& e) {
      t["parameters"] = {{"reason", e.what()}};
    }
  }
  const LibraryAccuracy& accuracy = library_accuracy(runner.info().framework);
  json functions = json::object();
  for (const Node& node : graph_.nodes)
    for (const auto& f : functions_of(node.op->name))
      functions[name(f) == node.op->name ? std::string(name(f))
                                         : fmt::format("{} in {}", name(f), node.op->name)] =
          accuracy_sentence(accuracy, node.op->name, f);
  if (!functions.empty()) t["function_accuracy"] = functions;
  layers(t, answer, parameters, accuracy);
  outputs(t, answer);
  time(t, runner);
}

JudgeOptions TargetValidation::judge_options(const LibraryAccuracy& accuracy) const {
  JudgeOptions o;
  o.registry = &all_kernels();
  o.threads = options_.threads;
  o.isa = options_.isa;
  o.contract = options_.contract;
  o.library = &accuracy;
  return o;
}

// A value as the framework holds it: its answer, the graph's input or a parameter.
const Tensor* TargetValidation::theirs(ValueId v, const RunAnswer& answer) const {
  const std::string& n = graph_.value_name(v);
  if (const auto p = graph_.initializers.find(v); p != graph_.initializers.end()) return &p->second;
  if (const auto at = answer.tensors.find(n); at != answer.tensors.end()) return &at->second;
  if (const auto at = inputs_.find(n); at != inputs_.end()) return &at->second;
  return nullptr;
}

void TargetValidation::layers(json& t, const RunAnswer& answer, const ParameterCheck& parameters,
                              const LibraryAccuracy& accuracy) {
  json list = json::array();
  Verdict worst = Verdict::identical;
  CarriedValues carried(graph_, all_kernels(), options_.contract, options_.threads, options_.isa,
                        &accuracy);
  // Which values come from the run that is judged: final outputs of a perturbed run do not belong
  // to its layers.
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    check_interrupt();
    const Node& node = graph_.nodes[i];
    if (options_.progress)
      options_.progress(t["target"].get_ref<const std::string&>(), node.name, i,
                        graph_.nodes.size());
    std::vector<Tensor> got;
    bool any = false;
    for (const ValueId v : node.outputs) {
      const Tensor* y = v == kAbsent ? nullptr : theirs(v, answer);
      got.push_back(y != nullptr ? y->share() : Tensor());
      any |= y != nullptr;
    }
    Layer layer{node.op, node.params, {}};
    bool complete = true;
    std::string known;
    for (const ValueId v : node.inputs) {
      if (v == kAbsent) {
        layer.inputs.emplace_back();
        continue;
      }
      const Tensor* x = theirs(v, answer);
      if (x == nullptr) complete = false;
      layer.inputs.push_back(x != nullptr ? x->share() : Tensor());
      if (const auto c = parameters.cause.find(graph_.value_name(v)); c != parameters.cause.end())
        known = c->second;
    }
    if (!complete || !any || is_control(*node.op)) {
      // Fused away, or inside a body: the reference goes on from what is there, with a bound that
      // grows.
      carried.step(node, [&](ValueId v) { return theirs(v, answer); });
      if (!any) continue;
      for (std::size_t o = 0; o < got.size(); ++o) {
        if (!got[o]) continue;
        Judgement j = carried.judge(node.outputs[o], got[o]);
        if (!known.empty()) blame_parameter(j, known);
        add(t, list, worst, node, o, j, got[o], nullptr);
      }
      continue;
    }
    JudgeOptions o = judge_options(accuracy);
    o.known_cause = known;
    std::vector<Judgement> found;
    try {
      found = judge_layer(layer, got, o);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::interrupted) throw;
      Judgement j;
      j.cause = e.what();
      j.sentence = fmt::format("No statement can be made: {}.", e.what());
      found.assign(got.size(), j);
    }
    for (std::size_t k = 0; k < got.size() && k < found.size(); ++k)
      if (got[k]) {
        // Bits that happen to be equal on this input do not make another network the file's.
        if (!known.empty() && found[k].verdict != Verdict::wrong) blame_parameter(found[k], known);
        add(t, list, worst, node, k, found[k], got[k], &layer);
      }
  }
  t["verdict"] = name(worst);
  t["layers"] = list;
}

void TargetValidation::blame_parameter(Judgement& j, const std::string& known) {
  const bool unseen = j.verdict == Verdict::identical;
  j.verdict = Verdict::wrong;
  j.cause = known + (unseen ? " (it changes no bit of the output on this input)" : "");
  j.sentence = fmt::format("Wrong: {}.", j.cause);
}

void TargetValidation::add(json& t, json& list, Verdict& worst, const Node& node, std::size_t o,
                           const Judgement& j, const Tensor& got, const Layer* layer) {
  const std::string& value = graph_.value_name(node.outputs[o]);
  json entry = judgement_json(j, value, got);
  entry["node"] = node.name;
  entry["op"] = node.op->name;
  if (const auto at = reference_.values.find(value); at != reference_.values.end())
    entry["propagated"] = propagated(got, at->second);
  list.push_back(entry);
  worst = worse(worst, j.verdict);
  if (j.verdict == Verdict::identical || j.verdict < options_.fail_on ||
      t.contains("first_divergence"))
    return;
  t["first_divergence"] = value;
  if (layer == nullptr || options_.case_folder.empty()) return;
  Case c{layer->share(),
         {},
         short_name(options_.contract),
         library_accuracy(t["framework"].get<std::string>()).library,
         {},
         std::string(name(j.verdict)),
         j.cause};
  for (std::size_t k = 0; k < node.outputs.size(); ++k)
    c.outputs.push_back(k == o ? got.share() : Tensor());
  c.origin = fmt::format("{}, node {}, {} {}", model_.path, node.name,
                         t["framework"].get<std::string>(), t["version"].get<std::string>());
  std::string safe = t["target"].get<std::string>() + "-" + node.name;
  for (char& ch : safe)
    if (std::isalnum(static_cast<unsigned char>(ch)) == 0 && ch != '-' && ch != '.') ch = '_';
  const std::string folder = options_.case_folder + "/" + safe;
  save_case(folder, smallest_case(c, o, j.stats.worst));
  t["replay"] = {{"files", {folder + "/case.json", folder + "/tensors.safetensors"}},
                 {"command", fmt::format("etalon judge --case {}", shell_word(folder))}};
}

json TargetValidation::propagated(const Tensor& got, const Tensor& ours) {
  if (!(got.type() == ours.type())) return {{"bits_equal", 0}};
  const ErrorStats s = error_stats(got, ours, Tensor());
  const double n = std::max<double>(1, static_cast<double>(got.numel()));
  return {{"max_ulp", number_json(s.max_ulp)},
          {"mean_ulp", number_json(s.mean_ulp)},
          {"bits_equal", static_cast<double>(bits_equal(got, ours)) / n}};
}

// End to end: how far the answers are from the reference's, and what follows from the layers.
void TargetValidation::outputs(json& t, const RunAnswer& answer) {
  json list = json::array();
  const Verdict layers = parse_verdict(t["verdict"].get<std::string>());
  for (const auto& [value, ours] : reference_.outputs) {
    const auto at = answer.tensors.find(value);
    if (at == answer.tensors.end()) {
      list.push_back(
          {{"name", value}, {"verdict", "undecided"}, {"cause", "the output did not come"}});
      continue;
    }
    const Tensor& got = at->second;
    Judgement j;
    j.contract = short_name(options_.contract);
    j.elements = got.numel();
    if (got.type() == ours.type()) {
      j.stats = error_stats(got, ours, Tensor());
      j.bits_equal = static_cast<double>(bits_equal(got, ours)) /
                     std::max<double>(1, static_cast<double>(got.numel()));
    }
    if (j.bits_equal == 1) {
      j.verdict = Verdict::identical;
      j.sentence = fmt::format("Right: every bit is the one that contract {} defines.", j.contract);
    } else {
      j.verdict = worse(layers, Verdict::explained);
      j.cause = t.contains("first_divergence")
                    ? fmt::format("follows from layer {}", t["first_divergence"].get<std::string>())
                    : "the layers' rounding errors, grown on their way";
      j.sentence = fmt::format(
          "End to end the answers differ from the reference by up to {:.3g} units of the last "
          "digit.",
          j.stats.max_ulp);
    }
    json entry = judgement_json(j, value, got);
    entry["view"] = "propagated";
    list.push_back(entry);
    if (got.shape().rank() == 2 && got.shape()[1] > 1 && got.type() == ours.type() &&
        is_floating(got.dtype()) && !t.contains("labels"))
      t["labels"] = labels_json(got, ours);
  }
  t["outputs"] = list;
}

json TargetValidation::labels_json(const Tensor& got, const Tensor& ours) const {
  const auto a = labels_of(got), b = labels_of(ours);
  std::int64_t changed = 0, right = 0, reference_right = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    changed += a[i] != b[i] ? 1 : 0;
    if (i < options_.labels.size()) {
      right += a[i] == options_.labels[i] ? 1 : 0;
      reference_right += b[i] == options_.labels[i] ? 1 : 0;
    }
  }
  json l = {{"samples", a.size()}, {"changed", changed}};
  if (options_.labels.size() >= a.size()) {
    l["correct"] = right;
    l["reference_correct"] = reference_right;
  }
  return l;
}

void TargetValidation::time(json& t, Runner& runner) {
  if (options_.timing_runs < 1 || !runner.info().can("time")) return;
  try {
    NamedTensors in;
    for (const auto& [n, tensor] : inputs_) in.emplace(n, tensor.share());
    std::vector<double> theirs, ours;
    runner.time(inputs_, 1, 1);
    for (int i = 0; i < options_.timing_runs; ++i) {  // one of ours, one of theirs
      const double begin = now_s();
      executor_.run(in);
      ours.push_back(now_s() - begin);
      for (const double s : runner.time(inputs_, 0, 1)) theirs.push_back(s);
    }
    if (theirs.empty()) return;
    t["time"] = times_json(theirs, runner.info().threads);
    t["reference_time"] = times_json(ours, options_.threads);
    if (const auto peak = runner.peak_memory(false)) t["peak_bytes"] = *peak;
  } catch (const RunnerError& e) {
    t["time"] = {{"reason", e.what()}};
  }
}

}  // namespace etalon
