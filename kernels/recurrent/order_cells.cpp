#include "kernels/recurrent/order_cells.h"

#include <algorithm>
#include <vector>

#include "engine/core/threads.h"
#include "kernels/gemm/order_panel.h"
#include "kernels/gemm/rounding_scope.h"
#include "kernels/recurrent/definition.h"
#include "kernels/recurrent/order_cell_functions.h"

namespace etalon {
namespace {

// Weights by panels of units: [direction][gate][panel][k][width], the terms of x first. As the
// accumulator's f32, or for f64 as the f32 that they are: they are read at each step, and half as
// many bytes of them.
struct CellWeights {
  std::vector<float> values;
};

std::int64_t weight_row(const RecurrentGeometry& g, std::int64_t d, std::int64_t q,
                        std::int64_t j) {
  return (d * g.gates + g.block_of[static_cast<std::size_t>(q)]) * g.hidden + j;
}

template <class T>
CellWeights pack_cells(const RecurrentGeometry& g, const OrderTiles<T>& tiles, const Tensor& of_x,
                       const Tensor& of_h, const Contract& contract, int threads) {
  using Weights = std::conditional_t<std::is_same_v<T, double>, OrderSource, OrderOperand<float>>;
  const auto weights = [&](const Tensor& t) {
    if constexpr (std::is_same_v<T, double>)
      return Weights(t, contract, threads);
    else
      return Weights(t, tiles, contract, threads);
  };
  const Weights w = weights(of_x), r = weights(of_h);
  const std::int64_t width = tiles.width, k = g.inputs + g.hidden;
  const std::int64_t panels = (g.hidden + width - 1) / width,
                     items = g.directions * g.gates * panels;
  CellWeights packed;
  packed.values.assign(static_cast<std::size_t>(items * k * width), 0.0F);
  parallel_for(items, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      float* to = packed.values.data() + item * k * width;
      const std::int64_t panel = item % panels, q = item / panels % g.gates;
      const std::int64_t units = std::min(width, g.hidden - panel * width);
      for (std::int64_t lane = 0; lane < units; ++lane) {
        const std::int64_t row = weight_row(g, item / panels / g.gates, q, panel * width + lane);
        for (std::int64_t i = 0; i < g.inputs; ++i)
          to[i * width + lane] = w.data()[row * g.inputs + i];
        for (std::int64_t i = 0; i < g.hidden; ++i)
          to[(g.inputs + i) * width + lane] = r.data()[row * g.hidden + i];
      }
    }
  });
  return packed;
}

// What a call's threads share: weights, biases and programs.
template <class T>
class Cells {
 public:
  Cells(const KernelCall& call, Isa isa, const RecurrentPlan& plan)
      : call_(call),
        isa_(isa),
        p_(plan),
        g_(plan.g),
        tiles_(order_tiles<T>(isa, call.contract())),
        x_(call.input(0), tiles_, call.contract(), call.threads),
        apart_(g_.kind == CellKind::gru && p_.linear_before_reset),
        both_(compile_order(call.contract().order, g_.inputs + g_.hidden)),
        of_x_(program_of(apart_, g_.inputs)),
        of_h_(program_of(apart_, g_.hidden)),
        panels_((g_.hidden + tiles_.width - 1) / tiles_.width),
        pitch_(panels_ * tiles_.width),
        one_(static_cast<T>(SoftOps(call.contract()).round(1))),
        stored_(stored_format(call.output(0).dtype(), call.contract())),
        enters_(
            !holds(call.contract(), stored_) ||
            (p_.cell_clip > 0 && SoftOps(call.contract()).round(p_.cell_clip) != p_.cell_clip)) {
    weights_ = static_cast<const CellWeights*>(call.prepared);
    if (weights_ == nullptr) {
      own_ = pack_cells<T>(g_, tiles_, call.input(1), call.input(2), call.contract(), call.threads);
      weights_ = &own_;
    }
    if (p_.b) pack_biases();
    if (p_.p) pack_peepholes();
  }

  // Rows [first, last) of the batch in direction d.
  void run(std::int64_t d, std::int64_t first, std::int64_t last) const;

