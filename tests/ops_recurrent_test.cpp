// Recurrent cells: `seq` against plain f32 loops in the written order, `exact` step by step against
// 3000 bits, and what must not matter: the order of gates, directions, layouts, padding of lengths.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "engine/numerics/element.h"
#include "engine/numerics/function.h"
#include "kernels/kernels.h"
#include "tests/function_oracle.h"
#include "tests/mpfr_number.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

std::vector<Tensor> run(const OpCase& c, const std::vector<Tensor>& in, const char* contract) {
  const auto p = pointers(in);
  return run_op(*c.op, c.params, p, all_kernels(), {.contract = Contract::parse(contract)}).outputs;
}
std::vector<Tensor> run(std::string_view line, const char* contract) {
  const OpCase c = parse_op_case(line);
  return run(c, case_inputs(c), contract);
}

// One step's arithmetic in f32, or each step rounded from 3000 bits.
struct Steps {
  bool exact;
  float sum(const std::vector<std::pair<float, float>>& products, float b1, float b2) const {
    if (exact) {
      Number s = Number(static_cast<double>(b1)) + static_cast<double>(b2);
      for (const auto& [x, y] : products)
        s = s + Number(static_cast<double>(x)) * static_cast<double>(y);
      return static_cast<float>(s.rounded(DType::f32));
    }
    float s = 0;
    for (const auto& [x, y] : products) s = std::fma(x, y, s);
    return (s + b1) + b2;
  }
  float function(Function f, float x) const {
    return static_cast<float>(
        mpfr_function(f, static_cast<double>(x), DType::f32, Round::nearest_even));
  }
  float blend(float a, float b, float c, float d) const {
    if (!exact) return std::fma(a, b, c * d);
    return static_cast<float>((Number(static_cast<double>(a)) * static_cast<double>(b) +
                               Number(static_cast<double>(c)) * static_cast<double>(d))
                                  .rounded(DType::f32));
  }
};

struct Weights {
  std::span<const float> x, w, r, b;
  std::size_t inputs, hidden, gates;
  std::vector<std::pair<float, float>> products(std::size_t block, std::size_t j, const float* in,
                                                const float* state) const {
    std::vector<std::pair<float, float>> p;
    const std::size_t row = block * hidden + j;
    if (in != nullptr)
      for (std::size_t k = 0; k < inputs; ++k) p.emplace_back(w[row * inputs + k], in[k]);
    if (state != nullptr)
      for (std::size_t k = 0; k < hidden; ++k) p.emplace_back(r[row * hidden + k], state[k]);
    return p;
  }
  float wb(std::size_t block, std::size_t j) const { return b[block * hidden + j]; }
  float rb(std::size_t block, std::size_t j) const { return b[(gates + block) * hidden + j]; }
};

constexpr std::size_t kT = 4, kI = 3, kH = 5;

void check_bits(const Tensor& y, const std::vector<float>& expected, const char* what) {
  REQUIRE(y.numel() == static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK_MESSAGE(bits_of(y.data<float>()[i]) == bits_of(expected[i]), std::string(what),
                  " element ", i, ": ", y.data<float>()[i], " for ", expected[i]);
}

}  // namespace

