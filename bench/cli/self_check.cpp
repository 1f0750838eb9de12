#include "bench/cli/self_check.h"

#include <fmt/format.h>

#include "bench/shapes.h"
#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

struct Check {
  std::string_view op, shape, contract;
};

constexpr std::string_view kThree =
    "check.three f32[1,5,19,23] f32[17,5,3,3] f32[17] pads_begin=1x1 pads_end=1x1";

// F(6x6) is the form that was broken.
constexpr Check kChecks[] = {
    {"gemm", "check.gemm f32[29,67] f32[67,45]", "seq"},
    {"conv", kThree, "seq"},
    {"conv", kThree, "algo=im2col"},
    {"conv", kThree, "algo=winograd:2/3"},
    {"conv", kThree, "algo=winograd:4/3"},
    {"conv", kThree, "algo=winograd:6/3"},
    {"conv", kThree, "algo=winograd:6/3,transform=f64,channels=pairwise:2"},
    {"conv", kThree, "algo=fft:16"},
    {"conv", "check.five f32[1,3,14,14] f32[4,3,5,5]", "algo=winograd:4/5"},
};

}  // namespace

SelfCheck check_kernels(Isa isa) {
  SelfCheck result;
  for (const Check& check : kChecks) {
    const NamedShape shape = parse_shape(get_op(check.op), check.shape);
    const std::vector<Tensor> inputs = shape_inputs(shape);
    std::vector<const Tensor*> pointers;
    for (const Tensor& t : inputs) pointers.push_back(&t);
    RunOptions options{.contract = Contract::parse(check.contract), .isa = isa};
    const auto hash = [&](std::string_view kernel) {
      options.kernels = kernel;
      return hash_tensor(
          run_op(*shape.op, shape.params, pointers, all_kernels(), options).outputs[0]);
    };
    // The rows that define the bits are asked last.
    const auto rows = all_kernels().rows_of(check.op);
    std::optional<Hash128> wanted;
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      if ((*row)->promise != Promise::defined || (*row)->device != Device::cpu) continue;
      Hash128 got{};
      try {
        got = hash((*row)->name);
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::usage) throw;
        continue;  // it refuses the contract or the processor
      }
      if (!wanted) {
        wanted = got;
        continue;
      }
      ++result.compared;
      if (got != *wanted)
        result.wrong.push_back(fmt::format("{} under {}", (*row)->name, check.contract));
    }
  }
  return result;
}

}  // namespace etalon::cli
