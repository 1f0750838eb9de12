// Definitions: what the bits of an op are, written once.
//
// A definition is a struct D with
//   static constexpr std::string_view op;      // "conv"
//   static constexpr bool rounded_once;        // true: one rounding per output under every
//   contract struct Plan;                               // geometry and sources, made from a call
//   static Plan plan(const KernelCall&);
//   static std::int64_t slices(const Plan&);   // pieces that are computed apart: an output, a row
//   template <class A, class Out>
//   static void slice(A& a, const Plan&, std::int64_t i, Out& out);
// where slice calls out(output, index, value), or out.integer(output, index, n) for positions,
// and A is a number system (engine/numerics/contract_arithmetic.h, real.h, any_order.h). A slice
// reads elements by a.input(source[i]). From this one text follow
//   - the bits of every contract (ContractArithmetic),
//   - the correctly rounded result and the truth (RealF64, then RealBig until the rounding is
//   decided),
//   - the largest error that any order of summation can cause (AnyOrder).
#pragma once

#include <mutex>

#include "engine/backend/kernel.h"
#include "engine/core/threads.h"
#include "engine/numerics/any_order.h"
#include "engine/numerics/contract_arithmetic.h"
#include "engine/numerics/element.h"
#include "engine/numerics/real.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// The paths of every type and rounding, compiled once (definition.cpp).
double load_element(DType dtype, const std::byte* bytes, std::int64_t i, bool flush);
// Rounds once into the output's stored format, as the contract says, NaN canonical.
void store_element(const KernelCall& call, std::size_t output, std::int64_t index, double value);
// Stores a value that is of the stored format already, but for the contract's flush.
void store_rounded(const KernelCall& call, std::size_t output, std::int64_t index, double value);
// Stores an index or another integer, which no contract rounds.
void store_integer(const KernelCall& call, std::size_t output, std::int64_t index,
                   std::int64_t value);
// The format an output is rounded to: its own, or the contract's `store` where that is narrower.
DType stored_format(DType output, const Contract& contract);
[[noreturn]] void throw_undecided(const KernelCall& call, std::int64_t slice);
[[noreturn]] void throw_no_truth(const KernelCall& call);
// The contract with what it leaves to the inputs filled in: what a tensor core multiplies.
Contract resolved_contract(const KernelCall& call);
// What every definition refuses: f64 tensors under a narrower accumulator would lose bits unasked.
Refusal refuse_definition(const Problem& problem);

// The elements of an input as doubles, flushed when the contract flushes.
class Source {
 public:
  Source() = default;
  Source(const KernelCall& call, std::size_t input) {
    if (!call.has(input)) return;
    const Tensor& t = call.input(input);
    bytes_ = t.bytes().data();
    dtype_ = t.dtype();
    flush_ = call.contract().subnormals == Subnormals::flush;
  }
  ETALON_HD explicit operator bool() const { return bytes_ != nullptr; }
  ETALON_HD double operator[](std::int64_t i) const {
    if (dtype_ == DType::f32 && !flush_)
      return static_cast<double>(reinterpret_cast<const float*>(bytes_)[i]);
#if defined(__CUDA_ARCH__)
    const double x = load_as_double(dtype_, bytes_, i);
    return flush_ ? round_to(x, dtype_, Round::nearest_even, Subnormals::flush) : x;
#else
    return load_element(dtype_, bytes_, i, flush_);
#endif
  }

 private:
  const std::byte* bytes_ = nullptr;
  DType dtype_ = DType::f32;
  bool flush_ = false;
};

template <class Ops>
class ContractOut {
 public:
  using A = ContractArithmetic<Ops>;
  explicit ContractOut(const KernelCall& call) : call_(call) {}
  void operator()(int output, std::int64_t index, typename A::V value) const {
    store_element(call_, static_cast<std::size_t>(output), index, static_cast<double>(value));
  }
  void integer(int output, std::int64_t index, std::int64_t value) const {
    store_integer(call_, static_cast<std::size_t>(output), index, value);
  }

 private:
  const KernelCall& call_;
};

// Rounds real values; a value whose rounding is not decided leaves the slice to the next precision.
template <class A>
class RealOut {
 public:
  RealOut(const KernelCall& call, A& a) : call_(call), a_(a) {}
  void operator()(int output, std::int64_t index, const typename A::V& value) {
    const auto o = static_cast<std::size_t>(output);
    const Contract& c = call_.contract();
    Tensor& t = call_.outputs[o];
    const auto r = a_.round(value, stored_format(t.dtype(), c), c.round);
    if (!r.decided) {
      undecided = true;
      return;
    }
    store_rounded(call_, o, index, r.value);
    if (call_.truth.empty() || !call_.truth[o]) return;
    // The truth is wanted to 2^-10 ULP of the f32 result.
    if (is_finite(r.value) && a_.radius(value) > ulp_of(r.value, DType::f32) * 0x1p-11) {
      undecided = true;
      return;
    }
    reinterpret_cast<double*>(const_cast<std::byte*>(call_.truth[o].bytes().data()))[index] =
        canonical(a_.midpoint(value));
  }
  void integer(int output, std::int64_t index, std::int64_t value) const {
    store_integer(call_, static_cast<std::size_t>(output), index, value);
  }
  bool undecided = false;

 private:
  const KernelCall& call_;
  A& a_;
};

