// TensorFlow Lite's functions of fixed-point numbers (engine/ops/tflite_fixed_point.h) whose
// arguments are sums, so that no table holds them: step by step in i64.
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/onnx/export_fixed.h"

namespace etalon::onnx_format {
namespace {

using tflite::Multiplier;
using Name = Whole::Name;

constexpr std::int64_t kMost = Multiplier::kMax;

Name powers_at(Whole& m, const Name& exponent) {
  Ints powers;
  for (int i = 0; i < 62; ++i) powers.push_back(std::int64_t{1} << i);
  return m.from_table(powers, exponent);
}

// What makes v, read as having no bits before the point, at least a half.
Name headroom(Whole& m, const Name& v) { return m.sub(m.number(31), m.bit_width(v)); }

Name reciprocal(Whole& m, const Name& a) {
  const Name half = m.nearest(m.add(a, kMost), Ints{1}, 0);
  Name x = m.add(m.product(half, -1010580540), 1515870810);
  for (int i = 0; i < 3; ++i) {
    const Name rest = m.sub(m.number(std::int64_t{1} << 29), m.product(half, x));
    x = m.add(x, m.moved(m.product(x, rest), 2));
  }
  return m.moved(x, 1);
}

Name logarithm(Whole& m, const Name& x) {
  constexpr int kBits = 12, kSumBits = 6;
  constexpr std::int64_t kRootRootHalf = 1805811301, kRootHalf = 1518500250;
  const std::int64_t quarter = tflite::moved(1 << 29, -kSumBits);
  const auto held = [&](const Name& v) { return m.held(v, Multiplier::kMin, kMost); };
  const auto whole = [&](const Name& n) { return held(m.mul(n, 1 << (31 - kSumBits))); };
  const auto shifted = [&](const Name& by) {
    return m.held_wide(m.mul(x, powers_at(m, by)), Multiplier::kMin, kMost);
  };
  const Name room_a = headroom(m, x);
  const Name r_a = m.moved(m.product(shifted(room_a), kRootHalf), 1),
             power_a = held(m.add(whole(m.sub(m.number(kBits - 1), room_a)), quarter));
  const Name room_b = headroom(m, m.product(x, kRootHalf));
  const Name r_b = shifted(room_b),
             power_b = held(m.add(whole(m.sub(m.number(kBits), room_b)), -quarter));
  const Name r = m.step("Min", {r_a, r_b}), power = m.step("Max", {power_a, power_b});
  const Name p = m.nearest(m.add(r, kRootRootHalf), Ints{1}, 0),
             q = m.mul(m.add(r, -kRootRootHalf), 2), q2 = m.product(q, q);
  const Name above = m.add(m.product(q, r), m.product(m.product(q, q2), 117049297));
  const Name inner = m.add(m.add(q, 1057819769), m.product(q2, 127690142));
  const Name below = m.add(m.product(p, inner), m.product(q, 638450708));
  const Name quotient = m.product(m.moved(above, -kSumBits), reciprocal(m, below));
  return m.moved(m.add(m.product(power, 1488522236), quotient), 1);
}

void log_softmax(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteUnaryParams>();
  const TfliteEnds ends(w.dtype(), kActLowest, kActHighest);
  const tflite::LogSoftmaxFactors f(p);
  Ints terms, scaled;
  for (std::int32_t v = 0; v < 256; ++v) {
    terms.push_back(f.term(-v));
    scaled.push_back(f.by.scaled(-v));
  }
  const Name x = m.cast(w.input(0), DType::i64);
  const Name below = m.sub(m.reduced("ReduceMax", x, {-1}, true), x);
  const Name sum = m.reduced("ReduceSum", m.from_table(terms, below), {-1}, true);
  const Name log = logarithm(m, m.held(sum, 0, kMost));
  const Name beyond =
      m.step("Max", {m.scaled(m.add(log, Multiplier::kMin), f.back), m.number(f.least - 1)});
  const Name y = m.moved(m.sub(m.from_table(scaled, below), log), -22);
  const Name held = m.held(m.add(y, ends.high), ends.low, ends.high);
  const Name inside = m.step("Greater", {m.mul(below, -1), beyond});
  m.give(m.chosen(inside, held, m.number(ends.low)), w.dtype());
}

void l2_normalize(NodeWriter& w) {
  Whole m(w);
  const auto& p = w.node().params.as<TfliteUnaryParams>();
  const bool is_signed = w.dtype() == DType::i8;
  const TfliteEnds ends(w.dtype(), p.act_min, p.act_max);
  const Name x = m.distance(0, p.x_zero);
  const InverseRoot root(m, m.reduced("ReduceSum", m.mul(x, x), {-1}, true));
  const Name y = root.scaled(m, m.mul(x, is_signed ? 1 : 128), is_signed ? 7 : 0);
  m.give(m.held(m.add(y, is_signed ? 0 : 128), ends.low, ends.high), w.dtype());
}

constexpr WriterRow kRows[] = {
    {"tflite_log_softmax", log_softmax},
    {"tflite_l2_normalize", l2_normalize},
};

}  // namespace

// Newton's steps of tflite::inverse_root on what is known only when the network runs.
InverseRoot::InverseRoot(Whole& m, const Name& of) {
  const Name big = m.at_least(of, 1 << 29);
  const Name quartered = m.chosen(big, m.div(of, 4), of);
  const Name pairs = m.add(m.div(headroom(m, m.step("Max", {quartered, m.number(1)})), 2), -1);
  const Name v = m.mul(quartered, powers_at(m, m.mul(pairs, 2)));
  const Name half = m.nearest(m.div(v, 2), Ints{1}, 0);
  Name x = m.number(1 << 28);
  for (int i = 0; i < 5; ++i) {
    const Name cube = m.moved(m.product(m.product(x, x), x), 6);
    x = m.moved(m.sub(m.product(x, (1 << 28) + (1 << 27)), m.product(half, cube)), 3);
  }
  const Name right = m.sub(m.add(m.cast(big, DType::i64), 11), pairs);
  const Name over = m.step("Max", {m.mul(right, -1), m.number(0)});
  const Name small = m.step("LessOrEqual", {of, m.number(1)});
  factor_ = m.chosen(small, m.number(kMost), m.mul(m.product(x, 1518500250), powers_at(m, over)));
  right_ = m.chosen(small, m.number(0), m.step("Max", {right, m.number(0)}));
}

Name InverseRoot::scaled(Whole& m, const Name& v, int left) const {
  const Name right = m.add(right_, -left), none = m.number(0);
  const Name up = m.step("Max", {m.mul(right, -1), none}), down = m.step("Max", {right, none});
  const Name high = m.product(m.mul(v, powers_at(m, up)), factor_);
  const Name by = powers_at(m, down), half = m.div(by, 2);
  return m.div(m.add(high, m.mul(m.step("Sign", {high}), half)), by);
}

std::span<const WriterRow> tflite_fixed_writers() { return kRows; }

}  // namespace etalon::onnx_format
