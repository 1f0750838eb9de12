// etalon kernels: the registry, readable. Asks each row the question that selection asks.
#include "kernels/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/kernel_lines.h"
#include "bench/cli/terminal.h"
#include "bench/op_text.h"
#include "bench/report/record.h"
#include "bench/shapes.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/conv/algorithm_cost.h"
#include "kernels/conv/winograd_matrices.h"

namespace etalon::cli {
namespace {

struct Args {
  std::string op, contract = "seq", shape;
  std::vector<std::string> inputs, params;
  bool matrices = false;
};

std::string_view device_name(Device d) { return d == Device::cuda ? "cuda" : "cpu"; }

void list_ops(const Globals& g, nlohmann::json& record) {
  Table table({{"op"}, {"kernels", Table::Align::right}, {"asked first here"}, {"computes"}});
  std::map<std::string_view, std::vector<const KernelRow*>> by_op;
  for (const KernelRow* row : all_kernels().all()) by_op[row->op].push_back(row);
  std::string slow;  // ops that a newer instruction set would run faster
  for (const OpRow* op : all_ops()) {
    std::string_view best = "none";
    bool faster = false;
    // Where an op has a definition its rows of bits are for integers, which no contract touches.
    const bool computes = std::ranges::any_of(
        by_op[op->name], [](const KernelRow* row) { return row->name.ends_with(".definition"); });
    for (const KernelRow* row : by_op[op->name]) {
      if (row->promise != Promise::defined || row->device != g.device) continue;
      if (computes && row->name.ends_with(".bits")) continue;
      if (row->isa <= g.isa) {
        best = row->name;
        break;
      }
      faster = true;
    }
    if (faster && best.ends_with(".definition"))
      slow.append(slow.empty() ? "" : ", ").append(op->name);
    table.row({std::string(op->name), fmt::to_string(by_op[op->name].size()), std::string(best),
               std::string(op->summary)});
    record["kernels"].push_back({{"op", op->name}, {"rows", by_op[op->name].size()}});
  }
  table.print();
  if (!slow.empty())
    fmt::print(
        "\nUnder {} these ops have no row of their own and run their definitions, one output after "
        "another, each fused multiply-add that the machine lacks computed exactly: {}.\n",
        name(g.isa), slow);
  fmt::print("\n'etalon kernels OP' lists the rows of one op in the order they are asked.\n");
}

// A name of bench/shapes ("vgg_a.conv2"), or a line as it stands there without its name.
NamedShape named_or_parsed(const OpRow& op, const std::string& text) {
  if (text.find('[') != std::string::npos) return parse_shape(op, "given.shape " + text);
  for (NamedShape& shape : load_shapes(op.name))
    if (shape.full_name() == text) return std::move(shape);
  throw usage_error("--shape: bench/shapes/{}.txt has no line '{}', and it is no list of types",
                    op.name, text);
}

// What the contract's algorithm costs for this problem, beside direct.
void print_cost(const Problem& problem, nlohmann::json& record) {
  const AlgorithmCost cost = algorithm_cost(problem);
  Contract direct = *problem.contract;
  direct.algo = "direct";
  Problem plain = problem;
  plain.contract = &direct;
  const AlgorithmCost base = algorithm_cost(plain);
  if (base.products == 0) return;  // nothing to do: no ratios
  constexpr double kMiB = 1 << 20;
  fmt::print(
      "\nwork    {:.4g} multiply-adds in sums over channels ({:.3g} of direct's {:.4g}), {:.3g} of "
      "it in transforms of x and y, and {:.3g} once for w\n"
      "memory  {:.1f} MiB of transformed x and y, {:.1f} MiB of w (direct: {:.1f})\n"
      "error   at most {:.3g} for |x| and |w| up to 1 (direct: {:.3g}): a term meets at most "
      "{:.0f} "
      "roundings, sizes grow by {:.3g}\n",
      cost.products, cost.products / base.products, base.products, cost.transforms / cost.products,
      cost.weights, cost.spectrum_bytes / kMiB, cost.weight_bytes / kMiB, base.weight_bytes / kMiB,
      cost.bound, base.bound, cost.roundings, cost.amplification);
  record["cost"] = {{"products", cost.products},
                    {"transforms", cost.transforms},
                    {"weights", cost.weights},
                    {"spectrum_bytes", cost.spectrum_bytes},
                    {"weight_bytes", cost.weight_bytes},
                    {"roundings", cost.roundings},
                    {"amplification", cost.amplification},
                    {"bound", cost.bound},
                    {"direct_products", base.products},
                    {"direct_bound", base.bound}};
}

// The exact transforms of a Winograd algorithm.
void print_matrices(const Algorithm& algorithm, nlohmann::json& record) {
  const WinogradMatrices m = winograd_matrices(algorithm);
  for (const auto& [name, matrix] :
       {std::pair{"A^T", &m.a_t}, std::pair{"G", &m.g}, std::pair{"B^T", &m.b_t}}) {
    std::vector<Table::Column> columns{{name}};
    for (std::int64_t j = 0; j < matrix->cols; ++j) columns.push_back({"", Table::Align::right});
    Table table(columns);
    nlohmann::json rows = nlohmann::json::array();
    for (std::int64_t i = 0; i < matrix->rows; ++i) {
      std::vector<std::string> row;
      for (std::int64_t j = 0; j < matrix->cols; ++j) row.push_back(to_string((*matrix)(i, j)));
      rows.push_back(row);
      row.insert(row.begin(), "");
      table.row(std::move(row));
    }
    record["matrices"][name] = std::move(rows);
    fmt::print("\n");
    table.print();
  }
}

// With input types the rows are asked about that very problem; without, only what holds for all.
void list_rows(const Args& args, const Globals& g, nlohmann::json& record) {
  const OpRow& op = get_op(args.op);
  const Contract contract = Contract::parse(args.contract);
  Params params = parse_params(op, args.params);
  std::vector<InferInput> inputs;
  for (const std::string& text : args.inputs)
    inputs.push_back({parse_tensor_type(text), nullptr, true});
  if (!args.shape.empty()) {
    if (!args.inputs.empty() || !args.params.empty())
      throw usage_error("--shape says types and parameters; --inputs and --params say them apart");
    const NamedShape shape = named_or_parsed(op, args.shape);
    params = shape.params;
    for (const TensorType& type : shape.inputs) inputs.push_back({type, nullptr, true});
  }
  std::vector<TensorType> outputs;
  if (!inputs.empty()) outputs = infer_alone(op, params, InferInputs(inputs));

  fmt::print("{}: {}\n", op.name, op.summary);
  fmt::print("contract {}\n", to_string(contract));
  if (!inputs.empty()) {
    std::string from;
    for (const InferInput& in : inputs) from += (from.empty() ? "" : ", ") + to_string(in.type);
    fmt::print("{} {} -> {}\n", from, to_string(params),
               outputs.empty() ? "" : to_string(outputs[0]));
  }
  fmt::print("\n");

  Problem problem;
  problem.op = &op;
  problem.params = &params;
  problem.inputs = inputs;
  problem.outputs = outputs;
  problem.contract = &contract;
  problem.device = g.device;
  problem.isa = g.isa;
  const bool asked = !inputs.empty();
  const Selection chosen = asked ? all_kernels().select(problem) : Selection{};

  Table table({{""}, {"kernel"}, {"needs"}, {"promises"}, {"here"}});
  std::vector<KernelLine> lines;
  for (const KernelRow* row : all_kernels().rows_of(op.name)) {
    std::string here;
    bool runs = false;
    if (asked) {
      const Selection one = all_kernels().select(problem, row->name);
      runs = one.row != nullptr;
      here = runs ? (row == chosen.row ? "runs" : "would run") : "refuses";
      for (const KernelRefusal& r : one.refused)
        if (r.row == row) here = "refuses: " + r.reason;
    } else if (row->device != g.device) {
      here = fmt::format("runs on {}", device_name(row->device));
    } else {
      here = row->isa <= g.isa
                 ? ""
                 : fmt::format("refuses: this machine or --isa allows {}", name(g.isa));
    }
    const std::string version = row->version != nullptr ? row->version() : "";
    add_line(lines,
             {.mark = row == chosen.row ? "→" : "",
              .first = std::string(row->name),
              .needs = row->device == Device::cuda
                           ? fmt::format("cuda; seen on: {}", cuda::seen_on(row->name))
                           : std::string(name(row->isa)),
              .promises = row->promise == Promise::vendor ? fmt::format("nothing ({})", version)
                                                          : std::string(row->contracts),
              .here = here});
    record["kernels"].push_back(
        {{"kernel", row->name},
         {"promise", row->promise == Promise::vendor ? "vendor" : "defined"},
         {"device", device_name(row->device)},
         {"isa", name(row->isa)},
         {"contracts", row->contracts},
         {"version", version},
         {"runs", runs},
         {"here", here}});
    if (row->device == Device::cuda) record["kernels"].back()["seen_on"] = cuda::seen_on(row->name);
  }
  for (const KernelLine& l : lines)
    table.row(
        {l.mark, l.last.empty() ? l.first : l.first + " … " + l.last, l.needs, l.promises, l.here});
  table.print();
  if (!asked)
    fmt::print(
        "\nRows are asked from the top; vendor rows only by name. To ask them about one problem:\n"
        "  etalon kernels {} --shape NAME|'TYPES PARAMS' [--contract C]\n",
        op.name);
  if (chosen.row != nullptr && op.name == "conv" && !contract.exact()) print_cost(problem, record);
  if (args.matrices) {
    const Algorithm algorithm = Algorithm::parse(contract.algo);
    if (algorithm.kind != Algorithm::Kind::winograd)
      throw usage_error("--matrices are those of algo=winograd:M/R, the contract has algo={}",
                        contract.algo);
    print_matrices(algorithm, record);
  }
  if (asked && chosen.row == nullptr)
    throw usage_error("no {} kernel promises {} for these inputs", op.name, short_name(contract));
}

}  // namespace

Action kernels_command(Options& o) {
  auto args = std::make_shared<Args>();
  o.word("OP", args->op, "An op; without it, all ops are listed", false)
      .value("-c,--contract", args->contract, "C", "The contract to ask for")
      .repeated("--inputs", args->inputs, "TYPE", "Type of each input, in order: 'f32[1,3,8,8]'",
                16)
      .value("--shape", args->shape, "SHAPE",
             "Instead of --inputs and --params: a name of the shape files (vgg_a.conv2), or "
             "'f32[1,8,9,9] f32[4,8,3,3] strides=2x2'")
      .flag("--matrices", args->matrices, "With algo=winograd: its three matrices, exact")
      .repeated("--params", args->params, "NAME=VALUE", "Parameters of the op: strides=[2,2]", 32);
  return [args](const Globals& g) {
    nlohmann::json record = base_record(g.command_line, g.isa);
    if (args->op.empty())
      list_ops(g, record);
    else
      list_rows(*args, g, record);
    if (!g.json_path.empty()) write_record(g.json_path, record);
    return 0;
  };
}

}  // namespace etalon::cli
