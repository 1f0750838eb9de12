// Claim: Winograd's matrices are exact; im2col, Winograd and FFT are what their definitions say, in
// every row, at any thread count and instruction set, alone or in a batch; they differ from direct
// on data that shows order; they stay within bounds derived from their own text; and what does not
// apply is refused by the rule's name.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/any_order.h"
#include "engine/ops/conv.h"
#include "kernels/conv/algorithm_cost.h"
#include "kernels/conv/winograd_matrices.h"
#include "kernels/kernels.h"
#include "tests/same_bits.h"

using namespace etalon;
using test::equal_bits;

namespace {

enum class Data { noise, wild, special };

Tensor make(const Shape& shape, std::uint64_t seed, Data data = Data::noise) {
  Tensor t = Tensor::uninitialized(DType::f32, shape);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    x = random.uniform(i) - 0.25F;
    const std::uint32_t pick = random.word(i + 1000000);
    ++i;
    if (data == Data::wild)
      x *= static_cast<float>(std::ldexp(1.0, static_cast<int>(pick % 41) - 20));
    if (data != Data::special) continue;
    const float rare[] = {std::numeric_limits<float>::infinity(),   -0.0F, 0x1p-140F,
                          -std::numeric_limits<float>::quiet_NaN(), 0.0F,  0x1p+100F};
    if (pick % 37 < 6) x = rare[pick % 37];
  }
  return t;
}

struct Case {
  Shape x, w;
  Ints begin, end;
  std::int64_t groups = 1;
  bool bias = true;
  Ints strides = {}, dilations = {};
};

ConvParams params_of(const Case& c) {
  ConvParams p;
  p.pads_begin = c.begin;
  p.pads_end = c.end;
  p.groups = c.groups;
  p.strides = c.strides;
  p.dilations = c.dilations;
  return p;
}

Tensor run(const Case& c, const std::vector<Tensor>& in, const std::string& contract,
           std::string_view kernel = {}, int threads = 1) {
  RunOptions options{.contract = Contract::parse(contract), .threads = threads};
  options.kernels = kernel;
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : in) pointers.push_back(&t);
  return std::move(
      run_op(conv_op(), Params(params_of(c)), pointers, all_kernels(), options).outputs[0]);
}

std::vector<Tensor> inputs(const Case& c, Data data) {
  std::vector<Tensor> in;
  in.push_back(make(c.x, 1, data));
  in.push_back(make(c.w, 2, data));
  if (c.bias) in.push_back(make({c.w[0]}, 3));
  return in;
}

const char* kWinograds[] = {"algo=winograd:2/3",
                            "algo=winograd:4/3",
                            "algo=winograd:6/3",
                            "algo=winograd:4/3,points=reciprocal",
                            "algo=winograd:4/3,transform=f64",
                            "algo=winograd:6/3,transform=f64,channels=pairwise:2",
                            "algo=winograd:2/3,channels=pairwise:1"};

// Odd extents, several vectors of tiles, one past a strip of 14 rows, unequal padding.
const Case kThree[] = {{{2, 5, 13, 17}, {15, 5, 3, 3}, {1, 1}, {1, 1}},
                       {{1, 4, 30, 31}, {3, 4, 3, 3}, {0, 0}, {0, 0}, 1, false},
                       {{3, 6, 5, 4}, {4, 3, 3, 3}, {2, 0}, {1, 2}, 2},
                       {{1, 3, 3, 3}, {1, 3, 3, 3}, {0, 0}, {0, 0}}};
const Case kEmpty[] = {{{1, 0, 8, 8}, {4, 0, 3, 3}, {1, 1}, {1, 1}},
                       {{0, 2, 8, 8}, {4, 2, 3, 3}, {1, 1}, {1, 1}},
                       {{1, 2, 8, 8}, {0, 2, 3, 3}, {1, 1}, {1, 1}}};
const Case kFive[] = {{{2, 3, 11, 19}, {5, 3, 5, 5}, {2, 2}, {2, 2}},
                      {{1, 9, 9, 9}, {2, 9, 5, 5}, {0, 1}, {1, 0}}};
const Case kOne[] = {{{2, 3, 37}, {4, 3, 3}, {1}, {1}},
                     {{1, 2, 1, 23}, {3, 2, 1, 3}, {0, 0}, {0, 2}}};

