#include "kernels/gemm/exact_narrow.h"

#include <algorithm>
#include <mutex>

#include "kernels/gemm/halves_row.h"
#include "kernels/gemm/refuse.h"

namespace etalon {

#if defined(__x86_64__)  // as the rows that ask
namespace {

// Rounds outputs in f32 to the call's; appends those on midpoints.
void round_outputs(const KernelCall& call, const float* y, std::vector<std::int64_t>& left) {
  const DType format = call.output(0).dtype();
  std::byte* to = output_bytes(call, 0);
  constexpr std::int64_t kTogether = 64;
  std::mutex joining;
  parallel_for(
      call.output(0).numel(), call.threads, kHalvesGrain,
      [&](std::int64_t begin, std::int64_t end) {
        avx2::narrow_halves(format, y + begin, to + 2 * begin, end - begin);
        std::vector<std::int64_t> mine;
        for (std::int64_t i = begin; i < end; i += kTogether)
          for (std::uint64_t found = avx2::midpoints(format, y + i, std::min(kTogether, end - i));
               found != 0; found &= found - 1)
            mine.push_back(i + __builtin_ctzll(found));
        const std::scoped_lock lock(joining);
        left.insert(left.end(), mine.begin(), mine.end());
      });
  std::ranges::sort(left);
  left.erase(std::unique(left.begin(), left.end()), left.end());
}

}  // namespace
#endif

void run_exact_pass(const KernelCall& call, ExactSteps steps, ExactPass pass,
                    void (*definition)(const KernelCall&, std::span<const std::int64_t>)) {
  std::vector<std::int64_t> left;
  const DType format = call.output(0).dtype();
  if (format == DType::f32) {
    pass(call, steps, left);
  } else {
#if defined(__x86_64__)
    const WidenedCall wide(call);
    steps.cells = format == DType::f16 ? &kExactF16 : &kExactBF16;
    pass(wide.call(), steps, left);
    round_outputs(call, wide.output(0), left);
#endif
  }
  exact_counts().outputs += call.output(0).numel();
  exact_counts().defined += static_cast<std::int64_t>(left.size());
  if (!left.empty() && steps.definition) definition(call, left);
}

Prepared prepare_exact_pass(const Problem& problem, [[maybe_unused]] int threads,
                            FunctionRef<Prepared(const Problem&)> prepare) {
#if defined(__x86_64__)
  if (problem.input(0).dtype != DType::f32) return prepare_widened(problem, threads, prepare);
#endif
  return prepare(problem);
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
