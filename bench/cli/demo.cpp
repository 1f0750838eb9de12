// etalon demo: the tour on real data. Everything that it does is a command of its own; the record
// and the page it leaves are those of `validate` and `bench`.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/bench.h"
#include "bench/cli/cli.h"
#include "bench/cli/terminal.h"
#include "bench/compare/validate.h"
#include "bench/data.h"
#include "bench/report/record.h"
#include "bench/report/report.h"
#include "bench/resources.h"
#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

using nlohmann::json;

struct Args {
  std::string out = "etalon-demo", against = "onnxruntime,pytorch";
  std::int64_t samples = 64;
};

struct Answer {
  std::int64_t right = 0;
  std::string hash;
  double seconds = 0;
  Tensor logits;
};

// The digit with the largest logit; of equal ones the first.
std::int64_t digit(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

// In parts, so that there is something to show while it runs; a row's bits do not depend on them.
Answer run_all(const Model& model, const Dataset& data, std::string_view contract,
               const Globals& g) {
  RunOptions options;
  options.contract = Contract::parse(contract);
  options.threads = g.threads;
  options.isa = g.isa;
  Executor executor(model.graph, all_kernels(), options);
  const std::string input = model.graph->value_name(model.graph->inputs.at(0).value);
  const std::int64_t n = data.images.shape()[0];
  const std::int64_t pixels = data.images.shape().product(1, 4);
  constexpr std::int64_t kPart = 64;
  Answer answer;
  answer.logits = Tensor::uninitialized(DType::f32, {n, 10});
  const auto all = answer.logits.mutable_data<float>();
  Progress progress(fmt::format("running {}", contract), n);
  for (std::int64_t at = 0; at < n; at += kPart) {
    const std::int64_t count = std::min(kPart, n - at);
    NamedTensors inputs;
    inputs.emplace(input, Tensor::of<float>(data.images.shape().with_dim(0, count),
                                            data.images.data<float>().subspan(
                                                static_cast<std::size_t>(at * pixels),
                                                static_cast<std::size_t>(count * pixels))));
    const Trace trace = executor.run(inputs);
    answer.seconds += trace.seconds;
    const auto logits = trace.outputs.at(0).second.data<float>();
    std::copy(logits.begin(), logits.end(), all.begin() + at * 10);
    progress.update(at + count);
  }
  for (std::int64_t i = 0; i < n; ++i)
    answer.right += digit(all.subspan(static_cast<std::size_t>(i * 10), 10)) ==
                    data.labels[static_cast<std::size_t>(i)];
  answer.hash = to_string(hash_tensor(answer.logits));
  return answer;
}

void heading(std::string_view text) {
  fmt::print("\n{}\n", coloured(text, Colour::bold));
  std::fflush(stdout);
}

void print_verdicts(const json& validated) {
  Table table({{"framework"},
               {"verdict"},
               {"of the bound", Table::Align::right},
               {"labels changed", Table::Align::right},
               {"in one sentence"}});
  for (const json& t : validated.at("targets")) {
    const std::string who =
        fmt::format("{} {}", t.value("framework", t.value("target", "")), t.value("version", ""));
    if (t.value("status", "") != "ok") {
      table.row(
          {who, coloured(t.value("status", ""), Colour::yellow), "", "", t.value("reason", "")});
      continue;
    }
    const std::string verdict = t.value("verdict", "");
    double used = 0;
    std::string sentence;
    for (const json& layer : t.value("layers", json::array())) {
      if (layer.contains("bound_used") && layer["bound_used"].is_number())
        used = std::max(used, layer["bound_used"].get<double>());
      if (sentence.empty() && layer.value("verdict", "") == verdict)
        sentence = layer.value("sentence", "");
    }
    const bool good = verdict == "identical" || verdict == "explained";
    table.row({who, coloured(verdict, good ? Colour::green : Colour::red),
               fmt::format("{:.0f} %", 100 * used),
               t.contains("labels") ? fmt::format("{} of {}", t["labels"].value("changed", 0),
                                                  t["labels"].value("samples", 0))
                                    : "",
               sentence});
  }
  table.print();
}

int demo(const Args& args, const Globals& g) {
  const auto started = std::chrono::steady_clock::now();
  json record = base_record(g.command_line, g.isa);

  const std::string path = resource_path("bench/demo/lenet.onnx");
  heading("1. A model file in");
  const Model model = open_model(path);
  std::uint64_t elements = 0;
  for (const auto& [id, tensor] : model.graph->initializers)
    elements += static_cast<std::uint64_t>(tensor.numel());
  fmt::print("{}: {}, {} nodes, {} weights\n", path, model.version, model.graph->nodes.size(),
             elements);
  const Dataset data = load_dataset("mnist");
  fmt::print("{}\n", data.source);

  heading("2. Reference bits out");
  // exact is worth its time on the images that the frameworks are judged on.
  const Dataset part = load_dataset("mnist", args.samples);
  const Answer seq = run_all(model, data, "seq", g), exact = run_all(model, part, "exact", g);
  Table answers({{"contract"},
                 {"images", Table::Align::right},
                 {"accuracy", Table::Align::right},
                 {"time", Table::Align::right},
                 {"hash of the logits"},
                 {""}});
  const auto add = [&](std::string_view contract, const Answer& a, std::string_view meaning) {
    const auto n = static_cast<double>(a.logits.shape()[0]);
    answers.row({std::string(contract), fmt::to_string(a.logits.shape()[0]),
                 fmt::format("{:.2f} %", 100 * static_cast<double>(a.right) / n),
                 human_seconds(a.seconds), a.hash, std::string(meaning)});
    record["demo"]["answers"].push_back({{"contract", contract},
                                         {"images", a.logits.shape()[0]},
                                         {"accuracy", static_cast<double>(a.right) / n},
                                         {"seconds", a.seconds},
                                         {"hash", a.hash}});
  };
  add("seq", seq, "sums in order, fused: the bits on every machine");
  add("exact", exact, "every operation's output correctly rounded: the truth");
  answers.print();

  heading("3. Frameworks judged");
  ValidateOptions options;
  for (const RunnerTarget& t : parse_targets(args.against)) options.targets.push_back(t.text);
  options.threads = g.threads;
  options.isa = g.isa;
  std::filesystem::create_directories(args.out);
  options.case_folder = (std::filesystem::path(args.out) / "cases").string();
  options.labels = part.labels;
  options.input_source = part.source;
  InputMap inputs;
  inputs.emplace(model.graph->value_name(model.graph->inputs.at(0).value), part.images.share());
  {
    std::unique_ptr<Progress> progress;
    std::string shown;
    options.progress = [&](const std::string& target, const std::string& layer, std::size_t done,
                           std::size_t total) {
      if (shown != target) {
        progress =
            std::make_unique<Progress>("judging " + target, static_cast<std::int64_t>(total));
        shown = target;
      }
      progress->update(static_cast<std::int64_t>(done), layer);
    };
    record["validate"] = validate(model, inputs, options);
  }
  print_verdicts(record["validate"]);

  heading("4. How fast, against oneDNN");
  BenchOptions bench;
  bench.vs = {"onednn"};
  bench.threads = g.threads;
  bench.isa = g.isa;
  bench.timing.repetitions = 7;
  json& benched = record["bench"];
  benched["rows"] = json::array();
  bench_shapes(choose_shapes({"lenet", "resnet50.3x_3x3", "cube.512"}), bench, {}, benched);

  const auto out = std::filesystem::path(args.out);
  record["demo"]["seconds"] =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const std::string json_path = g.json_path.empty() ? (out / "record.json").string() : g.json_path;
  write_record(json_path, record);
  write_report((out / "report.html").string(), record);
  heading("The page");
  fmt::print("{}\n", std::filesystem::absolute(out / "report.html").string());
  fmt::print("record: {}\n", json_path == "-" ? "standard output" : json_path);
  const json& v = record["validate"];
  return v.value("holds", false) ? 0 : 1;
}

}  // namespace

Action demo_command(Options& o) {
  auto args = std::make_shared<Args>();
  o.value("-o,--output", args->out, "FOLDER", "Where the page and the record go")
      .value("--against", args->against, "TARGETS", "The frameworks to judge")
      .value("--samples", args->samples, "How many of the images the frameworks are judged on");
  return [args](const Globals& g) { return demo(*args, g); };
}

}  // namespace etalon::cli
