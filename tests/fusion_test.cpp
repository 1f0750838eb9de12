// Claim: an op that runs on pieces of the output before it, while that is in cache, gives the bits
// of the op run after it. In three parts: a row that announces its output announces each element
// once and for good; a row that runs by pieces, or as a step on values in registers, gives the same
// bits by any pieces, in place; and whole graphs give the same bits fused and not, at any thread
// count and instruction set.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "engine/backend/pointwise.h"
#include "engine/graph/executor.h"
#include "engine/models/models.h"
#include "engine/ops/conv_channels_last.h"
#include "engine/ops/normalization.h"
#include "kernels/kernels.h"
#include "tests/on_this_cpu.h"
#include "tests/op_cases.h"
#include "tests/peak_memory.h"
#include "tests/same_bits.h"
#include "tests/special_noise.h"

using namespace etalon;
using test::equal_bits;
using test::special_noise;

namespace {

// An op case as a problem of its own: what the executor would hand to a kernel.
struct Case {
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> in;
  std::vector<InferInput> known;
  std::vector<TensorType> types;
  Contract contract = Contract::seq();
  Problem problem;

  explicit Case(const OpCase& c) : tensors(case_inputs(c)), in(pointers(tensors)) {
    for (const Tensor* t : in)
      known.push_back(t == nullptr ? InferInput{} : InferInput{t->type(), t, true});
    types = infer(*c.op, c.params, InferInputs(known));
    problem = {.op = c.op,
               .params = &c.params,
               .inputs = known,
               .outputs = types,
               .contract = &contract,
               .isa = detect_isa()};
  }
  std::vector<Tensor> outputs() const {
    std::vector<Tensor> out;
    for (const TensorType& t : types) out.push_back(Tensor::uninitialized(t.dtype, t.shape));
    return out;
  }
};

bool takes(const KernelRow& row, const Problem& problem) {
  return row.device == Device::cpu && row.isa <= problem.isa &&
         (row.refuse == nullptr || !row.refuse(problem));
}

struct Layer {
  Shape x, w;
  ConvParams params;
};

ConvParams conv_params(std::int64_t stride, std::int64_t pad, std::int64_t groups) {
  ConvParams p;
  p.strides = {stride, stride};
  p.pads_begin = p.pads_end = {pad, pad};
  p.groups = groups;
  return p;
}

// Pixels in lanes and channels in lanes, sums of several blocks of k, borders, groups, depthwise,
// and extents past a tile.
std::vector<Layer> layers() {
  return {
      {{1, 3, 40, 37}, {17, 3, 3, 3}, conv_params(1, 1, 1)},
      {{2, 8, 33, 35}, {29, 8, 1, 1}, conv_params(1, 0, 1)},
      {{3, 40, 7, 7}, {67, 40, 1, 1}, conv_params(1, 0, 1)},
      {{2, 80, 7, 5}, {45, 80, 3, 3}, conv_params(1, 1, 1)},
      {{1, 80, 30, 30}, {15, 80, 3, 3}, conv_params(2, 1, 1)},
      {{2, 6, 19, 23}, {10, 3, 5, 5}, conv_params(1, 2, 2)},
      {{2, 13, 21, 18}, {26, 1, 3, 3}, conv_params(2, 1, 13)},
      {{2, 13, 14, 14}, {13, 1, 3, 3}, conv_params(1, 1, 13)},
      {{1, 9, 40, 70}, {18, 1, 3, 3}, conv_params(1, 1, 9)},
      {{1, 17, 14, 14}, {17, 1, 3, 3}, conv_params(2, 1, 17)},
      {{1, 5, 11, 9}, {10, 1, 3, 2}, conv_params(2, 0, 5)},
      {{1, 4, 1, 1}, {3, 4, 1, 1}, conv_params(1, 0, 1)},
      {{2, 16, 20, 23}, {30, 16, 1, 1}, conv_params(2, 0, 1)},
      {{1, 700, 9, 19}, {20, 700, 1, 1}, conv_params(1, 0, 1)},
      {{2, 12, 13, 17}, {40, 6, 3, 3}, conv_params(1, 0, 2)},
      {{13, 6, 4, 4}, {40, 6, 5, 5}, conv_params(1, 2, 1)},
  };
}

// x -> conv (with bias) -> batch_norm -> add(residual) -> relu -> y; the residual is made by a node
// that stands behind the convolution in the graph, and its own chain ends in the addition. With
// `more` y goes through tanh, which is no step.
std::shared_ptr<Graph> residual_graph(const Layer& layer, float share, bool more = true) {
  auto g = std::make_shared<Graph>();
  const auto value = [&](const std::string& name) { return g->add_value(name); };
  const auto weight = [&](const std::string& name, const Shape& shape, std::uint64_t seed,
                          float part) {
    const ValueId v = g->add_value(name);
    g->initializers.emplace(v, special_noise(shape, seed, part));
    return v;
  };
  const Shape channels{layer.w[0]};
  const auto statistics = [&](const std::string& name, std::uint64_t seed) {
    std::vector<ValueId> in;
    for (const char* part : {".scale", ".bias", ".mean", ".var"})
      in.push_back(weight(name + part, channels, seed++, share * 0.3F));
    for (float& v : g->initializers.at(in[3]).mutable_data<float>()) v = std::abs(v);
    return in;
  };
  const ValueId x = value("x");
  g->inputs.push_back({x, DType::f32, true, Ints(layer.x.dims().begin(), layer.x.dims().end()),
                       std::vector<std::string>(static_cast<std::size_t>(layer.x.rank()))});
  const auto chain = [&](const std::string& name, std::uint64_t seed) {
    const ValueId w = weight(name + ".w", layer.w, seed, share * 0.02F);
    const ValueId b = weight(name + ".b", channels, seed + 1, share * 0.3F);
    const ValueId c = value(name + ".conv"), n = value(name + ".bn");
    std::vector<ValueId> in = statistics(name + ".stat", seed + 2);
    in.insert(in.begin(), c);
    g->nodes.push_back({name + ".conv", &get_op("conv"), Params(layer.params), {x, w, b}, {c}, {}});
    g->nodes.push_back(
        {name + ".bn", &get_op("batch_norm"), Params(BatchNormParams{}), in, {n}, {}});
    return n;
  };
  const ValueId left = chain("left", 100), right = chain("right", 200);
  const ValueId sum = value("sum"), y = value("y");
  g->nodes.push_back({"add", &get_op("add"), Params(), {left, right}, {sum}, {}});
  g->nodes.push_back({"relu", &get_op("relu"), Params(), {sum}, {y}, {}});
  if (more) {
    const ValueId z = value("z");
    g->nodes.push_back({"tanh", &get_op("tanh"), get_op("tanh").defaults(), {y}, {z}, {}});
    g->outputs.push_back({z});
  } else {
    g->outputs.push_back({y});
  }
  g->finish();
  return g;
}

struct Ran {
  Tensor y;
  Trace trace;
};

Ran run(const std::shared_ptr<Graph>& g, const NamedTensors& in, RunOptions options) {
  Trace trace = Executor(g, all_kernels(), std::move(options)).run(in);
  Tensor y = trace.outputs.at(0).second.share();
  return {std::move(y), std::move(trace)};
}

int fused_nodes(const Trace& trace) {
  int n = 0;
  for (const NodeRecord& r : trace.nodes) n += r.fused_into.empty() ? 0 : 1;
  return n;
}

const NodeRecord& record_of(const Trace& trace, std::string_view node) {
  for (const NodeRecord& r : trace.nodes)
    if (r.name == node) return r;
  FAIL("no node ", std::string(node));
  return trace.nodes.front();
}

}  // namespace

