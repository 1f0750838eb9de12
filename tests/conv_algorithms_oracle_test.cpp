// Claim: Winograd and FFT have the bits that rational arithmetic gives when it follows their pages
// (tests/fixtures/make_conv_algorithms.py shares no code with us), in every row; and Winograd's
// definition over the reals is the convolution itself, rounded as `exact` rounds it.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/core/philox.h"
#include "engine/graph/executor.h"
#include "engine/numerics/real.h"
#include "engine/ops/conv.h"
#include "kernels/conv/winograd_definition.h"
#include "kernels/kernels.h"

using namespace etalon;

namespace {

std::vector<float> floats(const std::string& text) {
  std::vector<float> v;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    v.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(word, nullptr, 16))));
  return v;
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(" | ", at), line.size());
    out.push_back(line.substr(at, end - at));
    at = end + 3;
  }
  return out;
}

// What a definition delivers over RealBig, rounded to f32.
struct RealCollector {
  RealBig<10>& a;
  std::vector<double> values;
  bool decided = true;
  void operator()(int, std::int64_t index, const RealBig<10>::V& v) {
    const Rounded r = a.round(v, DType::f32);
    decided = decided && r.decided;
    values[static_cast<std::size_t>(index)] = r.value;
  }
};

}  // namespace

TEST_CASE("conv oracle: rational arithmetic gives the same bits") {
  std::ifstream file(std::string(ETALON_SOURCE_DIR) + "/tests/fixtures/conv_algorithms/cases.txt");
  REQUIRE(file);
  int outputs = 0, different_from_seq = 0;
  for (std::string line; std::getline(file, line);) {
    const auto f = fields(line);
    REQUIRE(f.size() == 5);
    const std::int64_t r = std::stol(f[1]);
    const Tensor x = Tensor::of<float>({1, 3, 5, 6}, floats(f[2])),
                 w = Tensor::of<float>({1, 3, r, r}, floats(f[3]));
    const std::vector<float> want = floats(f[4]);
    ConvParams p;
    p.pads_begin = p.pads_end = {r / 2, r / 2};
    const Tensor* in[] = {&x, &w};
    int rows = 0;
    for (const KernelRow* row : all_kernels().rows_of("conv")) {
      if (row->promise != Promise::defined || row->device != Device::cpu) continue;
      RunOptions options{.contract = Contract::parse(f[0])};
      options.kernels = row->name;
      OpRun run;
      try {
        run = run_op(conv_op(), Params(p), in, all_kernels(), options);
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::usage) throw;
        continue;
      }
      ++rows;
      const auto got = run.outputs[0].data<float>();
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < want.size(); ++i, ++outputs)
        CHECK_MESSAGE(std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i]),
                      row->name, " ", f[0], " output ", i);
    }
    CHECK(rows >= 1);
    const OpRun seq = run_op(conv_op(), Params(p), in, all_kernels(), {});
    for (std::size_t i = 0; i < want.size(); ++i)
      different_from_seq += seq.outputs[0].data<float>()[i] != want[i] ? 1 : 0;
  }
  CHECK(outputs >= 14 * 30);
  CHECK(different_from_seq > 100);  // the data shows the algorithm
}

TEST_CASE("conv oracle: over the reals Winograd is the convolution") {
  for (const char* text : {"winograd:2/3", "winograd:4/3", "winograd:6/3,points=reciprocal"}) {
    Tensor x = Tensor::uninitialized(DType::f32, {1, 2, 7, 6}),
           w = Tensor::uninitialized(DType::f32, {2, 2, 3, 3});
    const Philox random{7, 0};
    std::uint64_t i = 0;
    for (float& v : x.mutable_data<float>()) v = random.uniform(i++) - 0.5F;
    for (float& v : w.mutable_data<float>()) v = random.uniform(i++) - 0.5F;
    ConvParams p;
    p.pads_begin = p.pads_end = {1, 1};
    const Params params(p);
    const Tensor* in[] = {&x, &w};
    const OpRun exact =
        run_op(conv_op(), params, in, all_kernels(), {.contract = Contract::exact_preset()});
    const Contract contract = Contract::parse(std::string("algo=") + text);
    const std::vector<InferInput> known{{x.type(), nullptr, true}, {w.type(), nullptr, true}};
    const auto types = infer(conv_op(), params, InferInputs(known));
    const Problem problem{.op = &conv_op(),
                          .params = &params,
                          .inputs = known,
                          .outputs = types,
                          .contract = &contract};
    const KernelCall call{.problem = &problem, .inputs = in};
    const auto plan = WinogradDefinition::plan(call);
    RealBig<10> reals;
    RealCollector out{reals,
                      std::vector<double>(static_cast<std::size_t>(exact.outputs[0].numel()))};
    for (std::int64_t s = 0; s < WinogradDefinition::slices(plan); ++s)
      WinogradDefinition::slice(reals, plan, s, out);
    CHECK(out.decided);
    for (std::size_t k = 0; k < out.values.size(); ++k)
      CHECK_MESSAGE(out.values[k] == static_cast<double>(exact.outputs[0].data<float>()[k]), text,
                    " output ", k);
  }
}