int compare_rows(const Case& c, const char* contract, Data data) {
  const std::vector<Tensor> in = inputs(c, data);
  const std::string algo = Contract::parse(contract).algo;
  const std::string definition = "conv." + algo.substr(0, algo.find_first_of(":,")) + ".definition";
  const Tensor want = run(c, in, contract, definition);
  int compared = 0;
  for (const KernelRow* row : all_kernels().rows_of("conv")) {
    if (row->promise != Promise::defined || row->device != Device::cpu) continue;
    for (const int threads : {1, 3}) {
      Tensor got;
      try {
        got = run(c, in, contract, row->name, threads);
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::usage) throw;
        break;
      }
      CHECK_MESSAGE(equal_bits(got, want), row->name, " ", contract, " ", to_string(c.x), " ",
                    to_string(c.w));
      ++compared;
    }
  }
  // A row of a batch is the row alone.
  if (c.x[0] > 1) {
    std::vector<Tensor> one;
    one.push_back(Tensor::of<float>(
        c.x.with_dim(0, 1),
        in[0].data<float>().first(static_cast<std::size_t>(c.x.with_dim(0, 1).numel()))));
    for (std::size_t i = 1; i < in.size(); ++i) one.push_back(in[i].share());
    const Tensor alone = run(c, one, contract);
    CHECK(std::memcmp(alone.bytes().data(), want.bytes().data(), alone.size_bytes()) == 0);
  }
  return compared;
}

}  // namespace

TEST_CASE("winograd: the matrices compute the correlation, exactly") {
  for (const char* text :
       {"winograd:2/3", "winograd:4/3", "winograd:6/3", "winograd:2/5", "winograd:4/5",
        "winograd:3/2", "winograd:1/4", "winograd:4/3,points=reciprocal",
        "winograd:6/3,points=0:1:-1:1/2:-1/2:3:-3", "winograd:4/4,points=1:2:3:4:5:6"}) {
    const Algorithm a = Algorithm::parse(text);
    const WinogradMatrices w = winograd_matrices(a);
    // y is bilinear in g and d: unit vectors suffice.
    for (std::int64_t k = 0; k < a.r; ++k)
      for (std::int64_t i = 0; i < a.alpha(); ++i)
        for (std::int64_t p = 0; p < a.m; ++p) {
          Fraction y;
          for (std::int64_t j = 0; j < a.alpha(); ++j)
            y = y + w.a_t(p, j) * w.g(j, k) * w.b_t(j, i);
          CHECK_MESSAGE(y == Fraction{p + k == i ? 1 : 0}, text, " ", p, " ", k, " ", i);
        }
  }
  // F(4, 3) as Lavin and Gray print it.
  const WinogradMatrices f4 = winograd_matrices(Algorithm::parse("winograd:4/3"));
  const std::vector<Fraction> b{4, 0,  -5, 0, 1, 0, 0, -4, -4, 1,  1, 0, 0, 4, -4, -1, 1, 0,
                                0, -2, -1, 2, 1, 0, 0, 2,  -1, -2, 1, 0, 0, 4, 0,  -5, 0, 1};
  CHECK(f4.b_t.at == b);
  CHECK(f4.g.at[0] == Fraction{1, 4});
  CHECK(f4.g.at[3] == Fraction{-1, 6});
  CHECK(f4.g.at[11] == Fraction{1, 6});
}

TEST_CASE("algorithms: every row has the definition's bits") {
  int compared = 0;
  for (const Data data : {Data::noise, Data::wild, Data::special}) {
    for (const Case& c : kThree)
      for (const char* contract : kWinograds) compared += compare_rows(c, contract, data);
    for (const Case& c : kFive)
      for (const char* contract : {"algo=winograd:2/5", "algo=winograd:4/5,transform=f64"})
        compared += compare_rows(c, contract, data);
    for (const Case& c : kOne)
      for (const char* contract : {"algo=winograd:2/3", "algo=winograd:4/3"})
        compared += compare_rows(c, contract, data);
    for (const Case& c : {kThree[0], kThree[2], kFive[0], kOne[0], kOne[1]})
      for (const char* contract : {"algo=fft:8", "algo=fft:16", "algo=fft:full", "algo=im2col"})
        compared += compare_rows(c, contract, data);
  }
  for (const Case& c : kEmpty)
    for (const char* contract : {"algo=winograd:4/3", "algo=fft:8", "algo=fft:full", "algo=im2col"})
      compared += compare_rows(c, contract, Data::noise);
  // im2col has no rule but its own.
  const Case strided[] = {{{2, 6, 17, 19}, {18, 3, 3, 5}, {1, 2}, {1, 2}, 2, true, {2, 3}, {1, 2}},
                          {{1, 3, 6, 7, 8}, {4, 3, 2, 3, 2}, {1, 0, 1}, {0, 1, 1}},
                          {{1, 40, 9, 9}, {33, 40, 1, 1}, {0, 0}, {0, 0}, 1, false, {2, 2}}};
  for (const Data data : {Data::noise, Data::wild, Data::special})
    for (const Case& c : strided) compared += compare_rows(c, "algo=im2col", data);
  if (detect_isa() >= Isa::avx2) CHECK(compared > 300);
}

