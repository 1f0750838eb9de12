// What a GPU's unit approximates, and the steps in f32 and on a double's two words that the
// formulas of device_quick.h take. Host and device.
#pragma once

#include "engine/numerics/fp.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// What the hardware approximates. Host: as coarsely.
struct DeviceUnit {
  ETALON_HD static std::uint32_t high(double a) {
#if defined(__CUDA_ARCH__)
    return static_cast<std::uint32_t>(__double2hiint(a));
#else
    return static_cast<std::uint32_t>(bits_of(a) >> 32);
#endif
  }
  ETALON_HD static std::uint32_t low(double a) {
#if defined(__CUDA_ARCH__)
    return static_cast<std::uint32_t>(__double2loint(a));
#else
    return static_cast<std::uint32_t>(bits_of(a));
#endif
  }
  ETALON_HD static double joined(std::uint32_t high, std::uint32_t low) {
#if defined(__CUDA_ARCH__)
    return __hiloint2double(static_cast<int>(high), static_cast<int>(low));
#else
    return double_of((std::uint64_t{high} << 32) | low);
#endif
  }
  // Of the upper word's 20 bits of significand, to as many. Infinity gives 0 and 0 infinity.
  ETALON_HD static double reciprocal(double a) {
#if defined(__CUDA_ARCH__)
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(a));
    return r;
#else
    return upper(1 / upper(a));
#endif
  }
  ETALON_HD static double root_reciprocal(double a) {
#if defined(__CUDA_ARCH__)
    double r;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(a));
    return r;
#else
    return upper(1 / sqrt_f64(upper(a)));
#endif
  }
  ETALON_HD static float reciprocal(float a) {
#if defined(__CUDA_ARCH__)
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
#else
    return coarse(1 / a, 1);
#endif
  }
  ETALON_HD static float root_reciprocal(float a) {
#if defined(__CUDA_ARCH__)
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
#else
    return coarse(1 / sqrt_f32(a), 1);
#endif
  }
  // x^(-1/3), x > 0 normal; infinite or 0 for zero, infinity, subnormal numbers.
  ETALON_HD static float cube_root_reciprocal(float a) {
#if defined(__CUDA_ARCH__)
    float l, r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(l) : "f"(a));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(l * (-1.0F / 3)));
    return r;
#else
    if (!(a >= 0x1p-126F)) return a != a ? a : float_of(0x7f800000U);
    const auto x = static_cast<double>(a);
    double r = static_cast<double>(float_of(0x54a2fa8cU - bits_of(a) / 3));
    for (int i = 0; i < 5; ++i) r += r * (1 - x * r * r * r) / 3;
    return coarse(static_cast<float>(r), 31);
#endif
  }
  // NaN if x is.
  ETALON_HD static float clamped(float x, float low, float high) {
    return at_most(at_least(x, low), high);
  }
  ETALON_HD static float at_least(float x, float low) {
#if defined(__CUDA_ARCH__)
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(low));
    return r;
#else
    return x < low ? low : x;
#endif
  }
  ETALON_HD static float at_most(float x, float high) {
#if defined(__CUDA_ARCH__)
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(high));
    return r;
#else
    return x > high ? high : x;
#endif
  }
  ETALON_HD static float least(float x, float most) {  // most if x is NaN
#if defined(__CUDA_ARCH__)
    return ::fminf(x, most);
#else
    return x < most ? x : most;
#endif
  }
  ETALON_HD static float size(float x) {
#if defined(__CUDA_ARCH__)
    return ::fabsf(x);
#else
    return float_of(bits_of(x) & 0x7fffffffU);
#endif
  }
  ETALON_HD static double size(double x) {
#if defined(__CUDA_ARCH__)
    return ::fabs(x);
#else
    return abs_of(x);
#endif
  }
  ETALON_HD static float signed_as(float magnitude, float sign) {
#if defined(__CUDA_ARCH__)
    // One operation of three operands, which the compiler makes two of.
    std::uint32_t r;
    asm("lop3.b32 %0, %1, %2, 0x80000000, 0xd8;"
        : "=r"(r)
        : "r"(bits_of(magnitude)), "r"(bits_of(sign)));
    return float_of(r);
#else
    return float_of((bits_of(magnitude) & 0x7fffffffU) | (bits_of(sign) & 0x80000000U));
#endif
  }

 private:
  static double upper(double a) { return double_of(bits_of(a) & (~std::uint64_t{0} << 32)); }
  static float coarse(float a, std::uint32_t lost) { return float_of(bits_of(a) & ~lost); }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
