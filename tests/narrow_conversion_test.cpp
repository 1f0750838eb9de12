// Conversions from f32 to f16, bf16 and the four formats of f8, every input of all 2^32 in the long
// case, against an oracle that knows no bits: the format's numbers in order. A magnitude belongs to
// the first code whose upper midpoint it does not pass; on a midpoint to the even code. Midpoints
// are exact in f64. What codes mean is checked against the published ends of each format first.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "engine/core/threads.h"
#include "engine/numerics/codes.h"
#include "engine/numerics/fp.h"

using namespace etalon;

namespace {

struct Narrow {
  std::string name;
  unsigned largest;                       // code of the largest finite number
  unsigned sign;                          // bit of the sign
  std::function<double(unsigned)> value;  // of a code
  unsigned (*encode)(float);
  unsigned beyond;  // code of what rounds beyond the largest, without sign
  bool beyond_signed = true, zero_signed = true;
  unsigned nan;
  bool nan_signed = false;
};

template <Code format, bool saturate>
Narrow f8(unsigned largest, unsigned beyond, unsigned nan) {
  const bool fnuz = format == Code::f8e4m3fnuz || format == Code::f8e5m2fnuz;
  return {
      .name = std::string(name(format)) + (saturate ? ", saturated" : ""),
      .largest = largest,
      .sign = 0x80,
      .value = [](unsigned code) { return code_value(format, static_cast<std::uint8_t>(code)); },
      .encode = [](float x) -> unsigned {
        return code_of(format, static_cast<double>(x), saturate);
      },
      .beyond = saturate ? largest : beyond,
      .beyond_signed = saturate || !fnuz,
      .zero_signed = !fnuz,
      .nan = nan,
      .nan_signed = !fnuz};
}

std::vector<Narrow> conversions() {
  return {f8<Code::f8e4m3fn, true>(0x7e, 0x7f, 0x7f),
          f8<Code::f8e4m3fn, false>(0x7e, 0x7f, 0x7f),
          f8<Code::f8e4m3fnuz, true>(0x7f, 0x80, 0x80),
          f8<Code::f8e4m3fnuz, false>(0x7f, 0x80, 0x80),
          f8<Code::f8e5m2, true>(0x7b, 0x7c, 0x7e),
          f8<Code::f8e5m2, false>(0x7b, 0x7c, 0x7e),
          f8<Code::f8e5m2fnuz, true>(0x7f, 0x80, 0x80),
          f8<Code::f8e5m2fnuz, false>(0x7f, 0x80, 0x80),
          {.name = "f16",
           .largest = 0x7bff,
           .sign = 0x8000,
           .value = [](unsigned c) { return to_double(Float16{static_cast<std::uint16_t>(c)}); },
           .encode = [](float x) -> unsigned { return to_float16(x).bits; },
           .beyond = 0x7c00,
           .nan = kNanF16},
          {.name = "bf16",
           .largest = 0x7f7f,
           .sign = 0x8000,
           .value = [](unsigned c) { return to_double(BFloat16{static_cast<std::uint16_t>(c)}); },
           .encode = [](float x) -> unsigned { return to_bfloat16(x).bits; },
           .beyond = 0x7f80,
           .nan = kNanBF16}};
}

class Oracle {
 public:
  explicit Oracle(const Narrow& f) : f_(f) {
    for (unsigned code = 0; code < f.largest; ++code)
      midpoints_.push_back((f.value(code) + f.value(code + 1)) / 2);
    midpoints_.push_back(f.value(f.largest) + (f.value(f.largest) - f.value(f.largest - 1)) / 2);
  }
  const std::vector<double>& midpoints() const { return midpoints_; }

  // Codes of x and of -x, for a magnitude x; `code` is any code not above that of x, and becomes
  // it.
  bool agrees(float x, unsigned& code) const {
    if (x != x) {
      const unsigned minus = f_.nan_signed ? f_.nan | f_.sign : f_.nan;
      return f_.encode(x) == f_.nan && f_.encode(-x) == minus;
    }
    const double d = static_cast<double>(x);
    while (code <= f_.largest && (d > midpoints_[code] || (d == midpoints_[code] && code % 2 != 0)))
      ++code;
    const bool beyond = code > f_.largest;
    const unsigned plus = beyond ? f_.beyond : code;
    const bool has_sign = beyond ? f_.beyond_signed : code != 0 || f_.zero_signed;
    return f_.encode(x) == plus && f_.encode(-x) == (has_sign ? plus | f_.sign : plus);
  }
  unsigned first_code(float x) const {
    if (x != x) return 0;
    return static_cast<unsigned>(std::ranges::lower_bound(midpoints_, static_cast<double>(x)) -
                                 midpoints_.begin());
  }