TEST_CASE("fusion: what a kernel announces is there, once and for good") {
  int checked = 0;
  for (const OpCase& c : op_cases()) {
    for (const KernelRow* row : all_kernels().rows_of(c.op->name)) {
      if (!row->announces) continue;
      const Case k(c);
      if (!takes(*row, k.problem)) continue;
      for (const int threads : {1, 3}) {
        std::vector<Tensor> out = k.outputs();
        const std::int64_t n = out[0].numel();
        std::vector<int> times(static_cast<std::size_t>(n), 0);
        Tensor then = Tensor::zeros(DType::f32, out[0].shape());
        const auto now = out[0].data<float>();
        const auto copy = then.mutable_data<float>();
        std::mutex mutex;
        const auto collect = [&](const OutputPart& part) {
          const std::lock_guard lock(mutex);
          REQUIRE(part.count > 0);
          REQUIRE(part.rows > 0);
          for (std::int64_t r = 0; r < part.rows; ++r) {
            const std::int64_t begin = part.begin + r * part.stride;
            REQUIRE(begin >= 0);
            REQUIRE(begin + part.count <= n);
            for (auto i = static_cast<std::size_t>(begin);
                 i < static_cast<std::size_t>(begin + part.count); ++i) {
              ++times[i];
              copy[i] = now[i];
            }
          }
        };
        const Finished finished = collect;
        const Prepared prepared =
            row->prepare == nullptr ? nullptr : row->prepare(k.problem, threads);
        row->run({.problem = &k.problem,
                  .inputs = k.in,
                  .outputs = out,
                  .threads = threads,
                  .prepared = prepared.get(),
                  .finished = &finished});
        CHECK_MESSAGE(times == std::vector<int>(static_cast<std::size_t>(n), 1), c.line, " ",
                      std::string(row->name));
        CHECK_MESSAGE(equal_bits(then, out[0]), c.line, " ", std::string(row->name));
        ++checked;
      }
    }
  }
  if (detect_isa() >= Isa::avx2) CHECK(checked > 40);
}

