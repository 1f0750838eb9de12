// etalon validate MODEL --against TARGETS: is a framework's answer wrong, or only different?
#include "bench/compare/validate.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/model_args.h"
#include "bench/cli/terminal.h"
#include "bench/data.h"
#include "bench/report/record.h"
#include "bench/report/report.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/containers/json.h"
#include "importers/importers.h"

namespace etalon::cli {
namespace {

using nlohmann::json;

struct Args {
  ModelArgs model;
  std::string against, data, random, contract = "seq", fail_on = "wrong", baseline, junit, report;
  std::string cases = "etalon-cases";
  std::vector<std::string> inputs;
  std::int64_t samples = 16, batch = 1, runs = 5;
  double timeout_s = 900;
  bool per_layer = false;
};

Colour colour_of(const std::string& verdict) {
  if (verdict == "identical" || verdict == "explained") return Colour::green;
  return verdict == "wrong" ? Colour::red : Colour::yellow;
}

std::string ulp_text(const json& j, const char* field) {
  const auto at = j.find(field);
  if (at == j.end()) return "";
  return at->is_string() ? at->get<std::string>() : fmt::format("{:.3g}", at->get<double>());
}

std::string percent(const json& j, const char* field) {
  const auto at = j.find(field);
  return at == j.end() || !at->is_number() ? "" : fmt::format("{:.1f} %", 100 * at->get<double>());
}

void print_layers(const json& t) {
  Table table({{"layer"},
               {"op"},
               {"verdict"},
               {"max ULP", Table::Align::right},
               {"mean", Table::Align::right},
               {"rounded", Table::Align::right},
               {"bits", Table::Align::right},
               {"bound used", Table::Align::right},
               {"cause"}});
  for (const json& l : t.value("layers", json::array())) {
    const std::string verdict = l.value("verdict", "");
    table.row({l.value("name", ""), l.value("op", ""), coloured(verdict, colour_of(verdict)),
               ulp_text(l, "max_ulp"), ulp_text(l, "mean_ulp"), percent(l, "correctly_rounded"),
               percent(l, "bits_equal"), percent(l, "bound_used"),
               (l.value("carried", false) ? "(carried) " : "") + l.value("cause", "")});
  }
  table.print();
}

void print_target(const json& t, bool per_layer) {
  const std::string version =
      t.contains("framework")
          ? fmt::format(" ({} {})", t.value("framework", ""), t.value("version", ""))
          : "";
  fmt::print("\n{}\n", coloured(t.value("target", "") + version, Colour::bold));
  const std::string status = t.value("status", "");
  if (status != "ok") {
    fmt::print("  {}: {}\n", coloured(status, Colour::yellow), t.value("reason", ""));
    return;
  }
  if (per_layer) print_layers(t);
  const std::string verdict = t.value("verdict", "");
  std::string sentence;
  for (const json& l : t.value("layers", json::array()))
    if (l.value("name", "") == t.value("first_divergence", "") ||
        (sentence.empty() && l.value("verdict", "") == verdict))
      sentence = l.value("sentence", "");
  fmt::print("  {}  {}\n", coloured(verdict, colour_of(verdict)), sentence);
  if (t.contains("first_divergence"))
    fmt::print("  first at  {}\n", t["first_divergence"].get<std::string>());
  if (t.contains("replay"))
    fmt::print("  replay    {}\n", t["replay"]["command"].get<std::string>());
  for (const json& o : t.value("outputs", json::array()))
    fmt::print("  end to end {}: max {} ULP from the reference, {} of the bits equal\n",
               o.value("name", ""), ulp_text(o, "max_ulp"), percent(o, "bits_equal"));
  if (t.contains("labels")) {
    const json& l = t["labels"];
    fmt::print("  labels    {} of {} changed", l.value("changed", 0), l.value("samples", 0));
    if (l.contains("correct"))
      fmt::print("; {} right, the reference {}", l.value("correct", 0),
                 l.value("reference_correct", 0));
    fmt::print("\n");
  }
  if (t.contains("parameters") && t["parameters"].contains("changed"))
    for (const json& p : t["parameters"]["changed"])
      fmt::print("  {}  {}\n", coloured("parameter", Colour::red), p.value("cause", ""));
  if (t.value("perturbed", false))
    fmt::print("  note      reading layers changed the final bits; layers come from: {}\n",
               t.value("layers_from", ""));
  for (const json& r : t.value("refused", json::array()))
    fmt::print("  refused   {} ({}): {}\n", r.value("node", ""), r.value("op", ""),
               r.value("reason", ""));
  if (t.contains("function_accuracy"))
    for (const auto& [f, text] : t["function_accuracy"].items())
      fmt::print("  {:<9} {}\n", f, text.get<std::string>());
  if (t.contains("time") && t["time"].contains("median_s") && t.contains("reference_time")) {
    const double theirs = t["time"]["median_s"], ours = t["reference_time"]["median_s"];
    fmt::print("  time      {}, the reference {} (ours / theirs {:.2f})\n", human_seconds(theirs),
               human_seconds(ours), ours / theirs);
  }
}

int validate_model(Args& args, const Globals& g) {
  const int ways = static_cast<int>(!args.inputs.empty()) + static_cast<int>(!args.data.empty()) +
                   static_cast<int>(!args.random.empty());
  if (ways > 1) throw usage_error("give one of --input, --data and --random");
  if (args.batch < 1) throw usage_error("--batch {}: a sample at least is judged", args.batch);
  if (!(args.timeout_s > 0)) throw usage_error("--timeout {}: seconds above 0", args.timeout_s);
  ValidateOptions options;
  options.fail_on = parse_verdict(args.fail_on);
  options.contract = Contract::parse(args.contract);
  for (const RunnerTarget& t : parse_targets(args.against)) options.targets.push_back(t.text);
  options.threads = g.threads;
  options.isa = g.isa;
  options.case_folder = args.cases;
  options.timing_runs = static_cast<int>(args.runs);
  options.request_timeout_s = args.timeout_s;
  json baseline;
  if (!args.baseline.empty()) {
    const std::string text = read_text_file(args.baseline);
    const ErrorScope scope(args.baseline);
    baseline = parse_json(text);
    if (!baseline.is_object() || !baseline.contains("validate"))
      throw bad_input("no record of 'etalon validate'; write one with --json");
    check_baseline(baseline["validate"]);
  }

  const Model model = open_model_args(args.model, args.inputs);
  if (model.graph->nodes.empty())
    throw bad_input("{}: holds tensors and no network; 'etalon inspect' lists them",
                    args.model.path);
  TensorMap inputs;
  if (!args.data.empty()) {
    if (model.graph->inputs.size() != 1)
      throw usage_error("--data serves a network of one input, this one has {}",
                        model.graph->inputs.size());
    Dataset data = load_dataset(args.data, args.samples);
    options.labels = data.labels;
    options.input_source = fmt::format("{}, the first {}", data.name, args.samples);
    inputs.emplace(model.graph->value_name(model.graph->inputs[0].value), std::move(data.images));
  } else if (!args.inputs.empty()) {
    inputs = read_inputs(*model.graph, args.inputs);
    options.input_source = fmt::format("{}", fmt::join(args.inputs, ", "));
  } else {
    const std::uint64_t seed = args.random.empty() ? 1 : seed_of(args.random);
    inputs = random_inputs(model, args.batch, seed);
    options.input_source = fmt::format("noise, seed {}", seed);
    if (args.random.empty())
      fmt::print("No input was given: noise of seed {} is used (--input FILE or --data mnist).\n",
                 seed);
  }

  json record = base_record(g.command_line, g.isa);
  {
    std::unique_ptr<Progress> progress;
    std::string shown;
    options.progress = [&](const std::string& target, const std::string& layer, std::size_t done,
                           std::size_t total) {
      if (shown != target) {
        progress = std::make_unique<Progress>(target, static_cast<std::int64_t>(total));
        shown = target;
      }
      progress->update(static_cast<std::int64_t>(done), layer);
    };
    record["validate"] = validate(model, inputs, options);
  }
  const json& v = record["validate"];
  bool holds = v.value("holds", false), any = false;
  for (const json& t : v["targets"]) {
    print_target(t, args.per_layer);
    any = any || t.value("status", "") == "ok";
  }
  if (v.contains("pairs")) {
    fmt::print("\n");
    for (const json& p : v["pairs"])
      fmt::print("{} against {}: {} of the bits of {} equal, at most {} ULP apart\n",
                 p.value("a", ""), p.value("b", ""), percent(p, "bits_equal"), p.value("name", ""),
                 ulp_text(p, "max_ulp"));
  }
  if (!args.baseline.empty()) {
    const auto worse = worse_than_baseline(v, baseline["validate"], options.fail_on);
    for (const std::string& w : worse) fmt::print("{}\n", coloured(w, Colour::red));
    record["validate"]["baseline"] = {{"file", args.baseline}, {"worse", worse}};
    holds = worse.empty();  // what was accepted before is accepted still
    record["validate"]["holds"] = holds;
  }
  if (!args.junit.empty()) write_file(args.junit, junit_xml(v, options.fail_on));
  if (!g.json_path.empty()) write_record(g.json_path, record);
  if (!args.report.empty()) {
    write_report(args.report, record);
    fmt::print("\nreport    {}\n", args.report);
  }
  if (!any)
    throw missing("none of the targets {} could run; 'etalon frameworks' says what each lacks",
                  args.against);
  return holds ? 0 : 1;
}

}  // namespace

Action validate_command(Options& options) {
  auto a = std::make_shared<Args>();
  model_options(options, "MODEL", kModelWord, a->model)
      .value("--against", a->against, "TARGETS",
             "frameworks, with commas: onnxruntime,pytorch; NAME@INTERPRETER, NAME:threads=2", true)
      .flag("--per-layer", a->per_layer, "print a row for every layer")
      .repeated("--input", a->inputs, "FILE", "npy, npz or safetensors; NAME=FILE")
      .value("--data", a->data, "NAME", "mnist")
      .value("--samples", a->samples, "how many samples of --data")
      .value("--random", a->random, "SEED", "noise from this seed")
      .value("--batch", a->batch, "samples of noise")
      .value("--contract", a->contract, "C", "the reference's contract")
      .value("--fail-on", a->fail_on, "VERDICT", "this verdict or a worse one gives exit code 1")
      .value(
          "--baseline", a->baseline, "RECORD",
          "an earlier record: only what got worse gives exit code 1, and new layers by --fail-on")
      .value("--junit", a->junit, "FILE", "the verdicts as JUnit XML")
      .value("--report", a->report, "PAGE", "the verdicts as an HTML page")
      .value("--cases", a->cases, "DIR", "where cases of failed layers are kept")
      .value("--runs", a->runs, "timed runs of each, 0 for none")
      .value("--timeout", a->timeout_s, "seconds that one answer may take");
  return [a](const Globals& g) { return validate_model(*a, g); };
}

}  // namespace etalon::cli
