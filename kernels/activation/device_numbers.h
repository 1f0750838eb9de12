// What the formulas of device_quick.h look up: coefficients in constant memory, rows where a block
// has brought them. Host and device.
#pragma once

#include <iterator>

#include "kernels/activation/device_error_rows.h"
#include "kernels/activation/device_rows.h"
#include "kernels/activation/lanes.h"
#include "kernels/activation/polynomials.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Coefficients, lowest first.
struct DeviceNumbers {
  struct Exp {
    double scale = 0, step = 0;  // 16/ln2 and -ln2/16
    double p[5] = {};
  };
  Exp exp, expm1, expm1_twice;  // of w, w, 2 w
  double exp2[5] = {}, exp_long[6] = {}, exp2_long[6] = {};
  double log[7] = {}, log2[7] = {}, log10[7] = {}, unit[6] = {};
  double ln2 = 0x1.62e42fefa39efp-1 * 0x1p-20, log10_of_2 = 0x1.34413509f79ffp-2 * 0x1p-20;
  double sin[3] = {}, cos[3] = {}, atan[3] = {}, asin[3] = {};
  // Error functions and the normal distribution (generate_error_rows.py).
  template <int First, int Cross>
  struct Mean {
    double first[First] = {};
    float cross[Cross] = {}, square = 0;
  };
  Mean<5, 3> erf;
  Mean<8, 5> erfc;
  Mean<7, 4> phi;
  double less_third = -2.0 / 3;
  double turns = 0x1.45f306dc9c883p2;  // 16/pi, and pi/16 as a sum
  double turn = -0x1.921fb54442d18p-3, turn_rest = -0x1.1a62633145c07p-57;
  double pi = 0x1.921fb54442d18p1;
  double sixth = 1.0 / 6;
  double cbrt[2] = {2.0 / 3, 5.0 / 9};
  // 2 sqrt(2/pi) / ln2, less than 0, and 0.044715 of it
  double gelu_slope = -0x1.26aec21bce759p1, gelu_cube = 0.044715 * -0x1.26aec21bce759p1;
};
template <class T, int N>
constexpr void set_numbers(T (&to)[N], const T (&from)[N]) {
  for (int i = 0; i < N; ++i) to[i] = from[i];
}
constexpr DeviceNumbers device_numbers() {
  using namespace polynomials;
  using namespace device_rows;
  DeviceNumbers n;
  n.exp.scale = n.expm1.scale = 0x1.71547652b82fep4;
  n.exp.step = n.expm1.step = -0x1.62e42fefa39efp-5;
  set_numbers(n.exp.p, kExpSixteenth);
  set_numbers(n.expm1.p, kExpm1Sixteenth);
  n.expm1_twice = n.expm1;
  n.expm1_twice.scale *= 2;
  n.expm1_twice.step /= 2;
  for (int i = 0; i < 5; ++i) n.expm1_twice.p[i] *= 2 << i;
  set_numbers(n.exp2, kExp2Sixteenth);
  set_numbers(n.exp_long, kRowExpTerms);
  set_numbers(n.exp2_long, kRowExp2Terms);
  set_numbers(n.log, kRowLogTerms);
  set_numbers(n.log2, kRowLog2Terms);
  set_numbers(n.log10, kRowLog10Terms);
  set_numbers(n.unit, kRowUnitTerms);
  set_numbers(n.sin, kRowSinTerms);
  set_numbers(n.cos, kRowCosTerms);
  set_numbers(n.atan, kRowAtanTerms);
  set_numbers(n.asin, kRowAsinTerms);
  set_numbers(n.erf.first, kErfFirst);
  set_numbers(n.erf.cross, kErfCross);
  n.erf.square = kErfSquare;
  set_numbers(n.erfc.first, kErfcFirst);
  set_numbers(n.erfc.cross, kErfcCross);
  n.erfc.square = kErfcSquare;
  set_numbers(n.phi.first, kPhiFirst);
  set_numbers(n.phi.cross, kPhiCross);
  n.phi.square = kPhiSquare;
  return n;
}
inline constexpr DeviceNumbers kDeviceNumbers = device_numbers();
#if defined(__CUDACC__)
static __constant__ DeviceNumbers device_constant_numbers = kDeviceNumbers;
#endif
ETALON_HD inline const DeviceNumbers& numbers() {
#if defined(__CUDA_ARCH__)
  return device_constant_numbers;
#else
  return kDeviceNumbers;
#endif
}