TEST_CASE("fusion: pieces have the bits of the whole, in place and in any cut") {
  int checked = 0, steps = 0;
  for (const OpCase& c : op_cases()) {
    for (const KernelRow* row : all_kernels().rows_of(c.op->name)) {
      if (row->run_piece == nullptr) continue;
      const Case k(c);
      if (!takes(*row, k.problem)) continue;
      std::vector<Tensor> whole = k.outputs();
      const Prepared prepared = row->prepare == nullptr ? nullptr : row->prepare(k.problem, 1);
      row->run(
          {.problem = &k.problem, .inputs = k.in, .outputs = whole, .prepared = prepared.get()});
      for (std::size_t carried = 0; carried < k.in.size(); ++carried) {
        if (k.in[carried] == nullptr || k.in[carried]->type() != k.types[0] ||
            (row->refuse_piece != nullptr && row->refuse_piece(k.problem, carried)))
          continue;
        for (const std::int64_t cut : {1, 5, 64, 100000}) {
          std::vector<Tensor> y;
          y.push_back(k.in[carried]->clone());
          std::vector<const Tensor*> in = k.in;
          in[carried] = &y[0];
          const KernelCall call{
              .problem = &k.problem, .inputs = in, .outputs = y, .prepared = prepared.get()};
          for (std::int64_t at = 0; at < y[0].numel(); at += cut)
            row->run_piece(call, at, std::min(cut, y[0].numel() - at));
          CHECK_MESSAGE(equal_bits(y[0], whole[0]), c.line, " ", std::string(row->name),
                        " carried=", carried, " cut=", cut);
          ++checked;
          // The same as a step: columns of all rows, if the extents have such, then the rest.
          PointwiseStep step;
          if (row->step == nullptr || row->run_steps == nullptr || !row->step(call, step)) continue;
          std::memcpy(y[0].mutable_data<float>().data(), k.in[carried]->bytes().data(),
                      y[0].size_bytes());
          float* to = y[0].mutable_data<float>().data();
          const std::int64_t n = y[0].numel(), columns = std::min<std::int64_t>(cut, n);
          const std::int64_t stride = std::max<std::int64_t>(columns, 37), rows = n / stride;
          if (rows > 0)
            row->run_steps({&step, 1}, to, {.count = columns, .rows = rows, .stride = stride});
          for (std::int64_t r = 0; r < rows; ++r)
            if (stride > columns)
              row->run_steps({&step, 1}, to,
                             {.begin = r * stride + columns, .count = stride - columns});
          if (rows * stride < n)
            row->run_steps({&step, 1}, to, {.begin = rows * stride, .count = n - rows * stride});
          CHECK_MESSAGE(equal_bits(y[0], whole[0]), c.line, " ", std::string(row->name),
                        " carried=", carried, " as a step, columns=", columns);
          ++steps;
        }
      }
    }
  }
  CHECK(checked > 100);
  if (detect_isa() >= Isa::avx2) CHECK(steps > (detect_isa() >= Isa::avx512 ? 50 : 25));
}