 private:
  using Values = std::vector<T>;
  OrderProgram program_of(bool used, std::int64_t terms) const {
    return used ? compile_order(call_.contract().order, terms) : OrderProgram{};
  }
  std::int64_t k() const { return g_.inputs + g_.hidden; }
  const float* weights(std::int64_t d, std::int64_t q) const {
    return weights_->values.data() + (d * g_.gates + q) * panels_ * k() * tiles_.width;
  }
  const T* bias(std::int64_t d, std::int64_t q, bool recurrent) const {
    return biases_.data() + ((d * 2 + (recurrent ? 1 : 0)) * g_.gates + q) * pitch_;
  }
  void pack_biases() {
    const OrderOperand<T> b(call_.input(3), tiles_, call_.contract(), 1);
    biases_.assign(static_cast<std::size_t>(g_.directions * 2 * g_.gates * pitch_), T{0});
    for (std::int64_t d = 0; d < g_.directions; ++d)
      for (std::int64_t q = 0; q < g_.gates; ++q)
        for (const bool recurrent : {false, true})
          std::copy_n(b.data() + p_.bias_at(d, q, 0, recurrent), g_.hidden,
                      const_cast<T*>(bias(d, q, recurrent)));
  }

  void pack_peepholes() {
    const OrderOperand<T> p(call_.input(7), tiles_, call_.contract(), 1);
    peepholes_.assign(static_cast<std::size_t>(g_.directions * 3 * pitch_), T{0});
    for (std::int64_t block = 0; block < g_.directions * 3; ++block)
      std::copy_n(p.data() + block * g_.hidden, g_.hidden, peepholes_.data() + block * pitch_);
  }
  // Whether acc holds what a state of this format keeps of its values.
  static bool holds(const Contract& c, DType stored) {
    return stored == c.acc || stored == DType::f32 || c.acc == DType::f64 || c.acc == DType::f32;
  }

