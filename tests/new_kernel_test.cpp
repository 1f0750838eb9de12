// Claim: a kernel is one file and one row: once it stands in a registry, selection, the comparison
// of all rows, the benchmark and the list of kernels find it, and a row without a word in the docs
// is found missing. The kernel added here computes conv one tap at a time.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/micro/shape_bench.h"
#include "bench/shapes.h"
#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "engine/ops/conv.h"
#include "kernels/conv/rows.h"
#include "kernels/kernels.h"

using namespace etalon;

namespace {

// seq without padding: y[n,o,p] = ((0 + x w) + x w) + ..., k ascending, fused, then the bias.
void run_plain(const KernelCall& call) {
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  const WindowAxis &h = g.window.axes[1], &w = g.window.axes[2];
  const auto x = call.input(0).data<float>(), k = call.input(1).data<float>();
  const auto y = call.output(0).mutable_data<float>();
  std::size_t i = 0;
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t o = 0; o < g.out_channels; ++o)
      for (std::int64_t oy = 0; oy < h.out; ++oy)
        for (std::int64_t ox = 0; ox < w.out; ++ox) {
          float s = 0;
          for (std::int64_t c = 0; c < g.in_channels; ++c)
            for (std::int64_t r = 0; r < h.kernel; ++r)
              for (std::int64_t q = 0; q < w.kernel; ++q)
                s = __builtin_fmaf(x[static_cast<std::size_t>(
                                       ((n * g.in_channels + c) * h.in + oy + r) * w.in + ox + q)],
                                   k[static_cast<std::size_t>(
                                       ((o * g.in_channels + c) * h.kernel + r) * w.kernel + q)],
                                   s);
          y[i++] = call.has(2) ? s + call.input(2).data<float>()[static_cast<std::size_t>(o)] : s;
        }
}

Refusal refuse_plain(const Problem& problem) {
  if (!problem.contract->is_seq()) return "promises seq only";
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  for (const WindowAxis& a : g.window.axes)
    if (a.stride != 1 || a.dilation != 1 || a.pad_begin != 0 || a.pad_end != 0)
      return "needs stride 1, dilation 1 and no padding";
  return g.groups == 1 ? std::nullopt : Refusal("needs one group");
}

constexpr KernelRow kPlain[] = {{.op = "conv",
                                 .name = "conv.plain_for_test",
                                 .contracts = "seq",
                                 .refuse = refuse_plain,
                                 .run = run_plain}};

std::string all_docs() {
  std::string text;
  const std::filesystem::path root = ETALON_SOURCE_DIR;
  for (const char* folder : {"docs", "kernels"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder))
      if (entry.path().extension() == ".md") {
        std::stringstream file;
        file << std::ifstream(entry.path()).rdbuf();
        text += file.str();
      }
  return text;
}

}  // namespace

TEST_CASE("kernels: a row more is selected, compared and timed") {
  Registry registry;
  registry.add(kPlain);
  registry.add(conv_rows());
  const NamedShape shape =
      parse_shape(get_op("conv"), "given.shape f32[2,7,11,13] f32[5,7,3,3] f32[5]");
  const std::vector<Tensor> in = shape_inputs(shape);
  const Tensor* pointers[] = {&in[0], &in[1], &in[2]};
  const OpRun first = run_op(*shape.op, shape.params, pointers, registry, {});
  CHECK(first.kernel->name == "conv.plain_for_test");
  // What conformance tests do: every row that takes the problem, against the definition.
  const Tensor want =
      std::move(run_op(*shape.op, shape.params, pointers, registry, {.kernels = "conv.definition"})
                    .outputs[0]);
  bool compared = false;
  for (const KernelRow* row : registry.rows_of("conv")) {
    RunOptions options;
    options.kernels = row->name;
    try {
      const OpRun got = run_op(*shape.op, shape.params, pointers, registry, options);
      CHECK_MESSAGE(hash_tensor(got.outputs[0]) == hash_tensor(want), row->name);
      compared = compared || row->name == "conv.plain_for_test";
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::usage);
    }
  }
  CHECK(compared);
  BenchOptions options;
  options.timing = {.repetitions = 1, .min_time_s = 1e-5};
  options.also = {Contract::parse("algo=winograd:2/3"), Contract::parse("algo=winograd:2/5")};
  const BenchRow row = bench_shape(shape, registry, options);
  CHECK(row.ours.kernel == "conv.plain_for_test");
  REQUIRE(row.ours.error.has_value());
  REQUIRE(row.vs.size() == 1);
  CHECK(row.vs[0].contract.starts_with("algo=winograd:2/3"));
  CHECK(row.vs[0].hash != row.ours.hash);
  REQUIRE(row.refused.size() == 1);
  CHECK(row.refused[0].find("computes kernels of extent 5") != std::string::npos);
  // It refuses what it cannot do, and says so.
  const NamedShape strided =
      parse_shape(get_op("conv"), "given.shape f32[1,2,9,9] f32[3,2,3,3] strides=2x2");
  const std::vector<Tensor> other = shape_inputs(strided);
  const Tensor* two[] = {&other[0], &other[1]};
  CHECK_THROWS_WITH_AS(
      run_op(*strided.op, strided.params, two, registry, {.kernels = "conv.plain_for_test"}),
      doctest::Contains("needs stride 1, dilation 1 and no padding"), Error);
}

TEST_CASE("kernels: the docs name every algorithm of conv that has a row") {
  const std::string docs = all_docs();
  int named = 0;
  for (const KernelRow* row : all_kernels().rows_of("conv")) {
    if (row->promise != Promise::defined || row->device != Device::cpu) continue;
    // The instruction set's name is left out: conv.winograd.f32.
    std::string name(row->name);
    for (const char* isa : {".avx512", ".avx2"})
      if (const std::size_t at = name.find(isa); at != std::string::npos) name.resize(at);
    bool algorithm = false;
    for (const char* kind : {"conv.im2col.", "conv.winograd.", "conv.fft."})
      algorithm = algorithm || name.starts_with(kind);
    if (!algorithm) continue;
    CHECK_MESSAGE(docs.find("`" + name + "`") != std::string::npos, row->name);
    ++named;
  }
  CHECK(named >= 3);
  CHECK(docs.find("`conv.plain_for_test`") == std::string::npos);  // the check can fail
}
