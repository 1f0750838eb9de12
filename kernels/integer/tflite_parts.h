// What the kernels of TensorFlow Lite's integers share: storing, loops.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/backend/bits_row.h"
#include "engine/backend/strided.h"
#include "engine/ops/tflite_values.h"
#include "kernels/integer/taps.h"

namespace etalon {

inline void store_integer(std::byte* bytes, DType dtype, std::int64_t i, std::int64_t v) {
  if (dtype == DType::i16)
    reinterpret_cast<std::int16_t*>(bytes)[i] = static_cast<std::int16_t>(v);
  else if (dtype == DType::i32)
    reinterpret_cast<std::int32_t*>(bytes)[i] = static_cast<std::int32_t>(v);
  else
    bytes[i] = static_cast<std::byte>(v);
}

template <class F>
void for_each_pair(const KernelCall& call, const F& f) {
  const SmallIntegers a(call.input(0)), b(call.input(1));
  const auto loop =
      broadcast_loop<2>(call.output(0).shape(), {call.input(0).shape(), call.input(1).shape()});
  const auto step = loop.step();
  std::byte* y = output_bytes(call, 0);
  const DType dtype = call.output(0).dtype();
  loop.run(call.threads, [&](const std::array<std::int64_t, 3>& at, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i)
      store_integer(y, dtype, at[0] + i, f(a[at[1] + i * step[1]], b[at[2] + i * step[2]]));
  });
}

template <class F>
void for_each_element(const KernelCall& call, const F& f) {
  std::byte* y = output_bytes(call, 0);
  const DType dtype = call.output(0).dtype();
  parallel_for(call.output(0).numel(), call.threads, 16384,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) store_integer(y, dtype, i, f(i));
               });
}

// Those of 16-bit integers (tflite_sixteen.cpp).
void run_softmax_sixteen(const KernelCall& call);
void run_logistic_sixteen(const KernelCall& call);
void run_tanh_sixteen(const KernelCall& call);

}  // namespace etalon
