// etalon judge OP: the verdict on a dumped tensor, without a runner or a model.
// etalon judge MODEL: the verdict on the recorded outputs of a whole network, by what can be
// carried through it.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/terminal.h"
#include "bench/compare/case.h"
#include "bench/compare/judgement_json.h"
#include "bench/compare/library_accuracy.h"
#include "bench/compare/network.h"
#include "bench/compare/verdict.h"
#include "bench/data.h"
#include "bench/op_text.h"
#include "bench/report/record.h"
#include "bench/shell_word.h"
#include "engine/core/file.h"
#include "importers/containers/json.h"
#include "importers/formats/neutral.h"
#include "importers/importers.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

struct Args {
  std::string op, folder, save, contract, framework, fail_on = "wrong";
  std::vector<std::string> inputs, outputs, params;
};

// FILE or NAME=FILE; a file of one unnamed array needs a name, or stands for the next free one.
std::vector<Tensor> read_tensors(const std::vector<std::string>& words,
                                 const std::vector<std::string_view>& names, const char* what) {
  std::vector<Tensor> found(names.size());
  const auto put = [&](std::string_view name, Tensor t, const std::string& file) {
    std::size_t at = names.size();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (name.empty() ? !found[i] : names[i] == name) {
        at = i;
        break;
      }
    if (at == names.size())
      throw bad_input("{}: {} '{}' is not one of the op's: {}", file, what, name,
                      fmt::join(names, ", "));
    if (found[at]) throw usage_error("{} {} is given twice", what, names[at]);
    found[at] = std::move(t);
  };
  for (const std::string& word : words) {
    const auto [own, file] = named_file(word);
    const bool named = !own.empty();
    auto tensors = load_tensors(file);
    if (named && tensors.size() != 1)
      throw bad_input("{}: holds {} tensors; NAME=FILE wants a file of one", file, tensors.size());
    for (auto& t : tensors) {
      std::string_view name = named ? own : t.name;
      if (!named && tensors.size() == 1 && names.size() == 1) name = names[0];
      put(name, std::move(t.tensor), file);
    }
  }
  return found;
}

Params read_params(const OpRow& op, const std::vector<std::string>& words) {
  if (words.size() == 1) {
    const std::string& w = words[0];
    if (w.starts_with("{")) return params_from_json(op, parse_json(w));
    if (w.ends_with(".json")) {
      const ErrorScope scope(w);
      return params_from_json(op, parse_json(read_text_file(w)));
    }
  }
  return parse_params(op, words);
}

std::string number(double x) { return x == 0 ? "0" : fmt::format("{:.3g}", x); }

Colour colour_of(Verdict v) {
  return v <= Verdict::explained ? Colour::green
         : v == Verdict::wrong   ? Colour::red
                                 : Colour::yellow;
}

int judge_model(const Args& args, const Globals& g) {
  if (!args.params.empty() || !args.save.empty())
    throw usage_error("--params and --save-case belong to the judgement of an op");
  const Model model = open_model(args.op);
  const Graph& graph = *model.graph;
  std::map<std::string, Tensor, std::less<>> got;
  for (const std::string& word : args.outputs) {
    const auto [own, file] = named_file(word);
    const bool named = !own.empty();
    for (auto& t : load_tensors(file)) {
      std::string name = named ? own : t.name;
      if (!named && name.empty() && graph.outputs.size() == 1)
        name = graph.value_name(graph.outputs[0].value);
      const bool known = std::ranges::any_of(
          graph.outputs, [&](const Declaration& d) { return graph.value_name(d.value) == name; });
      if (!known)
        throw bad_input("{}: '{}' is no output of the network; give NAME=FILE", file, name);
      got.insert_or_assign(name, std::move(t.tensor));
    }
  }
  if (got.empty()) throw usage_error("give the recorded outputs with --output FILE");
  NetworkOptions options;
  options.registry = &all_kernels();
  options.threads = g.threads;
  options.isa = g.isa;
  if (!args.contract.empty()) options.contract = Contract::parse(args.contract);
  options.library = &named_library(args.framework);
  const auto judged = judge_network(graph, read_inputs(graph, args.inputs), got, options);
  const Verdict fail_on = parse_verdict(args.fail_on);
  bool holds = true;
  nlohmann::json list = nlohmann::json::array();
  for (const NetworkJudgement& n : judged) {
    const Judgement& j = n.judgement;
    holds = holds && j.verdict < fail_on;
    fmt::print("{}: {} (carried{}{})\n{}\n", n.name,
               coloured(name(j.verdict), colour_of(j.verdict)), n.way.empty() ? "" : ", by ", n.way,
               j.sentence);
    if (!j.cause.empty()) fmt::print("cause     {}\n", j.cause);
    fmt::print("error     max {} ULP from contract {}, {:.1f} % of the bits equal\n",
               number(j.stats.max_ulp), j.contract, 100 * j.bits_equal);
    if (n.way != "bound") fmt::print("bound     {}\n", n.bound);
    list.push_back(judgement_json(j, n.name, got.at(n.name)));
    list.back()["by"] = n.way;
  }
  if (!g.json_path.empty()) {
    nlohmann::json record = base_record(g.command_line, g.isa);
    record["judge"] = {{"model", model.path}, {"outputs", list}, {"holds", holds}};
    write_record(g.json_path, record);
  }
  return holds ? 0 : 1;
}

