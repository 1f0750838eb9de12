// Rows over f16 and bf16 tensors that are made of the op's row over f32: operands are widened once,
// which is exact, and each result is rounded once, from the f32 that the contract's sum is.
//
// So they are for ops that round to the format of their tensors in one place, where an output is
// stored. Constant operands are widened when the problem is prepared. Limit: the f32 row, and the
// bytes of the copies.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/core/threads.h"
#include "kernels/gemm/halves.h"
#include "kernels/gemm/refuse.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

inline constexpr std::int64_t kHalvesGrain = 16384;

// The problem as its f32 row sees it.
class WidenedProblem {
 public:
  explicit WidenedProblem(const Problem& p)
      : inputs_(p.inputs.begin(), p.inputs.end()), outputs_(p.outputs.begin(), p.outputs.end()) {
    for (InferInput& input : inputs_)
      input = {{DType::f32, input.type.shape}, nullptr, input.given};
    for (TensorType& output : outputs_) output.dtype = DType::f32;
    problem_ = p;
    problem_.inputs = inputs_;
    problem_.outputs = outputs_;
  }
  WidenedProblem(const WidenedProblem&) = delete;
  WidenedProblem& operator=(const WidenedProblem&) = delete;
  void constant(std::size_t i, const Tensor* value) { inputs_[i].value = value; }
  const Problem& problem() const { return problem_; }

 private:
  std::vector<InferInput> inputs_;
  std::vector<TensorType> outputs_;
  Problem problem_;
};

inline void widen_halves_on(int threads, const Tensor& t, float* to) {
  const std::byte* from = t.bytes().data();
  parallel_for(t.numel(), threads, kHalvesGrain, [&](std::int64_t begin, std::int64_t end) {
    avx2::widen_halves(t.dtype(), from + 2 * begin, to + begin, end - begin);
  });
}

inline void narrow_halves_on(int threads, const float* from, const KernelCall& call,
                             std::size_t output) {
  std::byte* to = output_bytes(call, output);
  const DType type = call.output(output).dtype();
  parallel_for(call.output(output).numel(), threads, kHalvesGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 avx2::narrow_halves(type, from + begin, to + 2 * begin, end - begin);
               });
}

// What a row of halves prepares: the f32 row's own state, and constants in f32.
struct PreparedHalves {
  Prepared inner;
  std::vector<Tensor> constants;  // absent where an operand is not constant
};

inline Prepared prepare_widened(const Problem& p, int threads,
                                FunctionRef<Prepared(const Problem&)> f32) {
  WidenedProblem wide(p);
  auto prepared = std::make_shared<PreparedHalves>();
  prepared->constants.resize(p.inputs.size());
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    if (!p.has(i) || p.inputs[i].value == nullptr) continue;
    const Tensor& x = *p.inputs[i].value;
    Tensor& t = prepared->constants[i] = Tensor::uninitialized(DType::f32, x.shape());
    widen_halves_on(threads, x, t.mutable_data<float>().data());
    wide.constant(i, &t);
  }
  prepared->inner = f32(wide.problem());
  return prepared;
}

// A call with its operands in f32: constants as they were prepared, the others and the outputs side
// by side in what this thread keeps.
class WidenedCall {
 public:
  explicit WidenedCall(const KernelCall& call)
      : wide_(*call.problem), inputs_(call.inputs.size()), given_(call.inputs.size()) {
    const auto* prepared = static_cast<const PreparedHalves*>(call.prepared);
    const auto known = [&](std::size_t i) {
      return prepared != nullptr && i < prepared->constants.size() && prepared->constants[i];
    };
    constexpr std::int64_t kAlign = 64 / sizeof(float);
    const auto room = [](const Tensor& t) { return (t.numel() + kAlign - 1) / kAlign * kAlign; };
    std::int64_t count = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      if (call.has(i) && !known(i)) count += room(call.input(i));
    for (const Tensor& y : call.outputs) count += room(y);

    float* at = thread_scratch<float>(ScratchSlot::halves, count);
    const auto bytes_of = [](float* p) { return reinterpret_cast<std::byte*>(p); };
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (!call.has(i)) continue;
      const Tensor& x = call.input(i);
      if (known(i)) {
        given_[i] = &prepared->constants[i];
        continue;
      }
      widen_halves_on(call.threads, x, at);
      inputs_[i] = Tensor::view(DType::f32, x.shape(),
                                {bytes_of(at), static_cast<std::size_t>(x.numel()) * sizeof(float)},
                                nullptr);
      given_[i] = &inputs_[i];
      at += room(x);
    }
    for (const Tensor& y : call.outputs) {
      outputs_.push_back(
          Tensor::owned(DType::f32, y.shape(), bytes_of(at), std::make_shared<char>()));
      at += room(y);
    }
    inner_ = call;
    inner_.problem = &wide_.problem();
    inner_.inputs = given_;
    inner_.outputs = outputs_;
    inner_.prepared = prepared == nullptr ? nullptr : prepared->inner.get();
  }
  WidenedCall(const WidenedCall&) = delete;
  WidenedCall& operator=(const WidenedCall&) = delete;
  const KernelCall& call() const { return inner_; }
  const float* output(std::size_t i) const { return outputs_[i].data<float>().data(); }

 private:
  WidenedProblem wide_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<const Tensor*> given_;
  KernelCall inner_;
};

// Calls run on the widened call, then rounds.
inline void run_widened(const KernelCall& call, FunctionRef<void(const KernelCall&)> run) {
  const WidenedCall wide(call);
  run(wide.call());
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    narrow_halves_on(call.threads, wide.output(i), call, i);
}

// `f32_row` makes the row over f32 from a name. What it gives under exact is rounded twice, but
// where each output is an element of an input, or +0: kSelects.
template <KernelRow (*f32_row)(std::string_view), bool kSelects = false>
KernelRow halves_row(std::string_view name) {
  static const KernelRow inner = f32_row({});
  static const std::string promised = [] {
    std::string_view text = inner.contracts;
    if (!kSelects && text.starts_with("exact; ")) text.remove_prefix(7);
    return std::string(text) + " of f16, bf16";
  }();
  KernelRow row{.op = inner.op, .name = name, .isa = inner.isa, .contracts = promised};
  row.refuse = [](const Problem& p) -> Refusal {
    if (Refusal r = refuse_unless(p, {DType::f16, DType::bf16}, "f16 and bf16")) return r;
    for (const TensorType& y : p.outputs)
      if (y.dtype != p.input(0).dtype) return "an output is " + std::string(etalon::name(y.dtype));
    if (!kSelects && p.contract->exact()) return "promises no exact";
    return inner.refuse(WidenedProblem(p).problem());
  };
  row.run = [](const KernelCall& call) { run_widened(call, inner.run); };
  row.prepare = [](const Problem& p, int threads) {
    return prepare_widened(p, threads, [&](const Problem& wide) {
      return inner.prepare == nullptr ? nullptr : inner.prepare(wide, threads);
    });
  };
  return row;
}

}  // namespace etalon
