#include "tests/prove/check.h"

namespace etalon::scalar {
namespace {

// Whatever is wrong sets bits of one word: no branches.
std::uint64_t word(double x) { return __builtin_bit_cast(std::uint64_t, x); }
std::uint32_t word(float x) { return __builtin_bit_cast(std::uint32_t, x); }

bool taylor(const double* p, double error, double lane_error, const float* x, const float* y,
            const double* lanes, std::size_t count) {
  std::uint64_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(x[i]) - p[0];
    const double v = p[1] + t * (p[2] + t * (p[3] + t * p[4]));
    const double low = v - error, high = v + error;
    const auto a = static_cast<double>(static_cast<float>(low)),
               b = static_cast<double>(static_cast<float>(high)),
               served = static_cast<double>(y[i]);
    const double apart = __builtin_fabs(lanes[i] - v),
                 room = (error + lane_error * __builtin_fabs(v)) * (1 + 0x1p-20);
    bad |= (word(a) ^ word(b)) | (word(a) ^ word(served));
    bad |= ((a >= low) & (a <= high)) ? 1U : 0U;
    bad |= ((__builtin_fabs(a) < 0x1p128) & (apart <= room)) ? 0U : 1U;
  }
  return bad == 0;
}

bool lemma(double constant, double slope, double end, double slack, bool inside, const float* x,
           const float* y, std::size_t count) {
  std::uint64_t bad = 0;
  // A constant is no sum with slope x = 0: -0 stays.
  const bool multiple = slope != 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double product = slope * static_cast<double>(x[i]), g = multiple ? product : constant,
                 other = g * end, room = slack * __builtin_fabs(g);
    const double least = other < g ? other : g, most = other < g ? g : other;
    const double low = room != 0 ? least - room : least, high = room != 0 ? most + room : most;
    const auto a = static_cast<double>(static_cast<float>(low)),
               b = static_cast<double>(static_cast<float>(high)),
               served = static_cast<double>(y[i]);
    bad |= (word(a) ^ word(b)) | (word(a) ^ word(served));
    bad |= (!inside & (a > low) & (a < high)) ? 1U : 0U;
  }
  return bad == 0;
}

bool mirrored(const float* y, const float* other, std::uint32_t flip, std::size_t count) {
  constexpr std::uint32_t kNaN = 0x7fc00000U;
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t a = word(y[i]), b = word(other[i]);
    const std::uint32_t image = b == kNaN ? kNaN : b ^ flip;
    bad |= a ^ image;
  }
  return bad == 0;
}

bool scaled(const float* y, const float* other, double factor, std::size_t count) {
  std::uint64_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double image = static_cast<double>(other[i]) * factor;
    bad |= word(static_cast<double>(y[i])) ^ word(image);
    bad |= __builtin_fabs(image) >= 0x1p-126 ? 0U : 1U;
  }
  return bad == 0;
}

}  // namespace

const ChunkChecks checks{taylor, lemma, mirrored, scaled};

}  // namespace etalon::scalar
