// The cases by which hardware's tensor cores are compared with their model
// (kernels/backends/cuda/tensor_core_check.h): they tell the models from one another, codes mean
// what the formats say, and most outputs are numbers.
#include "kernels/backends/cuda/tensor_core_check.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "engine/numerics/element.h"
#include "kernels/backends/cuda/tensor_core_fragments.h"

using namespace etalon;

namespace {

constexpr std::uint64_t kTiles = 64;

// Outputs that differ between the two; `finite` counts those of the first that are numbers.
int differ(const TensorCoreCheck& x, const TensorCoreCheck& y, int& finite) {
  int n = 0;
  for (std::uint64_t tile = 0; tile < kTiles; ++tile)
    for (int row = 0; row < TensorCoreCheck::kRows; row += 3)
      for (int col = 0; col < TensorCoreCheck::kCols; ++col) {
        const std::uint32_t bits = x.expected(tile, row, col);
        const double value = x.acc == DType::f16 ? TensorCoreCheck::f16_value(bits)
                                                 : static_cast<double>(float_of(bits));
        finite += is_finite(value) ? 1 : 0;
        n += bits != y.expected(tile, row, col) ? 1 : 0;
      }
  return n;
}

}  // namespace

TEST_CASE("tensor core check: codes and their values") {
  const struct {
    TensorCoreFormat format;
    DType dtype;
    int codes;
  } rows[] = {{TensorCoreFormat::f16, DType::f16, 1 << 16},
              {TensorCoreFormat::bf16, DType::bf16, 1 << 16}};
  for (const auto& row : rows) {
    TensorCoreCheck check;
    check.format = row.format;
    int wrong = 0;
    for (int code = 0; code < row.codes; ++code) {
      const auto narrow = static_cast<std::uint16_t>(code);
      const double want = load_as_double(row.dtype, reinterpret_cast<const std::byte*>(&narrow), 0);
      const double got = check.value(static_cast<std::uint32_t>(code));
      wrong += !(is_nan(want) ? is_nan(got) : bits_of(want) == bits_of(got));
      if (row.format == TensorCoreFormat::f16 && !is_nan(got))
        wrong += TensorCoreCheck::f16_bits(got) != static_cast<std::uint32_t>(code);
    }
    CHECK(wrong == 0);
  }
  // f8, for which there is no type of tensors: the ends of each format.
  TensorCoreCheck f8;
  f8.format = TensorCoreFormat::f8e4m3;
  CHECK(f8.value(0x01) == 0x1p-9);
  CHECK(f8.value(0x7e) == 448);
  CHECK(f8.value(0xb8) == -1);
  CHECK(is_nan(f8.value(0xff)));
  f8.format = TensorCoreFormat::f8e5m2;
  CHECK(f8.value(0x01) == 0x1p-16);
  CHECK(f8.value(0x7b) == 57344);
  CHECK(f8.value(0xfc) == -kInfinity);
  CHECK(is_nan(f8.value(0x7d)));
}

TEST_CASE("tensor core check: the cases tell one model from another") {
  using Arch = TensorCoreArch;
  for (const TensorCoreFormat format :
       {TensorCoreFormat::f16, TensorCoreFormat::bf16, TensorCoreFormat::tf32}) {
    CAPTURE(static_cast<int>(format));
    const TensorCoreCheck hopper{.arch = Arch::hopper, .format = format};
    TensorCoreCheck other = hopper;
    int finite = 0, unused = 0;
    CHECK(differ(hopper, other, finite) == 0);
    const int cases = static_cast<int>(kTiles) * 6 * TensorCoreCheck::kCols;
    CHECK(finite * 2 > cases);
    other.arch = Arch::ampere;
    CHECK(differ(hopper, other, unused) * 20 > cases);
  }
  const TensorCoreCheck f16{.arch = Arch::hopper, .acc = DType::f16};
  TensorCoreCheck ampere = f16;
  ampere.arch = Arch::ampere;
  int finite = 0;
  CHECK(differ(f16, ampere, finite) > 20);
  for (const TensorCoreFormat format : {TensorCoreFormat::f8e4m3, TensorCoreFormat::f8e5m2}) {
    const TensorCoreCheck hopper{.arch = Arch::hopper, .format = format};
    TensorCoreCheck ada = hopper;
    ada.arch = Arch::ada;
    CHECK(differ(hopper, ada, finite) > 20);
  }
}

