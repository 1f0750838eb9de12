#include <doctest/doctest.h>

#include <chrono>
#include <cstring>

#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "engine/ops/pool.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/op_cases.h"
#include "tests/same_bits.h"

using namespace etalon;

namespace {

std::vector<Tensor> run(std::string_view line, const char* contract = "seq") {
  const OpCase c = parse_op_case(line);
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  return run_op(*c.op, c.params, p, all_kernels(), {.contract = Contract::parse(contract)}).outputs;
}
std::vector<float> floats(const Tensor& t) {
  const auto d = t.data<float>();
  return {d.begin(), d.end()};
}
std::vector<std::int64_t> integers(const Tensor& t) { return to_int64_values(t); }
void same_bits(const Tensor& t, const std::vector<float>& expected) {
  REQUIRE(t.numel() == static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK_MESSAGE(bits_of(t.data<float>()[i]) == bits_of(expected[i]), "element ", i, ": ",
                  t.data<float>()[i], " for ", expected[i]);
}
Shape shape_of(std::string_view line) {
  const OpCase c = parse_op_case(line);
  InferInput in{c.inputs[0].type, nullptr, true};
  return infer(*c.op, c.params, InferInputs({&in, 1}))[0].shape;
}
const float kNanF = float_of(kNanF32), kInf = static_cast<float>(kInfinity);

}  // namespace

TEST_CASE("pool: shapes of floor, ceil, same and global windows") {
  CHECK(shape_of("a | max_pool | kernel=[3,3] strides=[2,2] | f32[1,2,8,9]") == Shape{1, 2, 3, 4});
  CHECK(shape_of("a | max_pool | kernel=[3,3] strides=[2,2] ceil_mode=true | f32[1,2,8,9]") ==
        Shape{1, 2, 4, 4});
  // A third window would start in the padding at the end: not counted (PyTorch's rule).
  CHECK(
      shape_of("a | avg_pool | kernel=[2] strides=[2] pads_end=[2] ceil_mode=true | f32[1,1,3]") ==
      Shape{1, 1, 2});
  CHECK(shape_of("a | max_pool | kernel=[3] strides=[2] auto_pad=same_upper | f32[1,2,8]") ==
        Shape{1, 2, 4});
  CHECK(shape_of("a | global_avg_pool | | f32[4,2,3,3,3]") == Shape{4, 2, 1, 1, 1});
  CHECK(shape_of("a | max_pool | kernel=[2,2] | f32[0,2,4,4]") == Shape{0, 2, 3, 3});
}

TEST_CASE("pool: what does not fit is refused") {
  for (const auto& [line, says] :
       {std::pair{"a | max_pool | kernel=[3] | f32[1,2,8,9]", "window of 1 axes"},
        {"a | max_pool | kernel=[5,5] | f32[1,2,4,9]", "spans 5"},
        {"a | max_pool | kernel=[0] | f32[1,2,4]", "at least 1"},
        {"a | max_pool | kernel=[2] strides=[1,1] | f32[1,2,4]", "strides has 2 entries"},
        {"a | max_pool | kernel=[2] | i64[1,2,4]:0..1", "at most 32 bits"},
        {"a | avg_pool | kernel=[2] | i8[1,2,4]:0..1", "floating"},
        {"a | avg_pool | kernel=[2] divisor_override=-1 | f32[1,2,4]", "divisor_override"},
        {"a | avg_pool | kernel=[4294967296,4294967296] strides=[4294967296,4294967296] "
         "pads_begin=[4294967295,4294967295] pads_end=[4294967295,4294967295] | f32[1,1,2,2]",
         "at most 2^53"},
        {"a | global_avg_pool | | f32[7]", "[N,C,spatial...]"}})
    CHECK_THROWS_WITH_AS(run(line), doctest::Contains(says), Error);
}

TEST_CASE("max_pool: NaN wins, ties keep the first, indices say where") {
  auto out =
      run("a | max_pool | kernel=[2] strides=[2] indices=plane | "
          "f32[1,1,10]=1,nan,-0,0,0,-0,7,7,-inf,-inf");
  same_bits(out[0], {kNanF, -0.0F, 0.0F, 7, -kInf});
  CHECK(integers(out[1]) == std::vector<std::int64_t>{1, 2, 4, 6, 8});
  // A window that lies in the padding holds nothing.
  out = run("a | max_pool | kernel=[2] pads_begin=[2] indices=plane | f32[1,1,2]=-3,-4");
  same_bits(out[0], {-kInf, -3, -3});
  CHECK(integers(out[1]) == std::vector<std::int64_t>{-1, 0, 0});
  out = run("a | max_pool | kernel=[2] pads_begin=[2] | i8[1,1,2]=-3,-4");
  CHECK(out[0].data<std::int8_t>()[0] == -128);
  CHECK(out[0].data<std::int8_t>()[1] == -3);

  // Element (n,c,y,x) = (1,1,1,2) of [2,2,2,3] in each way of counting.
  const char* x = "f32[2,2,2,3]=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,9";
  const auto last = [&](const char* params) {
    return integers(run(fmt::format("a | max_pool | kernel=[2,3] {} | {}", params, x))[1]).back();
  };
  CHECK(last("indices=plane") == 5);
  CHECK(last("indices=tensor") == 23);
  CHECK(last("indices=plane column_major=true") == 2 * 2 + 1);
  CHECK(last("indices=tensor column_major=true") == 18 + 5);
}

TEST_CASE("avg_pool: what is counted") {
  const auto row = [&](const char* params) {
    return floats(run(
        fmt::format("a | avg_pool | kernel=[3] strides=[2] {} | f32[1,1,5]=6,6,6,6,6", params))[0]);
  };
  CHECK(row("") == std::vector<float>{6, 6});
  CHECK(row("pads_begin=[1]") == std::vector<float>{6, 6});
  CHECK(row("pads_begin=[1] count_include_pad=true") == std::vector<float>{4, 6});
  CHECK(row("pads_begin=[1] divisor_override=4") == std::vector<float>{3, 4.5});
  // ceil_mode: the last window reaches one tap beyond the declared padding, which never counts.
  CHECK(row("pads_begin=[1] pads_end=[1] ceil_mode=true count_include_pad=true") ==
        std::vector<float>{4, 6, 4});
  CHECK(row("pads_begin=[1] ceil_mode=true count_include_pad=true") == std::vector<float>{4, 6, 6});
  same_bits(run("a | avg_pool | kernel=[1] pads_begin=[1] | f32[1,1,1]=2")[0], {kNanF, 2});
  same_bits(run("a | global_avg_pool | | f32[1,1,0]")[0], {kNanF});
}

// The witness of docs: 2^24 + 1 is a tie and goes to even, twice; reversed, the ones survive.
TEST_CASE("avg_pool: the order shows") {
  same_bits(run("a | global_avg_pool | | f32[1,1,3]=16777216,1,1")[0], {0x1.555556p22F});
  same_bits(run("a | global_avg_pool | | f32[1,1,3]=1,1,16777216")[0], {5592406});
}

// A ball around a value of the format, or a midpoint, never decides a rounding: the root is
// compared.
TEST_CASE("lp_pool: roots that are exact, or midpoints, are decided in every mode") {
  const auto value = [](const char* line, const char* round) {
    return floats(run(line, (std::string("exact,round=") + round).c_str())[0])[0];
  };
  for (const char* round : {"rn", "rz", "ru", "rd"}) {
    CAPTURE(std::string(round));
    CHECK(value("a | lp_pool | kernel=[3] p=3 | f32[1,1,3]=3,-4,5", round) == 6);
    CHECK(value("a | lp_pool | kernel=[2] p=7 | f32[1,1,2]=0,-0.1", round) == 0.1F);
    CHECK(value("a | lp_pool | kernel=[2] p=2.3 | f32[1,1,2]=0.3,0", round) == 0.3F);
    CHECK(value("a | lp_pool | kernel=[3] p=1.5 | f32[1,1,3]=4,4,0.0625", round) > 4);
    CHECK(value("a | lp_pool | kernel=[8] p=1.5 | f32[1,1,8]=4,4,4,4,4,4,4,4", round) == 16);
  }
  // (2^24 + 1)^3 = 2^72 + 3 2^48 + 3 2^24 + 1: the root is the midpoint of 2^24 and 2^24 + 2.
  const char* tie =
      "a | global_lp_pool | p=3 | f32[1,1,8]=16777216,65536,65536,65536,256,256,256,1";
  CHECK(value(tie, "rn") == 16777216);
  CHECK(value(tie, "ru") == 16777218);
  CHECK(value(tie, "rd") == 16777216);
  // 2^-120 more under the root: 4e-51 above the midpoint.
  const char* above =
      "a | global_lp_pool | p=3 | "
      "f32[1,1,9]=16777216,65536,65536,65536,256,256,256,1,9.094947017729282e-13";
  CHECK(value(above, "rn") == 16777218);
  CHECK(value(above, "rd") == 16777216);
}

TEST_CASE("pool: the rows without vectors keep ties, NaN, order and divisors") {
  const std::vector<std::string> lines = {
      "a | max_pool | kernel=[3,2] strides=[2,1] pads_begin=[1,1] pads_end=[2,0] | f32[2,3,9,7]",
      "a | max_pool | kernel=[2] strides=[2] | f32[1,1,10]=1,nan,-0,0,0,-0,7,7,-inf,-inf",
      "a | max_pool | kernel=[2] pads_begin=[2] | f32[1,1,2]=-3,-4",
      "a | max_pool | kernel=[2,2,3] dilations=[2,1,2] ceil_mode=true strides=[1,2,2] | "
      "f32[1,2,5,6,8]",
      "a | avg_pool | kernel=[3,3] strides=[2,2] pads_begin=[1,1] pads_end=[1,1] | f32[2,3,9,7]",
      "a | avg_pool | kernel=[3] strides=[2] pads_begin=[1] count_include_pad=true "
      "ceil_mode=true | f32[1,2,6]",
      "a | avg_pool | kernel=[1] pads_begin=[1] | f32[1,1,1]=2",
      "a | avg_pool | kernel=[3] divisor_override=7 | f32[1,1,5]=inf,-inf,-0,nan,1"};
  for (const std::string& line : lines) {
    const OpCase c = parse_op_case(line);
    const std::vector<Tensor> in = case_inputs(c);
    const auto p = pointers(in);
    const std::string op(c.op->name);
    const auto of = [&](const std::string& kernel, int threads) {
      return std::move(run_op(*c.op, c.params, p, all_kernels(),
                              {.isa = Isa::sse2, .threads = threads, .kernels = kernel})
                           .outputs[0]);
    };
    const Tensor want = of(op + ".definition", 1);
    for (const int threads : {1, 3}) {
      const Tensor got = of(op + ".f32.sse2", threads);
      CHECK_MESSAGE(std::memcmp(got.bytes().data(), want.bytes().data(), want.size_bytes()) == 0,
                    line);
    }
  }
}

TEST_CASE("pool: the rows on vectors have the definition's bits") {
  // Planes in lanes (kernels/pool/planes.h), rows reduced by columns with steps of one to
  // three (max_rows.h), walks down rows (conv/tap_rows.h): widths past a vector, numbers of planes
  // past one, padding on every side, windows of which padding leaves one tap.
  const char* const windows[] = {
      "kernel=[2,2] pads_end=[1,1] | f32[1,37,2,2]",
      "kernel=[2,2] pads_end=[1,1] | f32[3,35,4,4]",
      "kernel=[3,3] strides=[3,3] | f32[2,9,8,8]",
      "kernel=[3,3] strides=[3,3] pads_begin=[1,2] pads_end=[2,1] | f32[1,19,28,31]",
      "kernel=[3,3] strides=[3,3] | f32[2,3,28,28]",
      "kernel=[2,3] strides=[3,3] pads_begin=[1,1] pads_end=[0,2] ceil_mode=true | f32[1,5,9,26]",
      "kernel=[4,3] strides=[2,3] pads_begin=[0,2] pads_end=[0,2] | f32[1,3,9,14]",
      "kernel=[2,3] strides=[1,4] dilations=[2,1] | f32[1,21,5,30]",
      "kernel=[2,3,2] strides=[2,2,1] pads_begin=[1,1,0] | f32[1,18,3,4,5]",
      "kernel=[3] strides=[2] pads_begin=[1] | f32[2,11,7]",
      "kernel=[3,3] pads_begin=[1,1] pads_end=[1,1] | f32[2,3,28,28]",
      "kernel=[3,3] pads_begin=[2,0] pads_end=[0,2] | f32[1,2,9,47]",
      "kernel=[3,3] pads_begin=[1,1] pads_end=[1,1] | f32[1,3,1,6]",
      "kernel=[2,2] pads_end=[1,1] | f32[1,3,16,16]",
      "kernel=[2,2] pads_begin=[1,1] | f32[1,3,8,33]",
      "kernel=[3,3] strides=[2,2] ceil_mode=true | f32[1,5,16,16]",
      "kernel=[3,3] strides=[2,2] ceil_mode=true | f32[2,17,8,8]",
      "kernel=[3,3] strides=[2,2] pads_begin=[1,1] pads_end=[1,1] | f32[1,3,112,112]",
      "kernel=[2,2] strides=[2,2] | f32[1,5,10,10]"};
  int compared = 0;
  for (const std::string op : {"max_pool", "avg_pool"})
    for (const std::string window : windows)
      for (const std::string data : {"", ":special", ":finite"}) {
        const std::string line = "a | " + op + " | " + window + data;
        const OpCase c = parse_op_case(line);
        const std::vector<Tensor> in = case_inputs(c);
        const auto p = pointers(in);
        const auto of = [&](const std::string& kernel, int threads) {
          return std::move(
              run_op(*c.op, c.params, p, all_kernels(), {.threads = threads, .kernels = kernel})
                  .outputs[0]);
        };
        const Tensor want = of(op + ".definition", 1);
        for (const KernelRow* row : all_kernels().rows_of(op)) {
          if (!row->name.starts_with(op + ".f32.avx") || !test::on_this_cpu(*row)) continue;
          for (const int threads : {1, 3}) {
            const Tensor got = of(std::string(row->name), threads);
            CHECK_MESSAGE(
                std::memcmp(got.bytes().data(), want.bytes().data(), want.size_bytes()) == 0,
                std::string(row->name), ": ", line);
            ++compared;
          }
        }
      }
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 228);
}

