// The formulas of a GPU's functions (kernels/activation/device_lanes.h) over floats of all
// magnitudes: what their rounding test decides is what the CPU's kernel gives, NaN and -0 too, and
// little is left open. On a GPU the one step that is not this text is a reciprocal in f32, good to
// 2^-22 in either form. The list of what is open is empty again after a run.
#include <doctest/doctest.h>

#include <cstring>

#include "engine/graph/executor.h"
#include "kernels/activation/device_fine.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/kernels.h"
#include "tests/host_device.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

// Every `step`-th float, from bits `step / 2` on.
void compare_floats(std::uint64_t step) {
  constexpr std::int64_t kCount = 1 << 18;
  for (const std::string_view op : AllActivations::ops()) {
    const int code = device_function_code(op);
    if (code < 0) continue;
    CAPTURE(std::string(op));
    LaneParams params;
    const OpCase c =
        parse_op_case("floats | " + std::string(op) + " | | f32[" + std::to_string(kCount) + "]");
    AllActivations::visit(AllActivations::find(op), [&]<class F>() {
      params = lane_params(c.params.as<typename F::Parameters>());
    });
    Tensor x = Tensor::zeros(DType::f32, Shape{kCount});
    auto* const values = reinterpret_cast<float*>(x.mutable_bytes().data());
    std::int64_t seen = 0, open = 0, wrong = 0;
    for (std::uint64_t first = step / 2; first < std::uint64_t{1} << 32; first += step * kCount) {
      for (std::int64_t i = 0; i < kCount; ++i)
        values[i] =
            float_of(static_cast<std::uint32_t>(first + step * static_cast<std::uint64_t>(i)));
      const Tensor* in[] = {&x};
      const OpRun want = run_op(*c.op, c.params, in, all_kernels(), {});
      const auto* const y = reinterpret_cast<const float*>(want.outputs[0].bytes().data());
      with_device_function(code, [&]<int Code>() {
        for (std::int64_t i = 0; i < kCount; ++i) {
          float got = 0;
          const bool decided = device_function<Code>(params, values[i], got);
          const bool finite = is_finite(static_cast<double>(values[i]));
          seen += finite;
          open += finite && !decided;
          if (!decided || bits_of(got) == bits_of(y[i])) continue;
          if (wrong++ > 0) continue;
          CAPTURE(bits_of(values[i]));
          CHECK(bits_of(got) == bits_of(y[i]));
        }
      });
    }
    CHECK(wrong == 0);
    // Tiny arguments of silu and its kin, whose result is all but x/2, and wherever a formula ends.
    CHECK(open * 100 < seen);
  }
}

}  // namespace

TEST_CASE("a GPU's functions on the CPU: floats of all magnitudes") { compare_floats(60013); }

TEST_SUITE("long") {
  TEST_CASE("a GPU's functions on the CPU: floats of all magnitudes, many") {
    compare_floats(4001);
  }
}

TEST_CASE("a GPU's functions on the CPU: exp, log and pow among other steps") {
  std::int64_t wrong = 0;
  const auto compare = [&](float got, float want) {
    if (bits_of(canonical(got)) == bits_of(canonical(want))) return;
    CAPTURE(bits_of(got));
    if (wrong++ == 0) CHECK(bits_of(got) == bits_of(want));
  };
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 40009) {
    const float x = float_of(static_cast<std::uint32_t>(bits));
    FineFunctions f;
    SeqF32 a;
    const float exp = a.call(Function::exp, x), log = a.call(Function::log, x);
    if (!a.undecided) {
      compare(f.exp(x), exp);
      compare(f.log(x), log);
      CHECK(f.undecided == 0);
    }
    for (const float y : {0.75F, 0.5F, -30.5F, 1.0F, 0x1.8p-9F, 2.0F}) {
      SeqF32 b;
      const float power = b.pow(x, y);
      if (!b.undecided) compare(f.pow(x, y), power);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a GPU's functions on the CPU: the list of what is open is empty after a run") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const OpCase c = parse_op_case("open | log | | f32[3]=inf,2,0");
  const Contract contract = Contract::seq();
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  const std::vector<InferInput> types = {{p[0]->type(), p[0], true}};
  const std::vector<TensorType> outputs = infer(*c.op, c.params, InferInputs(types));
  const Problem problem{.op = c.op,
                        .params = &c.params,
                        .inputs = types,
                        .outputs = outputs,
                        .contract = &contract,
                        .device = Device::cuda};
  std::vector<Tensor> got;
  got.push_back(Tensor::zeros(DType::f32, Shape{3}));
  const KernelCall call{.problem = &problem, .inputs = p, .outputs = got};
  const OpRun want = run_op(*c.op, c.params, p, all_kernels(), {});
  for (const cuda::DeviceRow& row : cuda::device_rows()) {
    if (row.row.name != "log.f32.cuda") continue;
    cuda::Work work;
    cuda::CallOnDevice on_device(call);
    for (int run = 0; run < 3; ++run) {
      work.begin();
      row.enqueue(on_device.call(), work);
      on_device.fetch_outputs();
      CHECK(std::memcmp(want.outputs[0].bytes().data(), got[0].bytes().data(), 12) == 0);
      CHECK(work.fetch_undecided().empty());
      work.begin();
      const cuda::OpenList open = work.standing(open_places(3));
      CHECK(*open.list.count == 0);
      CHECK(*open.finished == 0);
    }
  }
}
