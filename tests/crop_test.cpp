// Claim: negative padding leaves part of the image out, for every op whose windows slide. The
// reference is the definition on the image cut beforehand; every row that takes the problem has its
// bits, whatever the contract, and so has the row that is chosen.
#include <doctest/doctest.h>

#include "engine/graph/executor.h"
#include "engine/ops/conv.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/op_cases.h"
#include "tests/same_bits.h"

using namespace etalon;

namespace {

constexpr const char* kContracts[] = {
    "seq",          "exact",       "order=lanes:4",     "order=pairwise:4",  "fma=off,round=rz",
    "walk=rsc",     "algo=im2col", "algo=winograd:2/3", "algo=winograd:4/3", "algo=fft:8",
    "algo=fft:full"};

// What stands before the first and behind the last column, and the same of rows.
struct Pads {
  const char *begin, *end;
};
constexpr Pads kPads[] = {{"-1,0", "0,0"},  {"0,-1", "0,0"},  {"0,0", "-2,-1"}, {"-2,-3", "-1,-4"},
                          {"0,-7", "0,0"},  {"-6,-5", "0,0"}, {"1,-1", "-2,2"}, {"-3,2", "2,-3"},
                          {"0,-9", "0,-2"}, {"-1,-1", "1,1"}};

int compare(const std::string& line, std::span<const char* const> contracts) {
  const OpCase c = parse_op_case(line);
  const std::vector<Tensor> in = case_inputs(c);
  const auto pointers_in = pointers(in);
  int compared = 0;
  for (const char* contract : contracts) {
    const auto run = [&](std::string_view kernel, Isa isa) -> std::optional<Tensor> {
      RunOptions options{.contract = Contract::parse(contract), .threads = 2};
      options.kernels = kernel;
      options.isa = isa;
      try {
        return std::move(run_op(*c.op, c.params, pointers_in, all_kernels(), options).outputs[0]);
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::usage) throw;
        return std::nullopt;  // refused
      }
    };
    const Isa isa = detect_isa();
    std::optional<Tensor> want;
    const auto rows = all_kernels().rows_of(c.op->name);
    for (const KernelRow* row : rows)
      if (!want && row->name.ends_with("definition") && test::on_this_cpu(*row))
        want = run(row->name, isa);
    if (!want) continue;
    for (const KernelRow* row : rows) {
      if (row->promise != Promise::defined || !test::on_this_cpu(*row)) continue;
      if (const auto got = run(row->name, isa)) {
        CHECK_MESSAGE(test::equal_bits(*got, *want), row->name, ": ", line, " [",
                      std::string(contract), "]");
        ++compared;
      }
    }
    for (const Isa least : {Isa::sse2, Isa::avx2, isa}) {
      if (least > isa) continue;
      const auto got = run("", least);
      REQUIRE(got);
      CHECK_MESSAGE(test::equal_bits(*got, *want), line, " [", std::string(contract), "]");
    }
  }
  return compared;
}

std::string params(const Pads& p) {
  return std::string("pads_begin=[") + p.begin + "] pads_end=[" + p.end + "]";
}

}  // namespace

TEST_CASE("crop: every row of conv leaves out what negative padding does") {
  struct Case {
    const char *params, *x, *last, *w;
  };
  const Case cases[] = {
      {"", "[2,3,10,18]:wild", "[2,10,18,3]:wild", "[9,3,3,3]"},
      {"", "[1,29,9,16]:wild", "[1,9,16,29]:wild", "[32,29,3,3]"},
      {"", "[1,9,11,16]:wild", "[1,11,16,9]:wild", "[20,9,1,1]"},
      {"strides=[2,2]", "[1,4,14,23]:wild", "[1,14,23,4]:wild", "[8,4,3,3]"},
      {"strides=[2,2]", "[1,5,12,18]:wild", "[1,12,18,5]:wild", "[7,5,1,1]"},
      {"dilations=[2,2]", "[1,4,16,24]:wild", "[1,16,24,4]:wild", "[3,4,3,3]"},
      {"groups=6", "[1,6,13,20]:wild", "[1,13,20,6]:wild", "[6,1,3,3]"},
      {"groups=6 strides=[2,2]", "[1,6,14,21]:wild", "[1,14,21,6]:wild", "[6,1,3,3]"},
  };
  int compared = 0;
  for (const Case& c : cases)
    for (const Pads& p : kPads) {
      const std::string given = std::string(c.params) + " " + params(p);
      for (const char* type : {"f32", "f16", "bf16"}) {
        const bool whole = std::string_view(type) == "f32";
        const auto contracts = std::span(kContracts).first(whole ? std::size(kContracts) : 1);
        compared += compare("crop | conv | " + given + " | " + type + c.x + " " + type + c.w + " -",
                            contracts);
        compared += compare("crop | conv_channels_last | " + given + " | " + type + c.last + " " +
                                type + c.w + " -",
                            contracts.first(std::min<std::size_t>(contracts.size(), 3)));
      }
    }
  CHECK(compared > 1000);
}

