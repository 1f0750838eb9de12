// docs/contract.md is right: each line of its example blocks is run and its bits compared.
#include <doctest/doctest.h>

#include <bit>
#include <cstdlib>
#include <sstream>

#include "engine/core/file.h"
#include "engine/graph/executor.h"
#include "engine/ops/conv.h"
#include "kernels/kernels.h"

using namespace etalon;

namespace {

Tensor numbers(std::string text, bool row) {
  std::vector<float> values;
  for (char& c : text)
    if (c == ',') c = ' ';
  std::istringstream in(text);
  for (std::string word; in >> word;) values.push_back(std::strtof(word.c_str(), nullptr));
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::of<float>(row ? Shape{1, n} : Shape{n, 1}, std::span<const float>(values));
}

float only_output(const OpRow& op, std::initializer_list<const Tensor*> inputs,
                  const std::string& contract) {
  RunOptions options{.contract = Contract::parse(contract)};
  const OpRun run =
      run_op(op, op.defaults(), std::span<const Tensor* const>(inputs.begin(), inputs.size()),
             all_kernels(), options);
  REQUIRE(run.outputs.at(0).numel() == 1);
  return run.outputs[0].data<float>()[0];
}

}  // namespace

TEST_CASE("contract: every worked example of docs/contract.md gives the bits it says") {
  const std::string source = ETALON_SOURCE_DIR;
  std::istringstream page(read_text_file(source + "/docs/contract.md"));
  std::string block;
  int examples = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      block = line.substr(3);
      continue;
    }
    if (!block.starts_with("etalon-")) continue;
    CAPTURE(line);
    std::istringstream words(line);
    std::string contract, a, b, expected;
    words >> contract >> a;
    float got = 0;
    if (block == "etalon-dot") {
      words >> b >> expected;
      const Tensor row = numbers(a.substr(2), true), column = numbers(b.substr(2), false);
      got = only_output(get_op("gemm"), {&row, &column}, contract);
    } else {
      words >> expected;
      const Tensor x = numbers(a.substr(2), true).reshaped({1, 2, 1, 2});
      const Tensor w = Tensor::of<float>({1, 2, 1, 2}, {1, 1, 1, 1});
      got = only_output(get_op("conv"), {&x, &w}, contract);
    }
    CHECK(std::bit_cast<std::uint32_t>(got) ==
          std::bit_cast<std::uint32_t>(std::strtof(expected.c_str(), nullptr)));
    ++examples;
  }
  CHECK(examples >= 25);
}
