// Every row of this program's own GPU kernels, on a device made of host code (host_device.h): what
// the row offers has the bits of the op's definition on the CPU, over every case of tests/op_cases
// and every contract. Copies, launches, lists of undecided slices and their settling are part of
// it; what only hardware can show is that a launch does what its shim does.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "engine/graph/executor.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/gemm/cuda_tile_choice.h"
#include "kernels/kernels.h"
#include "kernels/recurrent/cuda_scan_launch.h"
#include "tests/device_compare.h"
#include "tests/host_device.h"
#include "tests/op_cases.h"

using namespace etalon;
using test::compare, test::Count;

namespace {

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
       {"rows | softmax | | f32[3,5000]:wide", "rows | softmax | | f32[2,2048]",
        "rows | softmax | | f32[2,2049]:wide", "rows | softmax | | f32[70,63]:wide",
        "rows | softmax | | f32[33,64]", "rows | softmax | axis=1 | f32[3,200,17]:wide",
        "rows | softmax | | f32[300,70]",
        // A warp to a row, a block to one: ends of both, chunks, neighbours far apart.
        "rows | softmax | | f32[9,1]", "rows | softmax | | f32[5,128]:wide",
        "rows | softmax | | f32[5,127]:special", "rows | log_softmax | | f32[6,100]:wide",
        "rows | softmax | | f32[3,129]:special", "rows | softmax | | f32[2,600]:wide",
        "rows | softmax | | f32[2,4096]", "rows | softmax | | f32[2,4097]:wide",
        "rows | log_softmax | | f32[1,9000]:wide", "rows | softmax | axis=1 | f32[2,130,5]:wide",
        "rows | log_softmax | axis=0 | f32[5000,3]", "rows | rms_norm | | f32[9000,5]:wild",
        "rows | softmax | axis=0 | f32[90,3]:special", "rows | softmax | | f32[33,40]:special",
        "rows | softmax | axis=1 | f32[2,130,20]:special", "rows | log_softmax | | f32[2,4100]",
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
        "rows | rms_norm | | f32[2,4099]:wild f32[4099]", "rows | rms_norm | | f32[65,7] f32[7]",
        "rows | mean_variance_normalization | | f32[30,40,5,2]:wild",
        "rows | mean_variance_normalization | axes=[0,2] normalize_variance=false | f32[3,40,7]",
        "rows | lrn | size=5 | f32[2,9,5,7]:wild", "rows | lrn | size=40 beta=0.6 | f32[2,9,5]",
        "rows | lrn | size=3 alpha=1e30 | f32[2,4,40]:wild",
        "rows | lrn | size=3 alpha=-1 beta=2 | f32[2,4,40]",
        "rows | lrn | size=1 beta=-30.5 | f32[1,4,40]:wide",
        "rows | batch_norm | | f32[2,5,21,19]:wild f32[5] f32[5] f32[5] f32[5]:positive",
        "rows | batch_norm | | f32[300,7] f32[7] f32[7] f32[7] f32[7]:positive",
        "rows | batch_norm | | f32[3,70,4,4]:special f32[70] f32[70] f32[70] f32[70]:positive"}) {
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
  CHECK(compared == 45);
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

TEST_CASE("a GPU's rows on the CPU: recurrent cells beyond a tile on every side, by every tile") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const char* lines[] = {
      // 33 and 70 are more than a block's rows and units; 70 and 45 end within a slice.
      "cells | lstm | | f32[4,b33,45] f32[1,280,45] f32[1,280,70] f32[1,560]",
      "cells | lstm | direction=bidirectional gates=ifco | f32[3,b66,9]:wild f32[2,140,9]:wild "
      "f32[2,140,35]:wild f32[2,280]:wild i32[b66]=LENGTHS",
      "cells | lstm | direction=reverse batch_first=true input_forget=true clip=0.6 | f32[b5,4,7] "
      "f32[1,132,7] f32[1,132,33] f32[1,264] - f32[b5,1,33] f32[b5,1,33] f32[1,99]",
      "cells | lstm | cell_clip=0.4 | f32[3,b6,5]:special f32[1,280,5] f32[1,280,70] f32[1,560] - "
      "f32[1,b6,70]:special f32[1,b6,70]:special f32[1,210]",
      "cells | gru | | f32[4,b33,45] f32[1,210,45] f32[1,210,70] f32[1,420]",
      "cells | gru | direction=bidirectional gates=rzh | f32[3,b66,9]:wild f32[2,105,9]:wild "
      "f32[2,105,35]:wild f32[2,210]:wild i32[b66]=LENGTHS f32[2,b66,35]",
      "cells | gru | linear_before_reset=true | f32[4,b33,45] f32[1,210,45] f32[1,210,70] "
      "f32[1,420]",
      "cells | gru | linear_before_reset=true direction=bidirectional batch_first=true clip=0.5 | "
      "f32[b7,3,9]:wild f32[2,105,9] f32[2,105,35] f32[2,210] i64[b7]=3,0,1,2,3,0,1 f32[b7,2,35]",
      "cells | gru | linear_before_reset=true | f32[3,b6,5]:special f32[1,210,5] f32[1,210,70] - - "
      "f32[1,b6,70]:special",
      "cells | gru | direction=reverse | f32[3,b6,5]:special f32[1,210,5] f32[1,210,70] - - "
      "f32[1,b6,70]:special",
      "cells | rnn | | f32[4,b33,45] f32[1,70,45] f32[1,70,70] f32[1,140]",
      "cells | rnn | direction=bidirectional activations=[Relu,Softsign] | f32[3,b66,9]:wild "
      "f32[2,131,9]:wild f32[2,131,131]:wild f32[2,262]:wild i32[b66]=LENGTHS f32[2,b66,131]",
      "cells | rnn | activations=[Relu] batch_first=true | f32[b3,3,5]:special f32[1,33,5] "
      "f32[1,33,33] - i64[b3]=1,3,2 f32[b3,1,33]:special"};
  std::string lengths = "3";
  for (int b = 1; b < 66; ++b) lengths += "," + std::to_string((b * 5 + 3) % 4);
  Count count;
  int compared = 0;
  for (std::string line : lines) {
    if (const std::size_t at = line.find("LENGTHS"); at != line.npos) line.replace(at, 7, lengths);
    const OpCase c = parse_op_case(line);
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.op == c.op->name)
        for (host.scan_tile = -1; host.scan_tile < kScanTileCount; ++host.scan_tile) {
          host.scan_steps = host.scan_tile + 1;  // chunks of all steps, then of 1, 2, ...
          host.scan_hold = host.scan_tile < 0;
          compared += compare(c, device, "seq", count);
        }
  }
  CHECK(compared == std::ssize(lines) * (kScanTileCount + 1));
  CHECK(count.undecided == 0);
}