TEST_CASE("recurrent: lstm, gru and rnn are the steps that the header lists") {
  for (const bool exact : {false, true}) {
    const Steps steps{exact};
    const char* contract = exact ? "exact" : "seq";
    const auto setup = [&](std::string_view line, std::size_t gates, std::vector<Tensor>& in,
                           std::vector<Tensor>& out) {
      const OpCase c = parse_op_case(line);
      in = case_inputs(c);
      out = run(c, in, contract);
      return Weights{in[0].data<float>(),
                     in[1].data<float>(),
                     in[2].data<float>(),
                     in[3].data<float>(),
                     kI,
                     kH,
                     gates};
    };
    std::vector<Tensor> in, out;

    // lstm, gates i o f c, batch 1, with peepholes.
    Weights w = setup(
        "a | lstm | | f32[4,1,3]:wide f32[1,20,3] f32[1,20,5] f32[1,40] - "
        "f32[1,1,5] f32[1,1,5] f32[1,15]",
        4, in, out);
    const auto p = in[7].data<float>();
    std::vector<float> h(in[5].data<float>().begin(), in[5].data<float>().end());
    std::vector<float> c(in[6].data<float>().begin(), in[6].data<float>().end()), y;
    for (std::size_t t = 0; t < kT; ++t) {
      const float* x = w.x.data() + t * kI;
      std::vector<float> h2(kH), c2(kH);
      for (std::size_t j = 0; j < kH; ++j) {
        const auto gate = [&](std::size_t q, const float* state, std::size_t hole) {
          auto products = w.products(q, j, x, h.data());
          if (state != nullptr) products.emplace_back(p[hole * kH + j], state[j]);
          return steps.sum(products, w.wb(q, j), w.rb(q, j));
        };
        const float i = steps.function(Function::sigmoid, gate(0, c.data(), 0));
        const float f = steps.function(Function::sigmoid, gate(2, c.data(), 2));
        const float u = steps.function(Function::tanh, gate(3, nullptr, 0));
        c2[j] = steps.blend(f, c[j], i, u);
        const float o = steps.function(Function::sigmoid, gate(1, c2.data(), 1));
        h2[j] = o * steps.function(Function::tanh, c2[j]);
      }
      h = h2;
      c = c2;
      y.insert(y.end(), h.begin(), h.end());
    }
    check_bits(out[0], y, "lstm y");
    check_bits(out[1], h, "lstm y_h");
    check_bits(out[2], c, "lstm y_c");

    // gru, gates z r h, both forms.
    for (const bool linear : {false, true}) {
      w = setup(fmt::format("a | gru | linear_before_reset={} | f32[4,1,3]:wide f32[1,15,3] "
                            "f32[1,15,5] f32[1,30] - f32[1,1,5]",
                            linear),
                3, in, out);
      h.assign(in[5].data<float>().begin(), in[5].data<float>().end());
      y.clear();
      for (std::size_t t = 0; t < kT; ++t) {
        const float* x = w.x.data() + t * kI;
        std::vector<float> z(kH), r(kH), rh(kH), h2(kH);
        for (std::size_t j = 0; j < kH; ++j) {
          const auto gate = [&](std::size_t q) {
            return steps.function(Function::sigmoid,
                                  steps.sum(w.products(q, j, x, h.data()), w.wb(q, j), w.rb(q, j)));
          };
          z[j] = gate(0);
          r[j] = gate(1);
          rh[j] = r[j] * h[j];
        }
        for (std::size_t j = 0; j < kH; ++j) {
          float s = 0;
          if (linear) {
            const float m = steps.exact
                                ? steps.sum(w.products(2, j, nullptr, h.data()), 0, w.rb(2, j))
                                : steps.sum(w.products(2, j, nullptr, h.data()), w.rb(2, j), 0);
            auto products = w.products(2, j, x, nullptr);
            products.emplace_back(r[j], m);
            s = steps.sum(products, w.wb(2, j), 0);
          } else {
            s = steps.sum(w.products(2, j, x, rh.data()), w.wb(2, j), w.rb(2, j));
          }
          const float n = steps.function(Function::tanh, s);
          if (exact) {
            const Number zj = static_cast<double>(z[j]);
            h2[j] = static_cast<float>(
                ((Number(1) - zj) * static_cast<double>(n) + zj * static_cast<double>(h[j]))
                    .rounded(DType::f32));
          } else {
            h2[j] = std::fma(1 - z[j], n, z[j] * h[j]);
          }
        }
        h = h2;
        y.insert(y.end(), h.begin(), h.end());
      }
      check_bits(out[0], y, linear ? "gru linear_before_reset" : "gru");
    }

    w = setup("a | rnn | | f32[4,1,3]:wide f32[1,5,3] f32[1,5,5] f32[1,10]", 1, in, out);
    h.assign(kH, 0.0F);
    y.clear();
    for (std::size_t t = 0; t < kT; ++t) {
      std::vector<float> h2(kH);
      for (std::size_t j = 0; j < kH; ++j)
        h2[j] = steps.function(
            Function::tanh,
            steps.sum(w.products(0, j, w.x.data() + t * kI, h.data()), w.wb(0, j), w.rb(0, j)));
      h = h2;
      y.insert(y.end(), h.begin(), h.end());
    }
    check_bits(out[0], y, "rnn");
  }
}

