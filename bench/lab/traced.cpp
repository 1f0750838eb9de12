#include "bench/lab/traced.h"

#include "engine/numerics/contract_arithmetic_inl.h"

namespace etalon {
template class ContractArithmetic<lab::TracedOps>;
}

namespace etalon::lab {
namespace {

Traced record(NodeKind kind, double value, double born, int a, int b = -1, int c = -1) {
  Recorder* r = TracedOps::recorder;
  if (r == nullptr) return {value, -1};
  return {value, r->add({kind, a, b, c, value, is_finite(born) ? born : 0})};
}

}  // namespace

Recorder* TracedOps::recorder = nullptr;

int Recorder::add(const TraceNode& node) {
  if (nodes.size() >= kMostNodes) {
    full = true;
    return -1;
  }
  nodes.push_back(node);
  return static_cast<int>(nodes.size()) - 1;
}

void Recorder::clear() {
  nodes.clear();
  full = false;
}

Traced TracedOps::input(double x) const {
  const double v = ops_.input(x);
  return record(NodeKind::leaf, v, v - x, -1);
}

Traced TracedOps::add(V a, V b) const {
  const double v = ops_.add(a.value, b.value);
  const TwoDoubles exact = two_sum(a.value, b.value);
  return record(NodeKind::add, v, (v - exact.value) - exact.error, a.operand(), b.operand());
}

Traced TracedOps::mul(V a, V b) const {
  const double v = ops_.mul(a.value, b.value);
  const TwoDoubles exact = two_prod(a.value, b.value);
  return record(NodeKind::mul, v, (v - exact.value) - exact.error, a.operand(), b.operand());
}

Traced TracedOps::div(V a, V b) const {
  const double v = ops_.div(a.value, b.value);
  const double residual = fma_f64(-v, b.value, a.value);
  return record(NodeKind::div, v, -residual / b.value, a.operand(), b.operand());
}

Traced TracedOps::sqrt(V a) const {
  const double v = ops_.sqrt(a.value);
  const double residual = fma_f64(-v, v, a.value);
  return record(NodeKind::sqrt, v, v == 0 ? 0 : -residual / (2 * v), a.operand());
}

Traced TracedOps::fma(V a, V b, V c) const {
  if (!fused_) return add(mul(a, b), c);
  const double v = ops_.fma(a.value, b.value, c.value);
  // p + e is the product, s + t the sum of p and c: v - (s + t + e), largest first.
  const TwoDoubles p = two_prod(a.value, b.value);
  const TwoDoubles s = two_sum(p.value, c.value);
  return record(NodeKind::fma, v, ((v - s.value) - s.error) - p.error, a.operand(), b.operand(),
                c.operand());
}

Traced TracedOps::block(V before, double after, double born) const {
  return record(NodeKind::block, after, born, before.operand());
}

double TracedOps::origin(V v) const {
  if (recorder == nullptr || v.node < 0) return v.value;
  return v.value - recorder->nodes[static_cast<std::size_t>(v.node)].born;
}

}  // namespace etalon::lab
