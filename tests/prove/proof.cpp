// The proof by laws, in chunks of neighbours.
#include "tests/prove/proof.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "tests/prove/check.h"
#include "tests/prove/input_prover.h"
#include "tests/prove/lemmas.h"
#include "tests/prove/taylor.h"

namespace etalon {
namespace {

// A chunk lies in one binade and has one sign.
constexpr std::int64_t kChunk = 4096;
struct Chunk {
  std::array<float, kChunk> x, y, other;
  std::array<double, kChunk> lanes;
  std::array<std::uint8_t, kChunk> open;  // 1: not proven yet
};

const ChunkChecks& checks_of(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::checks;
#endif
  return scalar::checks;
}

class BlockProver {
 public:
  BlockProver(const SurveyedFunction& f, Isa isa, ProofMethod method, ProofCounts& counts)
      : f_(f), isa_(isa), method_(method), checks_(checks_of(isa)), n_(counts), prover_(f, counts) {
    values_ = f.lane < LaneFunction::leaky_relu ? lane_values(isa) : nullptr;
  }

  void prove(std::uint32_t first, std::int64_t count) {
    n_count_ = static_cast<std::size_t>(count);
    fill_inputs(first, std::span(c_.x).first(n_count_));
    correctly_rounded_block(f_, isa_, c_.x.data(), c_.y.data(), count);
    served_.update(std::as_bytes(std::span(c_.y).first(n_count_)));
    lanes_known_ = false;
    std::memset(c_.open.data(), 1, n_count_);
    if (method_ == ProofMethod::laws) {
      // Whichever speaks; what they leave open is proven input by input.
      const bool whole = first % kChunk == 0 && count == kChunk;
      if (whole && !by_domain() && !by_lemma() && !by_symmetry(first) && !by_scaling(first))
        by_taylor(0, kChunk);
      for (std::int64_t i = (kSample - first % kSample) % kSample; i < count; i += kSample)
        open(static_cast<std::size_t>(i));
    }
    n_.inputs += count;
    if (std::memchr(c_.open.data(), 1, n_count_) == nullptr) return;
    know_lanes();
    for (std::size_t i = 0; i < n_count_; ++i)
      if (c_.open[i])
        prover_.prove(first + static_cast<std::uint32_t>(i), c_.y[i], c_.lanes[i], error_);
  }
  Hash128 hash() { return served_.digest(); }

 private:
  void open(std::size_t i) {
    if (c_.open[i]) return;
    c_.open[i] = 1;
    if (last_ != nullptr) --*last_;
  }
  void know_lanes() {
    if (lanes_known_) return;
    lanes_known_ = true;
    error_ = 0;
    if (values_ != nullptr)
      error_ = values_(f_.lane, f_.params, c_.x.data(), c_.lanes.data(),
                       static_cast<std::int64_t>(n_count_));
    else
      std::fill_n(c_.lanes.begin(), n_count_, kNan);
  }
  // Counts what a law has proven of c_.open[begin ..).
  void tally(std::int64_t& counter, std::size_t begin, std::size_t size) {
    last_ = &counter;
    std::int64_t left = 0;
    for (std::size_t i = begin; i < begin + size; i += 8) {
      std::uint64_t eight;
      std::memcpy(&eight, &c_.open[i], 8);
      left += static_cast<std::int64_t>((eight * 0x0101010101010101U) >> 56);
    }
    counter += static_cast<std::int64_t>(size) - left;
  }

  // Marks what holds as proven: by 64, and one by one where not all of them do.
  template <class Holds>
  void close_where(std::size_t begin, std::size_t size, Holds&& holds) {
    for (std::size_t i = begin; i < begin + size; i += 64)
      if (holds(i, 64))
        std::memset(&c_.open[i], 0, 64);
      else
        for (std::size_t k = i; k < i + 64; ++k) c_.open[k] = holds(k, 1) ? 0 : 1;
  }

