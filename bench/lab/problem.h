// A convolution that a reader of the lab asks for: shape, data, contract, read from one line of
// JSON that the page and `etalon lab ask` share.
//
//   {"channels": 3, "height": 16, "width": 16, "filters": 4, "kernel": 3, "stride": 1, "pad": 1,
//    "dilation": 1, "data": "noise", "seed": 1, "contract": "order=lanes:8"}
//
// x [1, channels, height, width], w [filters, channels, kernel, kernel], f32, no bias. "form":
// "transposed" is the other way round, each input stamping the kernel onto the output, stride apart
// (engine/ops/conv_transpose.h), with w [channels, filters, kernel, kernel]. Element i of x is word
// i of Philox stream 1 of the seed, of w stream 2 (engine/core/philox.h).
//   noise        both uniform in [-1, 1)
//   ones         x = 1, w = 0.1: equal terms, whose rounding errors do not cancel
//   cancelling   odd channels of x are the even ones with the sign turned, but for one part in
//                2^12, and the weights of such a pair are equal: large terms, small sums
//   scales       uniform times 2^e, e from -12 to 12 by channel: small terms are lost in large ones
//   image        pixels from "image" {"width", "height", "rgb": [...] or "grey": [...]} (0 to 255,
//                divided by 255, nearest pixel), channel c taking colour c mod 3; w as in noise
//
// "factors": f32, bf16 or f16 rounds x and w to that format, to nearest even, before anything is
// computed: what a matrix unit of that format is given. Errors are counted from the result of the
// data as it was drawn.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/core/tensor.h"
#include "engine/numerics/contract.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_transpose.h"

namespace etalon::lab {

inline constexpr std::int64_t kMostExtent = 64, kMostFilters = 64, kMostKernel = 31;
// Multiplications of the direct form: seconds in a browser.
inline constexpr std::int64_t kMostProducts = 100'000'000;

struct ConvProblem {
  const OpRow* op = nullptr;  // conv_op() or conv_transpose_op()
  Params params;
  Tensor x, w;
  TensorType y;
  Contract contract;
  DType factors = DType::f32;
  bool transposed() const { return op == &conv_transpose_op(); }
};

// A usage Error names the field that cannot be, what it is and what would do.
ConvProblem read_problem(const nlohmann::json& question,
                         std::int64_t most_products = kMostProducts);
// The same shape and data under another contract.
nlohmann::json with_contract(const nlohmann::json& question, const std::string& contract);

}  // namespace etalon::lab