  using Operand = typename OrderOperands<T>::Operand;
  Operand of(const Values& v) const { return {v.data(), pitch_, false}; }
  void each(OrderEach op, Values& to, Operand a, Operand b, std::int64_t rows,
            Operand c = {}) const {
    const RoundingScope scope(op == OrderEach::fma ? tiles_.chains : tiles_.others);
    tiles_.each[static_cast<int>(op)](
        {.to = to.data(), .a = a, .b = b, .c = c, .rows = rows, .lanes = pitch_});
  }
  static void hold(Values& v, double limit) {
    const auto most = static_cast<T>(limit);
    for (T& x : v) x = x < -most ? -most : x > most ? most : x;
  }
  void activate(std::int64_t d, std::size_t i, Values& v, std::int64_t rows) const {
    if (p_.clip > 0) hold(v, p_.clip);
    call_cell_function(call_.contract(), isa_, tiles_,
                       g_.activations[static_cast<std::size_t>(d)][i], v.data(), rows * pitch_);
  }
  // The state as operands: values of acc, where it may hold others.
  const Values& entered(Values& state, Values& room) const {
    if (!enters_) return state;
    const Contract& c = call_.contract();
    room.resize(state.size());
    for (std::size_t i = 0; i < state.size(); ++i)
      room[i] =
          static_cast<T>(round_to(static_cast<double>(state[i]), c.acc, c.round, c.subnormals));
    return room;
  }
  // What the state keeps of values of acc, or of others: the stored format, rounded once.
  void keep(Values& v, std::int64_t rows, std::vector<float>& room, bool others = false) const {
    const Contract& c = call_.contract();
    if (!others && (stored_ == c.acc || (stored_ == DType::f32 && c.acc != DType::f64))) return;
    const std::int64_t n = rows * pitch_;
    if (!others) {
      room.resize(static_cast<std::size_t>(n));
      if (leave_order(call_, tiles_, v.data(), room.data(), n)) {
        std::copy_n(room.data(), n, v.data());
        return;
      }
    }
    for (std::int64_t i = 0; i < n; ++i)
      v[static_cast<std::size_t>(i)] = static_cast<T>(round_to(
          static_cast<double>(v[static_cast<std::size_t>(i)]), stored_, c.round, c.subnormals));
  }
  // The sums of gate q for the first `rows` rows, of terms that lie in strips as `program` counts
  // them.
  void sum(const T* strips, std::int64_t rows, std::int64_t terms, const float* weights,
           const OrderProgram& program, std::int64_t skipped, Values& to) const {
    const std::int64_t width = tiles_.width;
    run_order<T>({.tiles = tiles_,
                  .program = program,
                  .columns = g_.hidden,
                  .rows = rows,
                  .k = terms,
                  .a = strips,
                  .pack = [](std::int64_t, std::int64_t, T*, std::uint32_t*) { return false; },
                  .b = weights + skipped * width,
                  .b_panels = panels_,
                  .b_panel = k() * width,
                  .b_step = width,
                  .finish =
                      [&](std::int64_t, std::int64_t panel, std::int64_t row, int height, T* tile) {
                        for (int r = 0; r < height; ++r)
                          std::copy_n(tile + r * width, width,
                                      to.data() + (row + r) * pitch_ + panel * width);
                      },
                  .threads = 1});
  }
  // What each running row multiplies: x of its step, then `state`, both or one, in strips.
  void strips(const std::vector<std::int64_t>& running, const std::vector<std::int64_t>& x_at,
              const Values* state, bool with_x, Values& rows, Values& to) const {
    const std::int64_t inputs = with_x ? g_.inputs : 0;
    const std::int64_t terms = inputs + (state != nullptr ? g_.hidden : 0);
    const auto count = static_cast<std::int64_t>(running.size());
    rows.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, count * terms)));
    to.resize(rows.size());
    for (std::int64_t r = 0; r < count; ++r) {
      T* row = rows.data() + r * terms;
      if (with_x) std::copy_n(x_.data() + x_at[static_cast<std::size_t>(r)], inputs, row);
      if (state != nullptr) std::copy_n(state->data() + r * pitch_, g_.hidden, row + inputs);
    }
    pack_order_rows<T>(rows.data(), count, terms, terms, 1, nullptr, to.data());
  }
  // What a step needs beside its states, of which there are no more in a later one.
  struct Room {
    Values unpacked, packed, gates[4], more, of_states[2];
    std::vector<float> kept;
  };
  void step(std::int64_t d, const std::vector<std::int64_t>& running,
            const std::vector<std::int64_t>& x_at, Values& h, Values& c, Room& room) const;
  // Values of the stored format.
  void store(std::size_t output, std::int64_t at, const T* values) const {
    const Tensor& t = call_.outputs[output];
    auto* bytes = const_cast<std::byte*>(t.bytes().data());
    if (t.dtype() == DType::f32) {
      auto* to = reinterpret_cast<float*>(bytes) + at;
      for (std::int64_t j = 0; j < g_.hidden; ++j) to[j] = canonical(static_cast<float>(values[j]));
      return;
    }
    for (std::int64_t j = 0; j < g_.hidden; ++j)
      store_from_double(t.dtype(), bytes, at + j, static_cast<double>(values[j]));
  }

  const KernelCall& call_;
  const Isa isa_;
  const RecurrentPlan& p_;
  const RecurrentGeometry& g_;
  const OrderTiles<T>& tiles_;
  OrderOperand<T> x_;
  const bool apart_;  // the terms of x and of the state are summed apart in a gate
  OrderProgram both_, of_x_, of_h_;
  std::int64_t panels_, pitch_;
  T one_;
  DType stored_;
  const bool enters_;  // the state's format, or a clip, has values that acc has not
  CellWeights own_;
  const CellWeights* weights_ = nullptr;
  Values biases_, peepholes_;  // peepholes: [direction][3][pitch]
};