TEST_CASE("fusion: ReLU as a step, on every exponent") {
  const OpRow& relu = get_op("relu");
  const Params params;
  const std::int64_t n = std::int64_t{3} << 16;
  Tensor x = Tensor::uninitialized(DType::f32, {n});
  for (std::uint32_t i = 0; i < n; ++i) {
    constexpr std::uint32_t kLow[3] = {0, 1, 0xffff};  // 1 and the infinities are of the first
    x.mutable_data<float>()[i] = std::bit_cast<float>(i / 3 << 16U | kLow[i % 3]);
  }
  const InferInput given{.type = x.type(), .given = true};
  const TensorType type = x.type();
  const Contract seq = Contract::seq();
  int checked = 0;
  for (const KernelRow* row : all_kernels().rows_of("relu")) {
    if (row->step == nullptr || row->run_steps == nullptr || !test::on_this_cpu(*row)) continue;
    const Problem problem{.op = &relu,
                          .params = &params,
                          .inputs = {&given, 1},
                          .outputs = {&type, 1},
                          .contract = &seq,
                          .isa = row->isa};
    std::vector<Tensor> y;
    y.push_back(x.clone());
    const Tensor* in[] = {&y[0]};
    PointwiseStep step;
    if (!row->step({.problem = &problem, .inputs = in, .outputs = y}, step)) continue;
    float* to = y[0].mutable_data<float>().data();
    row->run_steps({&step, 1}, to, {.count = n});
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const float v = x.data<float>()[static_cast<std::size_t>(i)];
      const float want = std::isnan(v) ? std::bit_cast<float>(0x7fc00000) : v > 0 ? v : 0.0F;
      wrong += std::bit_cast<std::uint32_t>(to[i]) != std::bit_cast<std::uint32_t>(want) ? 1 : 0;
    }
    CHECK_MESSAGE(wrong == 0, std::string(row->name));
    ++checked;
  }
  if (detect_isa() >= Isa::avx2) CHECK(checked >= 1);
}

// A chain of steps on y, and what they read.
struct Steps {
  std::vector<Tensor> tensors;
  std::vector<PointwiseStep> steps;

  // Which of them: bit 0 a normalisation, bit 1 in two roundings, bit 2 an addition, bit 3 ReLU.
  Steps(const Shape& y, unsigned which, std::uint64_t seed, int channel_axis = 1) {
    const std::int64_t channels = y[channel_axis];
    using Kind = PointwiseStep::Kind;
    if ((which & 1U) != 0) {
      for (std::uint64_t i = 0; i < 3; ++i)
        tensors.push_back(special_noise({channels}, seed + i, 0.1F));
      steps.push_back({.kind = Kind::affine,
                       .mean = tensors[0].data<float>().data(),
                       .factor = tensors[1].data<float>().data(),
                       .bias = tensors[2].data<float>().data(),
                       .inner = y.product(channel_axis + 1, y.rank()),
                       .channels = channels,
                       .fused = (which & 2U) == 0});
    }
    if ((which & 4U) != 0) {
      tensors.push_back(special_noise(y, seed + 3, 0.3F));
      steps.push_back({.kind = Kind::add, .other = tensors.back().data<float>().data()});
    }
    if ((which & 8U) != 0) steps.push_back({.kind = Kind::relu});
  }
};

