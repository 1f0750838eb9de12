// Claim: the fast rows of lstm, gru and rnn have the definition's bits: directions, layouts, gate
// orders, lengths (0 among them), optional inputs, extents past a vector, NaN, infinities, -0 and
// subnormals, at any thread count.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/ops/recurrent.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"

using namespace etalon;

namespace {

// Special values stand in few places: a NaN in the state stays there for good.
Tensor make(const Shape& shape, std::uint64_t seed, bool special) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    x = random.uniform(i) * 0.5F;
    const std::uint32_t pick = random.word(i + (1U << 20)) % 4096;
    ++i;
    if (!special) continue;
    if (pick == 0) x = -std::numeric_limits<float>::quiet_NaN();
    if (pick == 1) x = std::numeric_limits<float>::infinity();
    if (pick == 2) x = -std::numeric_limits<float>::infinity();
    if (pick > 3000) x = -0.0F;
    if (pick > 3500) x = x * 0x1p-140F;
  }
  return t;
}

}  // namespace

TEST_CASE("lstm: fast rows have the definition's bits") {
  int compared = 0, nans = 0, numbers = 0;
  for (const bool special : {false, true})
    for (const Direction direction :
         {Direction::forward, Direction::reverse, Direction::bidirectional})
      for (const bool batch_first : {false, true}) {
        const std::int64_t t = 6, b = 17, in = 19, h = 37;
        const std::int64_t d = direction == Direction::bidirectional ? 2 : 1;
        LstmParams p;
        p.direction = direction;
        p.batch_first = batch_first;
        if (special) p.gates = "ifco";
        const auto state = [&](std::uint64_t seed) {
          return make(batch_first ? Shape{b, d, h} : Shape{d, b, h}, seed, special);
        };
        const Tensor x = make(batch_first ? Shape{b, t, in} : Shape{t, b, in}, 1, special);
        const Tensor w = make({d, 4 * h, in}, 2, special), r = make({d, 4 * h, h}, 3, false),
                     bias = make({d, 8 * h}, 4, false), h0 = state(5), c0 = state(6);
        Tensor lengths = Tensor::uninitialized(DType::i32, {b});
        std::int32_t n = 0;
        for (std::int32_t& length : lengths.mutable_data<std::int32_t>()) length = n++ % 7;
        const std::vector<std::vector<const Tensor*>> calls{
            {&x, &w, &r},
            {&x, &w, &r, &bias, nullptr, &h0},
            {&x, &w, &r, nullptr, &lengths, nullptr, &c0},
            {&x, &w, &r, &bias, &lengths, &h0, &c0}};
        for (const auto& inputs : calls) {
          const OpRow& op = get_op("lstm");
          const OpRun want =
              run_op(op, Params(p), inputs, all_kernels(), {.kernels = "lstm.definition"});
          for (const float v : want.outputs[0].data<float>()) ++(std::isnan(v) ? nans : numbers);
          for (const KernelRow* row : all_kernels().rows_of("lstm")) {
            if (row->name == "lstm.definition" || !test::on_this_cpu(*row)) continue;
            for (const int threads : {1, 2, 3, 7}) {
              const OpRun got = run_op(op, Params(p), inputs, all_kernels(),
                                       {.threads = threads, .kernels = std::string(row->name)});
              for (std::size_t o = 0; o < 3; ++o)
                CHECK_MESSAGE(
                    std::memcmp(got.outputs[o].bytes().data(), want.outputs[o].bytes().data(),
                                want.outputs[o].size_bytes()) == 0,
                    std::string(row->name), " output ", o, " threads=", threads,
                    " direction=", static_cast<int>(direction));
              ++compared;
            }
          }
        }
      }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 2 * 3 * 2 * 4 * 4);
  CHECK(nans > 100);
  CHECK(numbers > 10000);
}

// The terms of x are summed for many steps at once, or of eight steps beside those of h; of one row
// the units are shared out between threads: extents at which these are cut, and at which not.
TEST_CASE("lstm: steps in blocks and one row on several threads have the definition's bits") {
  struct Extents {
    std::int64_t t, b, in, h;
  };
  int compared = 0;
  for (const auto& [t, b, in, h] :
       {Extents{45, 3, 5, 33}, Extents{3, 1, 7, 230}, Extents{45, 1, 64, 64},
        Extents{16, 1, 32, 32}, Extents{5, 1, 32, 32}, Extents{20, 1, 96, 96},
        Extents{9, 1, 7, 128}}) {
    const Tensor x = make({t, b, in}, 1, true), w = make({1, 4 * h, in}, 2, false),
                 r = make({1, 4 * h, h}, 3, false), bias = make({1, 8 * h}, 4, false);
    Tensor lengths = Tensor::uninitialized(DType::i32, {b});
    std::int64_t i = 0;
    for (std::int32_t& length : lengths.mutable_data<std::int32_t>())
      length = static_cast<std::int32_t>(t - i++ * 7 % t);
    const std::vector<const Tensor*> inputs{&x, &w, &r, &bias, &lengths};
    for (const Direction direction : {Direction::forward, Direction::reverse}) {
      LstmParams p;
      p.direction = direction;
      const auto run = [&](std::string kernel, int threads) {
        RunOptions options{.threads = threads};
        options.kernels = std::move(kernel);
        return run_op(get_op("lstm"), Params(p), inputs, all_kernels(), options).outputs;
      };
      const auto want = run("lstm.definition", 1);
      for (const KernelRow* row : all_kernels().rows_of("lstm")) {
        if (row->name == "lstm.definition" || !test::on_this_cpu(*row)) continue;
        for (const int threads : {1, 2, 3}) {
          const auto got = run(std::string(row->name), threads);
          for (std::size_t o = 0; o < 3; ++o)
            CHECK_MESSAGE(std::memcmp(got[o].bytes().data(), want[o].bytes().data(),
                                      want[o].size_bytes()) == 0,
                          std::string(row->name), " output ", o, " threads=", threads, " h=", h);
          ++compared;
        }
      }
    }
  }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 42);
}