// Which rows a function reads.
enum class DeviceRowKind : std::uint8_t {
  none,
  power,
  log,
  log2,
  log10,
  unit,
  turn,
  atan,
  asin,
  erf,
  erfc,
  phi
};
constexpr DeviceRowKind device_row_kind(LaneFunction f) {
  using L = LaneFunction;
  using K = DeviceRowKind;
  switch (f) {
    case L::exp:
    case L::exp2:
    case L::expm1:
    case L::sinh:
    case L::cosh:
    case L::tanh:
    case L::sigmoid:
    case L::silu:
    case L::gelu_tanh:
    case L::mish:
    case L::elu:
    case L::selu:
    case L::celu:
      return K::power;
    case L::log:
    case L::log1p:
    case L::asinh:
    case L::acosh:
    case L::atanh:
      return K::log;
    case L::log2:
      return K::log2;
    case L::log10:
      return K::log10;
    case L::softplus:
    case L::log_sigmoid:
      return K::unit;
    case L::sin:
    case L::cos:
    case L::tan:
      return K::turn;
    case L::atan:
      return K::atan;
    case L::asin:
    case L::acos:
      return K::asin;
    case L::erf:
      return K::erf;
    case L::erfc:
      return K::erfc;
    case L::gelu:
      return K::phi;
    default:
      return K::none;
  }
}
// Of error functions and the normal distribution: rows of two doubles, read as one.
constexpr bool device_row_pairs(LaneFunction f) {
  const DeviceRowKind k = device_row_kind(f);
  return k == DeviceRowKind::erf || k == DeviceRowKind::erfc || k == DeviceRowKind::phi;
}
// Doubles that the rows take.
constexpr int device_row_count(LaneFunction f) {
  switch (device_row_kind(f)) {
    case DeviceRowKind::none:
      return 0;
    case DeviceRowKind::power:
      return 16;
    case DeviceRowKind::log:
    case DeviceRowKind::log2:
    case DeviceRowKind::log10:
      return 32;
    case DeviceRowKind::unit:
      return 16 + 33 + 64;  // NaN names row 63
    case DeviceRowKind::turn:
      return 40;
    case DeviceRowKind::atan:
      return 3 * 17 + 15;
    case DeviceRowKind::asin:
      return 4 * 17 + 15;
    case DeviceRowKind::erf:
      return std::size(device_rows::kErfRows);
    case DeviceRowKind::erfc:
      return std::size(device_rows::kErfcRows);
    case DeviceRowKind::phi:
      return std::size(device_rows::kPhiRows);
  }
  return 0;
}
template <LaneFunction F>
ETALON_HD const double* device_row_pairs_source() {
  constexpr DeviceRowKind k = device_row_kind(F);
  if constexpr (k == DeviceRowKind::erf) return device_rows::kErfRows;
  if constexpr (k == DeviceRowKind::erfc) return device_rows::kErfcRows;
  return device_rows::kPhiRows;
}
// The i-th of them where they come from.
template <LaneFunction F>
ETALON_HD double device_row_source(int i) {
  using namespace device_rows;
  constexpr DeviceRowKind k = device_row_kind(F);
  if constexpr (k == DeviceRowKind::power) return kRowPower[i];
  if constexpr (k == DeviceRowKind::log) return i < 16 ? kRowLogInverse[i] : kRowLog[i - 16];
  if constexpr (k == DeviceRowKind::log2) return i < 16 ? kRowLogInverse[i] : kRowLog2[i - 16];
  if constexpr (k == DeviceRowKind::log10) return i < 16 ? kRowLogInverse[i] : kRowLog10[i - 16];
  if constexpr (k == DeviceRowKind::unit)
    return i < 16   ? kRowPower[i]
           : i < 49 ? kRowUnitInverse[i - 16]
           : i < 82 ? kRowUnitLog[i - 49]
                    : 0;
  if constexpr (k == DeviceRowKind::turn) return kRowSin[i];
  if constexpr (k == DeviceRowKind::atan)
    return i < 17   ? kRowAtanSine[i]
           : i < 34 ? kRowAtanCosine[i - 17]
           : i < 51 ? kRowAtanAngle[i - 34]
                    : 0;
  if constexpr (k == DeviceRowKind::asin)
    return i < 17   ? kRowAsinSine[i]
           : i < 34 ? kRowAsinCosine[i - 17]
           : i < 51 ? kRowAsinAngle[i - 34]
           : i < 68 ? kRowAsinRest[i - 51]
                    : 0;
  if constexpr (device_row_pairs(F)) return device_row_pairs_source<F>()[i];
  return 0;
}

// Rows where they come from, and rows that a block has brought to shared memory.
template <LaneFunction F>
struct RowsInPlace {
  ETALON_HD static double at(std::uint32_t i) { return device_row_source<F>(static_cast<int>(i)); }
  struct Pair {
    double a, b;
  };
  template <std::uint32_t first>
  ETALON_HD static Pair pair(std::uint32_t i) {
    return {at(2 * (i - first)), at(2 * (i - first) + 1)};
  }
};
#if defined(__CUDACC__)
extern __shared__ double device_shared_rows[];
template <LaneFunction F>
struct RowsInShared {
  __device__ static double at(std::uint32_t i) { return device_shared_rows[i]; }
  using Pair = typename RowsInPlace<F>::Pair;
  template <std::uint32_t first>
  __device__ static Pair pair(std::uint32_t i) {
    const double2 two = reinterpret_cast<const double2*>(device_shared_rows)[i - first];
    return {two.x, two.y};
  }
};
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