TEST_CASE("a GPU's rows on the CPU: small lstm cells whose weights stay in registers") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  // Of each form, units that fill a cluster's blocks and units that do not.
  const char* lines[] = {
      "held | lstm | | f32[3,b2,9] f32[1,20,9] f32[1,20,5] f32[1,40]",
      "held | lstm | direction=bidirectional gates=ifco | f32[3,b5,9]:wild f32[2,400,9]:wild "
      "f32[2,400,100]:wild f32[2,800]:wild i32[b5]=3,0,1,3,2",
      "held | lstm | direction=reverse batch_first=true | f32[b3,4,7] f32[1,412,7] f32[1,412,103] "
      "- i64[b3]=4,2,3 f32[b3,1,103] f32[b3,1,103]",
      "held | lstm | | f32[3,b2,5]:special f32[1,512,5] f32[1,512,128] f32[1,1024] - "
      "f32[1,b2,128]:special f32[1,b2,128]:special",
      "held | lstm | direction=bidirectional | f32[3,b2,6] f32[2,516,6] f32[2,516,129] f32[2,1032]",
      "held | lstm | | f32[2,b2,11] f32[1,800,11] f32[1,800,200] f32[1,1600]"};
  Count count;
  int compared = 0;
  for (const char* line : lines)
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.op == "lstm")
        for (host.scan_steps = 0; host.scan_steps < 3; ++host.scan_steps) {
          const std::int64_t before = host.held;
          compared += compare(parse_op_case(line), device, "seq", count);
          CHECK(host.held > before);
        }
  CHECK(compared == 3 * std::ssize(lines));
  CHECK(count.undecided == 0);
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
                {"algo=winograd:3/3", "conv.winograd.cuda.definition", 3},
                {"algo=winograd:4/3,points=reciprocal", "conv.winograd.cuda.definition", 3},
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

