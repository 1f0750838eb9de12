// Every row of this program's own GPU kernels, on a device made of host code (host_device.h): what
// the row offers has the bits of the op's definition on the CPU, over every case of tests/op_cases
// and every contract. Copies, launches, lists of undecided slices and their settling are part of
// it; what only hardware can show is that a launch does what its shim does.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/graph/executor.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/gemm/cuda_tile_choice.h"
#include "kernels/gemm/cuda_wide.h"
#include "kernels/gemm/digit_cut.h"
#include "kernels/kernels.h"
#include "tests/host_device.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

struct Count {
  std::int64_t cases = 0, outputs = 0, undecided = 0;
};

// Runs the case on the row; false where the row refuses it.
bool compare(const OpCase& c, const cuda::DeviceRow& device, const char* text, Count& count) {
  const Contract contract = Contract::parse(text);
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  std::vector<InferInput> types(p.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] != nullptr) types[i] = {p[i]->type(), p[i], true};
  const std::vector<TensorType> outputs = infer(*c.op, c.params, InferInputs(types));
  const Problem problem{.op = c.op,
                        .params = &c.params,
                        .inputs = types,
                        .outputs = outputs,
                        .contract = &contract,
                        .device = Device::cuda};
  if (device.row.refuse(problem)) return false;
  const OpRun want = run_op(*c.op, c.params, p, all_kernels(), {.contract = contract});
  std::vector<Tensor> got;
  for (const TensorType& y : outputs) got.push_back(Tensor::zeros(y.dtype, y.shape));
  const KernelCall call{.problem = &problem, .inputs = p, .outputs = got};
  // What `run` of the row does, with a look at what the device left.
  cuda::Work work;
  cuda::CallOnDevice on_device(call);
  device.enqueue(on_device.call(), work);
  on_device.fetch_outputs();
  if (work.listed()) {
    const std::vector<std::int64_t> undecided = work.fetch_undecided();
    count.undecided += static_cast<std::int64_t>(undecided.size());
    cuda::settle_on_host(call, undecided);
  }
  CAPTURE(c.line);
  CAPTURE(device.row.name);
  CAPTURE(std::string(text));
  for (std::size_t o = 0; o < got.size(); ++o) {
    CHECK(std::memcmp(want.outputs[o].bytes().data(), got[o].bytes().data(), got[o].size_bytes()) ==
          0);
    count.outputs += got[o].numel();
  }
  count.cases += 1;
  return true;
}

// All cases of every row under seq, and under the other contracts one of `share` in turn; of a
// tile, which is computed whole however small the case, always one of `share`.
void compare_all(unsigned share) {
  HostDevice host;
  host.residue_facts.least = 1;
  const cuda::UseApi use(host.api);
  std::map<std::string_view, Count> by_row;
  const OpCase replaced = parse_op_case(
      "scatter_nd.none | scatter_nd | | f32[4,3]:special i64[2,1]=2,0 f32[2,3]:special");
  unsigned turn = 0;
  for (const char* contract :
       {"seq", "exact", "round=rd", "store=bf16", "subnormals=flush", "fma=off"})
    for (const cuda::DeviceRow& device : cuda::device_rows()) {
      // Products whose every output is rounded once are seldom offered what a share has.
      const bool all = contract == std::string_view("seq")
                           ? !device.row.name.ends_with(".tile")
                           : contract == std::string_view("exact") &&
                                 device.row.name.find(".exact.") != device.row.name.npos;
      Count& count = by_row[device.row.name];
      for (const OpCase& c : op_cases())
        if (c.op->name == device.row.op && (all || turn++ % share == 0))
          compare(c, device, contract, count);
      if (device.row.op == "scatter_nd") compare(replaced, device, contract, count);
    }
  std::int64_t cases = 0, outputs = 0, undecided = 0;
  for (const auto& [row, count] : by_row) {
    CAPTURE(row);
    const bool algorithm = row.find("im2col") != row.npos || row.find("winograd") != row.npos ||
                           row.find("fft") != row.npos;
    CHECK((count.cases > 0) == !algorithm);  // no contract here has an algorithm
    cases += count.cases;
    outputs += count.outputs;
    undecided += count.undecided;
  }
  MESSAGE(by_row.size(), " rows, ", cases, " cases, ", outputs, " outputs, ", undecided,
          " undecided");
  CHECK(by_row.size() >= 171);
  CHECK(undecided * 4 < outputs);  // the device does the work
}

}  // namespace

TEST_CASE("a GPU's rows on the CPU: the bits of every definition they have") { compare_all(5); }

TEST_SUITE("long") {
  TEST_CASE("a GPU's rows on the CPU: every case under every contract") { compare_all(1); }
}

