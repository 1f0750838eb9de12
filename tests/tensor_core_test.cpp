// The models of tensor cores: the bits of a public model that was checked against the hardware
// (tests/fixtures/make_tensor_core.py), the properties its authors published, what the contract
// refuses, and that the ops that multiply have a row for it.
#include "engine/numerics/tensor_core.h"

#include <doctest/doctest.h>

#include <charconv>
#include <map>
#include <sstream>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/graph/executor.h"
#include "engine/numerics/contract_arithmetic.h"
#include "kernels/kernels.h"

using namespace etalon;

namespace {

// Factors as the leading digits of their f32 bits.
std::vector<float> unpack(std::string_view digits, std::size_t each) {
  std::vector<float> values;
  for (std::size_t at = 0; at + each <= digits.size(); at += each) {
    std::uint32_t bits = 0;
    std::from_chars(digits.data() + at, digits.data() + at + each, bits, 16);
    values.push_back(float_of(bits << (4 * (8 - each))));
  }
  return values;
}

float dot(const std::string& contract, std::span<const float> a, std::span<const float> b,
          std::string_view op = "gemm") {
  const auto n = static_cast<std::int64_t>(a.size());
  const Tensor x = Tensor::of<float>(Shape{1, n}, a), y = Tensor::of<float>(Shape{n, 1}, b);
  const std::array<const Tensor*, 2> in{&x, &y};
  const OpRow& row = get_op(op);
  const OpRun run =
      run_op(row, row.defaults(), in, all_kernels(), {.contract = Contract::parse(contract)});
  return run.outputs[0].data<float>()[0];
}
float dot(const std::string& contract, std::initializer_list<float> a,
          std::initializer_list<float> b) {
  return dot(contract, std::span(a.begin(), a.size()), std::span(b.begin(), b.size()));
}

}  // namespace

TEST_CASE("tensor core: the bits of MMA-Sim, every unit, format and accumulator") {
  std::istringstream lines(
      read_text_file(std::string(ETALON_SOURCE_DIR) + "/tests/fixtures/tensor_core/vectors.txt"));
  std::map<std::string, int> compared;
  int special = 0, not_seq = 0;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    std::istringstream words(line);
    std::string arch, format, acc, a, b, result;
    REQUIRE((words >> arch >> format >> acc >> a >> b >> result));
    const std::size_t each = format == "f16" || format == "tf32" ? 5 : 4;
    const std::vector<float> x = unpack(a, each), y = unpack(b, each);
    REQUIRE(x.size() == y.size());
    const std::string contract = "order=tensorcore:" + arch + ":" + format + ",acc=" + acc;
    const float got = dot(contract, x, y), expected = unpack(result, 8)[0];
    CHECK(bits_of(got) == bits_of(expected));
    CHECK(bits_of(dot(contract, x, y, "matmul")) == bits_of(expected));
    compared[arch + " " + format + " " + acc] += 1;
    special += is_finite(static_cast<double>(got)) ? 0 : 1;
    not_seq += bits_of(dot("seq", x, y)) != bits_of(expected) ? 1 : 0;
  }
  CHECK(compared.size() == 18);  // 11 pairs of unit and format, 7 of them with an f16 accumulator
  for (const auto& [unit, n] : compared) CHECK_MESSAGE(n >= 14, unit);
  CHECK(special >= 20);
  CHECK(not_seq >= 100);  // the data can see it
}

TEST_CASE("tensor core: what Fasi, Higham, Mikaitis and Pranesh found") {
  const float u = 0x1p-24F;
  for (const auto& [arch, extra] :
       std::map<std::string, int>{{"volta", 0}, {"ampere", 1}, {"hopper", 2}}) {
    CAPTURE(arch);
    const std::string contract = "order=tensorcore:" + arch + ":f16";
    // Extra bits: 1 + 2^-24 + 2^-24 keeps the small terms where there is one extra bit; with two,
    // 2^-25 four times.
    CHECK((dot(contract, {1, 0x1p-12F, 0x1p-12F}, {1, 0x1p-12F, 0x1p-12F}) == 1 + 2 * u) ==
          (extra >= 1));
    CHECK((dot(contract, {1, 0x1p-12F, 0x1p-12F, 0x1p-12F, 0x1p-12F},
               {1, 0x1p-13F, 0x1p-13F, 0x1p-13F, 0x1p-13F}) == 1 + 2 * u) == (extra >= 2));
    // Toward zero in both signs: 1 + 2^-23 + 2^-24.
    const float cut = dot(contract, {1, 0x1p-11F, 0x1p-12F}, {1, 0x1p-12F, 0x1p-12F});
    CHECK(cut == 1 + 2 * u);
    CHECK(dot(contract, {-1, -0x1p-11F, -0x1p-12F}, {1, 0x1p-12F, 0x1p-12F}) == -cut);
    // Subnormal factors count, and so does a subnormal f32.
    CHECK(dot(contract, {0x1p-24F}, {0x1p-24F}) == 0x1p-48F);
    // A zero is +0.
    CHECK(bits_of(dot(contract, {-0.0F}, {1})) == 0);
    CHECK(bits_of(dot(contract, {1, -1}, {1, 1})) == 0);
  }
}

TEST_CASE("tensor core: a larger term can give a smaller sum, for terms are not normalised") {
  // The first block makes c; the second adds four times 2^-24, cut away beside 1, kept beside less.
  const float t = 0x1p-12F;
  const std::vector<float> b{1, 1, t, 0, t, t, t, t};
  const auto sum = [&](std::vector<float> first) {
    first.insert(first.end(), 4, t);
    return dot("order=tensorcore:volta:f16", first, b);
  };
  CHECK(sum({0.5F, 0.5F, -t, 0}) == 0x1.000002p+0F);
  CHECK(sum({0.5F, 0.5F, 0, 0}) == 1);
}