TEST_CASE("a GPU's rows on the CPU: convolution by Winograd, each transform once") {
  HostDevice host;
  const cuda::UseApi use(host.api);
  const cuda::DeviceRow* row = nullptr;
  for (const cuda::DeviceRow& device : cuda::device_rows())
    if (device.row.name == "conv.winograd.f32.cuda") row = &device;
  REQUIRE(row != nullptr);
  const struct {
    const char* contract;
    int takes;
  } wanted[] = {{"algo=winograd:2/3", 7},
                {"algo=winograd:4/3", 7},
                {"algo=winograd:6/3", 7},
                {"algo=winograd:2/5", 3},
                {"algo=winograd:4/5", 3},
                {"algo=winograd:2/3,transform=f64", 7},
                {"algo=winograd:4/3,transform=f64", 7},
                {"algo=winograd:6/3,transform=f64", 7},
                {"algo=winograd:4/5,transform=f64", 3},
                {"algo=winograd:4/3,points=0:1/2:-1/2:3:-3", 7},
                {"algo=winograd:6/3,points=reciprocal", 7},
                {"algo=winograd:4/3,points=reciprocal", 0},
                {"algo=winograd:4/3,points=1:0:-1:2:-2", 0},
                {"algo=winograd:4/3,channels=pairwise:8", 0},
                {"algo=winograd:4/3,fma=off", 0},
                {"algo=winograd:3/3", 0},
                {"algo=im2col", 0},
                {"seq", 0}};
  for (const auto& w : wanted) {
    Count count;
    int compared = 0;
    for (const char* line :
         {"win | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,3,9,11]:wild f32[4,3,3,3] f32[4]",
          "win | conv | pads_begin=[1,0] pads_end=[0,2] groups=2 | f32[1,4,8,7]:special "
          "f32[6,2,3,3]",
          // Rows of outputs that are stored in fours and in pairs, and that are not.
          "win | conv | pads_begin=[1,1] pads_end=[1,1] | f32[1,2,5,12]:wild f32[5,2,3,3] f32[5]",
          "win | conv | | f32[3,1,6,12]:special f32[2,1,3,3]:special",
          // Less than a tile; padding that fills tiles; a channel for each group.
          "win | conv | | f32[1,2,3,3]:wild f32[3,2,3,3] f32[3]",
          "win | conv | pads_begin=[7,0] pads_end=[0,9] groups=3 | f32[2,3,4,5]:wild f32[3,1,3,3]",
          // More than one block of a product on each side, and k beyond a slice.
          "win | conv | pads_begin=[1,1] pads_end=[1,1] groups=2 | f32[2,36,21,26] "
          "f32[140,18,3,3]",
          "win | conv | pads_begin=[2,2] pads_end=[2,2] | f32[2,3,13,12]:wild f32[6,3,5,5] f32[6]",
          "win | conv | groups=2 | f32[1,4,9,14]:special f32[4,2,5,5]",
          "win | conv | pads_begin=[4,1] pads_end=[0,3] | f32[1,9,6,7]:wild f32[9,9,5,5] f32[9]",
          // An axis without a transform, and one axis alone: the definition's.
          "win | conv | | f32[1,2,5,9] f32[3,2,1,3]", "win | conv | | f32[1,5,6] f32[3,5,3]"})
      compared += compare(parse_op_case(line), *row, w.contract, count);
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
