// Claim: cells with peepholes, clips, input_forget and every activation have the definition's bits
// on the rows of order_cells.h under every contract, and so has each activation by itself over
// hostile arguments.
#include <doctest/doctest.h>

#include "engine/ops/recurrent.h"
#include "kernels/gemm/order.h"
#include "kernels/recurrent/definition.h"
#include "kernels/recurrent/order_cell_functions.h"
#include "tests/order_compare.h"

using namespace etalon;
using namespace etalon::test;

namespace {

constexpr const char* kNames[] = {"Affine",   "Elu",        "HardSigmoid",    "LeakyRelu",
                                  "Relu",     "ScaledTanh", "Sigmoid",        "Softplus",
                                  "Softsign", "Tanh",       "ThresholdedRelu"};

constexpr CellActivation kFunctions[] = {{CellFunction::affine, 0.7F, -0.3F},
                                         {CellFunction::affine, 1, 0},
                                         {CellFunction::elu, 1, 0},
                                         {CellFunction::elu, 0.3F, 0},
                                         {CellFunction::elu, 0, 0},
                                         {CellFunction::elu, -2.5F, 0},
                                         {CellFunction::hard_sigmoid, 0.2F, 0.5F},
                                         {CellFunction::leaky_relu, 0.01F, 0},
                                         {CellFunction::leaky_relu, -1.3F, 0},
                                         {CellFunction::relu, 0, 0},
                                         {CellFunction::scaled_tanh, 1.7159F, 0.6666667F},
                                         {CellFunction::scaled_tanh, -0.5F, 3},
                                         {CellFunction::sigmoid, 0, 0},
                                         {CellFunction::softplus, 0, 0},
                                         {CellFunction::softsign, 0, 0},
                                         {CellFunction::tanh, 0, 0},
                                         {CellFunction::thresholded_relu, 1, 0},
                                         {CellFunction::identity, 0, 0}};

// Values of acc, numbers that it has not, and midpoints of f16 and bf16 beside both.
template <class T>
std::vector<T> arguments(const Contract& c, std::int64_t count) {
  std::vector<T> x;
  const Philox random{77, 0};
  constexpr double kScales[] = {1, 8, 0x1p-6, 100, 0x1p-14, 0x1p-24, 0x1p-126, 0x1p-140, 0x1p40};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const double v = static_cast<double>(random.uniform(at)) *
                     kScales[random.word(at + 100000) % std::size(kScales)];
    x.push_back(static_cast<T>(round_to(v, c.acc, c.round, c.subnormals)));
  }
  for (const double v : {0.0, 1.0, 0.3, 1.00390625, 1.00048828125, 65504.0, 1e30, kInfinity})
    for (const double sign : {1.0, -1.0}) x.push_back(static_cast<T>(sign * v));
  x.push_back(static_cast<T>(kNan));
  return x;
}

template <class T>
int compare_function(const Contract& c, Isa isa, const OrderTiles<T>& tiles,
                     const CellActivation& f, std::int64_t count) {
  const std::vector<T> x = arguments<T>(c, count);
  std::vector<T> y = x;
  call_cell_function(c, isa, tiles, f, y.data(), static_cast<std::int64_t>(y.size()));
  int wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want =
        correctly_rounded([&](auto& a) { return cell_function(a, f, static_cast<double>(x[i])); },
                          c.acc, c.round, c.subnormals);
    const auto got = static_cast<double>(y[i]);
    if (bits_of(canonical(got)) == bits_of(want)) continue;
    if (wrong++ == 0)
      MESSAGE(to_string(c), " function ", static_cast<int>(f.function), " of ",
              static_cast<double>(x[i]), ": ", got, ", not ", want);
  }
  return wrong;
}

}  // namespace

