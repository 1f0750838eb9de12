#include "engine/backend/definition.h"

#include "engine/core/error.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

double load_element(DType dtype, const std::byte* bytes, std::int64_t i, bool flush) {
  const double x = load_as_double(dtype, bytes, i);
  return flush ? round_to(x, dtype, Round::nearest_even, Subnormals::flush) : x;
}

void store_element(const KernelCall& call, std::size_t output, std::int64_t index, double value) {
  const Contract& c = call.contract();
  const Tensor& t = call.outputs[output];
  const double r = round_to(value, stored_format(t.dtype(), c), c.round, c.subnormals);
  store_from_double(t.dtype(), const_cast<std::byte*>(t.bytes().data()), index, r);
}

void store_rounded(const KernelCall& call, std::size_t output, std::int64_t index, double value) {
  const Contract& c = call.contract();
  const Tensor& t = call.outputs[output];
  const double kept =
      round_to(value, stored_format(t.dtype(), c), Round::nearest_even, c.subnormals);
  store_from_double(t.dtype(), const_cast<std::byte*>(t.bytes().data()), index, kept);
}

void store_integer(const KernelCall& call, std::size_t output, std::int64_t index,
                   std::int64_t value) {
  const Tensor& t = call.outputs[output];
  visit_dtype(t.dtype(), [&](auto type) {
    using T = decltype(type);
    auto* to = reinterpret_cast<T*>(const_cast<std::byte*>(t.bytes().data()));
    if constexpr (std::is_integral_v<T>) {
      to[index] = static_cast<T>(value);
    } else {
      throw internal_error("an integer was stored in a tensor of {}", name(t.dtype()));
    }
  });
}

DType stored_format(DType output, const Contract& contract) {
  if (!is_floating(output)) return output;
  return info(contract.store).precision_bits < info(output).precision_bits ? contract.store
                                                                           : output;
}

void throw_undecided(const KernelCall& call, std::int64_t slice) {
  throw internal_error("{}: the rounding of slice {} is undecided at 2304 bits",
                       call.problem->op->name, slice);
}

void throw_no_truth(const KernelCall& call) {
  throw internal_error("{}: a truth is asked for under {}", call.problem->op->name,
                       short_name(call.contract()));
}

Contract resolved_contract(const KernelCall& call) {
  Contract c = call.contract();
  if (c.tensor_core() && c.order.format == TensorCoreFormat::of_input)
    c.order.format = tensor_core_format(call.input(0).dtype());
  return c;
}

Refusal refuse_definition(const Problem& problem) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype == DType::f64 && !problem.contract->exact() &&
        (problem.contract->acc != DType::f64 || problem.contract->store != DType::f64))
      return "input " + std::to_string(i) + " is f64: the contract must say acc=f64,store=f64";
  return std::nullopt;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