// The reference is a small window that sees the same: an image of 2x2 in padding of k - 1.
TEST_CASE("pool: windows far larger than their image are clipped to it") {
  using Clock = std::chrono::steady_clock;
  int compared = 0;
  for (const char* op : {"avg_pool", "max_pool"})
    for (const char* include : {"", " count_include_pad=true"}) {
      if (*include != '\0' && std::string_view(op) != "avg_pool") continue;
      for (const KernelRow* row : all_kernels().rows_of(op)) {
        if (row->promise != Promise::defined || !test::on_this_cpu(*row)) continue;
        if (test::takes_halves_only(*row)) continue;
        const bool exact = row->name.find("exact") != std::string_view::npos;
        const bool definition = row->name.ends_with("definition");
        const auto pool = [&](int k, const std::string& kernel) {
          const OpCase c = parse_op_case(
              fmt::format("a | {0} | kernel=[{1},{1}] pads_begin=[{2},{2}] pads_end=[{2},{2}]{3} | "
                          "f32[1,2,2,2]:wild",
                          op, k, k - 1, include));
          const std::vector<Tensor> in = case_inputs(c);
          RunOptions options{.contract = Contract::parse(exact ? "exact" : "seq")};
          options.kernels = kernel;
          return std::move(
              run_op(*c.op, c.params, pointers(in), all_kernels(), options).outputs[0]);
        };
        const std::string name(row->name);
        CAPTURE(name);
        try {
          const std::string reference = std::string(op) + ".definition";
          for (const int k : {9, 24}) {
            const Tensor got = pool(k, name);
            CHECK(test::equal_bits(got, pool(k, reference)));
            ++compared;
          }
        } catch (const Error& e) {
          if (e.kind() != ErrorKind::usage) throw;
          continue;  // sets of taps beyond what the row tells apart
        }
        if (definition || name.find(".order.") != std::string::npos) continue;
        const auto begin = Clock::now();
        pool(400, name);
        CHECK(std::chrono::duration<double>(Clock::now() - begin).count() < 10);
      }
    }
  CHECK(compared >= 20);
}

