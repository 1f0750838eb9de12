// Claim: the vector rows of layer_norm and rms_norm have the definition's bits, for rows of one
// element to past a vector, one group of sixteen rows for a thread and several, statistics, one
// operand or both, NaN and infinities. The data shows the order: seq and lanes are asserted to
// differ.
#include <doctest/doctest.h>

#include <cstring>

#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/ops/normalization.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/special_data.h"

using namespace etalon;

namespace {

Tensor noise(const Shape& shape, std::uint64_t seed, bool special) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    x = random.uniform(i) * 3 - 1;
    if (special) x = test::special(x, test::share(random, i + 1000000));
    ++i;
  }
  return t;
}

}  // namespace

TEST_CASE("row norms: the vector rows have the definition's bits") {
  int rows = 0, orders = 0;
  for (const char* name : {"layer_norm", "rms_norm"})
    for (const int kind : {0, 1, 2, 3})
      for (const std::int64_t n : {1, 7, 16, 33, 100}) {
        const bool special = kind % 2 != 0;
        const std::int64_t blocks = kind < 2 ? 3 : 9;
        const bool layer = std::string_view(name) == "layer_norm";
        const Tensor x = noise(Shape{blocks, 7, n}, 1, special),
                     scale = noise(Shape{n}, 2, special), bias = noise(Shape{n}, 3, special);
        LayerNormParams with_statistics;
        with_statistics.statistics = true;
        const Params params[] = {layer ? Params(LayerNormParams{}) : Params(RmsNormParams{}),
                                 layer ? Params(with_statistics) : Params(RmsNormParams{})};
        for (const Params& p : params)
          for (const bool biased : {false, true}) {
            if (biased && !layer) continue;
            std::vector<const Tensor*> in{&x, &scale};
            if (biased) in.push_back(&bias);
            std::string hashes[2];
            for (const char* contract : {"seq", "order=lanes:21", "order=lanes:64"}) {
              const auto run = [&](std::string kernel, int threads) {
                RunOptions options{.contract = Contract::parse(contract), .threads = threads};
                options.kernels = std::move(kernel);
                return run_op(get_op(name), p, in, all_kernels(), options).outputs;
              };
              const auto want = run(std::string(name) + ".definition", 1);
              if (std::string_view(contract) != "order=lanes:64")
                hashes[std::string_view(contract) == "seq" ? 0 : 1] =
                    to_string(hash_tensor(want[0]));
              for (const KernelRow* row : all_kernels().rows_of(name)) {
                if (!row->name.starts_with(std::string(name) + ".f32") || !test::on_this_cpu(*row))
                  continue;
                for (const int threads : {1, 3}) {
                  const auto got = run(std::string(row->name), threads);
                  REQUIRE(got.size() == want.size());
                  for (std::size_t o = 0; o < got.size(); ++o)
                    CHECK_MESSAGE(std::memcmp(got[o].bytes().data(), want[o].bytes().data(),
                                              want[o].size_bytes()) == 0,
                                  row->name, " n=", n, " ", contract, " output ", o);
                  ++rows;
                }
              }
            }
            orders += hashes[0] != hashes[1] ? 1 : 0;
          }
      }
  CHECK(orders > 20);
  if (detect_isa() >= Isa::avx2) CHECK(rows > 600);
}

// Scales and biases of channels, or of groups: each for a run of a row.
TEST_CASE("row norms: groups and instances have the definition's bits") {
  int compared = 0, parted = 0;
  const struct {
    const char* op;
    Shape x;
    std::int64_t groups;
    bool per_group;
  } cases[] = {
      {"instance_norm", {2, 5, 7, 9}, 0, false}, {"instance_norm", {3, 17, 4}, 0, false},
      {"instance_norm", {1, 40, 300}, 0, false}, {"group_norm", {2, 6, 7, 9}, 3, false},
      {"group_norm", {2, 6, 7, 9}, 3, true},     {"group_norm", {1, 32, 40, 41}, 1, false},
      {"group_norm", {3, 34, 5}, 17, false},     {"group_norm", {2, 8, 3, 4, 5}, 8, false}};
  for (const auto& c : cases)
    for (const bool special : {false, true}) {
      const bool grouped = c.groups > 0;
      const std::int64_t numbers = c.per_group ? c.groups : c.x[1];
      const Tensor x = noise(c.x, 1, special), scale = noise({numbers}, 2, special),
                   bias = noise({numbers}, 3, special);
      const Params params =
          grouped ? Params(GroupNormParams{.groups = c.groups, .scale_per_group = c.per_group})
                  : Params(InstanceNormParams{});
      const Tensor* in[] = {&x, &scale, &bias};
      Tensor last;  // of the contract before
      for (const char* contract : {"seq", "order=lanes:21"}) {
        const auto run = [&](std::string_view kernel, int threads) {
          return std::move(run_op(get_op(c.op), params, in, all_kernels(),
                                  {.contract = Contract::parse(contract),
                                   .threads = threads,
                                   .kernels = std::string(kernel)})
                               .outputs[0]);
        };
        const Tensor want = run(std::string(c.op) + ".definition", 1);
        if (last)
          parted += std::memcmp(last.bytes().data(), want.bytes().data(), want.size_bytes()) != 0;
        last = want.share();
        for (const KernelRow* row : all_kernels().rows_of(c.op)) {
          if (row->name.find(".f32.") == std::string_view::npos || !test::on_this_cpu(*row))
            continue;
          for (const int threads : {1, 3}) {
            const Tensor got = run(row->name, threads);
            CHECK_MESSAGE(
                std::memcmp(got.bytes().data(), want.bytes().data(), want.size_bytes()) == 0,
                std::string(row->name), " ", to_string(c.x), " ", std::string(contract));
            ++compared;
          }
        }
      }
    }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 8 * 2 * 2 * 2);
  CHECK(parted >= 8);  // of 16: the data tells orders
}