TEST_CASE("tensor core: convolution walks k through the blocks, taps outside keep their place") {
  // 16 channels of one pixel under a 1x3 kernel, one column of padding on each side: of every three
  // taps the middle one counts, and eight positions make a block of Ampere's.
  std::vector<float> x(16), w(48), a(48, 0.0F);
  for (std::size_t c = 0; c < 16; ++c) {
    x[c] = c % 5 == 0 ? 1.5F : 0x1.008p-11F * static_cast<float>(c);
    for (std::size_t s = 0; s < 3; ++s) w[3 * c + s] = c % 2 == 0 ? 0x1.04p-9F : 1.0F;
    a[3 * c + 1] = x[c];
  }
  const Tensor image = Tensor::of<float>({1, 16, 1, 1}, std::span<const float>(x));
  const Tensor weight = Tensor::of<float>({1, 16, 1, 3}, std::span<const float>(w));
  const OpRow& conv = get_op("conv");
  const Params padded = parse_params(conv.defaults(), "pads_begin=[0,1] pads_end=[0,1]");
  const std::array<const Tensor*, 2> in{&image, &weight};
  for (const char* contract : {"order=tensorcore:ampere:f16", "order=tensorcore:hopper:bf16"}) {
    const OpRun run =
        run_op(conv, padded, in, all_kernels(), {.contract = Contract::parse(contract)});
    CHECK(bits_of(run.outputs[0].data<float>()[0]) == bits_of(dot(contract, a, w)));
  }
}

TEST_CASE("tensor core: what is multiplied follows from the tensors where the contract is silent") {
  CHECK(to_string(Contract::parse("order=tensorcore:hopper:f8e4m3")) ==
        "etalon1:store=f32,acc=f32,order=tensorcore:hopper:f8e4m3,walk=crs,fma=on,round=rn,"
        "subnormals=keep,math=cr,algo=direct");
  CHECK(short_name(Contract::parse("order=tensorcore:volta")) == "order=tensorcore:volta");
  CHECK(Contract::parse(to_string(Contract::parse("order=tensorcore:ada:f8e5m2"))) ==
        Contract::parse("order=tensorcore:ada:f8e5m2"));
  // f32 becomes tf32 by dropping bits: 1 + 2^-10 + 2^-11 keeps 1 + 2^-10; f16 rounds it up.
  const float x = 1 + 0x1.8p-10F;
  CHECK(dot("order=tensorcore:ampere", {x}, {1}) == 1 + 0x1p-10F);
  CHECK(dot("order=tensorcore:ampere:tf32", {x}, {1}) == 1 + 0x1p-10F);
  CHECK(dot("order=tensorcore:ampere:f16", {x}, {1}) == 1 + 0x1p-9F);
  // 448 is the largest f8e4m3; 464 is the tie with 480, which has no code.
  CHECK(dot("order=tensorcore:hopper:f8e4m3", {464}, {1}) == 448);
  CHECK(dot("order=tensorcore:hopper:f8e4m3", {465}, {1}) != dot("seq", {465}, {1}));
  CHECK(is_nan(static_cast<double>(dot("order=tensorcore:hopper:f8e4m3", {465}, {1}))));
  CHECK(dot("order=tensorcore:hopper:f8e5m2", {65536}, {1}) == __builtin_inff());
}

TEST_CASE("tensor core: refused with the reason where it has no meaning") {
  const auto parse = [](const char* text) { return Contract::parse(text); };
  CHECK_THROWS_WITH_AS(parse("order=tensorcore:pascal"),
                       doctest::Contains("is not one of tensorcore:volta"), Error);
  CHECK_THROWS_WITH_AS(parse("order=tensorcore:hopper:i8"), doctest::Contains("not 'i8'"), Error);
  CHECK_THROWS_WITH_AS(parse("order=tensorcore:volta:bf16"),
                       doctest::Contains("volta's tensor cores do not multiply bf16"), Error);
  CHECK_THROWS_WITH_AS(parse("order=tensorcore:ampere:bf16,acc=f16"),
                       doctest::Contains("do not multiply bf16 with acc=f16"), Error);
  CHECK_THROWS_WITH_AS(parse("order=tensorcore:hopper,acc=f64"), doctest::Contains("order=seq"),
                       Error);
  for (const char* field : {"fma=off", "round=rz", "subnormals=flush"})
    CHECK_THROWS_WITH_AS(parse((std::string("order=tensorcore:hopper,") + field).c_str()),
                         doctest::Contains("leave out fma"), Error);
  CHECK_THROWS_WITH_AS(parse("order=tensorcore:hopper,algo=im2col"),
                       doctest::Contains("algo=direct"), Error);
  // Volta has no tf32, which is what f32 tensors would be.
  CHECK_THROWS_WITH_AS(dot("order=tensorcore:volta", {1}, {1}),
                       doctest::Contains("volta's tensor cores do not multiply tf32"), Error);
  const Tensor x = Tensor::of<float>({4}, {1, 2, 3, 4});
  const std::array<const Tensor*, 1> in{&x};
  const OpRow& sum = get_op("reduce_sum");
  CHECK_THROWS_WITH_AS(run_op(sum, sum.defaults(), in, all_kernels(),
                              {.contract = Contract::parse("order=tensorcore:hopper")}),
                       doctest::Contains("is of gemm, matmul and conv"), Error);
  const OpRow& relu = get_op("relu");
  CHECK(run_op(relu, relu.defaults(), in, all_kernels(),
               {.contract = Contract::parse("order=tensorcore:hopper")})
            .outputs[0]
            .data<float>()[3] == 4);
}