TEST_CASE("crop: every row of pools and of conv's transpose leaves it out too") {
  int compared = 0;
  for (const char* op : {"max_pool", "avg_pool", "lp_pool"})
    for (const char* rest : {"kernel=[2,2]", "kernel=[3,3]", "kernel=[3,3] strides=[2,2]",
                             "kernel=[2,2] strides=[2,2]", "kernel=[2,2] dilations=[2,2]",
                             "kernel=[3,3] strides=[3,3] ceil_mode=true"})
      for (const Pads& p : kPads)
        for (const char* more : {"", " count_include_pad=true"}) {
          if (*more != '\0' && std::string_view(op) != "avg_pool") continue;
          for (const char* x : {"f32[2,3,11,40]:wild", "f32[3,2,11,15]:wild"})
            compared += compare(
                std::string("crop | ") + op + " | " + rest + " " + params(p) + more + " | " + x,
                std::span(kContracts).first(4));
        }
  for (const char* rest : {"", "strides=[2,2]", "strides=[2,3] dilations=[3,2]", "groups=4"})
    for (const Pads& p : kPads)
      compared +=
          compare(std::string("crop | conv_transpose | ") + rest + " " + params(p) +
                      " | f32[1,4,12,14]:wild f32[4," + (*rest == 'g' ? "1" : "5") + ",3,3] -",
                  std::span(kContracts).first(4));
  CHECK(compared > 500);
}

TEST_CASE("crop: the definition of conv is that of the image cut beforehand") {
  const OpCase c = parse_op_case(
      "crop | conv | pads_begin=[-2,-3] pads_end=[-1,-4] strides=[1,2] | f32[2,4,9,16]:wild "
      "f32[5,4,3,3] f32[5]");
  const std::vector<Tensor> in = case_inputs(c);
  Tensor cut = Tensor::uninitialized(DType::f32, {2, 4, 6, 9});
  for (std::size_t i = 0; i < static_cast<std::size_t>(cut.numel()); ++i)
    cut.mutable_data<float>()[i] =
        in[0].data<float>()[(i / 54 * 9 + i / 9 % 6 + 2) * 16 + i % 9 + 3];
  ConvParams p;
  p.strides = {1, 2};
  const Tensor* inside[] = {&cut, &in[1], &in[2]};
  const RunOptions options{.contract = Contract::parse("seq"), .threads = 1};
  CHECK(test::equal_bits(run_op(*c.op, c.params, pointers(in), all_kernels(), options).outputs[0],
                         run_op(*c.op, Params(p), inside, all_kernels(), options).outputs[0]));
}

// A device's rows are not in every build: what is said of them is said by the registry.
TEST_CASE("crop: rows of a device are refused, but for definitions") {
  const KernelRow rows[] = {{.op = "conv", .name = "conv.f32.cuda.tile", .device = Device::cuda},
                            {.op = "conv", .name = "conv.cuda.definition", .device = Device::cuda}};
  Registry registry;
  registry.add(rows);
  const Contract seq = Contract::parse("seq");
  ConvParams given;
  for (const std::int64_t pad : {-1, 0, 1})
    for (const bool end : {false, true}) {
      given.pads_begin = {0, end ? 0 : pad};
      given.pads_end = {end ? pad : 0, 0};
      const Params params(given);
      const InferInput inputs[] = {{.type = {DType::f32, {1, 1, 8, 8}}, .given = true},
                                   {.type = {DType::f32, {1, 1, 3, 3}}, .given = true}};
      const Problem problem{.op = &conv_op(),
                            .params = &params,
                            .inputs = inputs,
                            .outputs = {},
                            .contract = &seq,
                            .device = Device::cuda,
                            .isa = Isa::sse2};
      CHECK(registry.select(problem, "").row == &rows[pad < 0 ? 1 : 0]);
    }
}