TEST_CASE("a GPU's rows on the CPU: tiles beyond one block on every side") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  Count count;
  int compared = 0, lines = 0;
  for (const char* line :
       {"tile | gemm | | f32[131,37]:wild f32[37,150] f32[150]",
        "tile | gemm | alpha=0.5 beta=-2 trans_b=true | f32[129,8]:wild f32[5,8] f32[129,1]",
        // Fours that are aligned and that are not, each operand either way round, tails of k.
        "tile | gemm | trans_b=true | f32[132,76]:wild f32[260,76]",
        "tile | gemm | trans_a=true | f32[50,132]:wild f32[50,260]",
        "tile | gemm | trans_a=true trans_b=true beta=0.5 | f32[36,70]:wild f32[68,36] f32[70,68]",
        "tile | gemm | trans_b=true | f32[1,200]:wild f32[37,200] f32[37]",
        "tile | gemm | | f32[40,200]:wild f32[200,1]", "tile | gemm | | f32[70,1]:wild f32[1,70]",
        "tile | matmul | | f32[2,36,40]:wild f32[2,40,68]",
        "tile | conv | | f32[2,5,24,24]:wild f32[7,5,1,1] f32[7]",
        "tile | conv | groups=2 | f32[2,6,4,4]:wild f32[4,3,1,1] f32[4]",
        "tile | conv | groups=3 | f32[1,6,5,4]:special f32[9,2,1,1] f32[9]",
        "tile | matmul | | f32[2,140,9]:wild f32[9,3]",
        "tile | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,3,9,11]:wild f32[130,3,3,3] "
        "f32[130]",
        "tile | conv | strides=[2,1] dilations=[1,2] groups=2 | f32[1,4,13,29]:wild "
        "f32[6,2,3,3]",
        // Nine rows of tiles: more than a panel has. Slices that end inside a channel.
        "tile | matmul | | f32[1100,5] f32[5,130]",
        "tile | conv | pads_begin=[5,5] pads_end=[5,5] | f32[1,2,12,13] f32[3,2,11,11]",
        "tile | conv | pads_begin=[1,0,1] pads_end=[0,1,1] | f32[2,3,4,5,6] f32[4,3,2,3,2] f32[4]",
        // Chains that end in zeros, infinities and NaN, beside padding.
        "tile | conv | pads_begin=[2,2] pads_end=[2,2] | f32[1,3,6,6]:special f32[5,3,3,3]:special",
        "tile | conv | pads_begin=[1,1] pads_end=[1,1] | f32[1,2,5,5]:special f32[3,2,3,3]",
        "tile | conv | pads_begin=[1] pads_end=[1] | f32[1,1,1]=-0x1p-100 "
        "f32[1,1,3]=3,0x1p-100,5"}) {
    const OpCase c = parse_op_case(line);
    ++lines;
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.op == c.op->name && device.row.name.ends_with(".tile"))
        for (const char* contract : {"seq", "fma=off"})
          for (int shape = -1; shape < (contract == std::string_view("seq") ? kTileShapes : 0);
               ++shape) {
            host.tile_shape = shape;
            compared += compare(c, device, contract, count);
          }
  }
  CHECK(compared == lines * (kTileShapes + 2));
}

TEST_CASE("a GPU's rows on the CPU: rows by blocks, more than a chunk and many to a block") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  int compared = 0;
  for (const char* line :
       {"rows | softmax | | f32[3,5000]:wide",
        "rows | softmax | | f32[2,2048]",
        "rows | softmax | | f32[2,2049]:wide",
        "rows | softmax | | f32[70,63]:wide",
        "rows | softmax | | f32[33,64]",
        "rows | softmax | axis=1 | f32[3,200,17]:wide",
        "rows | softmax | | f32[300,70]",
        "rows | rms_norm | | f32[9000,5]:wild",
        "rows | softmax | axis=0 | f32[90,3]:special",
        "rows | softmax | | f32[33,40]:special",
        "rows | softmax | axis=1 | f32[2,130,20]:special",
        "rows | log_softmax | | f32[2,4100]",
        "rows | log_softmax | axis=1 | f32[2,65,35]:wide",
        "rows | log_softmax | | f32[35,31]:special",
        "rows | log_softmax | | f32[3,2]=-0,-inf,0,-0,-0,-1000",
        "rows | layer_norm | statistics=true | f32[3,5000]:wild f32[5000] f32[5000]",
        "rows | layer_norm | axis=1 | f32[40,3,21]:wild f32[3,21] f32[1,21]",
        "rows | layer_norm | axis=1 | f32[2,3,700]:wild f32[3,1] f32[3,700]",
        "rows | layer_norm | axis=1 | f32[3,1,100]:special f32[1,100] -",
        "rows | instance_norm | | f32[3,5,65,33]:wild f32[5] f32[5]",
        "rows | group_norm | groups=2 | f32[20,6,4,5]:wild f32[6] f32[6]",
        "rows | group_norm | groups=2 scale_per_group=true | f32[2,6,40,9] f32[2] f32[2]",
        "rows | rms_norm | | f32[2,4099]:wild f32[4099]",
        "rows | rms_norm | | f32[65,7] f32[7]",
        "rows | mean_variance_normalization | | f32[30,40,5,2]:wild",
        "rows | mean_variance_normalization | axes=[0,2] normalize_variance=false | f32[3,40,7]",
        "rows | lrn | size=5 | f32[2,9,5,7]:wild",
        "rows | lrn | size=40 beta=0.6 | f32[2,9,5]",
        "rows | lrn | size=3 alpha=1e30 | f32[2,4,40]:wild",
        "rows | lrn | size=3 alpha=-1 beta=2 | f32[2,4,40]",
        "rows | lrn | size=1 beta=-30.5 | f32[1,4,40]:wide"}) {
    const OpCase c = parse_op_case(line);
    CAPTURE(c.line);
    Count count;
    int rows = 0;
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.op == c.op->name && device.row.name == std::string(c.op->name) + ".f32.cuda")
        rows += compare(c, device, "seq", count);
    CHECK(rows == 1);
    compared += rows;
  }
  CHECK(compared == 31);
}

