// resize: the values of ONNX's reference implementation (float64), rounded once to f32, for every
// coordinate mode and kernel; bits copied by nearest; refusals.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "kernels/gemm/exact.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/op_cases.h"
#include "tests/same_bits.h"

using namespace etalon;
using test::equal_bits;

namespace {

OpRun run(std::string_view line, const char* contract, int threads = 1) {
  const OpCase c = parse_op_case(line);
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  return run_op(*c.op, c.params, p, all_kernels(),
                {.contract = Contract::parse(contract), .threads = threads});
}

struct Known {
  const char* line;
  std::vector<double> values;
};

}  // namespace

TEST_CASE("resize: exact equals ONNX's reference, rounded once") {
  const Known cases[] = {
      {"r | resize | mode=linear coordinate_transformation_mode=half_pixel | f32[6]=1,2,4,8,16,32 "
       "- f32[1]=0.6",
       {1.3333332538604736, 3.999999761581421, 13.333332061767578}},
      {"r | resize | mode=linear coordinate_transformation_mode=half_pixel | f32[6]=1,2,4,8,16,32 "
       "- f32[1]=1.7",
       {1, 1.3823529481887817, 1.970588207244873, 3.1176469326019287, 4.588234901428223,
        6.941175937652588, 10.588234901428223, 15.294116973876953, 23.999998092651367, 32}},
      {"r | resize | nearest_mode=round_prefer_floor coordinate_transformation_mode=half_pixel | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 1, 2, 4, 4, 8, 16, 16, 32}},
      {"r | resize | nearest_mode=round_prefer_ceil coordinate_transformation_mode=half_pixel | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 2, 4, 8, 8, 16, 32, 32}},
      {"r | resize | nearest_mode=floor coordinate_transformation_mode=half_pixel | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 1, 2, 2, 4, 8, 8, 16, 32}},
      {"r | resize | nearest_mode=ceil coordinate_transformation_mode=half_pixel | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 4, 4, 8, 16, 16, 32, 32}},
      {"r | resize | mode=linear coordinate_transformation_mode=half_pixel_symmetric | "
       "f32[6]=1,2,4,8,16,32 - f32[1]=0.6",
       {1.8333333730697632, 6, 18.66666603088379}},
      {"r | resize | mode=linear coordinate_transformation_mode=half_pixel_symmetric | "
       "f32[6]=1,2,4,8,16,32 - f32[1]=1.7",
       {1, 1.4411765336990356, 2.058823585510254, 3.2352941036224365, 4.823529243469238,
        7.176470756530762, 11.058823585510254, 15.764705657958984, 24.94117546081543, 32}},
      {"r | resize | nearest_mode=round_prefer_floor "
       "coordinate_transformation_mode=half_pixel_symmetric | f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 1, 2, 4, 4, 8, 16, 16, 32}},
      {"r | resize | nearest_mode=round_prefer_ceil "
       "coordinate_transformation_mode=half_pixel_symmetric | f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 2, 4, 8, 8, 16, 32, 32}},
      {"r | resize | nearest_mode=floor coordinate_transformation_mode=half_pixel_symmetric | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 1, 2, 2, 4, 8, 8, 16, 32}},
      {"r | resize | nearest_mode=ceil coordinate_transformation_mode=half_pixel_symmetric | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 4, 4, 8, 16, 16, 32, 32}},
      {"r | resize | mode=linear coordinate_transformation_mode=pytorch_half_pixel | "
       "f32[6]=1,2,4,8,16,32 - f32[1]=0.6",
       {1.3333332538604736, 3.999999761581421, 13.333332061767578}},
      {"r | resize | mode=linear coordinate_transformation_mode=pytorch_half_pixel | "
       "f32[6]=1,2,4,8,16,32 - f32[1]=1.7",
       {1, 1.3823529481887817, 1.970588207244873, 3.1176469326019287, 4.588234901428223,
        6.941175937652588, 10.588234901428223, 15.294116973876953, 23.999998092651367, 32}},
      {"r | resize | nearest_mode=round_prefer_floor "
       "coordinate_transformation_mode=pytorch_half_pixel | f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 1, 2, 4, 4, 8, 16, 16, 32}},
      {"r | resize | nearest_mode=round_prefer_ceil "
       "coordinate_transformation_mode=pytorch_half_pixel | f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 2, 4, 8, 8, 16, 32, 32}},
      {"r | resize | nearest_mode=floor coordinate_transformation_mode=pytorch_half_pixel | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 1, 2, 2, 4, 8, 8, 16, 32}},
      {"r | resize | nearest_mode=ceil coordinate_transformation_mode=pytorch_half_pixel | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 4, 4, 8, 16, 16, 32, 32}},
      {"r | resize | mode=linear coordinate_transformation_mode=align_corners | "
       "f32[6]=1,2,4,8,16,32 - f32[1]=0.6",
       {1, 3.846153736114502, 14.7692289352417}},
      {"r | resize | mode=linear coordinate_transformation_mode=align_corners | "
       "f32[6]=1,2,4,8,16,32 - f32[1]=1.7",
       {1, 1.54347825050354, 2.17391300201416, 3.2608695030212402, 4.695652008056641,
        6.869565010070801, 10.086956024169922, 14.434782028198242, 21.565216064453125,
        30.260868072509766}},
      {"r | resize | nearest_mode=round_prefer_floor coordinate_transformation_mode=align_corners "
       "| f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 2, 4, 4, 8, 16, 16, 32}},
      {"r | resize | nearest_mode=round_prefer_ceil coordinate_transformation_mode=align_corners | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 2, 4, 8, 8, 16, 16, 32}},
      {"r | resize | nearest_mode=floor coordinate_transformation_mode=align_corners | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 1, 2, 2, 4, 8, 8, 16, 32}},
      {"r | resize | nearest_mode=ceil coordinate_transformation_mode=align_corners | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 4, 4, 8, 16, 16, 32, 32}},
      {"r | resize | mode=linear coordinate_transformation_mode=asymmetric | f32[6]=1,2,4,8,16,32 "
       "- f32[1]=0.6",
       {1, 3.3333332538604736, 10.666666030883789}},
      {"r | resize | mode=linear coordinate_transformation_mode=asymmetric | f32[6]=1,2,4,8,16,32 "
       "- f32[1]=1.7",
       {1, 1.5882352590560913, 2.3529410362243652, 3.529411554336548, 5.411764621734619,
        7.764705657958984, 12.2352933883667, 17.88235092163086, 27.29411506652832, 32}},
      {"r | resize | nearest_mode=round_prefer_floor coordinate_transformation_mode=asymmetric | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 2, 4, 8, 8, 16, 32, 32}},
      {"r | resize | nearest_mode=round_prefer_ceil coordinate_transformation_mode=asymmetric | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 2, 4, 8, 8, 16, 32, 32}},
      {"r | resize | nearest_mode=floor coordinate_transformation_mode=asymmetric | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 1, 2, 4, 4, 8, 16, 16, 32}},
      {"r | resize | nearest_mode=ceil coordinate_transformation_mode=asymmetric | "
       "f32[6]=1,2,4,8,16,32 - - i64[1]=9",
       {1, 2, 4, 4, 8, 16, 16, 32, 32}},
      {"r | resize | mode=cubic | f32[6]=1,2,4,8,16,32 - f32[1]=1.7",
       {0.9026244282722473, 1.2330169677734375, 1.9357444047927856, 2.800408363342285,
        4.549498558044434, 6.251360893249512, 10.028215408325195, 14.56770133972168,
        24.749998092651367, 32.88021469116211}},
      {"r | resize | mode=cubic cubic_coeff_a=-0.5 exclude_outside=true | f32[6]=1,2,4,8,16,32 - "
       "f32[1]=1.7",
       {0.9229200482368469, 1.2463096380233765, 1.9559135437011719, 2.9254908561706543,
        4.444356441497803, 6.603424072265625, 10.008904457092285, 14.9865140914917,
        24.941173553466797, 32.62103271484375}},
      {"r | resize | mode=linear antialias=true | f32[6]=1,2,4,8,16,32 - f32[1]=0.4",
       {2.240000009536743, 12.079999923706055}},
      {"r | resize | mode=cubic antialias=true | f32[6]=1,2,4,8,16,32 - f32[1]=0.4",
       {1.1051000356674194, 11.52199935913086}},
      {"r | resize | mode=linear coordinate_transformation_mode=tf_crop_and_resize "
       "extrapolation_value=-7 | f32[6]=1,2,4,8,16,32 f32[2]=0.1,1.3 - i64[1]=5",
       {1.5, 4.0, 11.999999046325684, 31.999998092651367, -7}},
      {"r | resize | mode=linear | f32[3,4]=0,1,4,9,16,25,36,49,64,81,100,121 - f32[2]=0.6,1.7",
       {5.3333330154418945, 6.735293388366699, 8.892155647277832, 12.166665077209473,
        15.794116020202637, 20.303918838500977}},
      {"r | resize | mode=cubic | f32[3,4]=0,1,4,9,16,25,36,49,64,81,100,121 - - i64[2]=2,5",
       {1.7837265729904175, 3.262960910797119, 6.359375, 11.321788787841797, 15.928023338317871,
        52.747772216796875, 62.9145393371582, 77.515625, 93.98271179199219, 107.27647399902344}},
      {"r | resize | mode=linear keep_aspect_ratio_policy=not_larger | "
       "f32[3,4]=0,1,4,9,16,25,36,49,64,81,100,121 - - i64[2]=2,5",
       {4.75, 10.75, 19, 55.75, 79.75, 103}},
      {"r | resize | keep_aspect_ratio_policy=not_smaller | "
       "f32[3,4]=0,1,4,9,16,25,36,49,64,81,100,121 - - i64[2]=2,5",
       {0, 1, 1, 4, 9, 16, 25, 25, 36, 49, 16, 25, 25, 36, 49, 64, 81, 81, 100, 121}},
  };
  for (const Known& k : cases) {
    const OpRun exact = run(k.line, "exact"), seq = run(k.line, "seq", 3);
    const auto y = exact.outputs[0].data<float>(), z = seq.outputs[0].data<float>();
    REQUIRE_MESSAGE(y.size() == k.values.size(), k.line);
    for (std::size_t i = 0; i < y.size(); ++i) {
      CHECK_MESSAGE(bits_of(y[i]) == bits_of(static_cast<float>(k.values[i])), k.line, " element ",
                    i, ": ", y[i]);
      // Weights and sums of a few roundings each; the largest |x| is 121.
      CHECK_MESSAGE(abs_of(static_cast<double>(z[i]) - k.values[i]) <= 121 * 64 * 0x1p-24, k.line);
    }
  }
}

TEST_CASE("resize: nearest copies bits; where r = 0 no neighbour is read") {
  const Tensor x = Tensor::of<float>({3}, {float_of(0x7fa00001U), 2.0F, float_of(0xffc01234U)});
  const OpCase c = parse_op_case("r | resize | scales=[2] | f32[3]");
  const Tensor* in[] = {&x};
  const auto y = run_op(*c.op, c.params, in, all_kernels(), {.contract = Contract::exact_preset()});
  CHECK(bits_of(y.outputs[0].data<float>()[1]) == 0x7fa00001U);
  CHECK(bits_of(y.outputs[0].data<float>()[5]) == 0xffc01234U);
  const auto z = run(
      "r | resize | mode=linear coordinate_transformation_mode=align_corners | f32[3]=1,nan,3 - - "
      "i64[1]=5",
      "seq");
  const auto v = z.outputs[0].data<float>();
  CHECK(v[0] == 1.0F);
  CHECK(v[4] == 3.0F);
  for (const std::size_t i : {1U, 2U, 3U}) CHECK(bits_of(v[i]) == kNanF32);
}

TEST_CASE("resize: f32 coordinates are another definition") {
  // 1.5 / 0.6f - 0.5 taken in f32 is 2 exactly, in f64 just below: floor tells.
  const char* line =
      "r | resize | nearest_mode=floor coordinates={} | i32[20]=0,1,2,3,4,5,6,7,8,9,"
      "10,11,12,13,14,15,16,17,18,19 - f32[1]=0.6";
  const auto with = [&](const char* precision) {
    return to_int64_values(run(fmt::format(fmt::runtime(line), precision), "seq").outputs[0]);
  };
  CHECK(with("f64")[1] == 1);
  CHECK(with("f32")[1] == 2);
}

TEST_CASE("resize: a size from a scale is rounded once, in the precision of the coordinates") {
  const auto size = [](const char* precision) {
    const auto line =
        fmt::format("r | resize | coordinates={} | i32[5]=0,1,2,3,4 - f32[1]=1.8", precision);
    return run(line, "seq").outputs[0].numel();
  };
  CHECK(size("f64") == 8);  // 1.8 as f32 lies below 1.8
  CHECK(size("f32") == 9);
}

namespace {

// Cases of every mode that fast rows take, in one to three axes, growing and shrinking, beside axes
// that stay: the text after 'r | resize | '. `fill` is the inputs' data.
std::vector<std::string> resize_cases(std::span<const char* const> coordinates, const char* fill) {
  constexpr std::pair<const char*, const char*> kInputs[] = {{"13", "i64[1]={a}"},
                                                             {"7,11", "i64[2]={a},{b}"},
                                                             {"3,6,17", "i64[3]=3,{a},{b}"},
                                                             {"5,6,18", "i64[3]={a},{b},18"},
                                                             {"2,3,9,8", "i64[4]=2,3,{a},{b}"},
                                                             {"2,9,8,3", "i64[4]=2,{a},{b},3"},
                                                             {"1,2,4,5,6", "i64[5]=1,2,{b},{a},9"}};
  std::vector<std::string> cases;
  for (const auto& [shape, sizes] : kInputs)
    for (const char* mode : {"linear", "cubic", "cubic exclude_outside=true",
                             "linear antialias=true", "cubic antialias=true cubic_coeff_a=-0.5"})
      for (const char* coordinate : coordinates)
        for (const auto& [a, b] : {std::pair{16, 33}, {5, 4}, {1, 21}})
          cases.push_back(fmt::format("mode={} coordinate_transformation_mode={} | f32[{}]{} - - ",
                                      mode, coordinate, shape, fill) +
                          fmt::format(fmt::runtime(sizes), fmt::arg("a", a), fmt::arg("b", b)));
  return cases;
}

OpRun run_row(const OpCase& c, std::string_view kernel, const char* contract, int threads) {
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  return run_op(
      *c.op, c.params, p, all_kernels(),
      {.contract = Contract::parse(contract), .threads = threads, .kernels = std::string(kernel)});
}

// Compares the rows whose names begin so with the definition; returns how many comparisons it made.
int compare_rows(const OpCase& c, const OpRun& want, std::string_view names, const char* contract) {
  int compared = 0;
  for (const KernelRow* row : all_kernels().rows_of("resize")) {
    if (!row->name.starts_with(names) || !test::on_this_cpu(*row)) continue;
    for (const int threads : {1, 3}) {
      CAPTURE(c.line);
      CAPTURE(row->name);
      CHECK(equal_bits(run_row(c, row->name, contract, threads).outputs[0], want.outputs[0]));
      ++compared;
    }
  }
  return compared;
}

}  // namespace

// NaN, infinities and zeros of both signs, of which an output at r = 0 keeps the sign.
TEST_CASE("resize: fast rows have the definition's bits") {
  constexpr const char* kCoordinates[] = {"half_pixel", "align_corners", "asymmetric",
                                          "pytorch_half_pixel", "half_pixel_symmetric"};
  int compared = 0, zeros = 0, parted = 0;
  for (const std::string& text : resize_cases(kCoordinates, ":special")) {
    const OpCase c = parse_op_case("r | resize | " + text);
    const OpRun want = run_row(c, "resize.definition", "seq", 2);
    for (const char* other : {"order=lanes:2", "fma=off"})
      parted += !equal_bits(run_row(c, "resize.definition", other, 2).outputs[0], want.outputs[0]);
    for (const float v : want.outputs[0].data<float>()) zeros += bits_of(v) == 0x80000000U;
    compared += compare_rows(c, want, "resize.f32.", "seq");
  }
  CHECK(zeros > 0);
  CHECK(parted > 400);  // of 1050: the data tells orders, and fused from not
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 7 * 5 * 5 * 3 * 2);
}

// Beside them data of one magnitude, which the first pass decides, ties and all, and data of many.
TEST_CASE("resize: exact rows have the definition's bits") {
  constexpr const char* kCoordinates[] = {"half_pixel", "align_corners"};
  int compared = 0, zeros = 0, parted = 0;
  for (const char* fill : {":special", "", ":wild"})
    for (const std::string& text : resize_cases(kCoordinates, fill)) {
      const OpCase c = parse_op_case("r | resize | " + text);
      CAPTURE(c.line);
      const OpRun want = run_row(c, "resize.definition", "exact", 2);
      parted +=
          !equal_bits(run_row(c, "resize.definition", "acc=f64", 2).outputs[0], want.outputs[0]);
      for (const float v : want.outputs[0].data<float>()) zeros += bits_of(v) == 0x80000000U;
      compared += compare_rows(c, want, "resize.exact.", "exact");
    }
  CHECK(zeros > 0);
  CHECK(parted > 0);  // sums in f64, rounded twice, are not enough
  if (detect_isa() >= Isa::avx2) CHECK(compared >= 3 * 7 * 5 * 2 * 3 * 2);
}

TEST_CASE("resize: the first pass of exact decides ties itself") {
  const OpCase c = parse_op_case("r | resize | mode=linear scales=[1,2] | f32[64,512]");
  const std::vector<Tensor> in = case_inputs(c);
  const auto x = in[0].data<float>();
  int ties = 0;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    const double y = 0.75 * static_cast<double>(x[i]) + 0.25 * static_cast<double>(x[i + 1]);
    const double rounded = static_cast<double>(static_cast<float>(y));
    ties += abs_of(y - rounded) == ulp_of(rounded, DType::f32) / 2;
  }
  CHECK(ties > 1000);
  for (const KernelRow* row : all_kernels().rows_of("resize")) {
    if (!row->name.starts_with("resize.exact.") || !test::on_this_cpu(*row)) continue;
    const std::int64_t before = exact_counts().undecided, all = exact_counts().outputs;
    run_row(c, row->name, "exact", 1);
    CHECK(exact_counts().outputs == all + 64 * 1024);
    CHECK(exact_counts().undecided - before < 10);
  }
}

// Weights of 5/24, 7/24, 7/24 and 5/24: the middle of 1 and 1 + 2^-23, which goes to even, of terms
// of which none is a finite fraction. Shrunk along both axes likewise.
TEST_CASE("resize: exact decides a tie of weights that no binary fraction holds") {
  for (const char* line :
       {"r | resize | mode=linear antialias=true exclude_outside=true scales=[0.25] | "
        "f32[4]=1,1,0x1.000002p0,0x1.000002p0",
        "r | resize | mode=linear antialias=true exclude_outside=true scales=[0.25,0.25] | "
        "f32[4,4]=1,1,0x1.000002p0,0x1.000002p0,1,1,0x1.000002p0,0x1.000002p0,"
        "1,1,0x1.000002p0,0x1.000002p0,1,1,0x1.000002p0,0x1.000002p0"}) {
    const OpCase c = parse_op_case(line);
    const OpRun want = run_row(c, "resize.definition", "exact", 1);
    CHECK(want.outputs[0].data<float>()[0] == 1.0F);
    compare_rows(c, want, "resize.exact.", "exact");
  }
}

TEST_CASE("resize: what does not fit is refused") {
  for (const auto& [line, says] :
       {std::pair{"r | resize | | f32[3]", "got neither"},
        {"r | resize | scales=[2] | f32[3] - - i64[1]=2", "got both"},
        {"r | resize | scales=[2,2] | f32[3]", "2 scales are given for 1 axes"},
        {"r | resize | scales=[-1] | f32[3]", "must be positive"},
        {"r | resize | scales=[1e30] | f32[3]", "check the scales"},
        {"r | resize | mode=linear scales=[2] | i8[3]:0..1", "floating types"},
        {"r | resize | antialias=true scales=[2] | f32[3]", "no meaning for nearest"},
        {"r | resize | coordinate_transformation_mode=tf_crop_and_resize scales=[2] | f32[3]",
         "needs a begin and an end"},
        {"r | resize | sizes=[4] | f32[0]", "cannot grow"}})
    CHECK_THROWS_WITH_AS(run(line, "seq"), doctest::Contains(says), Error);
}

// Rows of y that repeat are copied, not gathered again: 3 by 2 times as many pixels, in shares that
// begin at any of them; and a crop whose first and last rows and columns lie outside.
TEST_CASE("resize: nearest, every pixel by its place, by threads") {
  constexpr std::int64_t kRows = 61, kColumns = 90, kPlanes = 3;
  for (const int threads : {1, 3}) {
    const OpCase c = parse_op_case(
        "r | resize | nearest_mode=floor coordinate_transformation_mode=asymmetric | "
        "f32[1,3,61,90] - f32[4]=1,1,3,2");
    const std::vector<Tensor> in = case_inputs(c);
    const auto p = pointers(in);
    const OpRun up = run_op(*c.op, c.params, p, all_kernels(),
                            {.contract = Contract::parse("seq"), .threads = threads});
    const auto x = in[0].data<float>(), y = up.outputs[0].data<float>();
    REQUIRE(y.size() == static_cast<std::size_t>(kPlanes * 3 * kRows * 2 * kColumns));
    int wrong = 0;
    for (std::int64_t i = 0; i < std::ssize(y); ++i) {
      const std::int64_t column = i % (2 * kColumns) / 2, row = i / (2 * kColumns) / 3;
      wrong += bits_of(y[static_cast<std::size_t>(i)]) !=
               bits_of(x[static_cast<std::size_t>(row * kColumns + column)]);
    }
    CHECK(wrong == 0);
  }
  const OpRun crop =
      run("r | resize | nearest_mode=floor coordinate_transformation_mode=tf_crop_and_resize "
          "extrapolation_value=9 | f32[2,2]=1,2,3,4 f32[4]=-1,0,2,1 - i64[2]=7,2",
          "seq");
  const auto y = crop.outputs[0].data<float>();
  CHECK(std::vector<float>(y.begin(), y.end()) ==
        std::vector<float>{9, 9, 9, 9, 1, 2, 1, 2, 3, 4, 9, 9, 9, 9});
}
