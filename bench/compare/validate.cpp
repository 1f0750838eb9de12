#include "bench/compare/validate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/compare/carried.h"
#include "bench/compare/case.h"
#include "bench/compare/judgement_json.h"
#include "bench/compare/library_accuracy.h"
#include "engine/core/threads.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "kernels/kernels.h"

namespace etalon {
namespace {

using nlohmann::json;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

json shape_json(const Shape& shape) {
  return std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end());
}

json graph_json(const Graph& graph) {
  const auto values = [&](const std::vector<ValueId>& ids) {
    json list = json::array();
    for (const ValueId v : ids)
      if (v != kAbsent && !graph.initializers.contains(v)) list.push_back(graph.value_name(v));
    return list;
  };
  json inputs = json::array(), outputs = json::array(), nodes = json::array();
  for (const Declaration& d : graph.inputs)
    inputs.push_back(
        {{"name", graph.value_name(d.value)}, {"dtype", name(d.dtype)}, {"dims", d.dims}});
  for (const Declaration& d : graph.outputs) outputs.push_back(graph.value_name(d.value));
  for (const Node& n : graph.nodes)
    nodes.push_back({{"name", n.name},
                     {"op", n.op->name},
                     {"params", to_string(n.params)},
                     {"inputs", values(n.inputs)},
                     {"outputs", values(n.outputs)}});
  return {{"inputs", inputs}, {"outputs", outputs}, {"nodes", nodes}};
}

json times_json(std::vector<double> seconds, int threads) {
  std::ranges::sort(seconds);
  return {{"median_s", seconds[seconds.size() / 2]},
          {"min_s", seconds.front()},
          {"max_s", seconds.back()},
          {"runs", seconds.size()},
          {"threads", threads}};
}

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

// What the parameters as the framework holds them say.
struct ParameterCheck {
  json record;
  std::map<std::string, std::string> cause;  // by parameter
};

ParameterCheck check_parameters(const Graph& graph, const TensorMap& theirs) {
  ParameterCheck check;
  std::int64_t equal = 0;
  json changed = json::array();
  for (const auto& [v, ours] : graph.initializers) {
    const std::string& n = graph.value_name(v);
    const auto at = theirs.find(n);
    if (at == theirs.end()) continue;
    const Tensor& t = at->second;
    if (t.dtype() == ours.dtype() && t.numel() == ours.numel() &&
        hash_bytes(t.bytes()) == hash_bytes(ours.bytes())) {
      ++equal;
      continue;
    }
    json entry = {{"name", n}};
    std::string cause;
    if (!(t.dtype() == ours.dtype()) || t.numel() != ours.numel()) {
      cause = fmt::format("parameter {} is {}, in the file it is {}", n, to_string(t.type()),
                          to_string(ours.type()));
    } else {
      const auto size = static_cast<std::size_t>(size_bytes(ours.dtype()));
      std::int64_t first = -1, count = 0;
      for (std::int64_t i = 0; i < ours.numel(); ++i)
        if (std::memcmp(ours.bytes().data() + static_cast<std::size_t>(i) * size,
                        t.bytes().data() + static_cast<std::size_t>(i) * size, size) != 0) {
          if (first < 0) first = i;
          ++count;
        }
      int bit = -1, bits = 0;
      for (std::size_t b = 0; b < size; ++b) {
        const std::size_t at_byte = static_cast<std::size_t>(first) * size + b;
        const auto x = static_cast<unsigned>(ours.bytes()[at_byte] ^ t.bytes()[at_byte]);
        for (int k = 0; k < 8; ++k)
          if ((x >> k & 1U) != 0) {
            if (bit < 0) bit = static_cast<int>(b) * 8 + k;
            ++bits;
          }
      }
      entry["element"] = first;
      entry["bit"] = bit;
      entry["elements_changed"] = count;
      entry["expected"] = fmt::format("{:a}", load_as_double(ours, first));
      entry["got"] = fmt::format("{:a}", load_as_double(t, first));
      cause = count == 1 && bits == 1
                  ? fmt::format("bit {} of element {} of parameter {} is flipped", bit, first, n)
                  : fmt::format(
                        "parameter {} is not the file's: {} of {} elements differ, first "
                        "element {} ({} instead of {})",
                        n, count, ours.numel(), first, entry["got"].get_ref<const std::string&>(),
                        entry["expected"].get_ref<const std::string&>());
    }
    check.cause[n] = cause;
    entry["cause"] = cause;
    changed.push_back(entry);
  }
  check.record = {{"equal", equal}, {"changed", changed}};
  return check;
}

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