TEST_CASE("a GPU's rows on the CPU: selection takes blocks before definitions") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  for (const char* line : {"first | softmax | | f32[2,3]", "first | layer_norm | | f32[2,3]",
                           "first | lrn | | f32[2,3,4]"}) {
    const OpCase c = parse_op_case(line);
    const Tensor x = case_input(c, 0);
    const Tensor* in[] = {&x};
    Registry registry;
    registry.add(cuda::rows());
    const std::string op(c.op->name);
    RunOptions options{.contract = Contract::seq(), .device = Device::cuda};
    CHECK(run_op(*c.op, c.params, in, registry, options).kernel->name == op + ".f32.cuda");
    options.contract = Contract::exact_preset();
    CHECK(run_op(*c.op, c.params, in, registry, options).kernel->name == op + ".cuda.definition");
  }
}

TEST_CASE("a GPU's rows on the CPU: convolution by im2col and by Winograd") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const char* lines[] = {
      "algo | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,3,9,11]:wild f32[4,3,3,3] f32[4]",
      "algo | conv | pads_begin=[1,0] pads_end=[0,2] groups=2 | f32[1,4,8,7]:special f32[6,2,3,3]",
      "algo | conv | | f32[1,5,6]:wild f32[3,5,3]"};
  const struct {
    const char *contract, *row;
    int takes;
  } wanted[] = {{"algo=im2col", "conv.im2col.cuda.definition", 3},
                {"algo=winograd:2/3", "conv.winograd.cuda.definition", 3},
                {"algo=winograd:4/3,transform=f64", "conv.winograd.cuda.definition", 3},
                {"algo=winograd:2/3,channels=pairwise:2", "conv.winograd.cuda.definition", 0}};
  for (const auto& w : wanted) {
    Count count;
    int compared = 0;
    for (const char* line : lines)
      for (const cuda::DeviceRow& device : cuda::device_rows())
        if (device.row.op == "conv" && compare(parse_op_case(line), device, w.contract, count)) {
          CHECK(device.row.name == w.row);
          ++compared;
        }
    CAPTURE(std::string(w.contract));
    CHECK(compared == w.takes);
    CHECK(count.undecided == 0);
  }
}

TEST_CASE("a GPU's rows on the CPU: convolution by FFT, each transform once") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const cuda::DeviceRow* row = nullptr;
  for (const cuda::DeviceRow& device : cuda::device_rows())
    if (device.row.name == "conv.fft.f32.cuda") row = &device;
  REQUIRE(row != nullptr);
  const struct {
    const char* contract;
    int takes;
  } wanted[] = {{"algo=fft:4", 5},         {"algo=fft:8", 6},    {"algo=fft:16", 6},
                {"algo=fft:64", 6},        {"algo=fft:128", 6},  {"algo=fft:full", 6},
                {"algo=fft:8,fma=off", 0}, {"algo=fft:1024", 0}, {"seq", 0}};
  for (const auto& w : wanted) {
    Count count;
    int compared = 0;
    for (const char* line :
         {"fft | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,3,9,11]:wild f32[4,3,3,3] f32[4]",
          "fft | conv | pads_begin=[1,0] pads_end=[0,2] groups=2 | f32[1,4,8,7]:special "
          "f32[6,2,3,3]",
          "fft | conv | | f32[1,5,6]:wild f32[3,5,3]",
          "fft | conv | groups=3 | f32[3,3,5,70] f32[3,1,1,4] f32[3]",
          "fft | conv | | f32[1,2,70,5]:wild f32[5,2,4,1]",
          "fft | conv | pads_begin=[4,4] pads_end=[4,4] | f32[1,2,3,13]:wild f32[1,2,5,5]"})
      compared += compare(parse_op_case(line), *row, w.contract, count);
    CAPTURE(std::string(w.contract));
    CHECK(compared == w.takes);
  }
}

namespace {

// A case, and how many of its outputs a first pass may leave open.
struct ExactCase {
  const char* line;
  double least_open, most_open;  // shares of the outputs
};
// The op's row whose name ends so takes each case and has its bits.
void compare_exact(HostDevice& host, std::string_view row, std::span<const ExactCase> cases) {
  int compared = 0;
  for (const ExactCase& w : cases) {
    Count count;
    host.open = 0;
    const OpCase c = parse_op_case(w.line);
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.op == c.op->name && device.row.name.ends_with(row))
        compared += compare(c, device, "exact", count);
    CAPTURE(c.line);
    const double share = static_cast<double>(host.open) / static_cast<double>(count.outputs);
    CAPTURE(share);
    CHECK(share >= w.least_open);
    CHECK(share <= w.most_open);
  }
  CHECK(compared == std::ssize(cases));
}
void check_blocks(const HostDevice& host, std::initializer_list<const char*> ran) {
  for (const char* block : ran) {
    CAPTURE(block);
    CHECK(host.wide_blocks.count(block) == 1);
  }
}

}  // namespace