void check_endings(const OpRow& op) {
  const bool last = op.name == "conv_channels_last";
  std::map<Ending, int> seen;
  int announced = 0;  // calls that left some elements to the steps after them
  const std::vector<const KernelRow*> relus = all_kernels().rows_of("relu");
  const auto found = std::ranges::find_if(relus, [](const KernelRow* row) {
    return row->run_steps != nullptr && test::on_this_cpu(*row);
  });
  if (found == relus.end()) return;
  const auto run_steps = (*found)->run_steps;
  const Contract seq = Contract::seq();
  for (const Layer& layer : layers()) {
    std::vector<Tensor> tensors;
    tensors.push_back(special_noise(last ? channels_last(layer.x) : layer.x, 11, 0.05F));
    // Zero sums at a border are computed again without the padding, after all others.
    std::ranges::fill(
        tensors[0].mutable_data<float>().first(static_cast<std::size_t>(tensors[0].numel() / 2)),
        0.0F);
    tensors.push_back(special_noise(layer.w, 12, layer.x[0] == 1 ? 0.01F : 0.0F));
    tensors.push_back(special_noise({layer.w[0]}, 13, 0.2F));
    const std::vector<const Tensor*> in = {&tensors[0], &tensors[1], &tensors[2]};
    const std::vector<InferInput> known = {{tensors[0].type(), nullptr, true},
                                           {tensors[1].type(), &tensors[1], true},
                                           {tensors[2].type(), &tensors[2], true}};
    const Params params(layer.params);
    const std::vector<TensorType> types = infer(op, params, InferInputs(known));
    for (const KernelRow* row : all_kernels().rows_of(op.name)) {
      const Problem problem{.op = &op,
                            .params = &params,
                            .inputs = known,
                            .outputs = types,
                            .contract = &seq,
                            .isa = detect_isa()};
      if (row->ending == nullptr || !takes(*row, problem)) continue;
      for (const unsigned which : {1U, 3U, 4U, 5U, 7U, 8U, 9U, 11U, 12U, 13U, 15U})
        for (const int threads : {1, 3}) {
          Steps s(types[0].shape, which, 20 + which, last ? types[0].shape.rank() - 1 : 1);
          const Prepared prepared = row->prepare(problem, threads);
          const Ending ending = row->ending(problem, prepared.get(), s.steps);
          ++seen[ending];
          if (ending == Ending::announced) continue;
          std::vector<Tensor> want, got;
          want.push_back(Tensor::uninitialized(types[0].dtype, types[0].shape));
          got.push_back(Tensor::uninitialized(types[0].dtype, types[0].shape));
          KernelCall call{.problem = &problem,
                          .inputs = in,
                          .outputs = want,
                          .threads = threads,
                          .prepared = prepared.get()};
          row->run(call);
          run_steps(s.steps, want[0].mutable_data<float>().data(), {.count = want[0].numel()});
          call.outputs = got;
          call.steps = s.steps;
          float* to = got[0].mutable_data<float>().data();
          std::atomic<std::int64_t> elements = 0;
          const auto rest = [&](const OutputPart& part) {
            run_steps(s.steps, to, part);
            elements += part.rows * part.count;
          };
          const Finished finished = rest;
          call.finished = &finished;
          row->run(call);
          CHECK(elements < got[0].numel());
          if (elements > 0) ++announced;
          const std::string where = to_string(layer.x) + to_string(layer.w) +
                                    " steps=" + std::to_string(which) + " " +
                                    std::string(row->name);
          CHECK_MESSAGE(equal_bits(got[0], want[0]), where);
          if (ending != Ending::in_place || (which & 4U) == 0) continue;
          std::vector<Tensor> place;
          place.push_back(std::move(s.tensors.back()));
          call.outputs = place;
          call.finished = nullptr;
          row->run(call);
          CHECK_MESSAGE(equal_bits(place[0], want[0]), where, " in place");
        }
    }
  }
  CHECK(seen[Ending::announced] > 0);
  CHECK(seen[Ending::applied] > 0);
  CHECK(seen[Ending::in_place] > 0);
  if (!last) CHECK(announced > 0);
}

