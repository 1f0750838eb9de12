#include "kernels/gemm/order_panel.h"

#include <algorithm>

#include "engine/backend/definition.h"
#include "engine/core/threads.h"
#include "kernels/activation/order_functions.h"
#include "kernels/gemm/rounding_scope.h"

namespace etalon {

template <class T>
void OrderPanel<T>::each(OrderEach op, T* to, Operand a, Operand b, std::int64_t count,
                         Operand c) const {
  const RoundingScope scope(op == OrderEach::fma ? tiles_->chains : tiles_->others);
  tiles_->each[static_cast<int>(op)](
      {.to = to, .a = a, .b = b, .c = c, .rows = count, .lanes = lanes});
}

template <class T>
void OrderPanel<T>::root(T* to) const {
  const RoundingScope scope(tiles_->others);
  tiles_->root(to, lanes);
}

template <class T>
void OrderPanel<T>::sum(const T* of, bool squares, T* to) const {
  sum_order<T>(
      *tiles_, *program_,
      {.of = squares ? OrderTerm::result_square : OrderTerm::result, .weights = of, .at = at_},
      height_, stack_);
  std::copy_n(stack_, lanes, to);
}

template <class T>
void OrderPanel<T>::largest(T* to) const {
  std::copy_n(x, lanes, to);
  for (std::int64_t k = 1; k < n; ++k)
    each(OrderEach::max, to, by_lane(to), by_lane(x + k * lanes), 1);
}

template <class T>
void OrderPanel<T>::call(Function f, T* values, std::int64_t count) const {
  const Contract& c = call_->contract();
  if (2 * rows > lanes) return call_order_function(c, isa_, *tiles_, f, values, count * lanes);
  // Most lanes repeat a row: those that do not, side by side.
  std::vector<T> dense(static_cast<std::size_t>(count * rows));
  for (std::int64_t k = 0; k < count; ++k)
    std::copy_n(values + k * lanes, rows, dense.data() + k * rows);
  call_order_function(c, isa_, *tiles_, f, dense.data(), count * rows);
  for (std::int64_t k = 0; k < count; ++k)
    std::copy_n(dense.data() + k * rows, rows, values + k * lanes);
}
template class OrderPanel<float>;
template class OrderPanel<double>;

template <class T>
OrderPanels<T>::OrderPanels(const KernelCall& call, Isa isa, const OrderPlaces& places, int vectors)
    : call_(call),
      isa_(isa),
      tiles_(order_tiles<T>(isa, call.contract())),
      places_(places),
      vectors_(vectors),
      program_(
          compile_order(call.contract().order, static_cast<std::int64_t>(places.terms.size()))),
      x_(call.input(0), call.contract(), call.threads),
      height_(order_panel_height(tiles_.width, static_cast<std::int64_t>(places.terms.size()),
                                 places.rows)),
      at_(places.terms.size()) {
  for (std::size_t k = 0; k < at_.size(); ++k)
    at_[k] = static_cast<std::int64_t>(k) * (std::int64_t{tiles_.width} << height_);
}

template <class T>
void OrderPanels<T>::run(FunctionRef<void(OrderPanel<T>&, T*)> body) const {
  const std::int64_t lanes = std::int64_t{tiles_.width} << height_;
  const auto n = static_cast<std::int64_t>(at_.size());
  const std::int64_t size = n * lanes;
  parallel_for((places_.rows + lanes - 1) / lanes, call_.threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 auto* floats = thread_scratch<float>(ScratchSlot::vector, 2 * size);
                 T* values = thread_scratch<T>(ScratchSlot::turned, size + vectors_ * lanes);
                 OrderPanel<T> p;
                 p.lanes = lanes;
                 p.n = n;
                 p.x = values;
                 p.panels_ = this;
                 p.call_ = &call_;
                 p.floats_ = floats;
                 p.isa_ = isa_;
                 p.tiles_ = &tiles_;
                 p.program_ = &program_;
                 p.at_ = at_.data();
                 p.height_ = height_;
                 p.stack_ = thread_scratch<T>(
                     ScratchSlot::tile, program_.depth * kOrderRows * std::int64_t{tiles_.width});
                 for (std::int64_t i = begin; i < end; ++i) {
                   p.first = i * lanes;
                   p.rows = std::min(lanes, places_.rows - p.first);
                   pack_order_terms(tiles_, x_.data(), places_, p.first, lanes, floats);
                   {
                     const RoundingScope scope(tiles_.others);
                     tiles_.enter(floats, p.x, size);
                   }
                   body(p, values + size);
                 }
               });
}

template <class T>
void OrderPanels<T>::store(const OrderPanel<T>& p) const {
  float *left = p.floats_, *dense = left + p.n * p.lanes;
  const std::int64_t n = p.n, lanes = p.lanes, run = places_.term_run;
  const auto place = [&](std::int64_t lane) { return places_.first(p.first + lane); };
  const auto term = [&](std::int64_t k) { return places_.terms[static_cast<std::size_t>(k)]; };
  if (!leave_order(call_, tiles_, p.x, left, n * lanes)) {
    for (std::int64_t lane = 0; lane < p.rows; ++lane)
      for (std::int64_t k = 0; k < n; ++k)
        store_element(call_, 0, place(lane) + term(k), static_cast<double>(p.x[k * lanes + lane]));
    return;
  }
  float* y = reinterpret_cast<float*>(const_cast<std::byte*>(call_.outputs[0].bytes().data()));
  if (p.first / places_.run == (p.first + p.rows - 1) / places_.run) {
    float* to = y + place(0);
    for (std::int64_t k = 0; k < n; ++k) std::copy_n(left + k * lanes, p.rows, to + term(k));
    return;
  }
  if (run < tiles_.block) {
    for (std::int64_t lane = 0; lane < p.rows; ++lane)
      for (std::int64_t k = 0; k < n; ++k) y[place(lane) + term(k)] = left[k * lanes + lane];
    return;
  }
  // Turned back into dense[lane][n].
  std::int64_t k = 0;
  for (; k + tiles_.block <= n; k += tiles_.block) {
    std::int64_t from[64];
    for (int i = 0; i < tiles_.block; ++i) from[i] = (k + i) * lanes;
    tiles_.turn(left, from, p.rows, dense + k, n);
  }
  for (; k < n; ++k)
    for (std::int64_t lane = 0; lane < p.rows; ++lane) dense[lane * n + k] = left[k * lanes + lane];
  for (std::int64_t lane = 0; lane < p.rows; ++lane)
    for (k = 0; k < n; k += run) std::copy_n(dense + lane * n + k, run, y + place(lane) + term(k));
}
template class OrderPanels<float>;
template class OrderPanels<double>;

Refusal refuse_order_panels(const Contract& contract, std::int64_t n) {
  if (n > kMostPanelTerms) return "takes rows of at most 2^16 elements";
  if (n == 0) return "takes rows that hold an element";
  return refuse_order(contract.order, n);
}

}  // namespace etalon