template <class D, class A>
bool real_slice(const KernelCall& call, const typename D::Plan& plan, std::int64_t i) {
  A a;
  a.rounding = call.contract().round;
  RealOut<A> out(call, a);
  D::slice(a, plan, i, out);
  return !a.undecided && !out.undecided;
}

// Limits of 2304 bits: the sum of f32 products is exact in about 600, that of f64 goes through the
// superaccumulator, so what is still undecided is a function within 2^-2000 of a midpoint: a fault.
template <class D>
void correctly_rounded_slice(const KernelCall& call, const typename D::Plan& plan, std::int64_t i) {
  if (real_slice<D, RealF64>(call, plan, i)) return;
  if (real_slice<D, RealBig<4>>(call, plan, i)) return;
  if (real_slice<D, RealBig<10>>(call, plan, i)) return;
  if (real_slice<D, RealBig<36>>(call, plan, i)) return;
  throw_undecided(call, i);
}

// In the contract's own arithmetic; at(i) is the i-th slice to compute. Not compiled for the ops
// that round once under every contract.
template <class D, class At>
void run_contract(const KernelCall& call, const typename D::Plan& plan, std::int64_t slices,
                  const At& at) {
  const Contract c = resolved_contract(call);
  const auto with = [&]<class Ops>() {
    parallel_for(slices, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      ContractArithmetic<Ops> a(c);
      ContractOut<Ops> out(call);
      for (std::int64_t i = begin; i < end; ++i) D::slice(a, plan, at(i), out);
    });
  };
  const bool native = c.acc == DType::f32 && c.fma && c.round == Round::nearest_even &&
                      c.subnormals == Subnormals::keep;
  native ? with.template operator()<NativeF32Ops>() : with.template operator()<SoftOps>();
}

// Computes the listed slices, or all where the list is a null span.
template <class D>
void run_definition(const KernelCall& call, std::span<const std::int64_t> listed = {}) {
  const auto plan = D::plan(call);
  const Contract& c = call.contract();
  const bool all = listed.data() == nullptr;
  const std::int64_t slices = all ? D::slices(plan) : static_cast<std::int64_t>(listed.size());
  const auto at = [&](std::int64_t i) { return all ? i : listed[static_cast<std::size_t>(i)]; };
  if (c.exact() || D::rounded_once || !call.truth.empty()) {
    if (!c.exact() && !D::rounded_once) throw_no_truth(call);
    parallel_for(slices, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) correctly_rounded_slice<D>(call, plan, at(i));
    });
    return;
  }
  if constexpr (!D::rounded_once) run_contract<D>(call, plan, slices, at);
}

// Collects values and bounds. A result stored in a format narrower than the accumulator is rounded
// once more, and may overflow only there; positions and counts have no error.
class BoundOut {
 public:
  BoundOut(const KernelCall& call, const AnyOrderModel& model, const AnyOrder& a,
           std::vector<OutputBound>& found)
      : call_(call), model_(model), a_(a), found_(found) {}
  void operator()(int output, std::int64_t index, const AnyOrder::V& v) const {
    const DType stored = stored_format(
        call_.problem->outputs[static_cast<std::size_t>(output)].dtype, call_.contract());
    double bound = a_.error(v);
    if (is_floating(stored) && format_of(stored).precision < format_of(model_.acc).precision) {
      const double unit = ulp_of(abs_of(v.mid) + bound, stored);
      if (model_.flush && abs_of(v.mid) - bound < smallest_normal(stored))
        bound += smallest_normal(stored);
      bound += model_.round == Round::nearest_even ? unit / 2 : unit;
      if (is_finite(v.mid) && abs_of(v.mid) + bound > largest_finite(stored)) bound = kInfinity;
    }
    found_.push_back({output, index, v.mid, bound, v.n});
  }
  void integer(int output, std::int64_t index, std::int64_t n) const {
    found_.push_back({output, index, static_cast<double>(n), 0, 1});
  }

 private:
  const KernelCall& call_;
  const AnyOrderModel& model_;
  const AnyOrder& a_;
  std::vector<OutputBound>& found_;
};

template <class D>
void bound_definition(const KernelCall& call, const AnyOrderModel& model,
                      std::span<const std::int64_t> slices, std::vector<OutputBound>& result) {
  const auto plan = D::plan(call);
  std::mutex joining;
  parallel_for(static_cast<std::int64_t>(slices.size()), call.threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<OutputBound> found;
                 for (std::int64_t i = begin; i < end; ++i) {
                   AnyOrder a(model);
                   BoundOut out(call, model, a, found);
                   D::slice(a, plan, slices[static_cast<std::size_t>(i)], out);
                 }
                 const std::scoped_lock lock(joining);
                 result.insert(result.end(), found.begin(), found.end());
               });
}

// The row of a definition: it honours every contract, slowly.
template <class D>
KernelRow definition_row(std::string_view name) {
  return {
      .op = D::op,
      .name = name,
      .contracts = "all",
      .refuse = refuse_definition,
      .run = [](const KernelCall& call) { run_definition<D>(call); },
      .slices = [](const KernelCall& call) { return D::slices(D::plan(call)); },
      .run_slices = [](const KernelCall& call,
                       std::span<const std::int64_t> slices) { run_definition<D>(call, slices); },
      .bound = bound_definition<D>};
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