  json run(const std::string& target, TensorMap& finals) {
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

 private:
  void judge(json& t, Runner& runner, const LoadedNetwork& network, TensorMap& finals) {
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
        functions[std::string(name(f))] = accuracy_sentence(accuracy, f);
    if (!functions.empty()) t["function_accuracy"] = functions;
    layers(t, answer, parameters, accuracy);
    outputs(t, answer);
    time(t, runner);
  }

  JudgeOptions judge_options(const LibraryAccuracy& accuracy) const {
    JudgeOptions o;
    o.registry = &all_kernels();
    o.threads = options_.threads;
    o.isa = options_.isa;
    o.contract = options_.contract;
    o.functions = accuracy.functions.data();
    return o;
  }

  // A value as the framework holds it: its answer, the graph's input or a parameter.
  const Tensor* theirs(ValueId v, const RunAnswer& answer) const {
    const std::string& n = graph_.value_name(v);
    if (const auto p = graph_.initializers.find(v); p != graph_.initializers.end())
      return &p->second;
    if (const auto at = answer.tensors.find(n); at != answer.tensors.end()) return &at->second;
    if (const auto at = inputs_.find(n); at != inputs_.end()) return &at->second;
    return nullptr;
  }

  void layers(json& t, const RunAnswer& answer, const ParameterCheck& parameters,
              const LibraryAccuracy& accuracy) {
    json list = json::array();
    Verdict worst = Verdict::identical;
    CarriedValues carried(all_kernels(), options_.contract, options_.threads, options_.isa,
                          accuracy.functions.data());
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
      if (!complete || !any) {
        // Fused away: the reference goes on from what is there, with a bound that grows.
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
          if (!known.empty() && found[k].verdict != Verdict::wrong)
            blame_parameter(found[k], known);
          add(t, list, worst, node, k, found[k], got[k], &layer);
        }
    }
    t["verdict"] = name(worst);
    t["layers"] = list;
  }

  static void blame_parameter(Judgement& j, const std::string& known) {
    const bool unseen = j.verdict == Verdict::identical;
    j.verdict = Verdict::wrong;
    j.cause = known + (unseen ? " (it changes no bit of the output on this input)" : "");
    j.sentence = fmt::format("Wrong: {}.", j.cause);
  }

  void add(json& t, json& list, Verdict& worst, const Node& node, std::size_t o, const Judgement& j,
           const Tensor& got, const Layer* layer) {
    const std::string& value = graph_.value_name(node.outputs[o]);
    json entry = judgement_json(j, value, got);
    entry["node"] = node.name;
    entry["op"] = node.op->name;
    if (const auto at = reference_.values.find(value); at != reference_.values.end())
      entry["propagated"] = propagated(got, at->second);
    list.push_back(entry);
    worst = worse(worst, j.verdict);
    if (j.verdict < options_.fail_on || t.contains("first_divergence")) return;
    t["first_divergence"] = value;
    if (layer == nullptr || options_.case_folder.empty()) return;
    Case c{layer->share(), {}, short_name(options_.contract), {}, std::string(name(j.verdict)),
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
                   {"command", fmt::format("etalon judge --case {}", folder)}};
  }

  static json propagated(const Tensor& got, const Tensor& ours) {
    if (!(got.type() == ours.type())) return {{"bits_equal", 0}};
    const ErrorStats s = error_stats(got, ours, Tensor());
    const double n = std::max<double>(1, static_cast<double>(got.numel()));
    return {{"max_ulp", number_json(s.max_ulp)},
            {"mean_ulp", number_json(s.mean_ulp)},
            {"bits_equal", static_cast<double>(bits_equal(got, ours)) / n}};
  }