TEST_CASE("a GPU's rows on the CPU: exact in digits, as int8 tensor units multiply them") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const ExactCase cases[] = {
      // More than a tile and a step on every side, each operand either way round.
      {"exact | gemm | | f32[70,200] f32[200,131] f32[131]", 0, 0.01},
      {"exact | gemm | alpha=0.3 beta=-2 trans_b=true | f32[129,65] f32[67,65] f32[129,1]", 0,
       0.01},
      {"exact | gemm | trans_a=true | f32[130,70] f32[130,66]", 0, 0.01},
      {"exact | gemm | trans_a=true trans_b=true | f32[64,1] f32[65,64]", 0, 0.01},
      {"exact | matmul | | f32[3,2,66,40] f32[2,40,5]", 0, 0.01},
      {"exact | gemm | | f32[2,2100] f32[2100,64]", 0, 0.05},
      // More than a block of k, which int32 holds.
      {"exact | gemm | | f32[1,16500] f32[16500,2]", 0, 0.5},
      // Rows of wild magnitudes: what rounding left is large, so the second pass works.
      {"exact | gemm | | f32[33,90]:wild f32[90,40]:wild f32[40]:wild", 0.001, 1},
      {"exact | gemm | | f32[20,30]:special f32[30,40]:special", 0.1, 1},
      {"exact | matmul | | f32[20,30]:finite f32[30,9]:finite", 0, 1},
      // Zeros, an empty sum, a midpoint of two floats that only the host decides.
      {"exact | gemm | | f32[1,2]=0,-0 f32[2,1]=1,1", 0, 0},
      {"exact | gemm | alpha=-1 | f32[1,2]=0,-0 f32[2,1]=1,1", 0, 1},
      {"exact | matmul | | f32[3,0] f32[0,4]", 0, 0},
      {"exact | gemm | | f32[1,3]=0x1p+0,0x1p-24,0x1p-149 f32[3,1]=1,1,0x1p-149", 1, 1},
      {"exact | gemm | | f32[1,2]=0x1p+0,0x1p-24 f32[2,1]=1,1", 1, 1}};
  compare_exact(host, ".exact.cuda.int8", cases);
}

