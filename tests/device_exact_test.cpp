// The GPU's exact rows, on a device made of host code (host_device.h): the bits of the correctly
// rounded definition on the CPU, whatever the first pass leaves open; how much that is; and the
// bounds that it decides by.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/backends/cuda/rows.h"
#include "kernels/gemm/cuda_wide_choice.h"
#include "kernels/gemm/digit_cut.h"
#include "kernels/kernels.h"
#include "tests/device_compare.h"
#include "tests/host_device.h"
#include "tests/op_cases.h"

using namespace etalon;
using test::compare, test::Count;

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
    CAPTURE(std::string(block));
    CHECK(host.wide_blocks.count(block) == 1);
  }
}

void check_some_share(const HostDevice& host) {
  CHECK(std::ranges::any_of(host.wide_blocks,
                            [](const std::string& block) { return block.ends_with(" split"); }));
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
  host.residue_facts.most_foreseen = 1 << 30;  // whatever it leaves open
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

// What products by residues would leave open goes to the f64 tiles before anything is spent, by
// data alone; either way the bits are the same.
TEST_CASE("a GPU's rows on the CPU: exact by residues, or by f64 units where too much stays open") {
  HostDevice host;
  host.residue_facts.least = 1;
  const cuda::UseApi use(host.api);
  const struct {
    const char* line;
    bool f64;
    std::int64_t panel_bytes = 1 << 28;
  } wanted[] = {
      {"exact | gemm | | f32[66,200] f32[200,70] f32[70]", false},
      {"exact | gemm | alpha=0.3 trans_a=true trans_b=true | f32[90,40] f32[40,90]", false},
      {"exact | matmul | | f32[5,16,40] f32[5,40,60]", false, 24000},
      {"exact | gemm | | f32[33,90]:wild f32[90,40]:wild f32[40]:wild", true},
      {"exact | gemm | alpha=-2 trans_b=true | f32[33,1000]:wild f32[40,1000]:wild", true},
      {"exact | gemm | trans_a=true | f32[500,300]:wild f32[500,70]:wild", true, 1},
      {"exact | matmul | | f32[5,16,40]:wild f32[5,40,60]:wild", true, 24000},
      // Lines that are not finite say nothing; zeros leave nothing open.
      {"exact | gemm | | f32[1,2]=inf,1 f32[2,1]=1,1", false},
      {"exact | gemm | | f32[1,2]=0,0 f32[2,1]=1,1", false}};
  for (const auto& w : wanted) {
    Count count;
    host.wide_blocks.clear();
    host.residue_facts.panel_bytes = w.panel_bytes;
    const OpCase c = parse_op_case(w.line);
    CAPTURE(c.line);
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.op == c.op->name && device.row.name.ends_with(".exact.cuda.residues"))
        CHECK(compare(c, device, "exact", count));
    CAPTURE(host.foreseen);
    CHECK(!host.wide_blocks.empty() == w.f64);
    CHECK((host.foreseen > host.residue_facts.most_foreseen) == w.f64);
  }
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
      CHECK(compare(parse_op_case(signs), device, "exact", zeros) !=
            device.row.name.ends_with(".winograd"));
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
      // One row: warps share a column; by fours and by ones.
      {"exact | gemm | trans_b=true alpha=-0.7 beta=2 | f32[1,2100] f32[50,2100] f32[50]", 0, 0.01},
      {"exact | gemm | trans_b=true | f32[1,9001] f32[11,9001]", 0, 0.01},
      {"exact | gemm | trans_b=true | f32[1,5000]:wild f32[70,5000]:wild", 0, 1},
      {"exact | gemm | trans_b=true | f32[1,30]:special f32[40,30]:special", 0.1, 1},
      {"exact | matmul | | f32[3,1,900] f32[900,20]", 0, 0.01},
      // Long k: blocks share it; its shares' ends; folds.
      {"exact | gemm | | f32[2,2100] f32[2100,64]", 0, 0.01},
      {"exact | gemm | trans_b=true | f32[35,1000] f32[37,1000]", 0, 0.01},
      {"exact | gemm | trans_a=true | f32[999,35] f32[999,37] f32[37]", 0, 0.01},
      {"exact | gemm | trans_a=true | f32[17,200] f32[17,160]", 0, 0.002},
      {"exact | gemm | trans_a=true trans_b=true | f32[18,202] f32[161,18]", 0, 0.002},
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
  // As it is chosen; they take long. Blocks of 64 x 64: rows of tiles more than a panel has, every
  // way round.
  const ExactCase large[] = {
      {"exact | matmul | | f32[140,3,530] f32[530,35]", 0, 0.01},
      {"exact | gemm | | f32[900,20] f32[20,900]", 0, 0.002},
      {"exact | gemm | trans_a=true | f32[17,1000] f32[17,800]", 0, 0.002},
      {"exact | gemm | trans_b=true | f32[901,15] f32[902,15]", 0, 0.002},
      {"exact | gemm | trans_a=true trans_b=true | f32[18,902] f32[901,18]", 0, 0.002},
      {"exact | matmul | | f32[200,33,530] f32[530,34]", 0, 0.01},
      {"exact | matmul | | f32[67,33,2052] f32[67,2052,33]", 0, 0.01}};
  host.tile_shape = -1;
  compare_exact(host, ".exact.cuda.f64", large);
  for (; host.tile_shape < kWideShapes; ++host.tile_shape) {
    CAPTURE(host.tile_shape);
    compare_exact(host, ".exact.cuda.f64", cases);
  }
  check_blocks(host, {"64x64 kn fours", "64x64 kk fours", "64x64 mn fours", "64x64 mk fours",
                      "64x64 kn", "64x64 kk", "64x64 mn", "64x64 mk", "32x64 kn fours",
                      "64x32 kk fours", "32x32 mn fours", "32x32 mk", "32x32 kn", "16x32 kk fours",
                      "16x16 kn fours", "thin 8 fours", "thin 8", "thin 1"});
  check_some_share(host);
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
      // A window that lies in the padding as a whole has no term.
      {"exact | conv | pads_begin=[4,4] pads_end=[4,4] | f32[1,16,3,3] f32[16,16,2,2] f32[16]", 0,
       0.002},
      // Weights that are not finite, beside padding.
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,17,6,7]:wild f32[18,17,3,3]:wild "
       "f32[18]:wild",
       0.005, 1},
      {"exact | conv | pads_begin=[2,2] pads_end=[2,2] | f32[2,3,6,6]:special f32[5,3,3,3]:special",
       0.01, 1},
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,16,6,6] f32[16,16,3,3]:special "
       "f32[16]:special",
       0.01, 1},
      {"exact | conv | pads_begin=[1] pads_end=[1] | f32[1,1,1]=-0x1p-100 "
       "f32[1,1,3]=inf,0x1p-100,5",
       1, 1}};
  const ExactCase large[] = {
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,4,60,61] f32[70,4,3,3] f32[70]", 0,
       0.002},
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,60,60,60] f32[70,60,3,3]", 0,
       0.002}};
  host.tile_shape = -1;
  compare_exact(host, ".exact.cuda.f64", large);
  for (; host.tile_shape < kWideShapes; ++host.tile_shape) {
    CAPTURE(host.tile_shape);
    compare_exact(host, ".exact.cuda.f64", cases);
  }
  check_blocks(host, {"conv 64x64 kn fours", "conv 64x64 kn a fours", "conv 64x64 kn",
                      "conv 32x64 kn", "conv 32x64 kn a fours", "conv 64x32 kn a fours",
                      "conv 32x32 kn", "conv 16x32 kn fours", "conv 16x16 kn a fours"});
  check_some_share(host);
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

