// docs/contract.md and the pages of docs/contract, one for each field, are right: each line of
// their example blocks is run and its bits compared.
#include <doctest/doctest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "engine/core/file.h"
#include "engine/graph/executor.h"
#include "engine/ops/conv.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

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

// "contract | op | parameters | inputs | elements": how many elements were compared.
int run_op_example(const std::string& line) {
  const std::size_t bar = line.find('|'), last = line.rfind('|');
  REQUIRE(bar < last);
  std::string contract = line.substr(0, bar);
  contract.erase(contract.find_last_not_of(' ') + 1);
  const OpCase c = parse_op_case("example " + line.substr(bar, last - bar));
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  const OpRun run =
      run_op(*c.op, c.params, p, all_kernels(), {.contract = Contract::parse(contract)});
  const Tensor expected = numbers(line.substr(last + 1), true);
  REQUIRE(run.outputs[0].numel() == expected.numel());
  for (std::size_t i = 0; i < expected.data<float>().size(); ++i)
    CHECK(std::bit_cast<std::uint32_t>(run.outputs[0].data<float>()[i]) ==
          std::bit_cast<std::uint32_t>(expected.data<float>()[i]));
  return static_cast<int>(expected.numel());
}

// The examples of a page; what blocks they stand in is said in docs/contract/README.md.
int run_page(const std::string& path) {
  std::istringstream page(read_text_file(path));
  std::string block;
  int examples = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      block = line.substr(3);
      continue;
    }
    if (!block.starts_with("etalon-")) continue;
    CAPTURE(path);
    CAPTURE(line);
    ++examples;
    if (block == "etalon-op") {
      run_op_example(line);
      continue;
    }
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
  }
  return examples;
}

}  // namespace

TEST_CASE("contract: every worked example of docs/contract.md gives the bits it says") {
  CHECK(run_page(std::string(ETALON_SOURCE_DIR) + "/docs/contract.md") >= 25);
}

TEST_CASE("contract: each field has a page, and its worked examples give the bits they say") {
  const std::string folder = std::string(ETALON_SOURCE_DIR) + "/docs/contract/";
  int pages = 0;
  for (const char* field :
       {"store", "acc", "order", "walk", "fma", "round", "subnormals", "math", "algo"}) {
    CAPTURE(std::string(field));
    CHECK(run_page(folder + field + ".md") >= 2);
    ++pages;
  }
  CHECK(pages == 9);
  CHECK(std::filesystem::exists(folder + "README.md"));
}
