// Rows side by side, in every arithmetic of a contract: ops that compute something of each row of
// many (norms, softmax, log-sum-exp) are written over panels, once for all contracts.
//
// A panel holds term k of row r at [k][lane of r]: a lane is a row. Each operation is one of the
// contract's on every element; a sum is the contract's order over k (order_reduce.h). So a lane
// does what the definition does to its row, and no row meets another. Where there are fewer rows
// than half of a panel's lanes, the panel lies row by row, and only what is summed is turned; of
// one row or two not even that: a vector of terms that lie side by side holds the next one in its
// first lane.
#pragma once

#include <optional>
#include <vector>

#include "engine/numerics/contract_arithmetic.h"
#include "kernels/gemm/order_reduce.h"

namespace etalon {

template <class T>
class OrderPanels;

template <class T>
class OrderPanel {
 public:
  using Operand = typename OrderOperands<T>::Operand;

  std::int64_t first = 0, rows = 0;  // rows that are there; later lanes repeat the last, or are +0
  std::int64_t lanes = 0, n = 0;
  T* x = nullptr;  // values of acc, as at() places them

  std::int64_t at(std::int64_t k, std::int64_t lane) const {
    return dense_ ? lane * pitch_ + k : k * lanes + lane;
  }
  std::int64_t size() const { return dense_ ? rows * pitch_ : n * lanes; }  // elements of a panel

  // Operands of each(): a panel; a number for each row; one for each term, padded to pitch(); one.
  Operand terms(const T* p) const { return {p, dense_ ? pitch_ : lanes, false}; }
  Operand by_lane(const T* p) const { return dense_ ? Operand{p, 1, true} : Operand{p, 0, false}; }
  Operand by_term(const T* p) const { return dense_ ? Operand{p, 0, false} : Operand{p, 1, true}; }
  static Operand number(const T& v) { return {&v, 0, true}; }
  // And of each_row().
  static Operand row(const T* p) { return {p, 0, false}; }

  void each(OrderEach op, T* to, Operand a, Operand b, Operand c = {}) const {
    apply(op, to, a, b, c, dense_ ? rows : n, dense_ ? pitch_ : lanes);
  }
  // What each row has one of, [lanes].
  void each_row(OrderEach op, T* to, Operand a, Operand b, Operand c = {}) const {
    apply(op, to, a, b, c, 1, lanes);
  }
  void root(T* to) const;
  // Of a panel, or its squares, into to[lane].
  void sum(const T* of, bool squares, T* to) const;
  // The largest of each row of x; NaN where one is NaN.
  void largest(T* to) const;
  // The product of each row of x, from the left.
  void product(T* to) const;
  // f of each element of a panel, of each row's number.
  void call(Function f, T* panel) const;
  void call_row(Function f, T* values) const;
  // x as output 0, in the places of input 0.
  void store() const { panels_->store(*this); }

 private:
  template <class>
  friend class OrderPanels;
  void apply(OrderEach op, T* to, Operand a, Operand b, Operand c, std::int64_t count,
             std::int64_t width) const;
  const T* turned(const T* of) const;  // [n][lanes]
  void sum_rows(const T* of, OrderTerm term, T* to) const;

  const OrderPanels<T>* panels_ = nullptr;
  bool dense_ = false;
  std::int64_t pitch_ = 0;
  T* turned_ = nullptr;
  const KernelCall* call_ = nullptr;
  float* floats_ = nullptr;  // [2][n][lanes]
  Isa isa_ = Isa::avx2;
  const OrderTiles<T>* tiles_ = nullptr;
  const OrderProgram* program_ = nullptr;
  const std::int64_t* at_ = nullptr;  // k * lanes; of one row or two k
  int height_ = 0;
  T* stack_ = nullptr;
};

template <class T>
class OrderPanels {
 public:
  // Rows of input 0, summed in the contract's order, which prepare_panels compiled if the call has
  // something prepared; `vectors` numbers for each row beside its terms.
  OrderPanels(const KernelCall& call, Isa isa, const OrderPlaces& places, int vectors);

  const OrderTiles<T>& tiles() const { return tiles_; }
  std::int64_t pitch() const { return pitch_; }  // n, to whole vectors
  T constant(double x) const { return static_cast<T>(SoftOps(call_.contract()).round(x)); }
  // What input i holds, as values of acc.
  OrderOperand<T> operand(std::size_t i) const {
    return OrderOperand<T>(call_.input(i), tiles_, call_.contract(), call_.threads);
  }

  // body(panel, vectors [vectors][lanes]) for each panel.
  void run(FunctionRef<void(OrderPanel<T>& panel, T* vectors)> body) const;

 private:
  friend class OrderPanel<T>;
  bool few() const;  // so few rows that each is summed by itself
  void pack(const OrderPanel<T>& p) const;
  void store(const OrderPanel<T>& p) const;

  const KernelCall& call_;
  const Isa isa_;
  const OrderTiles<T>& tiles_;
  const OrderPlaces places_;
  const int vectors_;
  OrderProgram own_;
  const OrderProgram& program_;
  OrderSource x_;
  int height_ = 0;
  std::int64_t pitch_ = 0;
  std::vector<std::int64_t> at_;
};

// Runs f with a T: double under acc=f64, else float.
template <class F>
void with_accumulator(const Contract& contract, F&& f) {
  if (contract.acc == DType::f64)
    f(double{});
  else
    f(float{});
}
template <class T>
const OrderTiles<T>& order_tiles(Isa isa, const Contract& contract) {
  if constexpr (sizeof(T) == sizeof(double))
    return order_tiles_f64(isa, contract);
  else
    return order_tiles_f32(isa, contract);
}

// Panels hold all terms of their rows.
inline constexpr std::int64_t kMostPanelTerms = std::int64_t{1} << 16;
Refusal refuse_order_panels(const Contract& contract, std::int64_t n);

}  // namespace etalon