TEST_CASE("algorithms: other contracts of the accumulator are honoured by the definitions") {
  const std::vector<Tensor> in = inputs(kThree[0], Data::noise);
  const Tensor plain = run(kThree[0], in, "algo=winograd:4/3");
  int different = 0;
  for (const char* more : {"fma=off", "acc=f64", "acc=bf16", "round=rz"}) {
    const std::string contract = std::string("algo=winograd:4/3,") + more;
    different += equal_bits(run(kThree[0], in, contract), plain) ? 0 : 1;
    CHECK(compare_rows(kThree[2], contract.c_str(), Data::noise) == 2);
    CHECK(compare_rows(kThree[2], (std::string("algo=fft:8,") + more).c_str(), Data::noise) == 2);
  }
  CHECK(different == 4);
}

TEST_CASE("algorithms: their bits differ, their values do not") {
  const Case& c = kThree[0];
  const std::vector<Tensor> in = inputs(c, Data::noise);
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : in) pointers.push_back(&t);
  const OpRun exact = run_op(conv_op(), Params(params_of(c)), pointers, all_kernels(),
                             {.contract = Contract::exact_preset()}, true);
  const auto truth = exact.truth[0].data<double>();
  std::vector<Tensor> all;
  for (const char* contract :
       {"seq", "algo=winograd:2/3", "algo=winograd:4/3", "algo=winograd:6/3",
        "algo=winograd:4/3,points=reciprocal", "algo=winograd:4/3,transform=f64",
        "algo=winograd:4/3,channels=pairwise:1", "algo=fft:8", "algo=fft:16", "algo=fft:full"}) {
    Tensor y = run(c, in, contract);
    double worst = 0;
    for (std::size_t i = 0; i < truth.size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>(y.data<float>()[i]) - truth[i]));
    // 45 terms below 1: F(6x6) amplifies u = 2^-24 by some hundreds at most.
    CHECK_MESSAGE(worst < 45 * 1e3 * 0x1p-24, contract);
    CHECK_MESSAGE(worst > 0, contract);
    for (const Tensor& other : all) CHECK_MESSAGE(!equal_bits(y, other), contract);
    all.push_back(std::move(y));
  }
  // Sums that have no padding are direct's under im2col.
  CHECK(equal_bits(run(kThree[1], inputs(kThree[1], Data::wild), "algo=im2col"),
                   run(kThree[1], inputs(kThree[1], Data::wild), "seq")));
  // An infinite weight over padding: a term for im2col, none for direct.
  const Case border{{1, 1, 1, 1}, {1, 1, 3, 3}, {1, 1}, {1, 1}, 1, false};
  std::vector<Tensor> over = inputs(border, Data::noise);
  over[1].mutable_data<float>()[0] = std::numeric_limits<float>::infinity();
  CHECK(std::isnan(run(border, over, "algo=im2col").data<float>()[0]));
  CHECK(std::isfinite(run(border, over, "seq").data<float>()[0]));
}

