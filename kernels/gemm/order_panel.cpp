#include "kernels/gemm/order_panel.h"

#include <algorithm>

#include "engine/backend/definition.h"
#include "engine/core/threads.h"
#include "kernels/activation/order_functions.h"
#include "kernels/gemm/rounding_scope.h"

namespace etalon {

template <class T>
void OrderPanel<T>::apply(OrderEach op, T* to, Operand a, Operand b, Operand c, std::int64_t count,
                          std::int64_t width) const {
  const RoundingScope scope(op == OrderEach::fma ? tiles_->chains : tiles_->others);
  tiles_->each[static_cast<int>(op)](
      {.to = to, .a = a, .b = b, .c = c, .rows = count, .lanes = width});
}

template <class T>
void OrderPanel<T>::root(T* to) const {
  const RoundingScope scope(tiles_->others);
  tiles_->root(to, lanes);
}

template <class T>
const T* OrderPanel<T>::turned(const T* of) const {
  if (!dense_) return of;
  std::fill_n(turned_, n * lanes, T{0});
  for (std::int64_t lane = 0; lane < rows; ++lane)
    for (std::int64_t k = 0; k < n; ++k) turned_[k * lanes + lane] = of[lane * pitch_ + k];
  return turned_;
}

template <class T>
void OrderPanel<T>::sum_rows(const T* of, OrderTerm term, T* to) const {
  std::fill_n(to, lanes, T{0});
  std::fill_n(turned_ + n, lanes, T{0});
  for (std::int64_t lane = 0; lane < rows; ++lane) {
    std::copy_n(of + lane * pitch_, n, turned_);
    to[lane] = sum_order_line<T>(*tiles_, *program_, term, turned_, at_, stack_);
  }
}

template <class T>
void OrderPanel<T>::sum(const T* of, bool squares, T* to) const {
  const OrderTerm term = squares ? OrderTerm::result_square : OrderTerm::result;
  if (panels_->few()) return sum_rows(of, term, to);
  sum_order<T>(*tiles_, *program_, {.of = term, .weights = turned(of), .at = at_}, height_, stack_);
  std::copy_n(stack_, lanes, to);
}

template <class T>
void OrderPanel<T>::largest(T* to) const {
  if (!dense_) {
    std::copy_n(x, lanes, to);
    for (std::int64_t k = 1; k < n; ++k) each_row(OrderEach::max, to, row(to), row(x + k * lanes));
    return;
  }
  std::fill_n(to, lanes, T{0});
  const auto take = [](T& most, T v) { most = v > most || v != v ? v : most; };
  for (std::int64_t lane = 0; lane < rows; ++lane) {
    const T* p = x + lane * pitch_;
    T most[8];
    std::fill_n(most, 8, p[0]);
    std::int64_t k = 0;
    for (; k + 8 <= n; k += 8)
      for (int i = 0; i < 8; ++i) take(most[i], p[k + i]);
    for (; k < n; ++k) take(most[0], p[k]);
    for (int i = 1; i < 8; ++i) take(most[0], most[i]);
    to[lane] = most[0];
  }
}

template <class T>
void OrderPanel<T>::product(T* to) const {
  const T* terms = turned(x);
  std::copy_n(terms, lanes, to);  // 1 * x is x
  for (std::int64_t k = 1; k < n; ++k)
    each_row(OrderEach::mul, to, row(to), row(terms + k * lanes));
}

template <class T>
void OrderPanel<T>::call(Function f, T* panel) const {
  call_order_function(call_->contract(), isa_, *tiles_, f, panel, size());
}

template <class T>
void OrderPanel<T>::call_row(Function f, T* values) const {
  call_order_function(call_->contract(), isa_, *tiles_, f, values, rows);
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
      program_(prepared_order(call, static_cast<std::int64_t>(places.terms.size()), own_)),
      x_(call.input(0), call.contract(), call.threads),
      height_(order_panel_height(tiles_.width, static_cast<std::int64_t>(places.terms.size()),
                                 places.rows)),
      pitch_((static_cast<std::int64_t>(places.terms.size()) + tiles_.width - 1) / tiles_.width *
             tiles_.width),
      at_(places.terms.size()) {
  for (std::size_t k = 0; k < at_.size(); ++k)
    at_[k] = static_cast<std::int64_t>(k) * (few() ? 1 : std::int64_t{tiles_.width} << height_);
}

template <class T>
bool OrderPanels<T>::few() const {
  return places_.rows <= kFewOrderRows;
}

template <class T>
void OrderPanels<T>::run(FunctionRef<void(OrderPanel<T>&, T*)> body) const {
  const std::int64_t lanes = std::int64_t{tiles_.width} << height_;
  const auto n = static_cast<std::int64_t>(at_.size());
  const bool dense = 2 * places_.rows <= lanes;
  const std::int64_t turned = (n + 1) * lanes, size = dense ? places_.rows * pitch_ : n * lanes;
  parallel_for((places_.rows + lanes - 1) / lanes, call_.threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 OrderPanel<T> p;
                 p.lanes = lanes;
                 p.n = n;
                 p.x = thread_scratch<T>(ScratchSlot::turned,
                                         size + vectors_ * lanes + (dense ? turned : 0));
                 T* vectors = p.x + size;
                 p.turned_ = vectors + vectors_ * lanes;
                 p.dense_ = dense;
                 p.pitch_ = pitch_;
                 p.panels_ = this;
                 p.call_ = &call_;
                 p.floats_ = thread_scratch<float>(ScratchSlot::vector, 2 * size);
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
                   pack(p);
                   {
                     const RoundingScope scope(tiles_.others);
                     tiles_.enter(p.floats_, p.x, size);
                   }
                   body(p, vectors);
                 }
               });
}