TEST_CASE("recurrent: the order of gates is a name, not a number") {
  const OpCase onnx =
      parse_op_case("a | lstm | | f32[3,2,4] f32[1,12,4] f32[1,12,3] f32[1,24] - - - f32[1,9]");
  std::vector<Tensor> in = case_inputs(onnx);
  const Hash128 expected = hash_tensor(run(onnx, in, "seq")[0]);
  // iofc to ifco: blocks 0 2 3 1; peepholes iof to ifo: 0 2 1.
  const auto permute = [](const Tensor& t, std::int64_t blocks, std::vector<std::int64_t> order) {
    Tensor out = t.clone();
    const std::size_t repeats = static_cast<std::size_t>(blocks) / order.size();
    const std::size_t block = t.data<float>().size() / static_cast<std::size_t>(blocks);
    for (std::size_t r = 0; r < repeats; ++r)
      for (std::size_t q = 0; q < order.size(); ++q)
        std::memcpy(out.mutable_data<float>().data() + (r * order.size() + q) * block,
                    t.data<float>().data() +
                        (r * order.size() + static_cast<std::size_t>(order[q])) * block,
                    block * 4);
    return out;
  };
  const OpCase torch = parse_op_case(
      "a | lstm | gates=ifco | f32[3,2,4] f32[1,12,4] f32[1,12,3] f32[1,24] - - - f32[1,9]");
  CHECK(hash_tensor(run(torch, in, "seq")[0]) != expected);
  in[1] = permute(in[1], 4, {0, 2, 3, 1});
  in[2] = permute(in[2], 4, {0, 2, 3, 1});
  in[3] = permute(in[3], 8, {0, 2, 3, 1});
  in[7] = permute(in[7], 3, {0, 2, 1});
  CHECK(hash_tensor(run(torch, in, "seq")[0]) == expected);
}