TEST_CASE("a GPU's rows on the CPU: exact by residues, as int8 tensor units multiply them") {
  HostDevice host;
  host.residue_facts.least = 1;
  const cuda::UseApi use(host.api);
  const struct {
    const char* line;
    double least_open, most_open;  // shares of the outputs
    std::int64_t panel_bytes = 1 << 28;
    std::int64_t most_undecided = 0;
  } wanted[] = {
      // More than a tile on every side, each operand either way round, aligned fours and not.
      {"exact | gemm | | f32[131,200] f32[200,267] f32[267]", 0, 0.01},
      {"exact | gemm | alpha=0.3 beta=-2 trans_b=true | f32[129,65] f32[67,65] f32[129,1]", 0,
       0.01},
      {"exact | gemm | trans_a=true | f32[130,72] f32[130,68]", 0, 0.01},
      {"exact | gemm | trans_a=true trans_b=true beta=0.5 | f32[63,65] f32[66,63] f32[65,66]", 0,
       0.01},
      {"exact | gemm | trans_b=true | f32[36,1000] f32[68,1000]", 0, 0.01},
      {"exact | gemm | | f32[20,5000] f32[5000,30]", 0, 0.02},
      {"exact | gemm | | f32[7,1] f32[1,9]", 0, 0.01},
      // Products of a batch: each its own, one b for all (more rows), one a for all.
      {"exact | matmul | | f32[3,2,66,40] f32[2,40,5]", 0, 0.01},
      {"exact | matmul | | f32[3,2,66,40] f32[40,70]", 0, 0.01},
      {"exact | matmul | | f32[66,40] f32[5,40,3]", 0, 0.01},
      // Panels of 128 rows, of 256 columns, of two products.
      {"exact | gemm | | f32[300,40] f32[40,530] f32[530]", 0, 0.01, 1},
      {"exact | gemm | trans_a=true trans_b=true | f32[40,260] f32[300,40] f32[260,1]", 0, 0.01, 1},
      {"exact | matmul | | f32[5,16,40] f32[5,40,60]", 0, 0.01, 24000},
      // Rows of wild magnitudes: more rests than are kept, the sum itself is done again.
      {"exact | gemm | | f32[33,90]:wild f32[90,40]:wild f32[40]:wild", 0.001, 1},
      {"exact | gemm | trans_b=true | f32[33,1000]:wild f32[40,1000]:wild", 0.01, 1},
      {"exact | gemm | | f32[20,30]:special f32[30,40]:special", 0.1, 1, 1 << 28, 800},
      {"exact | matmul | | f32[20,30]:finite f32[30,9]:finite", 0, 1, 1 << 28, 20},
      // Zeros, a difference of equals; midpoints of two floats, which integers decide, and one
      // beside a rest, which the host does.
      {"exact | gemm | | f32[1,2]=0,-0 f32[2,1]=1,1", 0, 0},
      {"exact | gemm | alpha=-1 | f32[1,2]=0,-0 f32[2,1]=1,1", 0, 1},
      {"exact | gemm | | f32[1,2]=3,-3 f32[2,1]=7,7", 1, 1},
      {"exact | gemm | alpha=-2 | f32[1,2]=3,-3 f32[2,1]=7,7 f32[1,1]=-0", 1, 1},
      {"exact | gemm | | f32[1,2]=0x1p+0,0x1p-24 f32[2,1]=1,1", 1, 1},
      {"exact | gemm | | f32[1,3]=0x1p+0,0x1p-24,0x1p-40 f32[3,1]=1,1,0x1p-40", 1, 1},
      {"exact | gemm | | f32[1,3]=0x1p+0,0x1p-24,0x1p-149 f32[3,1]=1,1,0x1p-149", 1, 1, 1 << 28, 1},
      // Results that are subnormal, that overflow, and halfway to either.
      {"exact | gemm | | f32[2,2]=0x1p-75,0x1p-75,0x1p-100,0x1.8p-70 "
       "f32[2,2]=0x1p-75,0x1p-70,0x1p-76,0x1.8p-79",
       0, 1},
      {"exact | gemm | | f32[2,2]=0x1p64,0x1p63,0x1.fffffep127,0x1p103 "
       "f32[2,2]=0x1p63,0x1p64,1,0x1.8p62",
       0, 1}};
  int compared = 0;
  for (const auto& w : wanted) {
    Count count;
    host.open = 0;
    host.residue_facts.panel_bytes = w.panel_bytes;
    const OpCase c = parse_op_case(w.line);
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.op == c.op->name && device.row.name.ends_with(".exact.cuda.residues"))
        compared += compare(c, device, "exact", count);
    CAPTURE(c.line);
    const double share = static_cast<double>(host.open) / static_cast<double>(count.outputs);
    CAPTURE(share);
    CHECK(share >= w.least_open);
    CHECK(share <= w.most_open);
    CAPTURE(count.undecided);
    CHECK(count.undecided <= w.most_undecided);
  }
  CHECK(compared == std::ssize(wanted));
  // What it refuses: other contracts and types, little to do, sums that int32 does not hold, other
  // devices, a program without its code.
  const auto takes = [&](const char* line, const char* contract) {
    Count count;
    bool taken = false;
    const OpCase c = parse_op_case(line);
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.op == c.op->name && device.row.name.ends_with(".exact.cuda.residues"))
        taken = compare(c, device, contract, count);
    return taken;
  };
  const char* small = "small | gemm | | f32[9,9] f32[9,9]";
  CHECK(takes(small, "exact"));
  CHECK_FALSE(takes(small, "seq"));
  CHECK_FALSE(takes("half | gemm | | f16[9,9] f16[9,9]", "exact"));
  CHECK_FALSE(takes("none | gemm | | f32[9,0] f32[0,9]", "exact"));
  CHECK_FALSE(takes("long | gemm | | f32[1,131072] f32[131072,1]", "exact"));
  host.residue_facts.least = 10;
  CHECK_FALSE(takes(small, "exact"));
  host.residue_facts.least = 1;
  host.residue_facts.code = false;
  CHECK_FALSE(takes(small, "exact"));
  host.residue_facts.code = true;
  host.residue_facts.units = false;
  CHECK_FALSE(takes(small, "exact"));
}