// h and c: [row][pitch] of the running rows, values of the stored format.
template <class T>
void Cells<T>::step(std::int64_t d, const std::vector<std::int64_t>& running,
                    const std::vector<std::int64_t>& x_at, Values& h, Values& c, Room& room) const {
  using enum OrderEach;
  const auto rows = static_cast<std::int64_t>(running.size());
  auto& [unpacked, packed, s, more, of_states, kept] = room;
  for (Values& v : s) v.resize(h.size());
  more.resize(h.size());
  const Values& state = entered(h, of_states[0]);
  const auto add_bias = [&](std::int64_t q, bool recurrent, Values& to) {
    if (p_.b) each(add, to, of(to), {bias(d, q, recurrent)}, rows);
  };
  const auto products = [&](std::int64_t q, Values& to) {
    sum(packed.data(), rows, k(), weights(d, q), both_, 0, to);
  };
  // What is added to the products of gate q, which a peephole shows `cell`.
  const auto finish = [&](std::int64_t q, Values& to, const Values* cell = nullptr) {
    if (p_.p && cell != nullptr) {
      const std::int64_t block = d * 3 + g_.peephole_of[static_cast<std::size_t>(q)];
      each(fma, to, {peepholes_.data() + block * pitch_}, of(*cell), rows, of(to));
    }
    add_bias(q, false, to);
    add_bias(q, true, to);
  };
  const auto argument = [&](std::int64_t q, Values& to, const Values* cell = nullptr) {
    products(q, to);
    finish(q, to, cell);
  };
  strips(running, x_at, &state, true, unpacked, packed);
  if (g_.kind == CellKind::rnn) {
    argument(0, s[0]);
    activate(d, 0, s[0], rows);
    keep(s[0], rows, kept);
    h.swap(s[0]);
    return;
  }
  if (g_.kind == CellKind::lstm) {
    Values &i = s[0], &o = s[1], &f = s[2], &u = s[3];
    const Values& before = entered(c, of_states[1]);
    argument(0, i, &before);
    activate(d, 0, i, rows);
    if (p_.input_forget) {
      each(sub, f, {&one_, 0, true}, of(i), rows);
    } else {
      argument(2, f, &before);
      activate(d, 0, f, rows);
    }
    argument(3, u);
    activate(d, 1, u, rows);
    each(mul, more, of(i), of(u), rows);
    each(fma, c, of(f), of(before), rows, of(more));
    keep(c, rows, kept);
    if (p_.cell_clip > 0) {
      hold(c, p_.cell_clip);
      keep(c, rows, kept, true);
    }
    products(1, o);
    finish(1, o, &entered(c, of_states[1]));
    activate(d, 0, o, rows);
    more = c;
    activate(d, 2, more, rows);
    each(mul, h, of(o), of(more), rows);
    keep(h, rows, kept);
    return;
  }
  Values &z = s[0], &r = s[1], &n = s[2];
  argument(0, z);
  argument(1, r);
  for (Values* gate : {&z, &r}) activate(d, 0, *gate, rows);
  if (apart_) {
    strips(running, x_at, &state, false, unpacked, packed);
    sum(packed.data(), rows, g_.hidden, weights(d, 2), of_h_, g_.inputs, more);
    add_bias(2, true, more);
    strips(running, x_at, nullptr, true, unpacked, packed);
    sum(packed.data(), rows, g_.inputs, weights(d, 2), of_x_, 0, n);
    each(fma, n, of(r), of(more), rows, of(n));
    add_bias(2, false, n);
  } else {
    each(mul, more, of(r), of(state), rows);
    strips(running, x_at, &more, true, unpacked, packed);
    argument(2, n);
  }
  activate(d, 1, n, rows);
  each(mul, more, of(z), of(state), rows);
  each(sub, z, {&one_, 0, true}, of(z), rows);
  each(fma, h, of(z), of(n), rows, of(more));
  keep(h, rows, kept);
}

