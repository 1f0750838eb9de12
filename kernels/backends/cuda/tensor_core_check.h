// Hostile cases for tensor cores: what a warp's `mma` gets, or `wgmma` of four warps, and what the
// software model (engine/numerics/tensor_core.h) says that each output must be. Host and device, so
// that a test on the CPU shows that this data tells one model from another before hardware is
// asked.
//
// A tile is a product of 16 x K (of wgmma 64 x K) and K x 8 with its own addends: 128 (512)
// outputs, each a case. Its number alone decides its elements, by kind (tile % 8):
//   0  all bits at random, infinities and NaN among them     4  subnormals and the least exponents
//   1  exponents within 3 of one another                     5  one product far above the others
//   2  exponents within 14                                   6  significands of all zeros or ones
//   3  pairs of products that cancel, but for the last bit   7  one sign: carries, no cancelling
#pragma once

#include <cstdint>
#include <string>

#include "engine/numerics/tensor_core.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct TensorCoreCheck {
  TensorCoreArch arch = TensorCoreArch::hopper;
  TensorCoreFormat format = TensorCoreFormat::f16;
  DType acc = DType::f32;
  std::uint64_t seed = 1;

  static constexpr int kRows = 16, kCols = 8, kMostK = 32, kMostRows = 64;

  ETALON_HD int exponent_bits() const {
    return format == TensorCoreFormat::f16 || format == TensorCoreFormat::f8e5m2 ? 5
           : format == TensorCoreFormat::f8e4m3                                  ? 4
                                                                                 : 8;
  }
  ETALON_HD int mantissa_bits() const {
    return format == TensorCoreFormat::f8e5m2   ? 2
           : format == TensorCoreFormat::f8e4m3 ? 3
           : format == TensorCoreFormat::bf16   ? 7
                                                : 10;
  }
  // Of one instruction.
  ETALON_HD int k() const {
    return format == TensorCoreFormat::tf32 ? 8 : exponent_bits() + mantissa_bits() == 7 ? 32 : 16;
  }

  ETALON_HD static std::uint64_t mix(std::uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  ETALON_HD std::uint64_t draw(std::uint64_t tile, int which, int line, int k) const {
    return mix(mix(seed * 4 + static_cast<std::uint64_t>(which)) +
               tile * static_cast<std::uint64_t>(kMostRows * kMostK) +
               static_cast<std::uint64_t>(line * kMostK + k));
  }

  // The code of element k of row (which = 0) or column (which = 1) `line`. tf32's 19 bits are the
  // upper ones of an f32, whose lower 13 are drawn too: the unit drops them.
  ETALON_HD std::uint32_t code(std::uint64_t tile, int which, int line, int at) const {
    const int e_bits = exponent_bits(), m_bits = mantissa_bits();
    const int kind = static_cast<int>(tile % 8);
    const int source = kind == 3 ? at - at % 2 : at;
    const std::uint64_t r = draw(tile, which, line, source);
    const int most = (1 << e_bits) - 1, bias = most / 2;
    auto mantissa = static_cast<std::uint32_t>(r >> 8) & ((1U << m_bits) - 1);
    std::uint32_t sign = static_cast<std::uint32_t>(r >> 63);
    int e = static_cast<int>((r >> 40) & 0xffff);
    const auto within = [&](int reach) {
      const int least = bias - reach < 1 ? 1 : bias - reach;
      const int end = bias + reach > most - 1 ? most - 1 : bias + reach;
      return least + e % (end - least + 1);
    };
    switch (kind) {
      case 0:
        e = e % (most + 1);
        break;
      case 2:
        e = within(14);
        break;
      case 3:
        e = within(5);
        if (at % 2 == 1) {
          if (which == 0) sign ^= 1;
          if (which == 1 && draw(tile, 3, line, at) % 3 == 0) mantissa ^= 1;
        }
        break;
      case 4:
        e = e % 3;
        break;
      case 5:
        e = static_cast<int>(mix(tile) % static_cast<std::uint64_t>(k())) == at ? bias + bias / 2
                                                                                : within(3);
        break;
      case 6:
        e = within(9);
        mantissa = mantissa % 2 == 0 ? 0 : (1U << m_bits) - 1;
        break;
      case 7:
        e = within(2);
        sign = 0;
        break;
      default:
        e = within(3);
    }
    const std::uint32_t narrow =
        (sign << (e_bits + m_bits)) | (static_cast<std::uint32_t>(e) << m_bits) | mantissa;
    if (format != TensorCoreFormat::tf32) return narrow;
    return (narrow << 13) | (static_cast<std::uint32_t>(r >> 20) & 0x1fffU);
  }

  // What a code stands for.
  ETALON_HD double value(std::uint32_t code) const {
    if (format == TensorCoreFormat::tf32) {
      // The unit sees its 19 bits: a NaN that only the others tell from an infinity is one to it.
      if ((code & 0x7f800000U) == 0x7f800000U) code &= 0xffffe000U;
      return static_cast<double>(float_of(code));
    }
    const int e_bits = exponent_bits(), m_bits = mantissa_bits(), most = (1 << e_bits) - 1;
    const int e = static_cast<int>(code >> m_bits) & most;
    const std::uint32_t m = code & ((1U << m_bits) - 1);
    const bool negative = ((code >> (e_bits + m_bits)) & 1) != 0;
    if (format == TensorCoreFormat::f8e4m3 ? e == most && m == 7 : e == most && m != 0) return kNan;
    if (e == most && format != TensorCoreFormat::f8e4m3) return with_sign(kInfinity, negative);
    const double size =
        e == 0 ? static_cast<double>(m) * power_of_two(1 - most / 2 - m_bits)
               : static_cast<double>(m + (1U << m_bits)) * power_of_two(e - most / 2 - m_bits);
    return with_sign(size, negative);
  }

  // The bits of c: f32, or f16 in the lower half where acc is.
  ETALON_HD std::uint32_t addend(std::uint64_t tile, int row, int col) const {
    const std::uint64_t r = draw(tile, 2, row, col);
    const int kind = static_cast<int>(tile % 8);
    const auto choice = static_cast<int>(r % 4);
    if (choice == 0) return 0;
    if (acc == DType::f16) {
      const auto bits = static_cast<std::uint32_t>(r >> 32) & 0xffffU;
      return kind == 0 || (bits & 0x7c00U) != 0x7c00U ? bits : bits & 0xbfffU;
    }
    if (kind == 0 && choice == 1) return static_cast<std::uint32_t>(r >> 32);
    const std::uint32_t reach = choice == 1 ? 4 : choice == 2 ? 20 : 60;
    const std::uint32_t e = 127 - reach + static_cast<std::uint32_t>(r >> 8) % (2 * reach + 1);
    const std::uint32_t sign = kind == 7 ? 0 : static_cast<std::uint32_t>(r >> 63) << 31;
    return sign | (e << 23) | (static_cast<std::uint32_t>(r >> 33) & 0x7fffffU);
  }

  // The bits that the model says; NaN is 7fffffff, as the unit has it.
  ETALON_HD std::uint32_t expected(std::uint64_t tile, int row, int col) const {
    const TensorCoreModel model = TensorCoreModel::of(arch, format, acc);
    const std::uint32_t bits = addend(tile, row, col);
    double c = acc == DType::f16 ? f16_value(bits) : static_cast<double>(float_of(bits));
    for (int k0 = 0; k0 < k(); k0 += model.block) {
      TensorCoreFactor a[kMostK], b[kMostK];
      for (int i = 0; i < model.block; ++i) {
        a[i] = model.factor(value(code(tile, 0, row, k0 + i)));
        b[i] = model.factor(value(code(tile, 1, col, k0 + i)));
      }
      c = model.step(c, a, b, model.block);
    }
    if (acc != DType::f16) return c != c ? 0x7fffffffU : bits_of(static_cast<float>(c));
    return f16_bits(c);
  }

  ETALON_HD static double f16_value(std::uint32_t bits) {
    TensorCoreCheck f16;
    return f16.value(bits & 0xffffU);
  }
  // c is a number of f16; NaN is 7fff, as the unit has it.
  ETALON_HD static std::uint32_t f16_bits(double c) {
    if (c != c) return 0x7fffU;
    const std::uint32_t sign = sign_bit(c) ? 0x8000U : 0;
    const double size = abs_of(c);
    if (size >= 65536) return sign | 0x7c00U;
    if (size < 0x1p-14) return sign | static_cast<std::uint32_t>(size * 0x1p24);
    const int e = static_cast<int>((bits_of(size) >> 52) & 0x7ff) - 1023;
    return sign | ((static_cast<std::uint32_t>(e + 15)) << 10) |
           (static_cast<std::uint32_t>(size * power_of_two(10 - e)) & 0x3ffU);
  }
};

}  // namespace ETALON_ISA_NAMESPACE

namespace cuda {

struct TensorCoreCount {
  std::uint64_t cases = 0, differ = 0;
  // The first that differs, by number of tile.
  std::uint64_t tile = 0;
  std::uint32_t row = 0, col = 0, got = 0, want = 0;
  std::uint64_t by_kind[8] = {};  // those that differ, by kind of tile
};
enum class TensorCoreInstruction { mma, wgmma };
// Runs `tiles` tiles of the device's own architecture on its tensor cores. Returns the runtime's
// code; unit says which form ran ("hopper, acc=f32"), empty where the device, or this program's
// code for it, has none: wgmma is of sm_90a alone.
int check_tensor_cores(TensorCoreInstruction instruction, TensorCoreFormat format, DType acc,
                       std::uint64_t tiles, std::uint64_t seed, std::string& unit,
                       TensorCoreCount& count);

}  // namespace cuda
}  // namespace etalon