TEST_CASE("a GPU's rows on the CPU: exact convolution in digits, gathered from the image's") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const ExactCase cases[] = {
      // More than a tile of channels and of windows, images side by side in a tile, padding of both
      // ends, channels that end in the middle of 16 and of 64 bytes.
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[3,20,9,11] f32[70,20,3,3] f32[70]", 0,
       0.02},
      {"exact | conv | pads_begin=[1,0] pads_end=[0,2] strides=[2,1] dilations=[1,2] groups=2 | "
       "f32[2,34,8,9] f32[34,17,3,2]",
       0, 0.02},
      {"exact | conv | strides=[2,2] pads_begin=[3,3] pads_end=[3,3] | f32[1,3,20,21] "
       "f32[64,3,7,7] f32[64]",
       0, 0.02},
      {"exact | conv | | f32[2,100,7,7] f32[66,100,1,1]", 0, 0.02},
      {"exact | conv | pads_begin=[2] pads_end=[2] | f32[2,9,40] f32[32,9,5]", 0, 0.02},
      {"exact | conv | pads_begin=[1,0,1] pads_end=[0,1,1] | f32[2,8,4,5,6] f32[40,8,3,2,3] "
       "f32[40]",
       0, 0.02},
      // More than a block of k, which int32 holds.
      {"exact | conv | | f32[1,1840,3,3] f32[8,1840,3,3]", 0, 0.5},
      // A window that lies in the padding as a whole has no term.
      {"exact | conv | pads_begin=[4,4] pads_end=[4,4] | f32[1,16,3,3] f32[16,16,2,2] f32[16]", 0,
       0.02},
      // One image far above its other elements; images far from one another; NaN, infinities,
      // zeros, subnormals: what the first pass leaves open the others decide.
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,17,6,7]:wild f32[18,17,3,3]:wild "
       "f32[18]:wild",
       0.01, 1},
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,16,6,6]:special "
       "f32[16,16,3,3]:special f32[16]:special",
       0.01, 1},
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,16,5,6]:finite "
       "f32[16,16,3,3]:finite",
       0, 1}};
  compare_exact(host, ".exact.cuda.int8", cases);
  // Zeros of either sign, and sums so near a midpoint of two floats that only the host decides
  // them.
  std::string signs =
      "signs | conv | | f32[1,5,1,1]=1,0x1p-24,0x1p-100,0x1p-100,0x1p-149 "
      "f32[64,5,1,1]=1,1,1,-1,0x1p-149";
  for (int i = 1; i < 64; ++i)
    signs += i % 4 == 0 ? ",1,1,1,-1,0x1p-149" : i % 2 == 0 ? ",0,0,-0,0,-0" : ",-0,-0,-0,-0,-0";
  signs += " f32[64]=-0";
  for (int i = 1; i < 64; ++i) signs += i % 3 == 0 ? ",0" : ",-0";
  Count zeros;
  for (const cuda::DeviceRow& device : cuda::device_rows())
    if (device.row.op == "conv" && device.row.name.find(".exact.") != device.row.name.npos)
      CHECK(compare(parse_op_case(signs), device, "exact", zeros));
  CHECK(zeros.undecided == 16 * 2);
  // What would leave its tiles empty it refuses, and every contract but exact.
  Count count;
  for (const cuda::DeviceRow& device : cuda::device_rows())
    if (device.row.name == "conv.exact.cuda.int8") {
      CHECK_FALSE(compare(parse_op_case("depthwise | conv | groups=9 | f32[1,9,4,4] f32[9,1,3,3]"),
                          device, "exact", count));
      CHECK_FALSE(compare(parse_op_case("one | conv | | f32[1,1,8,8] f32[64,1,5,5]"), device,
                          "exact", count));
      CHECK_FALSE(compare(parse_op_case("few | conv | | f32[1,16,4,4] f32[7,16,3,3]"), device,
                          "exact", count));
      CHECK_FALSE(
          compare(parse_op_case("c | conv | | f32[1,16,4,4] f32[8,16,3,3]"), device, "seq", count));
      CHECK_FALSE(compare(parse_op_case("c | conv | | f16[1,16,4,4] f16[8,16,3,3]"), device,
                          "exact", count));
    }
}

TEST_CASE("a GPU's rows on the CPU: exact in f64, as f64 tensor units multiply") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const ExactCase cases[] = {
      // Ends of tiles and of slices on every side, each operand either way round, by fours and by
      // ones.
      {"exact | gemm | | f32[70,200] f32[200,131] f32[131]", 0, 0.002},
      {"exact | gemm | | f32[70,33] f32[33,132]", 0, 0.002},
      {"exact | gemm | alpha=0.3 beta=-2 trans_b=true | f32[129,65] f32[67,65] f32[129,1]", 0,
       0.002},
      {"exact | gemm | trans_a=true | f32[130,70] f32[130,66]", 0, 0.002},
      {"exact | gemm | trans_a=true trans_b=true | f32[64,1] f32[65,64]", 0, 0.002},
      {"exact | gemm | trans_a=true trans_b=true | f32[40,36] f32[34,40]", 0, 0.002},
      {"exact | matmul | | f32[3,2,66,40] f32[2,40,5]", 0, 0.002},
      // Long k: blocks share it; its shares' ends; folds.
      {"exact | gemm | | f32[2,2100] f32[2100,64]", 0, 0.01},
      {"exact | gemm | trans_b=true | f32[35,1000] f32[37,1000]", 0, 0.01},
      {"exact | gemm | trans_a=true | f32[999,35] f32[999,37] f32[37]", 0, 0.01},
      {"exact | matmul | | f32[140,3,530] f32[530,35]", 0, 0.01},
      // Blocks of 64 x 64: rows of tiles more than a panel has, every way round.
      {"exact | gemm | | f32[900,20] f32[20,900]", 0, 0.002},
      {"exact | gemm | trans_a=true | f32[17,1000] f32[17,800]", 0, 0.002},
      {"exact | gemm | trans_b=true | f32[901,15] f32[902,15]", 0, 0.002},
      {"exact | gemm | trans_a=true trans_b=true | f32[18,902] f32[901,18]", 0, 0.002},
      {"exact | matmul | | f32[200,33,530] f32[530,34]", 0, 0.01},
      {"exact | matmul | | f32[67,33,2052] f32[67,2052,33]", 0, 0.01},
      // Magnitudes of a row far from one another; NaN, infinities, subnormals; squares that f32 has
      // not.
      {"exact | gemm | | f32[33,90]:wild f32[90,40]:wild f32[40]:wild", 0.001, 1},
      {"exact | gemm | | f32[20,30]:special f32[30,40]:special", 0.1, 1},
      {"exact | matmul | | f32[20,30]:finite f32[30,9]:finite", 0, 1},
      {"exact | gemm | | f32[1,2]=0x1p70,0x1p71 f32[2,1]=1,1", 1, 1},
      {"exact | gemm | | f32[1,2]=0x1p-80,0x1p-81 f32[2,1]=0x1p-66,0x1p-67", 0, 0},
      // Zeros, an empty sum, a midpoint of two floats that only the host decides.
      {"exact | gemm | | f32[1,2]=0,-0 f32[2,1]=1,1", 0, 0},
      {"exact | gemm | alpha=-1 | f32[1,2]=0,-0 f32[2,1]=1,1", 0, 1},
      {"exact | gemm | | f32[1,2]=0,0 f32[2,1]=inf,1", 1, 1},
      {"exact | matmul | | f32[3,0] f32[0,4]", 0, 0},
      {"exact | gemm | | f32[1,3]=0x1p+0,0x1p-24,0x1p-149 f32[3,1]=1,1,0x1p-149", 1, 1},
      {"exact | gemm | | f32[1,2]=0x1p+0,0x1p-24 f32[2,1]=1,1", 1, 1}};
  compare_exact(host, ".exact.cuda.f64", cases);
  check_blocks(host,
               {"32 kn fours split", "32 kk fours split", "32 mn ones split", "32 mk fours",
                "32 kn ones fours", "32 folded kn ones", "64 kn fours", "64 mn fours", "64 kk ones",
                "64 mk ones", "64 folded kn ones", "64 folded kn fours ones split"});
}