TEST_CASE("order cells: activations are rounded once, of every accumulator and argument") {
  int functions = 0;
  for (const char* text : {"seq", "subnormals=flush", "acc=f16", "acc=f16,subnormals=flush",
                           "acc=bf16", "acc=bf16,subnormals=flush", "acc=f64",
                           "acc=f64,subnormals=flush", "round=ru", "acc=bf16,round=rz"})
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (detect_isa() < isa) continue;
      const Contract c = Contract::parse(text);
      for (const CellActivation& f : kFunctions) {
        if (c.acc == DType::f64)
          CHECK(compare_function<double>(c, isa, order_tiles_f64(isa, c), f, 2000) == 0);
        else
          CHECK(compare_function<float>(c, isa, order_tiles_f32(isa, c), f, 2000) == 0);
        ++functions;
      }
    }
  if (detect_isa() >= Isa::avx2) CHECK(functions >= 10 * 16);
}

TEST_CASE("order cells: every attribute has the definition's bits under every contract") {
  Compared seen;
  std::uint64_t number = 0;
  for (const Data data : {Data::noise, Data::special, Data::ties, Data::brink, Data::brink16})
    for (const char* text : kContracts) {
      if (!seen_here(data)) continue;
      const Contract c = Contract::parse(text);
      if (!(c.walk == Walk{})) continue;
      const DType type = data == Data::brink16 ? DType::f16
                         : data == Data::ties  ? DType::bf16
                                               : DType::f32;
      constexpr std::int64_t kSteps = 3, kBatch = 3, kInputs = 5, kHidden = 19;
      for (const std::string_view op : {"rnn", "gru", "lstm"}) {
        ++number;
        const bool both = number % 3 == 0;
        const std::int64_t gates = op == "rnn" ? 1 : op == "gru" ? 3 : 4, d = both ? 2 : 1;
        std::vector<Tensor> in;
        in.push_back(make(Shape{kSteps, kBatch, kInputs}, 61, data, type));
        in.push_back(make(Shape{d, gates * kHidden, kInputs}, 62, Data::noise, type));
        in.push_back(make(Shape{d, gates * kHidden, kHidden}, 63, Data::noise, type));
        in.push_back(make(Shape{d, 2 * gates * kHidden}, 64, data, type));
        Tensor lengths = Tensor::uninitialized(DType::i32, Shape{kBatch});
        const std::int32_t values[] = {2, static_cast<std::int32_t>(number % 2), 3};
        std::copy_n(values, kBatch, lengths.mutable_data<std::int32_t>().data());
        in.push_back(std::move(lengths));
        in.push_back(make(Shape{d, kBatch, kHidden}, 65, data, type));
        if (op == "lstm") {
          in.push_back(make(Shape{d, kBatch, kHidden}, 66, data, type));
          in.push_back(make(Shape{d, 3 * kHidden}, 67, data, type));
        }
        INFO("data ", static_cast<int>(data), " number ", number);
        const auto run = [&](auto params) {
          params.direction = both              ? Direction::bidirectional
                             : number % 3 == 1 ? Direction::reverse
                                               : Direction::forward;
          const std::size_t used = op == "rnn" ? 1 : op == "gru" ? 2 : 3;
          // By default every other time, and those of one list with alphas that acc has not.
          if (number % 4 != 0)
            for (std::size_t i = 0; i < used * static_cast<std::size_t>(d); ++i)
              params.activations.emplace_back(
                  kNames[(number * 5 + i * 3 + number / 11) % std::size(kNames)]);
          // 0.3 is a number of f32 alone.
          if (number % 2 == 0) params.clip = number % 8 == 0 ? 0.3F : 1.5F;
          if constexpr (requires { params.cell_clip; }) {
            params.input_forget = number / 3 % 3 == 0;
            if (number / 3 % 2 == 0) params.cell_clip = number / 3 % 4 == 0 ? 0.3F : 0.5F;
          }
          if constexpr (requires { params.linear_before_reset; })
            params.linear_before_reset = number / 3 % 2 == 0;
          compare(get_op(op), Params(params), in, c, seen);
        };
        if (op == "rnn") run(RnnParams{});
        if (op == "lstm") run(LstmParams{});
        if (op == "gru") run(GruParams{});
      }
    }
  CHECK(seen.results.size() > at_least(200));
  if (detect_isa() >= Isa::avx2) CHECK(seen.rows > at_least(500) * kRows);
}