TEST_CASE("avg_pool: counts that f32 does not hold are divided by as the definition does") {
  int compared = 0;
  for (const char* line :
       {"a | avg_pool | kernel=[1] divisor_override=1152921573326323713 | f32[1,1,1]=1",
        "a | avg_pool | kernel=[1] divisor_override=16777217 | f32[1,1,2]=1,3",
        "a | avg_pool | kernel=[4097,4097] pads_begin=[4096,4096] pads_end=[0,0] "
        "count_include_pad=true | f32[1,1,1,1]=1"})
    for (const char* contract : {"seq", "acc=f64", "order=lanes:4,round=ru"}) {
      const OpCase c = parse_op_case(line);
      const std::vector<Tensor> in = case_inputs(c);
      const auto pool = [&](std::string kernel) {
        RunOptions options{.contract = Contract::parse(contract)};
        options.kernels = std::move(kernel);
        return std::move(run_op(*c.op, c.params, pointers(in), all_kernels(), options).outputs[0]);
      };
      const Tensor want = pool("avg_pool.definition");
      for (const KernelRow* row : all_kernels().rows_of("avg_pool")) {
        if (row->promise != Promise::defined || !test::on_this_cpu(*row)) continue;
        CAPTURE(row->name);
        CAPTURE(line);
        try {
          const Tensor got = pool(std::string(row->name));
          CHECK(test::equal_bits(got, want));
          ++compared;
        } catch (const Error& e) {
          if (e.kind() != ErrorKind::usage) throw;
        }
      }
      CHECK(test::equal_bits(pool(""), want));
    }
  CHECK(compared >= 15);
}