template <class T>
void Cells<T>::run(std::int64_t d, std::int64_t first, std::int64_t last) const {
  const bool lstm = g_.kind == CellKind::lstm;
  const auto count = static_cast<std::size_t>(last - first);
  // Rows by length, the longest first: those that run are the first ones.
  std::vector<std::int64_t> rows(count), length(count);
  for (std::size_t i = 0; i < count; ++i) rows[i] = first + static_cast<std::int64_t>(i);
  std::ranges::sort(rows, [&](std::int64_t a, std::int64_t b) {
    const std::int64_t of_a = p_.length_of(a), of_b = p_.length_of(b);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  for (std::size_t i = 0; i < count; ++i) length[i] = p_.length_of(rows[i]);
  Values h(count * static_cast<std::size_t>(pitch_)), c(lstm ? h.size() : 0);
  const Contract& contract = call_.contract();
  const SoftOps ops(contract);
  const auto at = [&](std::size_t row) { return row * static_cast<std::size_t>(pitch_); };
  for (std::size_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < g_.hidden; ++j) {
      const std::int64_t from = g_.state_at(d, rows[i]) + j;
      const std::size_t to = at(i) + static_cast<std::size_t>(j);
      if (p_.initial_h) h[to] = static_cast<T>(ops.round(p_.initial_h[from]));
      if (lstm && p_.initial_c) c[to] = static_cast<T>(ops.round(p_.initial_c[from]));
    }
  std::vector<std::int64_t> running = rows, x_at;
  const std::vector<T> zeros(static_cast<std::size_t>(g_.hidden));
  const auto finish = [&](std::size_t i) {
    if (length[i] > 0) {
      store(1, g_.state_at(d, rows[i]), h.data() + at(i));
      if (lstm) store(2, g_.state_at(d, rows[i]), c.data() + at(i));
      return;
    }
    // The initial state as it is.
    for (std::int64_t j = 0; j < g_.hidden; ++j) {
      const std::int64_t place = g_.state_at(d, rows[i]) + j;
      const auto put = [&](std::size_t output, const Source& from) {
        const Tensor& t = call_.outputs[output];
        store_from_double(t.dtype(), const_cast<std::byte*>(t.bytes().data()), place,
                          from ? from[place] : 0.0);
      };
      put(1, p_.initial_h);
      if (lstm) put(2, p_.initial_c);
    }
  };
  Room room;
  for (std::int64_t s = 0;; ++s) {
    while (!running.empty() && length[running.size() - 1] <= s) {
      finish(running.size() - 1);
      running.pop_back();
      h.resize(at(running.size()));
      if (lstm) c.resize(h.size());
    }
    if (running.empty()) break;
    const auto step_of = [&](std::size_t i) { return g_.reversed(d) ? length[i] - 1 - s : s; };
    x_at.clear();
    for (std::size_t i = 0; i < running.size(); ++i)
      x_at.push_back(g_.x_at(step_of(i), running[i]));
    step(d, running, x_at, h, c, room);
    for (std::size_t i = 0; i < running.size(); ++i)
      store(0, g_.y_at(step_of(i), d, running[i]), h.data() + at(i));
  }
  for (std::size_t i = 0; i < count; ++i)
    for (std::int64_t t = length[i]; t < g_.steps; ++t)
      store(0, g_.y_at(t, d, rows[i]), zeros.data());
}

template <CellKind Kind, class P, Isa isa>
void run(const KernelCall& call) {
  const RecurrentPlan plan = recurrent_plan<Kind, P>(call);
  const RecurrentGeometry& g = plan.g;
  if (g.batch == 0 || g.hidden == 0) return;
  for (std::int64_t b = 0; b < g.batch; ++b) plan.length_of(b);  // before threads: it may throw
  const auto compute = [&]<class T>(T) {
    const Cells<T> cells(call, isa, plan);
    const std::int64_t parts = std::min<std::int64_t>(g.batch, call.threads);
    parallel_for(g.directions * parts, call.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        cells.run(i / parts, i % parts * g.batch / parts, (i % parts + 1) * g.batch / parts);
    });
  };
  with_accumulator(call.contract(), compute);
}

template <CellKind Kind, class P>
Refusal refuse(const Problem& problem) {
  const Contract& c = *problem.contract;
  if (Refusal r = refuse_order_contract(problem)) return r;
  const auto& params = problem.params->as<P>();
  const RecurrentGeometry g = recurrent_geometry(Kind, params, InferInputs(problem.inputs));
  if (Refusal r = refuse_order(c.order, g.inputs + g.hidden)) return r;
  if constexpr (Kind == CellKind::gru)
    if (params.linear_before_reset)
      for (const std::int64_t k : {g.inputs, g.hidden})
        if (Refusal r = refuse_order(c.order, k)) return r;
  return std::nullopt;
}

template <CellKind Kind, class P, Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  const Tensor *w = problem.inputs[1].value, *r = problem.inputs[2].value;
  if (w == nullptr || r == nullptr) return nullptr;
  const RecurrentGeometry g =
      recurrent_geometry(Kind, problem.params->as<P>(), InferInputs(problem.inputs));
  const Contract& c = *problem.contract;
  Prepared prepared;
  with_accumulator(c, [&]<class T>(T) {
    prepared =
        std::make_shared<CellWeights>(pack_cells<T>(g, order_tiles<T>(isa, c), *w, *r, c, threads));
  });
  return prepared;
}

template <CellKind Kind, class P, Isa isa>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse<Kind, P>,
          .run = run<Kind, P, isa>,
          .prepare = prepare<Kind, P, isa>};
}

}  // namespace

std::span<const KernelRow> cell_order_rows() {
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      row<CellKind::rnn, RnnParams, Isa::avx512>("rnn", "rnn.order.avx512"),
      row<CellKind::rnn, RnnParams, Isa::avx2>("rnn", "rnn.order.avx2"),
      row<CellKind::gru, GruParams, Isa::avx512>("gru", "gru.order.avx512"),
      row<CellKind::gru, GruParams, Isa::avx2>("gru", "gru.order.avx2"),
      row<CellKind::lstm, LstmParams, Isa::avx512>("lstm", "lstm.order.avx512"),
      row<CellKind::lstm, LstmParams, Isa::avx2>("lstm", "lstm.order.avx2"),
#endif
  };
  return rows;
}

}  // namespace etalon
