// Loops over typed operands that broadcast, for elementwise ops whose bits no contract touches.
#pragma once

#include <type_traits>

#include "engine/backend/bits_row.h"
#include "engine/backend/strided.h"
#include "engine/core/visit_width.h"

namespace etalon {

// The elements as a type of their width, which need not be the tensor's own.
template <class T>
const T* elements(const Tensor& x) {
  return reinterpret_cast<const T*>(x.bytes().data());
}

// y[i] = f(a[i], b[i]); R may differ from T (comparisons give Bool).
template <class R, class T, class U, class F>
void apply_binary(const KernelCall& call, const F& f) {
  const auto* a = elements<T>(call.input(0));
  const auto* b = elements<U>(call.input(1));
  auto* y = reinterpret_cast<R*>(output_bytes(call, 0));
  const auto loop =
      broadcast_loop<2>(call.output(0).shape(), {call.input(0).shape(), call.input(1).shape()});
  const auto step = loop.step();
  loop.run(call.threads, [&](const std::array<std::int64_t, 3>& at, std::int64_t n) {
    const T* pa = a + at[1];
    const U* pb = b + at[2];
    R* py = y + at[0];
    // Steps that the compiler knows, for it to make vectors of.
    if (step[1] == 1 && step[2] == 1)
      for (std::int64_t i = 0; i < n; ++i) py[i] = f(pa[i], pb[i]);
    else if (step[1] == 1 && step[2] == 0)
      for (std::int64_t i = 0; i < n; ++i) py[i] = f(pa[i], *pb);
    else
      for (std::int64_t i = 0; i < n; ++i) py[i] = f(pa[i * step[1]], pb[i * step[2]]);
  });
}

template <class R, class T, class F>
void apply_unary(const KernelCall& call, const F& f) {
  const auto* x = elements<T>(call.input(0));
  auto* y = reinterpret_cast<R*>(output_bytes(call, 0));
  parallel_for(call.input(0).numel(), call.threads, 16384,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
               });
}

// f(T{}) for integer types (not bool); others are an internal Error: the row refuses them.
template <class F>
void visit_integer(DType dtype, F&& f) {
  visit_dtype(dtype, [&](auto zero) {
    if constexpr (std::is_integral_v<decltype(zero)>)
      f(zero);
    else
      throw internal_error("an integer kernel was called on {}", name(dtype));
  });
}

}  // namespace etalon