bool all_f64(const std::vector<Tensor>& outputs) {
  bool any = false;
  for (const Tensor& t : outputs) {
    if (!t || !is_floating(t.dtype())) continue;
    if (t.dtype() != DType::f64) return false;
    any = true;
  }
  return any;
}

int judge(const Args& args, const Globals& g) {
  // A file that has an op's name is ./NAME.
  if (!args.op.empty() && find_op(args.op) == nullptr && std::filesystem::exists(args.op))
    return judge_model(args, g);
  Case c;
  if (!args.folder.empty()) {
    if (!args.op.empty() || !args.inputs.empty() || !args.outputs.empty() || !args.params.empty())
      throw usage_error(
          "--case brings the op, its parameters and its tensors; leave out OP, --params, --inputs, "
          "--output");
    c = load_case(args.folder);
    fmt::print("{}\n", c.origin);
  } else {
    if (args.op.empty()) throw usage_error("name an OP, or a case with --case DIR");
    c.layer.op = &get_op(args.op);
    c.layer.params = read_params(*c.layer.op, args.params);
    c.layer.inputs = read_tensors(args.inputs, c.layer.op->input_names(), "input");
    while (!c.layer.inputs.empty() && !c.layer.inputs.back()) c.layer.inputs.pop_back();
    if (args.outputs.empty())
      throw usage_error("give what {} computed with --output FILE", args.op);
    c.outputs = read_tensors(args.outputs, c.layer.op->output_names(), "output");
    if (all_f64(c.outputs)) c.contract = "acc=f64,store=f64";
    c.origin = fmt::format("{} judged by hand", args.op);
  }
  if (!args.contract.empty()) c.contract = args.contract;
  if (!args.framework.empty()) c.framework = named_library(args.framework).library;

  JudgeOptions options;
  options.registry = &all_kernels();
  options.threads = g.threads;
  options.isa = g.isa;
  options.contract = Contract::parse(c.contract);
  const LibraryAccuracy& library = named_library(c.framework);
  options.library = &library;
  const std::vector<Judgement> found = judge_layer(c.layer, c.outputs, options);

  const Verdict fail_on = parse_verdict(args.fail_on);
  bool holds = true;
  const auto names = c.layer.op->output_names();
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t o = 0; o < found.size() && o < c.outputs.size(); ++o) {
    if (!c.outputs[o]) continue;
    const Judgement& j = found[o];
    const std::string value(o < names.size() ? names[o] : "");
    holds = holds && j.verdict < fail_on;
    c.verdict = name(j.verdict);
    c.cause = j.cause;
    fmt::print("{}: {}\n{}\n", value, coloured(name(j.verdict), colour_of(j.verdict)), j.sentence);
    if (!j.cause.empty()) fmt::print("cause     {}\n", j.cause);
    fmt::print("elements  {} of {}, K = {}\n", j.stats.elements, j.elements, j.terms);
    if (is_floating(c.outputs[o].dtype()) && j.stats.elements > 0) {
      const double n = std::max<double>(1, static_cast<double>(j.stats.elements));
      fmt::print("error     max {} ULP, mean {}, 99.9 % below {}; {:.1f} % correctly rounded\n",
                 number(j.stats.max_ulp), number(j.stats.mean_ulp), number(j.stats.p999_ulp),
                 100 * static_cast<double>(j.stats.correctly_rounded) / n);
      fmt::print("bound     {} ULP for any order; {:.2g} % of it used\n", number(j.bound_ulp),
                 100 * j.bound_used);
      fmt::print("bits      {:.1f} % equal to {}\n", 100 * j.bits_equal, j.contract);
    }
    list.push_back(judgement_json(j, value, c.outputs[o]));
  }
  for (const Function f : functions_of(c.layer.op->name))
    fmt::print("{:<9} {}\n", name(f), accuracy_sentence(library, c.layer.op->name, f));
  if (!args.save.empty()) {
    save_case(args.save, c);
    fmt::print("case      etalon judge --case {}\n", shell_word(args.save));
  }
  if (!g.json_path.empty()) {
    nlohmann::json record = base_record(g.command_line, g.isa);
    record["judge"] = {{"op", c.layer.op->name},
                       {"params", params_to_json(c.layer.params)},
                       {"origin", c.origin},
                       {"outputs", list},
                       {"holds", holds}};
    write_record(g.json_path, record);
  }
  return holds ? 0 : 1;
}

}  // namespace

Action judge_command(Options& options) {
  auto a = std::make_shared<Args>();
  options.word("OP", a->op, "the op: conv, gemm, softmax, ...; or a model file", false)
      .repeated("--inputs", a->inputs, "FILE",
                "its inputs: npy, npz or safetensors; NAME=FILE for one array", 16)
      .repeated("--output,--outputs", a->outputs, "FILE", "what was computed", 16)
      .repeated("--params", a->params, "NAME=VALUE",
                "its parameters: name=value ..., a JSON object, or a .json file", 32)
      .value("--case", a->folder, "DIR", "judge a saved case again")
      .value("--save-case", a->save, "DIR", "keep inputs, output and parameters as a case")
      .value("--contract", a->contract, "C",
             "whose bits are compared first (seq; of f64 outputs acc=f64,store=f64)")
      .value("--framework", a->framework, "NAME", "whose functions were used: onnxruntime, pytorch")
      .value("--fail-on", a->fail_on, "VERDICT", "this verdict or a worse one gives exit code 1");
  return [a](const Globals& g) { return judge(*a, g); };
}

}  // namespace etalon::cli