  // End to end: how far the answers are from the reference's, and what follows from the layers.
  void outputs(json& t, const RunAnswer& answer) {
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
        j.sentence =
            fmt::format("Right: every bit is the one that contract {} defines.", j.contract);
      } else {
        j.verdict = worse(layers, Verdict::explained);
        j.cause =
            t.contains("first_divergence")
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

  json labels_json(const Tensor& got, const Tensor& ours) const {
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

  void time(json& t, Runner& runner) {
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

  const Model& model_;
  const Graph& graph_;
  const TensorMap& inputs_;
  const ValidateOptions& options_;
  const Trace& reference_;
  Executor& executor_;
};

}  // namespace

json validate(const Model& model, const TensorMap& inputs, const ValidateOptions& options) {
  const Graph& graph = *model.graph;
  NamedTensors in;
  json shapes = json::object();
  std::int64_t samples = 0;
  for (const auto& [n, tensor] : inputs) {
    in.emplace(n, tensor.share());
    shapes[n] = shape_json(tensor.shape());
    if (tensor.shape().rank() > 0) samples = tensor.shape()[0];
  }
  const RunOptions base{
      .contract = options.contract, .isa = options.isa, .threads = options.threads};
  RunOptions keep = base;
  keep.keep_values = true;
  const Trace reference = Executor(model.graph, all_kernels(), keep).run(in);
  Executor executor(model.graph, all_kernels(), base);
  std::vector<double> seconds;
  for (int i = 0; i <= options.timing_runs; ++i) {
    const double begin = now_s();
    executor.run(in);
    if (i > 0) seconds.push_back(now_s() - begin);
  }

  json record = {
      {"model",
       {{"path", model.path},
        {"format", model.format},
        {"producer", model.producer},
        {"version", model.version},
        {"notes", model.notes}}},
      {"input", {{"source", options.input_source}, {"samples", samples}, {"shapes", shapes}}},
      {"reference",
       {{"contract", short_name(options.contract)},
        {"truth", "the exact value of each operation on its own inputs"},
        {"threads", options.threads}}},
      {"graph", graph_json(graph)}};
  if (!seconds.empty()) record["reference"]["time"] = times_json(seconds, options.threads);
  json targets = json::array();
  std::vector<TensorMap> finals(options.targets.size());
  bool holds = true;
  for (std::size_t i = 0; i < options.targets.size(); ++i) {
    json t = TargetValidation(model, inputs, options, reference, executor)
                 .run(options.targets[i], finals[i]);
    if (t.contains("verdict") &&
        !(parse_verdict(t["verdict"].get<std::string>()) < options.fail_on))
      holds = false;
    targets.push_back(std::move(t));
  }
  record["targets"] = targets;
  json pairs = json::array();
  for (std::size_t a = 0; a < finals.size(); ++a)
    for (std::size_t b = a + 1; b < finals.size(); ++b)
      for (const auto& [value, x] : finals[a]) {
        const auto at = finals[b].find(value);
        if (at == finals[b].end() || !(at->second.type() == x.type())) continue;
        const ErrorStats s = error_stats(at->second, x, Tensor());
        pairs.push_back({{"a", options.targets[a]},
                         {"b", options.targets[b]},
                         {"name", value},
                         {"bits_equal", static_cast<double>(bits_equal(x, at->second)) /
                                            std::max<double>(1, static_cast<double>(x.numel()))},
                         {"max_ulp", number_json(s.max_ulp)},
                         {"mean_ulp", number_json(s.mean_ulp)}});
      }
  if (!pairs.empty()) record["pairs"] = pairs;
  record["holds"] = holds;
  return record;
}

std::vector<std::string> worse_than_baseline(const json& validated, const json& baseline) {
  std::map<std::string, Verdict> before;
  const auto each = [](const json& v, auto&& f) {
    for (const json& t : v.value("targets", json::array())) {
      const std::string target = t.value("target", "");
      for (const json& l : t.value("layers", json::array()))
        f(fmt::format("{}: layer {}", target, l.value("name", "")),
          l.value("verdict", "undecided"));
    }
  };
  each(baseline, [&](const std::string& key, const std::string& v) {
    before.emplace(key, parse_verdict(v));
  });
  std::vector<std::string> worse;
  each(validated, [&](const std::string& key, const std::string& v) {
    const auto at = before.find(key);
    if (at != before.end() && at->second < parse_verdict(v))
      worse.push_back(fmt::format("{} was {}, now it is {}", key, name(at->second), v));
  });
  return worse;
}

std::string junit_xml(const json& validated, Verdict fail_on) {
  const auto escape = [](std::string_view text) {
    std::string out;
    for (const char c : text) {
      switch (c) {
        case '&':
          out += "&amp;";
          break;
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '"':
          out += "&quot;";
          break;
        default:
          out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
      }
    }
    return out;
  };
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const json& t : validated.value("targets", json::array())) {
    const std::string target = t.value("target", "");
    std::string cases;
    int tests = 0, failures = 0, skipped = 0;
    const json layers = t.value("layers", json::array());
    for (const json& l : layers) {
      ++tests;
      cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", escape(target),
                           escape(l.value("name", "")));
      const std::string verdict = l.value("verdict", "undecided");
      if (parse_verdict(verdict) < fail_on) {
        cases += "/>\n";
        continue;
      }
      ++failures;
      cases += fmt::format(">\n      <failure type=\"{}\" message=\"{}\"/>\n    </testcase>\n",
                           escape(verdict), escape(l.value("sentence", "")));
    }
    if (layers.empty()) {
      ++tests;
      ++skipped;
      cases += fmt::format(
          "    <testcase classname=\"{}\" name=\"{}\">\n      <skipped message=\"{}\"/>\n    "
          "</testcase>\n",
          escape(target), escape(t.value("status", "")), escape(t.value("reason", "")));
    }
    xml += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}  "
        "</testsuite>\n",
        escape(target), tests, failures, skipped, cases);
  }
  return xml + "</testsuites>\n";
}

}  // namespace etalon
