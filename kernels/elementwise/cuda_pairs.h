// add, sub, mul, div, max, min, prelu and the sum of two f32 operands on a GPU: one rounding an
// element, four neighbours a thread.
//
// Same bits: the operation rounds once, in f32, as the definition does in any precision; +0, where
// a sum begins, leaves only the sign of a zero. Limit: memory, 12 bytes an element. An operand that
// is not dense is one that repeats: element i / inner % extent, a scalar (extent 1), a channel's
// (inner = the plane), a last axis' (inner 1). Other broadcasts the definition has.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/backend/strided.h"
#include "kernels/backends/cuda/device_definition.h"
#include "kernels/elementwise/broadcast_rows.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline constexpr int kPairThreads = 256;

struct PairOperand {
  const float* from = nullptr;
  std::uint32_t inner = 1, extent = 1;
  bool dense = false;
  ETALON_HD float at(std::uint32_t i) const { return dense ? from[i] : from[i / inner % extent]; }
};

struct PairTask {
  F32Op op = F32Op::add;
  PairOperand a, b;
  float* y = nullptr;
  std::uint32_t count = 0;
  bool fours = false;  // y and what is dense lie at multiples of 16 bytes

  std::uint32_t threads() const { return (count + 3) / 4; }
};

inline PairTask pair_task(const KernelCall& call) {
  const auto floats = [](const Tensor& t) {
    return reinterpret_cast<const float*>(t.bytes().data());
  };
  const Shape& shape = call.output(0).shape();
  PairTask t;
  t.op = f32_op(call.problem->op->name);
  t.y = const_cast<float*>(floats(call.output(0)));
  t.count = static_cast<std::uint32_t>(shape.numel());
  t.fours = reinterpret_cast<std::uintptr_t>(t.y) % 16 == 0;
  PairOperand* const operands[] = {&t.a, &t.b};
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor& x = call.input(i);
    const Repetition r = repetition(x.shape(), shape).value_or(Repetition{});  // refuse_pairs()
    *operands[i] = {.from = floats(x),
                    .inner = static_cast<std::uint32_t>(r.inner),
                    .extent = static_cast<std::uint32_t>(r.extent),
                    .dense = x.numel() == shape.numel()};
    t.fours = t.fours && (!operands[i]->dense ||
                          reinterpret_cast<std::uintptr_t>(operands[i]->from) % 16 == 0);
  }
  return t;
}

inline Refusal refuse_pairs(const Problem& problem) {
  const std::string_view op = problem.op->name;
  if (Refusal r = op == "prelu" ? refuse_device_definition<PreluDefinition>(problem)
                  : op == "sum" ? refuse_device_definition<ElementwiseDefinition<false>>(problem)
                                : refuse_device_definition<ElementwiseDefinition<true>>(problem))
    return r;
  const Contract& c = *problem.contract;
  if (c.round != Round::nearest_even || c.subnormals != Subnormals::keep ||
      stored_format(DType::f32, c) != DType::f32)
    return "promises store=f32 or wider, round=rn, subnormals=keep";
  if (problem.inputs.size() != 2) return "takes two operands";
  const Shape& y = problem.outputs[0].shape;
  if (y.numel() > std::numeric_limits<std::int32_t>::max())
    return "takes tensors of fewer than 2^31 elements";
  for (std::size_t i = 0; i < 2; ++i)
    if (!repetition(problem.input(i).shape, y))
      return "takes operands that repeat as a whole or not at all";
  return std::nullopt;
}

template <F32Op Op>
ETALON_HD float pair_operation(float a, float b) {
  const SeqF32 f;
  if constexpr (Op == F32Op::add) return canonical(a + b);
  if constexpr (Op == F32Op::sub) return canonical(a - b);
  if constexpr (Op == F32Op::mul) return canonical(a * b);
  if constexpr (Op == F32Op::div) return canonical(a / b);
  if constexpr (Op == F32Op::max) return canonical(f.max(a, b));
  if constexpr (Op == F32Op::min) return canonical(f.min(a, b));
  if constexpr (Op == F32Op::prelu) return canonical(a >= 0 ? a : a * b);
  if constexpr (Op == F32Op::sum) return canonical(a + b + 0);
}

// Four neighbouring elements; a thread each.
template <F32Op Op>
ETALON_HD void run_pairs(const PairTask& t, std::uint32_t thread) {
  struct alignas(16) Four {
    float v[4];
  };
  const std::uint32_t i = thread * 4;
  if (i >= t.count) return;
  if (!t.fours || t.count - i < 4) {
    for (std::uint32_t k = i; k < t.count && k < i + 4; ++k)
      t.y[k] = pair_operation<Op>(t.a.at(k), t.b.at(k));
    return;
  }
  const auto read = [&](const PairOperand& from) {
    Four four;
    if (from.dense) {
      four = *reinterpret_cast<const Four*>(from.from + i);
    } else if (from.extent == 1) {
      const float x = *from.from;
      for (float& v : four.v) v = x;
    } else {
      for (std::uint32_t k = 0; k < 4; ++k) four.v[k] = from.at(i + k);
    }
    return four;
  };
  Four y = read(t.a);
  const Four b = read(t.b);
  for (int k = 0; k < 4; ++k) y.v[k] = pair_operation<Op>(y.v[k], b.v[k]);
  *reinterpret_cast<Four*>(t.y + i) = y;
}

// f.template operator()<Op>()
template <class F>
void with_pair_operation(F32Op op, F&& f) {
  switch (op) {
    case F32Op::add:
      return f.template operator()<F32Op::add>();
    case F32Op::sub:
      return f.template operator()<F32Op::sub>();
    case F32Op::mul:
      return f.template operator()<F32Op::mul>();
    case F32Op::div:
      return f.template operator()<F32Op::div>();
    case F32Op::max:
      return f.template operator()<F32Op::max>();
    case F32Op::min:
      return f.template operator()<F32Op::min>();
    case F32Op::prelu:
      return f.template operator()<F32Op::prelu>();
    case F32Op::sum:
      return f.template operator()<F32Op::sum>();
  }
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
