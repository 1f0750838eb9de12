// Claim: the any-order bound (engine/numerics/any_order.h) holds for every summing op, in whatever
// tree the terms are added, fused or not, in whatever format; and it is no larger than it has to be
// by a factor that is printed: bound over the worst error of many orders, for each output.
//
// The quick case draws some thousand orders in seconds. The long one draws 10^7, takes up where it
// was stopped (ETALON_LONG_STATE names a folder for its count), does them in pieces if told to
// (ETALON_LONG_PIECE, orders a run), and prints a line for each op.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <tuple>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/any_order.h"
#include "engine/numerics/element.h"
#include "engine/numerics/sum_tree.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

// Each with the number of terms of its sums, which the trees must have.
struct Summing {
  const char* op;
  const char* params;
  const char* inputs;
  std::int64_t terms;
};
constexpr Summing kSumming[] = {
    {"gemm", "", "f32[3,25] f32[25,3] f32[3]", 25},
    {"matmul", "", "f32[2,40] f32[40,3]", 40},
    {"conv", "", "f32[1,3,4,4] f32[2,3,3,3]", 27},
    {"reduce_sum", "axes=[1]", "f32[5,30]:wild", 30},
    {"reduce_mean", "axes=[1]", "f32[5,30]", 30},
    {"reduce_l1", "axes=[1]", "f32[5,30]", 30},
    {"reduce_l2", "axes=[1]", "f32[5,30]", 30},
    {"reduce_sum_square", "axes=[1]", "f32[5,30]:wild", 30},
    {"reduce_log_sum", "axes=[1]", "f32[5,30]:positive", 30},
    {"reduce_log_sum_exp", "axes=[1]", "f32[5,30]", 30},
    {"avg_pool", "kernel=[4,4]", "f32[1,2,5,5]", 16},
    {"global_avg_pool", "", "f32[1,4,5,5]", 25},
    {"lp_pool", "kernel=[4,4]", "f32[1,2,5,5]", 16},
    {"softmax", "", "f32[3,20]", 20},
    {"log_softmax", "", "f32[3,20]", 20},
    {"layer_norm", "", "f32[3,20] f32[20] f32[20]", 20},
    {"instance_norm", "", "f32[1,2,5,4]", 20},
    {"group_norm", "groups=2", "f32[1,4,2,5]", 20},
    {"rms_norm", "", "f32[3,20] f32[20]", 20},
    {"lp_norm", "", "f32[3,20]", 20},
    {"mse_loss", "", "f32[40] f32[40]", 40},
    {"l1_loss", "", "f32[40] f32[40]", 40},
};

// Joins random parts until one is left, as a postfix program. A part joins a single term half of
// the time: chains, where a product can be fused with its addition.
SumTree random_tree(std::int64_t terms, const Philox& random, std::uint64_t& draw) {
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(random.word(draw++) % n);
  };
  std::vector<std::vector<std::int64_t>> parts;
  for (std::int64_t k = 0; k < terms; ++k) parts.push_back({k});
  const bool chains = below(2) == 0;
  while (parts.size() > 1) {
    const std::size_t i = below(parts.size());
    std::swap(parts[i], parts.back());
    std::vector<std::int64_t> b = std::move(parts.back());
    parts.pop_back();
    std::vector<std::int64_t>& a = parts[chains ? 0 : below(parts.size())];
    a.insert(a.end(), b.begin(), b.end());
    a.push_back(SumTree::kJoin);
  }
  return {.steps = std::move(parts[0]), .terms = terms};
}

// Order number `i` of an op: a contract.
Contract random_contract(const Summing& op, std::uint64_t i) {
  const Philox random{i, 21};
  std::uint64_t draw = 0;
  constexpr DType kAcc[] = {DType::f32, DType::f32, DType::bf16, DType::f16};
  Contract c = Contract::seq();
  c.fma = random.word(draw++) % 2 == 0;
  c.acc = kAcc[random.word(draw++) % 4];
  constexpr Round kRounds[] = {Round::toward_zero, Round::upward, Round::downward};
  if (random.word(draw++) % 8 == 0) c.round = kRounds[random.word(draw++) % 3];
  if (random.word(draw++) % 8 == 0) c.subnormals = Subnormals::flush;
  switch (random.word(draw++) % 8) {
    case 0:
      break;  // in sequence
    case 1:
      c.order.kind = OrderKind::lanes;
      c.order.sizes = {static_cast<std::int64_t>(2 + random.word(draw++) % 15)};
      break;
    case 2:
      c.order.kind = OrderKind::pairwise;
      c.order.sizes = {static_cast<std::int64_t>(1 + random.word(draw++) % 8)};
      break;
    default:
      c.order.kind = OrderKind::tree;
      c.order.tree = std::make_shared<SumTree>(random_tree(op.terms, random, draw));
  }
  return c;
}

struct Tally {
  std::int64_t orders = 0, outputs = 0, broken = 0, silent = 0;
  double closest = 0;          // error / bound
  std::vector<double> ratios;  // bound / worst error over the orders, one for each output, f32
  double median() {
    if (ratios.empty()) return 0;
    std::ranges::sort(ratios);
    return ratios[ratios.size() / 2];
  }
};