 private:
  const Narrow& f_;
  std::vector<double> midpoints_;
};

// Magnitudes with bits first, first + step, ...; both signs. Returns how many are wrong.
std::int64_t wrong_in(const Oracle& oracle, std::uint32_t first, std::int64_t count,
                      std::uint32_t step, std::uint32_t& witness) {
  std::int64_t wrong = 0;
  unsigned code = oracle.first_code(float_of(first));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = first + static_cast<std::uint32_t>(i) * step;
    if (oracle.agrees(float_of(bits), code)) continue;
    ++wrong;
    witness = bits;
  }
  return wrong;
}

}  // namespace

TEST_CASE("narrow formats: the ends of each, as published") {
  struct Ends {
    Code format;
    double largest, normal, subnormal;
  };
  for (const Ends& e :
       {Ends{Code::f8e4m3fn, 448, 0x1p-6, 0x1p-9}, Ends{Code::f8e4m3fnuz, 240, 0x1p-7, 0x1p-10},
        Ends{Code::f8e5m2, 57344, 0x1p-14, 0x1p-16},
        Ends{Code::f8e5m2fnuz, 57344, 0x1p-15, 0x1p-17}}) {
    CAPTURE(name(e.format));
    const bool three = e.format == Code::f8e4m3fn || e.format == Code::f8e4m3fnuz;
    double largest = 0;
    for (unsigned code = 0; code < 0x80; ++code) {
      const double v = code_value(e.format, static_cast<std::uint8_t>(code));
      const double minus = code_value(e.format, static_cast<std::uint8_t>(code | 0x80U));
      if (std::isfinite(v)) {
        largest = std::max(largest, v);
        if (code > 0) CHECK(v > code_value(e.format, static_cast<std::uint8_t>(code - 1)));
        if (code > 0) CHECK(minus == -v);
      }
    }
    CHECK(largest == e.largest);
    CHECK(code_value(e.format, three ? 0x08 : 0x04) == e.normal);
    CHECK(code_value(e.format, 0x01) == e.subnormal);
  }
  CHECK(code_value(Code::f8e5m2, 0x7c) == kInfinity);
  CHECK(std::isnan(code_value(Code::f8e4m3fn, 0x7f)));
  CHECK(std::isnan(code_value(Code::f8e4m3fnuz, 0x80)));
  CHECK(std::isnan(code_value(Code::f8e5m2fnuz, 0x80)));
}

TEST_CASE("narrow formats: every midpoint, its neighbours, and a sample of all f32") {
  for (const Narrow& f : conversions()) {
    CAPTURE(f.name);
    const Oracle oracle(f);
    std::uint32_t witness = 0;
    std::int64_t wrong = 0, tried = 0;
    for (const double m : oracle.midpoints()) {
      const std::uint32_t at = bits_of(static_cast<float>(m)), first = at < 2 ? 0 : at - 2;
      wrong += wrong_in(oracle, first, 5, 1, witness);
      tried += 5;
    }
    constexpr std::uint32_t kStep = 65521;
    wrong += wrong_in(oracle, 0, (std::int64_t{1} << 31) / kStep + 1, kStep, witness);
    for (const std::uint32_t special : {0U, 1U, 0x7f7fffffU, 0x7f800000U, 0x7f800001U, 0x7fffffffU})
      wrong += wrong_in(oracle, special, 1, 1, witness);
    CAPTURE(float_of(witness));
    CHECK(wrong == 0);
    CHECK(tried == 5 * static_cast<std::int64_t>(f.largest + 1));
  }
  // The oracle can say no: truncation is not rounding.
  Narrow cut = conversions().back();
  cut.encode = [](float x) -> unsigned { return bits_of(x) >> 16; };
  std::uint32_t witness = 0;
  CHECK(wrong_in(Oracle(cut), 0x3f80c000U, 1, 1, witness) == 1);
}

TEST_SUITE("long") {
  TEST_CASE("narrow formats: all 2^32 f32, both ways of overflow") {
    constexpr std::int64_t kBlocks = 128, kBlock = (std::int64_t{1} << 31) / kBlocks;
    for (const Narrow& f : conversions()) {
      const Oracle oracle(f);
      std::atomic<std::int64_t> wrong{0};
      std::atomic<std::uint32_t> witness{0};
      parallel_for(kBlocks, hardware_threads(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
          std::uint32_t mine = 0;
          const std::int64_t bad =
              wrong_in(oracle, static_cast<std::uint32_t>(b * kBlock), kBlock, 1, mine);
          wrong += bad;
          if (bad != 0) witness = mine;
        }
      });
      CAPTURE(float_of(witness.load()));
      MESSAGE(f.name << ": 4294967296 inputs, " << wrong.load() << " wrong");
      CHECK(wrong == 0);
    }
  }
}
