// Plans as a GPU can take them: by value, in a kernel's parameters. Most definitions' plans are so
// already; those that refer to parameters or hold lists have a form here that gives slice() the
// same answers.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/activation/definition.h"
#include "kernels/elementwise/definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <class D>
struct DevicePlan {
  using Plan = typename D::Plan;
  static_assert(std::is_trivially_copyable_v<Plan>);
  static Refusal refuse(const Problem&) { return std::nullopt; }
  static Plan of(const KernelCall& call) { return D::plan(call); }
  static std::int64_t slices(const Plan& p) { return D::slices(p); }
};

template <>
struct DevicePlan<ActivationDefinition> {
  struct Plan {
    std::size_t place;
    Source x;
    std::int64_t count;
    alignas(8) unsigned char params[32];
    template <class P>
    ETALON_HD const P& as() const {
      static_assert(sizeof(P) <= sizeof params && std::is_trivially_copyable_v<P>);
      return *reinterpret_cast<const P*>(params);
    }
  };
  static Refusal refuse(const Problem&) { return std::nullopt; }
  static Plan of(const KernelCall& call) {
    const ActivationDefinition::Plan host = ActivationDefinition::plan(call);
    Plan p{host.place, host.x, host.count, {}};
    AllActivations::visit(host.place, [&]<class F>() {
      const auto& own = host.as<typename F::Parameters>();
      std::memcpy(p.params, &own, sizeof own);
    });
    return p;
  }
  static std::int64_t slices(const Plan& p) { return p.count; }
};

template <bool RoundedOnce>
struct DevicePlan<ElementwiseDefinition<RoundedOnce>> {
  using Definition = ElementwiseDefinition<RoundedOnce>;
  static constexpr std::size_t kOperands = 8;
  struct Plan {
    Elementwise kind;
    Shape shape;
    std::size_t operand_count = 0;
    typename Definition::Operand operands[kOperands];
    ModParams mod;
    ClipParams clip;
    ETALON_HD std::size_t count() const { return operand_count; }
    ETALON_HD bool has(std::size_t k) const {
      return k < operand_count && static_cast<bool>(operands[k].source);
    }
    ETALON_HD double raw(std::size_t k, std::int64_t i) const {
      return operands[k].source[strided_offset(i, shape, operands[k].strides)];
    }
    template <class P>
    ETALON_HD const P& as() const {
      if constexpr (std::is_same_v<P, ModParams>)
        return mod;
      else
        return clip;
    }
  };
  static_assert(std::is_trivially_copyable_v<Plan>);
  static Refusal refuse(const Problem& problem) {
    if (problem.inputs.size() > kOperands)
      return "takes at most " + std::to_string(kOperands) + " operands";
    return std::nullopt;
  }
  static Plan of(const KernelCall& call) {
    const typename Definition::Plan host = Definition::plan(call);
    Plan p{.kind = host.kind, .shape = host.shape, .operand_count = host.operands.size()};
    for (std::size_t k = 0; k < p.operand_count; ++k) p.operands[k] = host.operands[k];
    if (host.kind == Elementwise::mod) p.mod = host.template as<ModParams>();
    if (host.kind == Elementwise::clip) p.clip = host.template as<ClipParams>();
    return p;
  }
  static std::int64_t slices(const Plan& p) { return p.shape.numel(); }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
