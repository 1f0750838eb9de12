// Numbers that remember how they were made: the summation tree that the lab draws.
//
// TracedOps is a set of operations for ContractArithmetic, so that any definition, run over it,
// leaves its computation as a list of nodes: the same text, the same rounding, nothing redrawn by
// hand. The error born at a node is what its own rounding did to the values that reached it, exact
// but for one rounding to f64 (f32 and narrower formats: always exact).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/numerics/contract_arithmetic.h"

namespace etalon::lab {

// block: a tensor core's step, all of a block's products and `a` added in one adder; what is born
// there holds the rounding of the factors too.
enum class NodeKind : std::uint8_t { leaf, add, mul, fma, div, sqrt, block };

struct TraceNode {
  NodeKind kind = NodeKind::leaf;
  int a = -1, b = -1, c = -1;  // operands (Traced::operand); fma is a * b + c
  double value = 0;
  double born = 0;  // value - exact(operands)
};

// What is recorded between two calls of clear(). One thread only.
class Recorder {
 public:
  // Past this many nodes nothing is kept, and `full` says so: a drawing of more helps nobody.
  static constexpr std::size_t kMostNodes = 200'000;
  int add(const TraceNode& node);
  void clear();
  std::vector<TraceNode> nodes;
  bool full = false;
};

struct Traced {
  double value = 0;
  int node = -1;         // by place in the list; -1: a constant that nothing made
  bool negated = false;  // the node's value with its sign turned: no operation, no node

  Traced() = default;
  explicit Traced(double v) : value(v) {}
  Traced(double v, int n) : value(v), node(n) {}
  // How a node names what it reads: its place; place p with the sign turned as -2 - p; -1: none.
  int operand() const { return node >= 0 && negated ? -2 - node : node; }
  explicit operator double() const { return value; }
  Traced operator-() const {
    Traced other = *this;
    other.value = -value;
    other.negated = !negated;
    return other;
  }
  friend bool operator<(Traced a, Traced b) { return a.value < b.value; }
  friend bool operator<(Traced a, int b) { return a.value < b; }
  friend bool operator==(Traced a, Traced b) { return a.value == b.value; }
  friend bool operator==(Traced a, int b) { return a.value == b; }
  friend bool operator!=(Traced a, Traced b) { return !(a.value == b.value); }
};

class TracedOps {
 public:
  using V = Traced;
  explicit TracedOps(const Contract& c) : ops_(c), fused_(c.fma) {}

  // Where operations are recorded; set before a definition runs.
  static Recorder* recorder;

  V input(double x) const;
  V round(double x) const { return input(x); }
  V add(V a, V b) const;
  V sub(V a, V b) const { return add(a, -b); }
  V mul(V a, V b) const;
  V div(V a, V b) const;
  V sqrt(V a) const;
  V fma(V a, V b, V c) const;
  V block(V before, double after, double born) const;
  // What an input was before it was rounded to the accumulator's format.
  double origin(V v) const;

 private:
  SoftOps ops_;
  bool fused_;
};

}  // namespace etalon::lab