TEST_CASE("fusion: a row that ends its outputs with steps gives the bits of them run after it") {
  check_endings(get_op("conv"));
  check_endings(get_op("conv_channels_last"));
}

TEST_CASE("fusion: steps whose channels are last, down narrow columns") {
  int checked = 0;
  for (const KernelRow* row : all_kernels().rows_of("relu")) {
    if (row->run_steps == nullptr || !test::on_this_cpu(*row)) continue;
    for (const std::int64_t channels : {1, 5, 16, 37, 64, 200})
      for (const unsigned which : {1U, 3U, 5U, 9U, 11U, 13U, 15U}) {
        const Shape shape{6, 7, channels};
        const Steps s(shape, which, 40 + which, 2);
        const Tensor x = special_noise(shape, 39, 0.3F);
        Tensor want = x.clone();
        row->run_steps(s.steps, want.mutable_data<float>().data(), {.count = x.numel()});
        for (const std::int64_t width : {1, 3, 16, 40, 64, 100})
          for (const std::int64_t step : {1, 2}) {  // pixels from row to row
            Tensor got = x.clone();
            for (std::int64_t c = 0; c < channels; c += width)
              for (std::int64_t first = 0; first < step; ++first)
                row->run_steps(s.steps, got.mutable_data<float>().data(),
                               {.begin = first * channels + c,
                                .count = std::min(width, channels - c),
                                .rows = shape[0] * shape[1] / step,
                                .stride = step * channels});
            CHECK_MESSAGE(equal_bits(got, want), std::string(row->name), " channels=", channels,
                          " steps=", which, " width=", width);
            ++checked;
          }
      }
  }
  if (detect_isa() >= Isa::avx2) CHECK(checked > 0);
}

TEST_CASE("fusion: a chain of steps alone, and a sum that only it reads again") {
  int zeros = 0, numbers = 0;
  for (const Layer& layer : layers())
    for (const float share : {0.0F, 0.5F}) {
      const auto g = residual_graph(layer, share, false);
      NamedTensors in;
      in.emplace("x", special_noise(layer.x, 7, share * 0.1F));
      const Ran want = run(g, in, {.contract = Contract::seq(), .fuse = false});
      for (const float v : want.y.data<float>()) ++(v == 0 ? zeros : numbers);
      for (const int threads : {1, 3}) {
        Executor fused(g, all_kernels(), {.contract = Contract::seq(), .threads = threads});
        for (int i = 0; i < 2; ++i)
          CHECK_MESSAGE(equal_bits(fused.run(in).outputs[0].second, want.y), to_string(layer.x),
                        to_string(layer.w), " share=", share, " threads=", threads);
      }
      // Who wants to see the other side of the addition sees it as it was.
      const auto shown = residual_graph(layer, share, false);
      shown->outputs.push_back({shown->find_value("left.bn")});
      shown->finish();
      const Ran apart = run(shown, in, {.contract = Contract::seq(), .fuse = false});
      const Ran both = run(shown, in, {.contract = Contract::seq()});
      for (std::size_t i = 0; i < 2; ++i)
        CHECK(equal_bits(both.trace.outputs[i].second, apart.trace.outputs[i].second));
    }
  CHECK(zeros > 1000);
  CHECK(numbers > 1000);
}