TEST_CASE("recurrent: directions, lengths and layouts") {
  const OpCase both = parse_op_case(
      "a | gru | direction=bidirectional | f32[5,2,3] f32[2,12,3] f32[2,12,4] f32[2,24] "
      "i64[2]=5,3 f32[2,2,4]");
  const std::vector<Tensor> in = case_inputs(both);
  const std::vector<Tensor> y = run(both, in, "seq");
  for (const std::int64_t d : {0, 1}) {
    const OpCase one = parse_op_case(
        fmt::format("a | gru | direction={} | f32[5,2,3] f32[1,12,3] f32[1,12,4] f32[1,24] "
                    "i64[2]=5,3 f32[1,2,4]",
                    d == 0 ? "forward" : "reverse"));
    std::vector<Tensor> part;
    part.push_back(in[0].share());
    for (const std::size_t i : {1, 2, 3}) part.push_back(slice_row(in[i], 0, d));
    part.push_back(in[4].share());
    part.push_back(slice_row(in[5], 0, d));
    const std::vector<Tensor> alone = run(one, part, "seq");
    CHECK(hash_tensor(slice_row(y[0], 1, d)) == hash_tensor(alone[0]));
    CHECK(hash_tensor(slice_row(y[1], 0, d)) == hash_tensor(alone[1]));
  }
  // Row 1 has three steps: zeros beyond; what lies there in x does not matter.
  for (const std::int64_t t : {3, 4}) {
    const Tensor beyond = slice_row(slice_row(y[0], 0, t), 2, 1);
    for (const float v : beyond.data<float>()) CHECK(bits_of(v) == 0);
  }
  std::vector<Tensor> other;
  for (const Tensor& t : in) other.push_back(t.clone());
  for (std::size_t k = 0; k < 3; ++k) other[0].mutable_data<float>()[(4 * 2 + 1) * 3 + k] = 9;
  CHECK(hash_tensor(run(both, other, "seq")[0]) == hash_tensor(y[0]));
  // A backward row begins at its own last step: its first output there is one step from the state.
  CHECK(bits_of(y[1].data<float>()[(1 * 2 + 1) * 4]) ==
        bits_of(y[0].data<float>()[((0 * 2 + 1) * 2 + 1) * 4]));
  // No step: the state is what it was.
  const std::vector<Tensor> none =
      run("a | gru | | f32[2,1,3] f32[1,12,3] f32[1,12,4] f32[1,24] i32[1]=0 f32[1,1,4]=1,2,3,4",
          "seq");
  CHECK(none[1].data<float>()[2] == 3);

  const OpCase steps_first =
      parse_op_case("b | lstm | | f32[3,2,4] f32[1,20,4] f32[1,20,5] f32[1,40]");
  const OpCase batch_first =
      parse_op_case("b | lstm | batch_first=true | f32[2,3,4] f32[1,20,4] f32[1,20,5] f32[1,40]");
  std::vector<Tensor> a = case_inputs(steps_first), swapped = case_inputs(steps_first);
  swapped[0] = Tensor::uninitialized(DType::f32, {2, 3, 4});
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t b = 0; b < 2; ++b)
      std::memcpy(swapped[0].mutable_data<float>().data() + (b * 3 + t) * 4,
                  a[0].data<float>().data() + (t * 2 + b) * 4, 16);
  const std::vector<Tensor> ya = run(steps_first, a, "seq"), yb = run(batch_first, swapped, "seq");
  CHECK(yb[0].shape() == Shape{2, 3, 1, 5});
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t b = 0; b < 2; ++b)
      CHECK(std::memcmp(ya[0].data<float>().data() + (t * 2 + b) * 5,
                        yb[0].data<float>().data() + (b * 3 + t) * 5, 20) == 0);
}

TEST_CASE("recurrent: what does not fit is refused") {
  for (const auto& [line, says] :
       {std::pair{"a | lstm | gates=iof | f32[3,2,4] f32[1,12,4] f32[1,12,3]", "permutation"},
        {"a | lstm | | f32[3,2,4] f32[1,12,5] f32[1,12,3]", "w must be [1,12,4]"},
        {"a | gru | | f32[3,2,4] f32[1,9,4] f32[1,9,3] f32[1,9]", "b must be [1,18]"},
        {"a | rnn | activations=[Sine] | f32[3,2,4] f32[1,3,4] f32[1,3,3]", "'Sine'"},
        {"a | gru | activations=[Tanh] | f32[3,2,4] f32[1,9,4] f32[1,9,3]", "2 functions"},
        {"a | rnn | hidden_size=4 | f32[3,2,4] f32[1,3,4] f32[1,3,3]", "hidden_size is 4"},
        {"a | rnn | clip=-1 | f32[3,2,4] f32[1,3,4] f32[1,3,3]", "clip"},
        {"a | rnn | | f32[3,2,4] f32[1,3,4] f32[1,3,3] - i64[2]=4,1", "sequence_lens[0] is 4"},
        {"a | rnn | | f32[3,2,4] f16[1,3,4] f32[1,3,3]", "floating type"}})
    CHECK_THROWS_WITH_AS(run(line, "seq"), doctest::Contains(says), Error);
}