template <class T>
void OrderPanels<T>::pack(const OrderPanel<T>& p) const {
  if (!p.dense_) return pack_order_terms(tiles_, x_.data(), places_, p.first, p.lanes, p.floats_);
  for (std::int64_t lane = 0; lane < p.rows; ++lane) {
    float* to = p.floats_ + lane * pitch_;
    const float* from = x_.data() + places_.first(p.first + lane);
    for (std::int64_t k = 0; k < p.n; k += places_.term_run)
      std::copy_n(from + places_.terms[static_cast<std::size_t>(k)], places_.term_run, to + k);
    std::fill_n(to + p.n, pitch_ - p.n, 0.0F);
  }
}

template <class T>
void OrderPanels<T>::store(const OrderPanel<T>& p) const {
  float *left = p.floats_, *dense = left + p.size();
  const std::int64_t n = p.n, lanes = p.lanes, run = places_.term_run;
  const auto place = [&](std::int64_t lane) { return places_.first(p.first + lane); };
  const auto term = [&](std::int64_t k) { return places_.terms[static_cast<std::size_t>(k)]; };
  if (!leave_order(call_, tiles_, p.x, left, p.size())) {
    for (std::int64_t lane = 0; lane < p.rows; ++lane)
      for (std::int64_t k = 0; k < n; ++k)
        store_element(call_, 0, place(lane) + term(k), static_cast<double>(p.x[p.at(k, lane)]));
    return;
  }
  float* y = reinterpret_cast<float*>(const_cast<std::byte*>(call_.outputs[0].bytes().data()));
  const auto rows_to_places = [&](const float* from, std::int64_t pitch) {
    for (std::int64_t lane = 0; lane < p.rows; ++lane)
      for (std::int64_t k = 0; k < n; k += run)
        std::copy_n(from + lane * pitch + k, run, y + place(lane) + term(k));
  };
  if (p.dense_) return rows_to_places(left, pitch_);
  if (p.first / places_.run == (p.first + p.rows - 1) / places_.run) {
    float* to = y + place(0);
    for (std::int64_t k = 0; k < n; ++k) std::copy_n(left + k * lanes, p.rows, to + term(k));
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
  rows_to_places(dense, n);
}
template class OrderPanels<float>;
template class OrderPanels<double>;

Refusal refuse_order_panels(const Contract& contract, std::int64_t n) {
  if (n > kMostPanelTerms) return "takes rows of at most 2^16 elements";
  if (n == 0) return "takes rows that hold an element";
  return refuse_order(contract.order, n);
}

}  // namespace etalon
