// Plans as a GPU can take them: by value, in a kernel's parameters. Most definitions' plans are so
// already; those that refer to parameters or hold lists have a form here that gives slice() the
// same answers.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/activation/definition.h"
#include "kernels/conv/winograd_definition.h"
#include "kernels/elementwise/definition.h"
#include "kernels/normalization/definition.h"

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

// Rows without lists: places by division, over the axes that are kept and those that are reduced.
struct DeviceRows {
  Shape kept, reduced;
  std::array<std::int64_t, kMaxRank> kept_strides{}, reduced_strides{};

  DeviceRows() = default;
  DeviceRows(const Shape& x, std::span<const bool> is_reduced) {
    const auto strides = strides_of(x);
    std::vector<std::int64_t> dims[2];
    for (int axis = 0; axis < x.rank(); ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      auto& to = is_reduced[a] ? reduced_strides : kept_strides;
      auto& of = dims[is_reduced[a] ? 1 : 0];
      to[of.size()] = strides[a];
      of.push_back(x[axis]);
    }
    kept = Shape(std::span<const std::int64_t>(dims[0]));
    reduced = Shape(std::span<const std::int64_t>(dims[1]));
  }
  static DeviceRows from(const Shape& x, std::int64_t axis) {
    bool flags[kMaxRank] = {};
    for (int i = normalize_axis(axis, x.rank()); i < x.rank(); ++i) flags[i] = true;
    return {x, {flags, static_cast<std::size_t>(x.rank())}};
  }
  static DeviceRows over(const Shape& x, const Ints& axes) {
    bool flags[kMaxRank] = {};
    for (const std::int64_t axis : axes) flags[normalize_axis(axis, x.rank())] = true;
    return {x, {flags, static_cast<std::size_t>(x.rank())}};
  }
  // [N,C,...]: C/G channels each, which lie side by side.
  static DeviceRows of_groups(const Shape& x, std::int64_t groups) {
    const std::int64_t rows = x[0] * groups;
    const bool flags[] = {false, true};
    return {Shape{rows, rows == 0 ? 0 : x.numel() / rows}, flags};
  }
};

template <class F>
struct DevicePlan<RowNormDefinition<F>> {
  struct Plan {
    DeviceRows rows;
    Source x, scale, bias;
    double eps;
    bool centre, divide, eps_inside, statistics;
    Shape shape;
    std::array<std::int64_t, kMaxRank> scale_strides, bias_strides;
    std::int64_t by_row;
    ETALON_HD std::int64_t length() const { return rows.reduced.numel(); }
    ETALON_HD std::int64_t first(std::int64_t row) const {
      return strided_offset(row, rows.kept, rows.kept_strides);
    }
    ETALON_HD std::int64_t offset(std::int64_t k) const {
      return strided_offset(k, rows.reduced, rows.reduced_strides);
    }
    ETALON_HD std::int64_t wanted() const { return length(); }
    ETALON_HD std::int64_t wanted_at(std::int64_t w) const { return w; }
  };
  static_assert(std::is_trivially_copyable_v<Plan>);
  static Refusal refuse(const Problem&) { return std::nullopt; }
  static DeviceRows rows_of(const KernelCall& call) {
    const Shape& x = call.input(0).shape();
    if constexpr (std::is_same_v<F, LayerNorm>)
      return DeviceRows::from(x, call.params<LayerNormParams>().axis);
    else if constexpr (std::is_same_v<F, RmsNorm>)
      return DeviceRows::from(x, call.params<RmsNormParams>().axis);
    else if constexpr (std::is_same_v<F, MeanVariance>)
      return DeviceRows::over(x, call.params<MeanVarianceParams>().axes);
    else if constexpr (std::is_same_v<F, GroupNorm>)
      return DeviceRows::of_groups(x, call.params<GroupNormParams>().groups);
    else
      return DeviceRows::of_groups(x, x[1]);
  }
  static Plan of(const KernelCall& call) {
    const RowNormPlan host = RowNormDefinition<F>::plan(call);
    return {rows_of(call),   host.x,      host.scale,         host.bias,
            host.eps,        host.centre, host.divide,        host.eps_inside,
            host.statistics, host.shape,  host.scale_strides, host.bias_strides,
            host.by_row};
  }
  static std::int64_t slices(const Plan& p) { return p.length() == 0 ? 0 : p.rows.kept.numel(); }
};

// Spans of channels are added in a tree, which a thread's short stack does not hold.
template <>
struct DevicePlan<WinogradDefinition> {
  using Plan = WinogradDefinition::Plan;
  static_assert(std::is_trivially_copyable_v<Plan>);
  static Refusal refuse(const Problem& problem) {
    const Algorithm algorithm = Algorithm::parse(problem.contract->algo);
    if (Refusal r = refuse_tiles(problem, algorithm)) return r;
    if (algorithm.run != 0) return "sums the channels in one chain, not in spans";
    return std::nullopt;
  }
  static Plan of(const KernelCall& call) { return WinogradDefinition::plan(call); }
  static std::int64_t slices(const Plan& p) { return WinogradDefinition::slices(p); }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
