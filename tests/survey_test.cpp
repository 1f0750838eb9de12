// The survey finds what is planted in a peer, and nothing in one that is right; edges are found
// where they are known to lie.
#include "bench/survey/survey.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/survey/edges.h"
#include "bench/survey/worst.h"
#include "engine/core/error.h"
#include "engine/numerics/fp.h"

using namespace etalon;

namespace {

// Correctly rounded but for faults: results of given inputs changed, or arrays of a length.
class Planted final : public SurveyPeer {
 public:
  bool off_by_four = false, nan = false, lost_sign = false, tail = false;
  std::string name() const override { return "planted"; }
  std::string version() const override { return "planted 1"; }
  bool has(const SurveyedFunction&) const override { return true; }
  void compute(const SurveyedFunction& f, std::span<const float> x, std::span<float> y) override {
    correctly_rounded_block(f, detect_isa(), x.data(), y.data(),
                            static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::uint32_t b = bits_of(x[i]);
      if (off_by_four && b == 0x3f000123U) y[i] = float_of(bits_of(y[i]) + 4);
      // The second of them lies in another thread's part, whose first input it is.
      if (nan && (b == 0x3f000200U || b == 0x3f400000U)) y[i] = float_of(kNanF32);
      if (lost_sign && b == 0x80000000U) y[i] = 0.0F;
    }
    if (tail && x.size() % 8 == 5) y[x.size() - 1] = float_of(bits_of(y[x.size() - 1]) ^ 1U);
  }
};

// One piece is the first, from 0 on.
SurveyCounts run(Planted& peer, int pieces = 1) {
  SurveyOptions options;
  options.threads = 2;
  options.pieces = pieces;
  return survey(surveyed_function("tanh"), peer, options);
}

}  // namespace

TEST_CASE("survey: a right peer has no fault, each planted one is found") {
  if (detect_isa() < Isa::avx2) {
    MESSAGE("skipped: a piece is 2^24 inputs, minutes without vectors");
    return;
  }
  Planted right;
  const SurveyCounts none = run(right);
  CHECK(none.inputs == 1 << 24);
  CHECK(none.wrong == 0);
  CHECK(none.order_breaks + none.symmetry_breaks + none.place_breaks == 0);
  CHECK(none.place_tried == 2 * 253);

  Planted zero;
  zero.lost_sign = true;
  const SurveyCounts z = run(zero);
  CHECK(z.wrong == 1);
  CHECK(z.zero_sign_wrong == 1);
  CHECK(z.symmetry_breaks == 1);
  CHECK(z.special.x == 0x80000000U);

  Planted tail;
  tail.tail = true;
  const SurveyCounts t = run(tail);
  CHECK(t.wrong == 0);
  CHECK(t.place_breaks == 4);  // lengths 5, 13, 21 and 253
}

