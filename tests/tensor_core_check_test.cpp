// The cases by which hardware's tensor cores are compared with their model
// (kernels/backends/cuda/tensor_core_check.h): they tell the models from one another, codes mean
// what the formats say, and most outputs are numbers.
#include "kernels/backends/cuda/tensor_core_check.h"

#include <doctest/doctest.h>

#include "engine/numerics/element.h"

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