  bool by_domain() {
    if (!(c_.x[0] != c_.x[0] && c_.x[kChunk - 1] != c_.x[kChunk - 1]) &&
        !(outside_domain(f_.lane, c_.x[0]) && outside_domain(f_.lane, c_.x[kChunk - 1])))
      return false;
    for (std::size_t i = 0; i < kChunk; ++i) c_.open[i] = bits_of(c_.y[i]) != kNanF32 ? 1 : 0;
    tally(n_.exact, 0, kChunk);
    return true;
  }
  bool by_lemma() {
    const Near lemma = near(f_, static_cast<double>(c_.x[0]));
    if (!lemma.known() || lemma != near(f_, static_cast<double>(c_.x[kChunk - 1]))) return false;
    const double end = lemma.exact ? 1 : 1 + lemma.away * 0x1p-27;
    close_where(0, kChunk, [&](std::size_t i, std::size_t n) {
      return checks_.lemma(lemma.constant, lemma.slope, end, lemma.slack, lemma.exact, &c_.x[i],
                           &c_.y[i], n);
    });
    tally(lemma.exact ? n_.exact : n_.by_lemma, 0, kChunk);
    return true;
  }
  // Negative x, given what is proven for -x.
  bool by_symmetry(std::uint32_t first) {
    if (f_.symmetry == Symmetry::none || (first & kSign) == 0) return false;
    fill_inputs(first ^ kSign, c_.other);
    correctly_rounded_block(f_, isa_, c_.other.data(), c_.other.data(), kChunk);
    const std::uint32_t flip = f_.symmetry == Symmetry::odd ? kSign : 0;
    close_where(0, kChunk, [&](std::size_t i, std::size_t n) {
      return checks_.mirrored(&c_.y[i], &c_.other[i], flip, n);
    });
    tally(n_.by_law, 0, kChunk);
    return true;
  }
  // Given what is proven for the binades from 1 to 2^step.
  bool by_scaling(std::uint32_t first) {
    const Scaling s = scaling(f_.lane);
    const int exponent = static_cast<int>(first >> 23) - 127;
    if (s.step == 0 || exponent > 125 || exponent < -126) return false;
    const int n = exponent < 0 ? (exponent - s.step + 1) / s.step : exponent / s.step;
    if (n == 0) return false;
    fill_inputs(first - static_cast<std::uint32_t>(n * s.step * (1 << 23)), c_.other);
    correctly_rounded_block(f_, isa_, c_.other.data(), c_.other.data(), kChunk);
    const double factor = std::ldexp(1.0, n * s.shift);
    close_where(0, kChunk, [&](std::size_t i, std::size_t size) {
      return checks_.scaled(&c_.y[i], &c_.other[i], factor, size);
    });
    tally(n_.by_law, 0, kChunk);
    return true;
  }
  // By polynomials over the whole, or halves, quarters ... of it.
  void by_taylor(std::size_t begin, std::size_t size) {
    const std::size_t middle = begin + size / 2;
    const auto centre = static_cast<double>(c_.x[middle]),
               r = std::fabs(centre - static_cast<double>(c_.x[begin]));
    Taylor p;
    if (!std::isfinite(centre + r) || !std::isfinite(static_cast<double>(c_.x[begin + size - 1])))
      return;
    if (!expand(f_, centre, r, p)) {
      if (size <= 256) return;
      for (std::size_t part = 0; part < 4; ++part) by_taylor(begin + part * size / 4, size / 4);
      return;
    }
    know_lanes();
    const double polynomial[] = {p.centre, p.a0, p.a1, p.a2, p.a3};
    close_where(begin, size, [&](std::size_t i, std::size_t n) {
      return checks_.taylor(polynomial, p.error, error_, &c_.x[i], &c_.y[i], &c_.lanes[i], n);
    });
    tally(n_.by_taylor, begin, size);
  }

  static constexpr std::uint32_t kSign = 0x80000000U;
  const SurveyedFunction& f_;
  Isa isa_;
  ProofMethod method_;
  const ChunkChecks& checks_;
  ProofCounts& n_;
  InputProver prover_;
  LaneValues values_ = nullptr;
  HashStream served_;
  Chunk c_{};
  std::size_t n_count_ = 0;
  bool lanes_known_ = false;
  double error_ = 0;
  std::int64_t* last_ = nullptr;
};

}  // namespace

void ProofCounts::add(const ProofCounts& o) {
  inputs += o.inputs;
  exact += o.exact;
  by_lemma += o.by_lemma;
  by_law += o.by_law;
  by_taylor += o.by_taylor;
  refused += o.refused;
  for (std::size_t i = 0; i < 4; ++i) undecided[i] += o.undecided[i];
  sampled += o.sampled;
  wrong += o.wrong;
  apart += o.apart;
  if (o.nearest_midpoint < nearest_midpoint) {
    nearest_midpoint = o.nearest_midpoint;
    hardest = o.hardest;
  }
  for (const std::string& w : o.witnesses)
    if (witnesses.size() < 10) witnesses.push_back(w);
}

ProofCounts prove_block(const SurveyedFunction& f, Isa isa, std::uint32_t first, std::int64_t count,
                        ProofMethod method) {
  ProofCounts counts;
  const auto prover = std::make_unique<BlockProver>(f, isa, method, counts);
  for (std::int64_t at = 0; at < count; at += kChunk)
    prover->prove(first + static_cast<std::uint32_t>(at), std::min(kChunk, count - at));
  counts.hash = prover->hash();
  return counts;
}

}  // namespace etalon