namespace {

constexpr TensorCoreFormat kFormats[] = {TensorCoreFormat::f16, TensorCoreFormat::bf16,
                                         TensorCoreFormat::tf32, TensorCoreFormat::f8e4m3,
                                         TensorCoreFormat::f8e5m2};
constexpr int kLineBytes = 32;  // of k, in every format: of a row of A, of a column of B

// The code at byte `at` of a line.
std::uint32_t code_in(const std::uint8_t* line, int at, int bytes) {
  std::uint32_t code = 0;
  std::memcpy(&code, line + at, static_cast<std::size_t>(bytes));
  return code;
}

}  // namespace

TEST_CASE(
    "tensor core check: the lanes of mma and wgmma hold the tile, as the manual lays it out") {
  constexpr std::uint64_t kTile = 12345;
  for (const TensorCoreFormat format : kFormats) {
    CAPTURE(static_cast<int>(format));
    const TensorCoreCheck check{.format = format};
    const int bytes = kLineBytes / check.k();
    CHECK(bytes * codes_in_word(format) == 4);
    // A: a warp's 16 rows; wgmma's four warps have 64, the first of them mma's.
    std::uint8_t a[kWgmmaRows][kLineBytes] = {};
    for (int warp = 0; warp < 4; ++warp)
      for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int r = 0; r < 4; ++r) {
          const int row = 16 * warp + (r == 1 || r == 3 ? g + 8 : g);
          const std::uint32_t word = tile_a(check, kTile, 16 * warp, lane, r);
          std::memcpy(&a[row][(r >= 2 ? 16 : 0) + 4 * t], &word, 4);
        }
      }
    int wrong = 0;
    for (int row = 0; row < kWgmmaRows; ++row)
      for (int k = 0; k < check.k(); ++k)
        wrong += code_in(a[row], k * bytes, bytes) != check.code(kTile, 0, row, k) ? 1 : 0;
    CHECK(wrong == 0);
    // B of mma.
    std::uint8_t b[TensorCoreCheck::kCols][kLineBytes] = {};
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 2; ++r) {
        const std::uint32_t word = tile_b(check, kTile, lane, r);
        std::memcpy(&b[lane / 4][16 * r + 4 * (lane % 4)], &word, 4);
      }
    for (int col = 0; col < TensorCoreCheck::kCols; ++col)
      for (int k = 0; k < check.k(); ++k)
        wrong += code_in(b[col], k * bytes, bytes) != check.code(kTile, 1, col, k) ? 1 : 0;
    CHECK(wrong == 0);
    // B of wgmma, found again as its descriptor says: where it begins, the step to the next 16
    // bytes of k, the step to the next 8 columns, no swizzling.
    constexpr std::uint32_t kAddress = 0x3f80;
    std::uint8_t shared[0x4200] = {};
    for (int i = 0; i < kWgmmaWords; ++i) {
      const std::uint32_t word = wgmma_b_word(check, kTile, i);
      std::memcpy(shared + kAddress + 4 * i, &word, 4);
    }
    const std::uint64_t d = wgmma_descriptor(kAddress);
    const std::uint64_t from = (d & 0x3fff) << 4, along_k = ((d >> 16) & 0x3fff) << 4,
                        along_n = ((d >> 32) & 0x3fff) << 4;
    CHECK(from == kAddress);
    CHECK((d >> 49) == 0);
    for (std::uint64_t col = 0; col < TensorCoreCheck::kCols; ++col)
      for (std::uint64_t byte = 0; byte < kLineBytes; byte += static_cast<std::uint64_t>(bytes)) {
        const std::uint64_t at =
            from + byte / 16 * along_k + col / 8 * along_n + col % 8 * 16 + byte % 16;
        wrong += code_in(shared, static_cast<int>(at), bytes) !=
                         check.code(kTile, 1, static_cast<int>(col), static_cast<int>(byte) / bytes)
                     ? 1
                     : 0;
      }
    CHECK(wrong == 0);
  }
  // Each output has one lane.
  std::set<int> outputs;
  for (int warp = 0; warp < 4; ++warp)
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        CHECK(tile_row(16 * warp, lane, i) == 16 * warp + lane / 4 + (i >= 2 ? 8 : 0));
        CHECK(tile_col(lane, i) == 2 * (lane % 4) + i % 2);
        outputs.insert(tile_row(16 * warp, lane, i) * 8 + tile_col(lane, i));
      }
  CHECK(outputs.size() == 512);
}
