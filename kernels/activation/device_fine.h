// exp, log and pow of one float for kernels in which a function is a step among others, contract
// seq: the CPU's formulas (lanes_base_inl.h) with every step fine, so that a rounding is left open
// some 2^-20 times; then the ball in f64 decides in place (SeqF32), and what it leaves open the
// host. Host and device.
#pragma once

#include "engine/numerics/seq_f32.h"
#include "kernels/activation/device_lanes.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct FineFunctions {
  // Below 60 u as lanes_base_inl.h has it; 128 u here.
  static constexpr double kError = 0x1p-46;
  // The error of t = y log x is 62 u of it, e^t takes it as it is: 16 * 62 u + 60 u; 2048 u here.
  static constexpr double kPowError = 0x1p-42, kPowMost = 16;

  int undecided = 0;

  // d <= 0 or any other.
  ETALON_HD float exp(float d) {
    using Math = LaneMath<DeviceLane>;
    float y;
    if (rounds(LaneExp<DeviceLane>::exp(Math::clamp(static_cast<double>(d), -200, 200)), kError, y))
      return y;
    return settle([&](SeqF32& a) { return a.call(Function::exp, d); });
  }
  ETALON_HD float log(float x) {
    float y;
    if (normal(x) && rounds(LaneLog<DeviceLane>::log(static_cast<double>(x)), kError, y)) return y;
    return settle([&](SeqF32& a) { return a.call(Function::log, x); });
  }
  ETALON_HD float pow(float x, float y) {
    if (float power; y == 0.75F && normal(x) && rounds(three_quarters(x), kError, power))
      return power;
    if (normal(x)) {
      const double t = static_cast<double>(y) * LaneLog<DeviceLane>::log(static_cast<double>(x));
      float power;
      if (abs_of(t) <= kPowMost && rounds(LaneExp<DeviceLane>::exp(t), kPowError, power))
        return power;
    }
    return settle([&](SeqF32& a) { return a.pow(x, y); });
  }

 private:
  // x^(3/4), x positive and normal. With t = x^(-3/4) (1 + d), |d| < 2^-18, from f32, x^3 t^3 is it
  // times (1 + d)^3, and c = x^3 t^4 - 1 is (1 + d)^4 - 1: so it is x^3 t^3 (1 + c)^(-3/4), of
  // which three terms err by 0.61 |c|^3 < 2^-48. Ten roundings, of at most 2 u each: 2^-46 holds
  // all.
  ETALON_HD static double three_quarters(float x) {
    const float r = reciprocal_root(x), fourth = r * reciprocal_root(r);  // x^(-1/2), x^(-1/4)
    const auto t = static_cast<double>(r * fourth), z = static_cast<double>(x);
    const double z3 = z * z * z, t2 = t * t, c = DeviceLane::fma(z3, t2 * t2, -1),
                 turn = DeviceLane::fma(DeviceLane::fma(0.65625, c, -0.75), c, 1);
    return z3 * (t2 * t) * turn;
  }
  // Off by 2^-20 at most.
  ETALON_HD static float reciprocal_root(float x) {
#if defined(__CUDA_ARCH__)
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#else
    return 1 / sqrt_f32(x);
#endif
  }
  // Positive and normal.
  ETALON_HD static bool normal(float x) { return x >= 0x1p-126F && x <= 0x1.fffffep127F; }
  ETALON_HD static bool rounds(double v, double error, float& y) {
    const float low = static_cast<float>(DeviceLane::fnma(v, error, v));
    y = static_cast<float>(DeviceLane::fma(v, error, v));
    return low == y;
  }
  template <class F>
  ETALON_HD float settle(const F& f) {
    SeqF32 a;
    const float y = f(a);
    if (a.undecided) undecided = 1;
    return y;
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