TEST_CASE("a GPU's rows on the CPU: exact convolution by Winograd in f64") {
  HostDevice host;
  host.api.most_winograd_share = 1e9;  // be it fast or not
  const cuda::UseApi use(host.api);
  const ExactCase cases[] = {
      // Tiles that end outside of the image, channels that end in the middle of a block, of a slice
      // and of a fold; padding of both ends; groups; images side by side in a tile.
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[3,20,9,11] f32[70,20,3,3] f32[70]", 0,
       0.01},
      {"exact | conv | pads_begin=[1,0] pads_end=[0,2] groups=2 | f32[2,34,8,9] f32[34,17,3,3]", 0,
       0.01},
      {"exact | conv | | f32[1,70,6,6] f32[3,70,3,3] f32[3]", 0, 0.02},
      {"exact | conv | pads_begin=[2,2] pads_end=[2,2] | f32[5,33,13,14] f32[40,33,5,5] f32[40]", 0,
       0.01},
      {"exact | conv | pads_begin=[4,4] pads_end=[4,4] groups=3 | f32[1,6,3,3] f32[9,2,5,5]", 0,
       0.01},
      // Outputs that meet padding alone: zeros, of inputs that are none.
      {"exact | conv | pads_begin=[0,3] pads_end=[1,2] | f32[2,1,5,17] f32[1,1,3,3]", 0.01, 0.06},
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[1,150,12,40] f32[66,150,3,3]", 0,
       0.02},
      {"exact | conv | pads_begin=[2,2] pads_end=[2,2] | f32[1,16,28,28] f32[32,16,5,5] f32[32]", 0,
       0.01},
      // Magnitudes far apart; NaN, infinities, subnormals, zeros.
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,17,6,7]:wild f32[18,17,3,3]:wild "
       "f32[18]:wild",
       0.01, 1},
      {"exact | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,16,6,6]:special "
       "f32[16,16,3,3]:special f32[16]:special",
       0.01, 1},
      {"exact | conv | pads_begin=[2,2] pads_end=[2,2] | f32[2,16,5,6]:finite "
       "f32[16,16,5,5]:finite",
       0, 1}};
  compare_exact(host, ".exact.cuda.winograd", cases);
  check_blocks(host, {"winograd 16", "winograd 32", "winograd 64"});
  Count count;
  for (const cuda::DeviceRow& device : cuda::device_rows())
    if (device.row.name == "conv.exact.cuda.winograd") {
      for (const char* refused :
           {"c | conv | strides=[2,2] | f32[1,9,8,8] f32[9,9,3,3]",
            "c | conv | dilations=[2,1] | f32[1,9,8,8] f32[9,9,3,3]",
            "c | conv | | f32[1,9,8,8] f32[9,9,3,5]", "c | conv | | f32[1,9,8,8] f32[9,9,1,1]",
            "c | conv | | f32[1,9,8] f32[9,9,3]", "c | conv | | f32[1,9,8,8,8] f32[9,9,3,3,3]",
            "c | conv | | f16[1,9,8,8] f16[9,9,3,3]"}) {
        CAPTURE(refused);
        CHECK_FALSE(compare(parse_op_case(refused), device, "exact", count));
      }
      CHECK_FALSE(
          compare(parse_op_case("c | conv | | f32[1,16,4,4] f32[8,16,3,3]"), device, "seq", count));
    }
  // By its model it takes what has many channels, and leaves the rest to sums of windows.
  host.api.most_winograd_share = 0.8;
  for (const auto& [line, taken] :
       {std::pair{"c | conv | pads_begin=[1,1] pads_end=[1,1] | f32[16,256,12,12] f32[384,256,3,3]",
                  true},
        {"c | conv | pads_begin=[1,1] pads_end=[1,1] | f32[1,64,56,56] f32[64,64,3,3]", false}})
    for (const cuda::DeviceRow& device : cuda::device_rows())
      if (device.row.name == "conv.exact.cuda.winograd") {
        const OpCase c = parse_op_case(line);
        CAPTURE(c.line);
        CHECK(test::takes(c, device, "exact") == taken);
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
  WideTask task;
  for (const float size : {1.0F, 0x1.fffffep0F, 0x1p-74F, 0x1p-75F, 0x1.8p-76F, 0x1p-149F, 0.0F})
    for (const int count : {1, 7, 256, 4096}) {
      // Squares as of a row that ends lower than it begins: each is rounded off by most.
      float squares = 0;
      double real = 0;
      for (int i = 0; i < count; ++i) {
        const float x = size * static_cast<float>(count - i % 3) / static_cast<float>(count + i);
        squares = fma_f32(x, x, squares);
        real += static_cast<double>(x) * static_cast<double>(x);
      }
      CAPTURE(size);
      CAPTURE(count);
      const bool zeros = size == 0;
      task.chain = count;
      const double over = wide_over(task, squares, zeros);
      CHECK(over >= real);
      CHECK((over == 0) == zeros);
      CHECK(over <= real * (1 + count * 0x1p-22) + count * 0x1p-148);
    }
  task.chain = 4;
  CHECK(wide_over(task, float_of(0x7f800000U), false) > 0x1p1000);
  CHECK_FALSE(wide_over(task, float_of(kNanF32), false) <= 0x1p1000);
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