TEST_CASE("algorithms: measured errors lie within the bound of the definition's own text") {
  for (const char* contract : {"algo=winograd:2/3", "algo=winograd:4/3", "algo=winograd:6/3",
                               "algo=winograd:4/3,transform=f64", "algo=fft:16", "algo=im2col"})
    for (const Data data : {Data::noise, Data::wild}) {
      const Case& c = kThree[2];
      const std::vector<Tensor> in = inputs(c, data);
      std::vector<const Tensor*> pointers;
      for (const Tensor& t : in) pointers.push_back(&t);
      const Params params(params_of(c));
      const OpRun exact = run_op(conv_op(), params, pointers, all_kernels(),
                                 {.contract = Contract::exact_preset()}, true);
      const Contract wanted = Contract::parse(contract);
      const OpRun got = run_op(conv_op(), params, pointers, all_kernels(), {.contract = wanted});
      const KernelRow* definition = nullptr;
      for (const KernelRow* row : all_kernels().rows_of("conv"))
        if (row->name ==
            "conv." + wanted.algo.substr(0, wanted.algo.find_first_of(":,")) + ".definition")
          definition = row;
      REQUIRE(definition != nullptr);
      std::vector<InferInput> known;
      for (const Tensor& t : in) known.push_back({t.type(), nullptr, true});
      const auto types = infer(conv_op(), params, InferInputs(known));
      Problem problem{.op = &conv_op(),
                      .params = &params,
                      .inputs = known,
                      .outputs = types,
                      .contract = &wanted};
      std::vector<Tensor> out;
      out.push_back(got.outputs[0].share());
      KernelCall call{.problem = &problem, .inputs = pointers, .outputs = out};
      std::vector<std::int64_t> slices(static_cast<std::size_t>(definition->slices(call)));
      for (std::size_t i = 0; i < slices.size(); ++i) slices[i] = static_cast<std::int64_t>(i);
      std::vector<OutputBound> bounds;
      definition->bound(call, AnyOrderModel{}, slices, bounds);
      REQUIRE(std::ssize(bounds) == got.outputs[0].numel());
      double closest = 0;
      for (const OutputBound& b : bounds) {
        const auto i = static_cast<std::size_t>(b.index);
        const double truth = exact.truth[0].data<double>()[i];
        const double error =
            std::fabs(static_cast<double>(got.outputs[0].data<float>()[i]) - truth);
        CHECK_MESSAGE(std::isfinite(b.bound), contract);
        CHECK_MESSAGE(error <= b.bound, contract, " output ", b.index);
        closest = std::max(closest, error / b.bound);
      }
      CHECK_MESSAGE(closest > 1e-4, contract);  // the bound says something
    }
}

TEST_CASE("algorithms: measured errors lie within the bounds known beforehand") {
  const Case c{{1, 32, 21, 21}, {8, 32, 3, 3}, {1, 1}, {1, 1}, 1, false};
  const std::vector<Tensor> in = inputs(c, Data::noise);  // all below 0.75
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : in) pointers.push_back(&t);
  const Params params(params_of(c));
  const OpRun exact = run_op(conv_op(), params, pointers, all_kernels(),
                             {.contract = Contract::exact_preset()}, true);
  std::vector<InferInput> known;
  for (const Tensor& t : in) known.push_back({t.type(), nullptr, true});
  const auto types = infer(conv_op(), params, InferInputs(known));
  double last_amplification = 0;
  for (const char* contract :
       {"seq", "algo=im2col", "algo=winograd:2/3", "algo=winograd:4/3", "algo=winograd:6/3",
        "algo=winograd:6/3,transform=f64", "algo=winograd:6/3,channels=pairwise:1", "algo=fft:16",
        "algo=fft:full"}) {
    const Contract wanted = Contract::parse(contract);
    const Problem problem{.op = &conv_op(),
                          .params = &params,
                          .inputs = known,
                          .outputs = types,
                          .contract = &wanted};
    const AlgorithmCost cost = algorithm_cost(problem);
    const Tensor y = run(c, in, contract);
    double worst = 0;
    for (std::int64_t i = 0; i < y.numel(); ++i)
      worst = std::max(worst,
                       std::fabs(static_cast<double>(y.data<float>()[static_cast<std::size_t>(i)]) -
                                 exact.truth[0].data<double>()[i]));
    const double bound = cost.bound * 0.75 * 0.75;
    MESSAGE(std::string(contract), ": error ", worst, ", bound ", bound, ", products ",
            cost.products);
    CHECK_MESSAGE(worst <= bound, contract);
    CHECK_MESSAGE(worst > bound * 1e-6, contract);
    if (std::string_view(contract).starts_with("algo=winograd") &&
        wanted.algo.ends_with("f32,channels=seq")) {
      CHECK(cost.amplification > last_amplification);  // it grows with the tile
      last_amplification = cost.amplification;
    }
  }
  // Counts of F(4x4, 3x3) from its definition: 36 products a tile of 16, 9 times 16 direct.
  const Case whole{{1, 16, 18, 18}, {16, 16, 3, 3}, {0, 0}, {0, 0}, 1, false};
  const Params plain(params_of(whole));
  const std::vector<InferInput> types_known{{{DType::f32, whole.x}, nullptr, true},
                                            {{DType::f32, whole.w}, nullptr, true}};
  const auto out = infer(conv_op(), plain, InferInputs(types_known));
  const Contract f4 = Contract::parse("algo=winograd:4/3"), direct = Contract::seq();
  Problem p{
      .op = &conv_op(), .params = &plain, .inputs = types_known, .outputs = out, .contract = &f4};
  CHECK(algorithm_cost(p).products == 36.0 * 16 * 16 * 16);
  // B^T has 22 entries that are not zero, A^T 18.
  CHECK(algorithm_cost(p).transforms == 16.0 * 16 * (22 * 12 + 18 * 10));
  // By hand: of B^T's entries 12 are neither 1 nor -1, of A^T's 6, and a row of n adds n - 1 times.
  CHECK(algorithm_cost(p).multiplications == 16.0 * 16 * (36.0 * 16 + 12 * 12 + 6 * 10));
  CHECK(algorithm_cost(p).additions == 16.0 * 16 * (36.0 * 15 + (22 - 6) * 12 + (18 - 4) * 10));
  // A real transform of 4 takes 6 additions; of 8 two of those, one turn of 4 operations, 6
  const Contract f8 = Contract::parse("algo=fft:8");
  p.contract = &f8;
  const double real8 = 22, complex8 = 48 + 8, tiles = 9;
  CHECK(algorithm_cost(p).weights == (8 * real8 + 5 * complex8) * 256);
  CHECK(algorithm_cost(p).products == 4.0 * 8 * 5 * tiles * 256);
  p.contract = &direct;
  CHECK(algorithm_cost(p).products == 9.0 * 256 * 16 * 16);
  CHECK(algorithm_cost(p).multiplications == 9.0 * 256 * 16 * 16);
  CHECK(algorithm_cost(p).additions == (9.0 * 16 - 1) * 256 * 16);
}