TEST_CASE("fusion: a residual block gives the bits of its ops run one by one") {
  int nans = 0, zeros = 0, numbers = 0, fused = 0;
  for (const Layer& layer : layers())
    for (const float share : {0.0F, 0.5F}) {
      const auto g = residual_graph(layer, share);
      NamedTensors in;
      in.emplace("x", special_noise(layer.x, 7, share * 0.1F));
      const Ran want = run(g, in, {.contract = Contract::seq(), .fuse = false});
      CHECK(fused_nodes(want.trace) == 0);
      for (const float v : want.y.data<float>())
        ++(std::isnan(v) ? nans : v == 0 ? zeros : numbers);
      for (const Isa isa : {Isa::sse2, Isa::avx2, Isa::avx512}) {
        if (isa > detect_isa()) continue;
        for (const int threads : {1, 2, 3, 7}) {
          if (test::kKeepsFreed && threads % 3 != 0) continue;
          const Ran got = run(g, in, {.contract = Contract::seq(), .isa = isa, .threads = threads});
          CHECK_MESSAGE(equal_bits(got.y, want.y), to_string(layer.x), to_string(layer.w),
                        " share=", share, " isa=", std::string(name(isa)), " threads=", threads);
          fused += fused_nodes(got.trace);
          if (isa == Isa::sse2) continue;
          // The addition belongs to the chain that is last.
          CHECK(record_of(got.trace, "left.bn").fused_into == "left.conv");
          CHECK(record_of(got.trace, "relu").fused_into == "right.conv");
          CHECK(record_of(got.trace, "tanh").fused_into == "right.conv");
          CHECK(record_of(got.trace, "add").kernel.starts_with("add.f32."));
          CHECK(record_of(got.trace, "left.conv").fused_into.empty());
        }
      }
    }
  // The data can tell: all kinds of values come out, and chains did run.
  CHECK(nans > 100);
  CHECK(zeros > 1000);
  CHECK(numbers > 1000);
  CHECK(fused > 0);
}

TEST_CASE("fusion: a value that somebody else wants is made") {
  const Layer layer = layers()[0];
  NamedTensors in;
  in.emplace("x", special_noise(layer.x, 7, 0));
  const auto plain = residual_graph(layer, 0);
  const RunOptions options{.contract = Contract::seq()};

  RunOptions hashes = options;
  hashes.hash_nodes = true;
  const Ran hashed = run(plain, in, hashes);
  CHECK(fused_nodes(hashed.trace) == 0);
  for (const NodeRecord& r : hashed.trace.nodes) CHECK(r.hashes.size() == 1);
  RunOptions kept = options;
  kept.keep_values = true;
  const Ran values = run(plain, in, kept);
  CHECK(fused_nodes(values.trace) == 0);
  CHECK(values.trace.values.contains("left.conv"));

  // An output in the middle, and a value that is read twice.
  const auto shown = residual_graph(layer, 0);
  shown->outputs.push_back({shown->find_value("left.conv")});
  const ValueId twice = shown->add_value("twice"), relu = shown->find_value("y");
  shown->nodes.push_back({"twice", &get_op("add"), Params(), {relu, relu}, {twice}, {}});
  shown->outputs.push_back({twice});
  shown->finish();
  const Trace got = Executor(shown, all_kernels(), options).run(in);
  RunOptions apart = options;
  apart.fuse = false;
  const Trace want = Executor(shown, all_kernels(), apart).run(in);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(equal_bits(got.outputs[i].second, want.outputs[i].second));
  CHECK(record_of(got, "left.bn").fused_into.empty());
  CHECK(record_of(got, "tanh").fused_into.empty());
  CHECK(record_of(got, "twice").fused_into.empty());
  // Run again: what was planned for the first run serves the second.
  Executor again(shown, all_kernels(), options);
  for (int i = 0; i < 2; ++i)
    CHECK(equal_bits(again.run(in).outputs[0].second, want.outputs[0].second));
}

TEST_SUITE("long") {
  TEST_CASE("fusion: the networks of the studies, fused and not") {
    for (const char* model : {"lenet", "alexnet", "resnet50", "mobilenet"}) {
      const auto g = build_model(model).graph;
      const Declaration& d = g->inputs[0];
      Ints dims = d.dims;
      dims[0] = 2;
      NamedTensors in;
      in.emplace("x", special_noise(Shape(std::span<const std::int64_t>(dims)), 3, 0));
      const Ran want = run(g, in, {.contract = Contract::seq(), .threads = 2, .fuse = false});
      const Ran got = run(g, in, {.contract = Contract::seq(), .threads = 2});
      CHECK_MESSAGE(equal_bits(got.y, want.y), model);
      if (detect_isa() >= Isa::avx2) CHECK(fused_nodes(got.trace) > 0);
    }
  }
}