TEST_CASE("a GPU's rows on the CPU: exact convolution in f64") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const ExactCase cases[] = {
      // Images side by side in a tile, padding of both ends, steps of every kind, groups.
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[3,20,9,11] f32[70,20,3,3] f32[70]", 0,
       0.002},
      {"exact | conv | pads_begin=[1,0] pads_end=[0,2] strides=[2,1] dilations=[1,2] groups=2 | "
       "f32[2,34,8,9] f32[34,17,3,2]",
       0, 0.002},
      {"exact | conv | strides=[2,2] pads_begin=[3,3] pads_end=[3,3] | f32[1,3,20,21] "
       "f32[64,3,7,7] f32[64]",
       0, 0.002},
      {"exact | conv | | f32[1,1,14,14] f32[20,1,11,11] f32[20]", 0, 0.002},
      {"exact | conv | pads_begin=[2] pads_end=[2] | f32[2,9,40] f32[32,9,5]", 0, 0.002},
      {"exact | conv | pads_begin=[1,0,1] pads_end=[0,1,1] | f32[2,8,4,5,6] f32[40,8,3,2,3] "
       "f32[40]",
       0, 0.002},
      {"exact | conv | groups=3 | f32[2,6,7,7] f32[9,2,3,3] f32[9]", 0, 0.002},
      // Windows of one tap: by fours, by ones where a row of fours would end within a pixel's
      // image, where they step over pixels.
      {"exact | conv | | f32[2,100,6,6] f32[66,100,1,1]", 0, 0.002},
      {"exact | conv | | f32[2,100,7,7] f32[66,100,1,1]", 0, 0.002},
      {"exact | conv | strides=[2,2] | f32[2,40,8,8] f32[34,40,1,1]", 0, 0.002},
      {"exact | conv | groups=2 | f32[2,24,4,4] f32[10,12,1,1] f32[10]", 0, 0.002},
      // Blocks that share k, that begin within a channel; blocks of 64 x 64, and folds in them.
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[1,70,6,7] f32[40,70,3,3] f32[40]", 0,
       0.01},
      {"exact | conv | | f32[1,1840,3,3] f32[8,1840,3,3]", 0, 0.05},
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,4,60,61] f32[70,4,3,3] f32[70]", 0,
       0.002},
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,60,60,60] f32[70,60,3,3]", 0, 0.002},
      // A window that lies in the padding as a whole has no term.
      {"exact | conv | pads_begin=[4,4] pads_end=[4,4] | f32[1,16,3,3] f32[16,16,2,2] f32[16]", 0,
       0.002},
      // Weights that are not finite, beside padding.
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,17,6,7]:wild f32[18,17,3,3]:wild "
       "f32[18]:wild",
       0.01, 1},
      {"exact | conv | pads_begin=[2,2] pads_end=[2,2] | f32[2,3,6,6]:special f32[5,3,3,3]:special",
       0.01, 1},
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,16,6,6] f32[16,16,3,3]:special "
       "f32[16]:special",
       0.01, 1},
      {"exact | conv | pads_begin=[1] pads_end=[1] | f32[1,1,1]=-0x1p-100 "
       "f32[1,1,3]=inf,0x1p-100,5",
       1, 1}};
  compare_exact(host, ".exact.cuda.f64", cases);
  check_blocks(host, {"conv 32 kn fours", "conv 32 kn fours ones", "conv 32 kn fours ones split",
                      "conv 32 kn ones", "conv 64 kn fours ones", "conv 64 folded kn fours ones"});
  // Every contract but exact, and what has no tile, it refuses.
  Count count;
  for (const cuda::DeviceRow& device : cuda::device_rows())
    if (device.row.name == "conv.exact.cuda.f64") {
      CHECK_FALSE(compare(parse_op_case("depthwise | conv | groups=9 | f32[1,9,4,4] f32[9,1,3,3]"),
                          device, "exact", count));
      CHECK_FALSE(
          compare(parse_op_case("c | conv | | f32[1,16,4,4] f32[8,16,3,3]"), device, "seq", count));
      CHECK_FALSE(compare(parse_op_case("c | conv | | f16[1,16,4,4] f16[8,16,3,3]"), device,
                          "exact", count));
    }
}