TEST_CASE("algorithms: what does not apply is refused by the rule's name") {
  const auto refusal = [](const Case& c, const char* contract, Ints strides = {},
                          Ints dilations = {}) {
    ConvParams p = params_of(c);
    p.strides = std::move(strides);
    p.dilations = std::move(dilations);
    std::vector<Tensor> in = inputs(c, Data::noise);
    std::vector<const Tensor*> pointers;
    for (const Tensor& t : in) pointers.push_back(&t);
    try {
      run_op(conv_op(), Params(p), pointers, all_kernels(),
             {.contract = Contract::parse(contract)});
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string("computed");
  };
  const auto says = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  const Case three = kThree[0];
  says(refusal(three, "algo=winograd:4/3", {2, 2}), "needs stride 1, this has 2");
  says(refusal(three, "algo=winograd:4/3", {}, {2, 1}), "needs dilation 1, this has 2");
  says(refusal(three, "algo=winograd:4/5"),
       "computes kernels of extent 5 (or 1 along an axis), this has 3");
  says(refusal(three, "algo=winograd:4/3,order=lanes:8"),
       "channels=pairwise sums over channels by halves");
  says(refusal(three, "algo=fft:8,walk=rsc"), "has its own order");
  says(refusal(three, "algo=fft:16", {2, 1}), "needs stride 1, this has 2");
  says(refusal({{1, 1, 9, 9}, {1, 1, 5, 5}, {}, {}}, "algo=fft:4"),
       "needs a kernel of at most that extent, this has 5");
  says(refusal({{1, 1, 5000}, {1, 1, 3}, {}, {}}, "algo=fft:full"),
       "transforms at most 4096 inputs");
  says(refusal({{1, 2, 4, 4}, {3, 2, 1, 1}, {}, {}}, "algo=fft:8"),
       "more than one tap, this is 1x1");
  says(refusal({{1, 1, 4, 4, 4}, {1, 1, 3, 3, 3}, {}, {}}, "algo=winograd:2/3"),
       "one and two spatial axes, this has 3");
  says(refusal({{1, 1, 20, 20}, {1, 1, 8, 8}, {}, {}}, "algo=winograd:9/8"),
       "is no ratio of two numbers of f32");
  CHECK(refusal(three, "algo=winograd:4/3") == "computed");
}