// `orders` contracts from number `first` on, over one draw of inputs.
void judge(const Summing& op, std::uint64_t inputs_seed, std::uint64_t first, std::int64_t orders,
           Tally& tally) {
  const OpCase c = parse_op_case(
      fmt::format("bound{} | {} | {} | {}", inputs_seed, op.op, op.params, op.inputs));
  const std::vector<Tensor> in = case_inputs(c);
  const auto inputs = pointers(in);
  std::vector<InferInput> given;
  for (const Tensor& t : in) given.push_back({t.type(), &t, true});
  const std::vector<TensorType> types = infer(*c.op, c.params, InferInputs(given));
  const KernelRow* row = nullptr;
  for (const KernelRow* r : all_kernels().rows_of(c.op->name))
    if (r->name == fmt::format("{}.definition", c.op->name)) row = r;
  REQUIRE(row != nullptr);
  // By the format and the rounding, which the order does not change.
  std::map<std::tuple<DType, Round, Subnormals>, std::vector<OutputBound>> bounds;
  const auto bounds_for = [&](const Contract& of) -> const std::vector<OutputBound>& {
    auto& found = bounds[{of.acc, of.round, of.subnormals}];
    if (!found.empty()) return found;
    Contract contract = of;
    contract.order = Order{};
    const Problem problem{
        .op = c.op, .params = &c.params, .inputs = given, .outputs = types, .contract = &contract};
    const KernelCall call{.problem = &problem, .inputs = inputs};
    std::vector<std::int64_t> slices(static_cast<std::size_t>(row->slices(call)));
    std::iota(slices.begin(), slices.end(), 0);
    row->bound(call, AnyOrderModel::of(contract), slices, found);
    return found;
  };
  std::vector<double> worst(static_cast<std::size_t>(types[0].shape.numel()), 0.0);
  RunOptions options{.threads = 1, .kernels = std::string(row->name)};
  for (std::int64_t i = 0; i < orders; ++i) {
    options.contract = random_contract(op, first + static_cast<std::uint64_t>(i));
    const OpRun run = run_op(*c.op, c.params, inputs, all_kernels(), options);
    ++tally.orders;
    // What is said of ratios is said of the usual rounding.
    const bool usual = options.contract.acc == DType::f32 &&
                       options.contract.round == Round::nearest_even &&
                       options.contract.subnormals == Subnormals::keep;
    for (const OutputBound& b : bounds_for(options.contract)) {
      if (b.output != 0) continue;
      if (b.bound == kInfinity) {
        ++tally.silent;
        continue;
      }
      ++tally.outputs;
      const double error = abs_of(load_as_double(run.outputs[0], b.index) - b.real);
      if (!(error <= b.bound)) ++tally.broken;
      if (b.bound > 0) tally.closest = std::max(tally.closest, error / b.bound);
      if (usual) {
        double& w = worst[static_cast<std::size_t>(b.index)];
        w = std::max(w, error);
      }
    }
  }
  for (const OutputBound& b : bounds_for(Contract::seq()))
    if (b.output == 0 && b.bound < kInfinity && worst[static_cast<std::size_t>(b.index)] > 0)
      tally.ratios.push_back(b.bound / worst[static_cast<std::size_t>(b.index)]);
}

std::string line_of(const Summing& op, Tally& t) {
  return fmt::format(
      "{:20} {:>9} orders {:>11} outputs {:>3} broken  closest {:.3f}  bound/worst {:.1f}", op.op,
      t.orders, t.outputs, t.broken, t.closest, t.median());
}

}  // namespace

TEST_CASE("any-order bound: every summing op, random trees, fusing and formats (quick)") {
  for (const Summing& op : kSumming) {
    Tally tally;
    for (std::uint64_t seed = 0; seed < 3; ++seed) judge(op, seed, seed * 1000, 40, tally);
    CHECK_MESSAGE(tally.broken == 0, line_of(op, tally));
    CHECK_MESSAGE(tally.outputs >= 60, line_of(op, tally));
    // A bound a hundred times too large would hold too: some order comes nearer.
    CHECK_MESSAGE(tally.closest > 0.01, line_of(op, tally));
  }
}

TEST_SUITE("long") {
  TEST_CASE("any-order bound: 10^7 random orders") {
    constexpr std::int64_t kOrders = 10'000'000, kBatch = 1000;
    const char* folder = std::getenv("ETALON_LONG_STATE");
    const std::string state =
        folder == nullptr ? "" : (std::filesystem::path(folder) / "bound_orders.txt").string();
    std::int64_t done = 0;
    if (!state.empty()) std::ifstream(state) >> done;
    const char* piece = std::getenv("ETALON_LONG_PIECE");
    const std::int64_t end =
        piece == nullptr ? kOrders : std::min(kOrders, done + std::int64_t{std::atoll(piece)});
    std::map<std::string, Tally> tallies;
    constexpr auto kOps = static_cast<std::int64_t>(std::size(kSumming));
    for (std::int64_t batch = done / kBatch; batch * kBatch < end; ++batch) {
      const Summing& op = kSumming[batch % kOps];
      Tally& tally = tallies[op.op];
      judge(op, static_cast<std::uint64_t>(batch), static_cast<std::uint64_t>(batch * kBatch),
            kBatch, tally);
      REQUIRE_MESSAGE(tally.broken == 0, line_of(op, tally));
      if (!state.empty()) std::ofstream(state) << (batch + 1) * kBatch << "\n";
    }
    for (const Summing& op : kSumming)
      if (tallies.contains(op.op)) std::cout << line_of(op, tallies[op.op]) << "\n";
  }
}