TEST_SUITE("long") {
  TEST_CASE("a GPU's rows on the CPU: digits whose sum int32 does not hold") {
    HostDevice host;
    const cuda::UseApi use(host.api);
    // Digits 125, 127, 127: a level of three products passes 2^31 after 44852 terms.
    const std::string terms = "49152";
    std::string values = "0x1.f5fdfcp0";
    for (int i = 1; i < 49152; ++i) values += ",0x1.f5fdfcp0";
    const OpCase c = parse_op_case("sum | gemm | | f32[1," + terms + "]=" + values + " f32[" +
                                   terms + ",1]=" + values);
    Count count;
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.name == "gemm.exact.cuda.int8") CHECK(compare(c, device, "exact", count));
    CHECK(host.open == 0);
  }
}

TEST_CASE("digits: a sum of five is the value's nearest multiple of the unit") {
  const float rows[] = {1.0F,           -1.0F,     0x1.fffffep-1F,  0x1.f8p0F,   0x1.f7fffep0F,
                        -0x1.fffffep3F, 0x1p-149F, 0x1.fffffep127F, 0x1.8p-130F, 3.0F};
  for (const float largest : rows) {
    const double unit = digit_unit(static_cast<std::int32_t>(bits_of(largest) & 0x7fffffffU));
    const double top = abs_of(static_cast<double>(largest)) / unit;
    CAPTURE(largest);
    CHECK(top < 0.99 * 0x1p39);
    CHECK(top >= 0.49 * 0x1p38);
    for (const double part : {1.0, -1.0, 0.7, -0.3, 0x1p-20, 0x1.8p-38, -0x1p-39, 0.0}) {
      const double z = top * part, integer = digit_integer(z);
      CHECK(abs_of(z - integer) <= 0.5);
      const std::uint64_t digits = digits_of(integer);
      double sum = 0;
      for (int d = kDigits; d-- > 0;) sum = sum * 256 + digit(digits, d);
      CHECK(sum == integer);
    }
  }
}

TEST_CASE("exact in f64: what is above a sum of squares in f32 is above the real one") {
  for (const float size : {1.0F, 0x1.fffffep0F, 0x1p-74F, 0x1p-75F, 0x1.8p-76F, 0x1p-149F, 0.0F})
    for (const int count : {1, 7, 256, 512}) {
      // Squares as of a row that ends lower than it begins: each is rounded off by most.
      float squares = 0, partial = 0;
      WideLine real{};
      for (int i = 0; i < count; ++i) {
        const float x = size * static_cast<float>(count - i % 3) / static_cast<float>(count + i);
        squares = fma_f32(x, x, squares);
        real.squares += static_cast<double>(x) * static_cast<double>(x);
        if (i % 16 == 15) {
          partial = partial + squares;
          real.partial += real.squares;
        }
      }
      CAPTURE(size);
      CAPTURE(count);
      const bool zeros = size == 0;
      CHECK(wide_over(squares, zeros) >= real.squares);
      CHECK(wide_over(partial, zeros) >= real.partial);
      CHECK((wide_over(squares, zeros) == 0) == zeros);
      CHECK(wide_over(squares, zeros) <= real.squares * (1 + 0x1p-12) + 0x1p-134);
    }
  CHECK(wide_over(float_of(0x7f800000U), false) > 0x1p1000);
  CHECK_FALSE(wide_over(float_of(kNanF32), false) <= 0x1p1000);
}

TEST_CASE("a GPU's rows on the CPU: a sum at a midpoint is left to the host") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  // 1 + 2^-24, both lost beside 2^100: a ball around the midpoint of two floats.
  const OpCase c =
      parse_op_case("undecided | reduce_sum | axes=[0] | f32[4]=0x1p+100,1,0x1p-24,-0x1p+100");
  Count count;
  for (const cuda::DeviceRow& device : cuda::device_rows())
    if (device.row.op == "reduce_sum") compare(c, device, "exact", count);
  CHECK(count.cases == 1);
  CHECK(count.undecided == 1);
  // And as a caller has it.
  RunOptions options{.contract = Contract::exact_preset()};
  const Tensor x = case_input(c, 0);
  const Tensor* in[] = {&x};
  const OpRun want = run_op(*c.op, c.params, in, all_kernels(), options);
  Registry registry;
  registry.add(cuda::rows());
  options.device = Device::cuda;
  const OpRun got = run_op(*c.op, c.params, in, registry, options);
  CHECK(got.kernel->name == "reduce_sum.cuda.definition");
  CHECK(hash_tensor(got.outputs[0]) == hash_tensor(want.outputs[0]));
}

TEST_CASE("a GPU's rows on the CPU: more left open than the list has places") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  // The formula of log refuses infinity, so that all of 1100 are open; the list has 1024 places.
  std::string line = "open | log | | f32[1100]=inf";
  for (int i = 1; i < 1100; ++i) line += ",inf";
  const OpCase c = parse_op_case(line);
  Count count;
  int compared = 0;
  for (const cuda::DeviceRow& device : cuda::device_rows())
    if (device.row.name == "log.f32.cuda") compared += compare(c, device, "exact", count);
  CHECK(compared == 1);
  CHECK(count.undecided == 0);
}

TEST_CASE("floating types stand first in the table of types") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto d = static_cast<DType>(i);
    CHECK(is_floating(d) == (info(d).kind == DTypeClass::floating));
  }
}