TEST_CASE("survey: distance, order and NaN; pieces are taken up again") {
  if (detect_isa() < Isa::avx2) {
    MESSAGE("skipped: a piece is 2^24 inputs, minutes without vectors");
    return;
  }
  // 126 begins at 126 * 2^23 = 0x3f000000; the file says that the others are done.
  const auto folder =
      std::filesystem::temp_directory_path() / ("etalon-survey-test-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  Planted peer;
  peer.off_by_four = peer.nan = true;
  SurveyOptions options;
  options.threads = 2;
  options.pieces = 128;
  options.state = folder.string();
  {
    const std::string file = (folder / "tanh-planted_1.jsonl").string();
    std::FILE* f = std::fopen(file.c_str(), "w");
    SurveyCounts empty;
    empty.inputs = 1;
    for (int piece = 0; piece < 256; ++piece)
      if (piece != 126) {
        nlohmann::json j = to_json(empty);
        j["piece"] = piece;
        std::fprintf(f, "%s\n", j.dump().c_str());
      }
    std::fprintf(f, "{\"piece\": \"126\", \"library_seconds\": 1}\n");  // damaged
    std::fprintf(f, "{\"piece\": 126, \"inp");                          // cut short
    std::fclose(f);
  }
  const SurveyCounts c = survey(surveyed_function("tanh"), peer, options);
  std::filesystem::remove_all(folder);
  CHECK(c.inputs == (1 << 24) + 127);
  CHECK(c.wrong == 3);
  CHECK(c.nan_wrong == 2);
  CHECK(c.histogram[2] == 1);
  CHECK(c.max_ulp > 3.5);
  CHECK(c.max_ulp < 4.5);
  CHECK(c.worst.x == 0x3f000123U);
  CHECK(c.special.x == 0x3f000200U);  // the least, whichever thread ends first
  CHECK(c.order_breaks >= 1);
  CHECK(c.symmetry_breaks == 3);
  const SurveyCounts again = survey_counts_from_json(to_json(c));
  CHECK(to_json(again) == to_json(c));
}

TEST_CASE("survey: the worst error is the one that the exact values of all give") {
  // By gelu's f64 values, by its balls, and where neither helps; errors that grow with each input,
  // that are all about the same, none, and some of which most need no second look.
  const SurveyedFunction& f = surveyed_function("gelu");
  const auto exact = [&](float x, DType to) {
    return f.value(static_cast<double>(x), to, Round::nearest_even);
  };
  constexpr std::uint32_t kPoints = 600;
  struct Point {
    float x, right;
    double real;
  };
  const auto points = [&](std::uint32_t first) {
    std::vector<Point> all;
    for (std::uint32_t i = 0; i < kPoints; ++i) {
      const float x = std::bit_cast<float>(first + i);
      all.push_back({x, static_cast<float>(exact(x, DType::f32)), exact(x, DType::f64)});
    }
    return all;
  };
  const std::vector<Point> subnormal = points(0x00000400U), negative = points(0xc0900000U);
  for (const int kind : {0, 1, 2, 3})
    for (const bool values : {true, false}) {
      CAPTURE(kind);
      CAPTURE(values);
      WorstError worst(f);
      WorstError::Found all;
      int less = 0;
      for (std::uint32_t i = 0; i < kPoints; ++i) {
        const auto& [x, right, real] = (kind == 0 ? subnormal : negative)[i];
        const std::uint32_t off = kind == 1 ? 1 : kind == 3 ? i % 7 : 0;
        const float got = kind == 0  // a flushed subnormal: off by half its bits
                              ? 0.0F
                              : std::bit_cast<float>(std::bit_cast<std::uint32_t>(right) + off);
        if (worst.is_less(ulp_distance(right, got), got, right))
          ++less;
        else
          worst.add(x, got, right, values ? real * (1 + 0x1p-37) : kNan);
        const double ulps = std::fabs(static_cast<double>(got) - real) /
                            ulp_of(static_cast<double>(right), DType::f32);
        if (ulps > all.ulp) all = {ulps, x, got, right};
      }
      const WorstError::Found found = worst.largest(0.5);
      CHECK(found.ulp == (kind == 2 ? 0 : all.ulp));
      CHECK(found.x == (kind == 2 ? 0 : all.x));
      CHECK(worst.largest(all.ulp).ulp == 0);
      CHECK((less > 200) == (kind == 3));
    }
}

TEST_CASE("survey: unknown words are refused with what there is") {
  CHECK_THROWS_WITH_AS(surveyed_function("sine"), doctest::Contains("the functions are exp, exp2"),
                       Error);
  CHECK_THROWS_WITH_AS(make_survey_peer("mathlib", 1), doctest::Contains("glibc, onednn, numpy"),
                       Error);
  CHECK_THROWS_WITH_AS(find_edges(surveyed_function("exp"), 0.3, 1, Isa::sse2, 1),
                       doctest::Contains("below 1/4"), Error);
}

#if defined(__GLIBC__)
TEST_CASE("survey: glibc's exp is a peer, good to an ULP") {
  const auto peer = make_survey_peer("glibc", 1);
  const SurveyedFunction& f = surveyed_function("exp");
  REQUIRE(peer->has(f));
  CHECK(!peer->has(surveyed_function("gelu")));
  std::vector<float> x(1 << 16), ours(x.size()), theirs(x.size());
  fill_inputs(0x3f800000U, x);
  correctly_rounded_block(f, detect_isa(), x.data(), ours.data(), 1 << 16);
  peer->compute(f, x, theirs);
  std::uint64_t worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, ulp_distance(ours[i], theirs[i]));
  CHECK(worst <= 1);
  CHECK(peer->version().find("glibc 2.") == 0);
}
#endif

TEST_SUITE("long") {
  TEST_CASE("edges: the hardest input of log, over all of f32") {
    const Edges edges = find_edges(surveyed_function("log"), 0x1p-24, 20, detect_isa(), 2);
    REQUIRE(!edges.nearest.empty());
    CHECK(edges.nearest[0].x == bits_of(0x1.b121a6p+76F));
    const auto known = std::ranges::find(edges.nearest, bits_of(0x1.827a74p-7F), &Edge::x);
    REQUIRE(known != edges.nearest.end());
    CHECK(known->rounded == -0x1.1c2b1ep+2F);
    CHECK(edges.count > 64);
  }
}