namespace {

// Every fast row of `op` against its definition; how many answers were compared.
int compare(const char* op, const Params& params, const std::vector<const Tensor*>& inputs,
            std::initializer_list<int> threads, const std::string& where, int& nans) {
  const std::string definition = std::string(op) + ".definition";
  RunOptions options;
  options.kernels = definition;
  const OpRun want = run_op(get_op(op), params, inputs, all_kernels(), options);
  for (const float v : want.outputs[0].data<float>()) nans += std::isnan(v) ? 1 : 0;
  int compared = 0;
  for (const KernelRow* row : all_kernels().rows_of(op)) {
    if (row->name == definition || !test::on_this_cpu(*row)) continue;
    // order_panel_test.cpp and order_cells_test.cpp hold those.
    if (row->name.find(".order.") != row->name.npos) continue;
    for (const int n : threads) {
      options.threads = n;
      options.kernels = std::string(row->name);
      const OpRun got = run_op(get_op(op), params, inputs, all_kernels(), options);
      for (std::size_t o = 0; o < 2; ++o)
        CHECK_MESSAGE(std::memcmp(got.outputs[o].bytes().data(), want.outputs[o].bytes().data(),
                                  want.outputs[o].size_bytes()) == 0,
                      options.kernels, " output ", o, " threads=", n, " ", where);
      ++compared;
    }
  }
  return compared;
}

// All kinds of calls at one shape; `set` makes the op's own parameters out of a case's number.
template <class P, class Set>
void hold(const char* op, std::int64_t gates, Set&& set) {
  struct Extents {
    std::int64_t t, b, in, h;
  };
  int compared = 0, nans = 0, number = 0;
  for (const auto& [t, b, in, h] :
       {Extents{6, 17, 19, 37}, Extents{45, 3, 5, 33}, Extents{3, 1, 7, 230},
        Extents{19, 2, 128, 128}, Extents{16, 1, 128, 128}})
    for (const bool special : {false, true})
      for (const Direction direction :
           {Direction::forward, Direction::reverse, Direction::bidirectional}) {
        const std::int64_t d = direction == Direction::bidirectional ? 2 : 1;
        P p;
        p.direction = direction;
        p.batch_first = number % 2 == 1;
        set(p, number++);
        const Tensor x = make(p.batch_first ? Shape{b, t, in} : Shape{t, b, in}, 1, special),
                     w = make({d, gates * h, in}, 2, special),
                     r = make({d, gates * h, h}, 3, false),
                     bias = make({d, 2 * gates * h}, 4, false),
                     h0 = make(p.batch_first ? Shape{b, d, h} : Shape{d, b, h}, 5, special);
        Tensor lengths = Tensor::uninitialized(DType::i32, {b});
        std::int64_t i = 0;
        for (std::int32_t& length : lengths.mutable_data<std::int32_t>())
          length = static_cast<std::int32_t>(i++ * 7 % (t + 1));
        for (const auto& inputs : std::vector<std::vector<const Tensor*>>{
                 {&x, &w, &r}, {&x, &w, &r, &bias, nullptr, &h0}, {&x, &w, &r, &bias, &lengths}})
          compared +=
              compare(op, Params(p), inputs, {1, 2, 7},
                      fmt::format("case {} h={} inputs={}", number, h, inputs.size()), nans);
      }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 30 * 3 * 3);
  CHECK(nans > 100);
}

}  // namespace

TEST_CASE("gru: fast rows have the definition's bits, both ways of the reset gate") {
  hold<GruParams>("gru", 3, [](GruParams& p, int number) {
    p.linear_before_reset = number % 3 != 0;
    if (number % 4 > 1) p.gates = "rzh";
  });
}

TEST_CASE("rnn: fast rows have the definition's bits, tanh and relu") {
  hold<RnnParams>("rnn", 1, [](RnnParams& p, int number) {
    const char* function = number % 3 == 0 ? "Tanh" : "Relu";
    p.activations.assign(p.direction == Direction::bidirectional ? 2 : 1, function);
  });
}

TEST_CASE("gru: what a fast row cannot compute goes to a row of orders") {
  const Tensor x = make({2, 1, 3}, 1, false), w = make({1, 12, 3}, 2, false),
               r = make({1, 12, 4}, 3, false);
  GruParams p;
  p.clip = 3;
  const std::vector<const Tensor*> inputs{&x, &w, &r};
  const auto kernel = [&] {
    return std::string(run_op(get_op("gru"), Params(p), inputs, all_kernels(), {}).kernel->name);
  };
  const std::string_view wanted = detect_isa() >= Isa::avx2 ? "gru.order" : "gru.definition";
  CHECK(kernel().starts_with(wanted));
  p.clip = 0;
  p.activations = {"HardSigmoid", "Tanh"};
  CHECK(kernel().starts_with(wanted));
}
