// Activations: each output is one rounding of a real function of one input.
#pragma once

#include "engine/backend/definition.h"
#include "engine/ops/activation.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// F is a struct with `op` and `template <class A> static A::V value(A&, const Params&, A::V x)`.
template <class F>
struct ActivationDefinition {
  static constexpr std::string_view op = F::op;
  static constexpr bool rounded_once = true;

  struct Plan {
    Source x;
    const Params* params;
    std::int64_t count;
  };
  static Plan plan(const KernelCall& call) {
    return {Source(call, 0), call.problem->params, call.input(0).numel()};
  }
  static std::int64_t slices(const Plan& p) { return p.count; }
  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    out(0, i, F::value(a, *p.params, a.input(p.x[i])));
  }
};

struct Relu {
  static constexpr std::string_view op = "relu";
  // +0 comes first: a tie takes it, so relu(-0) = +0.
  template <class A>
  static typename A::V value(A& a, const Params&, typename A::V x) {
    return a.max(a.constant(0.0), x);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
