#include "kernels/gemm/exact_narrow.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/core/threads.h"
#include "engine/numerics/element.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

constexpr std::int64_t kGrain = 1 << 12;

bool is_midpoint(float y, DType format) {
  if (!std::isfinite(y)) return false;
  const double halves =
      std::abs(static_cast<double>(y)) * 2 / ulp_of(static_cast<double>(y), format);
  return std::floor(halves) == halves && std::fmod(halves, 2.0) == 1;
}

}  // namespace

const Tensor* widened(const Tensor* tensor, int threads, Tensor& copy) {
  if (tensor->dtype() == DType::f32) return tensor;
  copy = Tensor::uninitialized(DType::f32, tensor->shape());
  const auto to = copy.mutable_data<float>();
  visit_dtype(tensor->dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      const auto from = tensor->data<T>();
      parallel_for(tensor->numel(), threads, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
          to[i] = to_float(from[i]);
      });
    }
  });
  return &copy;
}

void run_exact_pass(const KernelCall& call, std::vector<std::int64_t>& left, ExactPass pass) {
  const DType format = call.output(0).dtype();
  if (format == DType::f32) {
    pass(call, left);
    return;
  }
  std::vector<Tensor> copies(call.inputs.size());
  std::vector<const Tensor*> inputs(call.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (call.has(i)) inputs[i] = widened(&call.input(i), call.threads, copies[i]);
  std::vector<Tensor> outputs;
  outputs.push_back(Tensor::uninitialized(DType::f32, call.output(0).shape()));
  KernelCall wide = call;
  wide.inputs = inputs;
  wide.outputs = outputs;
  pass(wide, left);
  const auto y = outputs[0].data<float>();
  std::byte* to = call.output(0).mutable_bytes().data();
  std::mutex joining;
  parallel_for(outputs[0].numel(), call.threads, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> mine;
    for (std::int64_t i = begin; i < end; ++i) {
      const float value = y[static_cast<std::size_t>(i)];
      store_from_double(format, to, i, static_cast<double>(value));
      if (is_midpoint(value, format)) mine.push_back(i);
    }
    const std::scoped_lock lock(joining);
    left.insert(left.end(), mine.begin(), mine.end());
  });
  std::ranges::sort(left);
  left.erase(std::unique(left.begin(), left.end()), left.end());
}

Refusal refuse_unless_exact_narrow(const Problem& problem) {
  if (*problem.contract != Contract::exact_preset()) return "promises exact only";
  const DType dtype = problem.input(0).dtype;
  if (dtype != DType::f16 && dtype != DType::bf16) return refuse_unless_f32(problem);
  for (std::size_t i = 1; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != dtype)
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             " and input 0 is " + std::string(name(dtype)) + ", this kernel takes one type";
  return std::nullopt;
}

}  // namespace etalon
