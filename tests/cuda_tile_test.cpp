// The GPU's tiled kernel (kernels/gemm/cuda_tile.h), its block run phase by phase on the CPU: the
// bits of the definition for gemm, matmul and convolution, fused and not, over shapes that leave
// tails on every side, with padding, stride, dilation and groups.
#include "kernels/gemm/cuda_tile.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <memory>

#include "engine/graph/executor.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

void run_on_host(const TileTask& t, bool fused) {
  auto shared = std::make_unique<TileShared>();
  std::vector<TileThread> threads(kTileThreads);
  const auto with = [&]<bool F, bool M>() {
    for (std::int64_t m = 0; m * kTileRows < t.m; ++m)
      for (std::int64_t n = 0; n * kTileCols < t.n; ++n)
        run_tile_on_host<F, M>(t, m, n, *shared, threads.data());
  };
  if (t.padded)
    fused ? with.operator()<true, true>() : with.operator()<false, true>();
  else
    fused ? with.operator()<true, false>() : with.operator()<false, false>();
}

int compare(const OpCase& c, const char* text) {
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  const Contract contract = Contract::parse(text);
  std::vector<InferInput> types(p.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] != nullptr) types[i] = {p[i]->type(), p[i], true};
  const std::vector<TensorType> outputs = infer(*c.op, c.params, InferInputs(types));
  const Problem problem{
      .op = c.op, .params = &c.params, .inputs = types, .outputs = outputs, .contract = &contract};
  if (outputs[0].dtype != DType::f32 || refuse_tiles(problem)) return 0;
  const OpRun want =
      run_op(*c.op, c.params, p, all_kernels(),
             {.contract = contract, .kernels = std::string(c.op->name) + ".definition"});
  Tensor got = Tensor::zeros(DType::f32, outputs[0].shape);
  std::vector<Tensor> none;
  const KernelCall call{.problem = &problem, .inputs = p, .outputs = none};
  for (const TileTask& t : tile_tasks(call, got.mutable_data<float>().data()))
    run_on_host(t, contract.fma);
  CAPTURE(c.line);
  CAPTURE(std::string(text));
  CHECK(std::memcmp(want.outputs[0].bytes().data(), got.bytes().data(), got.size_bytes()) == 0);
  return 1;
}

}  // namespace

TEST_CASE("a GPU's tile on the CPU: the bits of gemm, matmul and convolution") {
  std::map<std::string_view, int> compared;
  unsigned turn = 0;
  for (const char* contract : {"seq", "fma=off"}) {
    // A tile is computed whole however small the case: without fma every third will do.
    for (const OpCase& c : op_cases())
      if ((c.op->name == "gemm" || c.op->name == "matmul" || c.op->name == "conv") &&
          (contract == std::string_view("seq") || turn++ % 3 == 0))
        compared[c.op->name] += compare(c, contract);
    // Beyond one block on every side, and k not a multiple of the slice.
    for (const char* line :
         {"tile | gemm | | f32[131,37]:wild f32[37,150] f32[150]",
          "tile | gemm | alpha=0.5 beta=-2 trans_b=true | f32[129,8]:wild f32[5,8] f32[129,1]",
          "tile | matmul | | f32[2,140,9]:wild f32[9,3]",
          "tile | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,3,9,11]:wild f32[130,3,3,3] "
          "f32[130]",
          "tile | conv | strides=[2,1] dilations=[1,2] groups=2 | f32[1,4,13,29]:wild "
          "f32[6,2,3,3]"})
      compared["large"] += compare(parse_op_case(line), contract);
  }
  CHECK(compared["gemm"] >= 4);
  CHECK(compared["matmul"] >= 4);
  CHECK(compared["conv"] >= 6);
  CHECK(compared["large"] == 10);
}
