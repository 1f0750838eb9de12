// A pointwise op on f32 as data: what it does to one element. A chain of such steps runs on values
// that stay in registers from the first to the last (docs/adr/0008), each step with the roundings
// of its own op.
//
// NaN: a step may leave any NaN, since every step makes a NaN of a NaN; the last one stores
// 7fc00000, as each op by itself would have.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace etalon {

struct PointwiseStep {
  enum class Kind {
    affine,  // d = round(x - mean), then round(d * factor + bias), or both rounded where not fused
    add,     // round(x + other[i])
    relu,    // x where x > 0 or NaN, else +0
  };
  Kind kind = Kind::relu;
  const float* other = nullptr;  // element i of the output meets other[i]
  // Of affine, by channel: channel i / inner % channels for element i of the output.
  const float *mean = nullptr, *factor = nullptr, *bias = nullptr;
  std::int64_t inner = 1, channels = 1;
  bool fused = true;
};

// Whether two steps see the same channels, so that one walk serves both.
inline bool walk_together(const PointwiseStep& a, const PointwiseStep& b) {
  return a.kind != PointwiseStep::Kind::affine || b.kind != PointwiseStep::Kind::affine ||
         (a.inner == b.inner && a.channels == b.channels);
}

// The chains that networks are made of: normalisation, then an addition, then ReLU, each of them
// there or not.
struct UsualSteps {
  const PointwiseStep* affine = nullptr;
  const PointwiseStep* add = nullptr;
  bool relu = false;
};

// nullopt where the steps are another chain.
inline std::optional<UsualSteps> usual_steps(std::span<const PointwiseStep> steps) {
  using Kind = PointwiseStep::Kind;
  const auto next = [&](Kind kind) {
    const PointwiseStep* first =
        steps.empty() || steps.front().kind != kind ? nullptr : &steps.front();
    if (first != nullptr) steps = steps.subspan(1);
    return first;
  };
  UsualSteps usual;
  usual.affine = next(Kind::affine);
  usual.add = next(Kind::add);
  usual.relu = next(Kind::relu) != nullptr;
  return steps.empty() ? std::optional(usual) : std::nullopt;
}

}  // namespace etalon
