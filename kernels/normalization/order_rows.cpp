#include "kernels/normalization/order_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/core/threads.h"
#include "kernels/activation/order_functions.h"
#include "kernels/gemm/order_panel.h"
#include "kernels/gemm/rounding_scope.h"
#include "kernels/normalization/definition.h"
#include "kernels/normalization/order_lrn.h"

namespace etalon {
namespace {

// How many neighbours in memory each run of a list has, 1 where runs differ.
std::int64_t run_of(const std::vector<std::int64_t>& offsets) {
  std::int64_t run = 1;
  const auto count = static_cast<std::int64_t>(offsets.size());
  const auto at = [&](std::int64_t i) { return offsets[static_cast<std::size_t>(i)]; };
  while (run < count && at(run) == at(run - 1) + 1) ++run;
  if (count % run != 0) return 1;
  for (std::int64_t i = run; i < count; ++i)
    if (i % run != 0 && at(i) != at(i - 1) + 1) return 1;
  return run;
}

// Scale or bias as an operand: what row and term make of its index is a sum of both.
template <class T>
class AffineOperand {
 public:
  AffineOperand(const KernelCall& call, const RowNormPlan& p, std::size_t input,
                const std::array<std::int64_t, kMaxRank>& strides, const OrderPanels<T>& panels) {
    if (!call.has(input)) return;
    values_.emplace(panels.operand(input));
    const auto at = [&](std::int64_t i) { return strided_offset(i, p.shape, strides); };
    if (each_term(call.input(input).shape(), p)) {
      kind_ = Kind::by_term;
      dense_.assign(values_->data(), values_->data() + p.length());
      dense_.resize(static_cast<std::size_t>(panels.pitch()));
      return;
    }
    of_row_.resize(static_cast<std::size_t>(p.rows.rows));
    of_term_.resize(static_cast<std::size_t>(p.length()));
    for (std::int64_t r = 0; r < p.rows.rows; ++r)
      of_row_[static_cast<std::size_t>(r)] = p.by_row > 0 ? r % p.by_row : at(p.first(r));
    const std::int64_t origin = p.first(0);
    if (p.by_row == 0)
      for (std::int64_t k = 0; k < p.length(); ++k)
        of_term_[static_cast<std::size_t>(k)] = at(origin + p.offset(k)) - at(origin);
    const auto all_zero = [](const std::vector<std::int64_t>& v) {
      return std::ranges::all_of(v, [](std::int64_t x) { return x == 0; });
    };
    if (all_zero(of_row_)) {
      kind_ = Kind::by_term;
      for (const std::int64_t k : of_term_) dense_.push_back(values_->data()[k]);
      dense_.resize(static_cast<std::size_t>(panels.pitch()));
    } else if (all_zero(of_term_)) {
      kind_ = Kind::by_row;
    }
  }
  explicit operator bool() const { return values_.has_value(); }
  // `room`: a panel, for what is neither one for each term nor for each row.
  typename OrderPanel<T>::Operand of(const OrderPanel<T>& p, T* lanes, T* room) const {
    if (kind_ == Kind::by_term) return p.by_term(dense_.data());
    const auto row = [&](std::int64_t lane) {
      return values_->data() +
             of_row_[static_cast<std::size_t>(p.first + std::min(lane, p.rows - 1))];
    };
    if (kind_ == Kind::by_row) {
      for (std::int64_t lane = 0; lane < p.lanes; ++lane) lanes[lane] = *row(lane);
      return p.by_lane(lanes);
    }
    for (std::int64_t lane = 0; lane < p.rows; ++lane) {
      const T* from = row(lane);
      for (std::int64_t k = 0; k < p.n; ++k)
        room[p.at(k, lane)] = from[of_term_[static_cast<std::size_t>(k)]];
    }
    return p.terms(room);
  }
  bool wants_room() const { return values_.has_value() && kind_ == Kind::both; }

 private:
  // Whether it has one number for each term of a row of neighbours, and nothing else.
  static bool each_term(const Shape& s, const RowNormPlan& p) {
    const std::int64_t n = p.length();
    if (p.by_row > 0 || s.numel() != n || p.offset(n - 1) != n - 1) return false;
    std::int64_t terms = 1;
    for (int axis = 1; terms < n; ++axis) {
      if (axis > s.rank() || s.dim(-axis) != p.shape.dim(-axis)) return false;
      terms *= s.dim(-axis);
    }
    return terms == n;
  }
  enum class Kind : std::uint8_t { by_term, by_row, both } kind_ = Kind::both;
  std::optional<OrderOperand<T>> values_;
  std::vector<std::int64_t> of_row_, of_term_;
  std::vector<T> dense_;
};

template <class T>
void normalize(const KernelCall& call, Isa isa, const RowNormPlan& plan) {
  using enum OrderEach;
  using Panel = OrderPanel<T>;
  const auto first = [&](std::int64_t row) { return plan.first(row); };
  const OrderPanels<T> panels(call, isa,
                              {.rows = plan.rows.rows,
                               .first = first,
                               .terms = plan.rows.offsets,
                               .term_run = run_of(plan.rows.offsets)},
                              5);
  const T count = panels.constant(static_cast<double>(plan.length()));
  const T eps = panels.constant(plan.eps), one = panels.constant(1);
  const AffineOperand<T> scale(call, plan, 1, plan.scale_strides, panels);
  const AffineOperand<T> bias(call, plan, 2, plan.bias_strides, panels);
  panels.run([&](Panel& p, T* vectors) {
    T *mean = vectors, *root = vectors + p.lanes, *inverse = vectors + 2 * p.lanes;
    std::vector<T> room[2];
    if (scale.wants_room()) room[0].resize(static_cast<std::size_t>(p.size()));
    if (bias.wants_room()) room[1].resize(static_cast<std::size_t>(p.size()));
    std::fill_n(mean, p.lanes, T{0});
    if (plan.centre) {
      p.sum(p.x, false, mean);
      p.each_row(div, mean, p.row(mean), p.number(count));
      p.each(sub, p.x, p.terms(p.x), p.by_lane(mean));
    }
    std::fill_n(root, p.lanes, one);
    if (plan.divide) {
      p.sum(p.x, true, root);
      p.each_row(div, root, p.row(root), p.number(count));
      if (plan.eps_inside) p.each_row(add, root, p.row(root), p.number(eps));
      p.root(root);
      if (!plan.eps_inside) p.each_row(add, root, p.row(root), p.number(eps));
      p.each(div, p.x, p.terms(p.x), p.by_lane(root));
    }
    const auto factor = scale ? scale.of(p, vectors + 3 * p.lanes, room[0].data()) : p.number(one);
    if (bias)
      p.each(fma, p.x, p.terms(p.x), factor, bias.of(p, vectors + 4 * p.lanes, room[1].data()));
    else if (scale)
      p.each(mul, p.x, p.terms(p.x), factor);
    if (plan.statistics) {
      p.each_row(div, inverse, p.number(one), p.row(root));
      for (std::int64_t lane = 0; lane < p.rows; ++lane) {
        store_element(call, 1, p.first + lane, static_cast<double>(mean[lane]));
        store_element(call, 2, p.first + lane, static_cast<double>(inverse[lane]));
      }
    }
    p.store();
  });
}

template <class F, Isa isa>
void run(const KernelCall& call) {
  const RowNormPlan plan = RowNormDefinition<F>::plan(call);
  if (plan.rows.rows == 0) return;
  if (plan.length() == 0) return run_definition<RowNormDefinition<F>>(call);  // statistics
  with_accumulator(call.contract(), [&]<class T>(T) { normalize<T>(call, isa, plan); });
}

std::int64_t row_length(const Problem& problem) {
  const Shape& x = problem.input(0).shape;
  const std::string_view op = problem.op->name;
  if (op == "layer_norm")
    return norm_rows_from(x, problem.params->as<LayerNormParams>().axis).length();
  if (op == "rms_norm") return norm_rows_from(x, problem.params->as<RmsNormParams>().axis).length();
  if (op == "instance_norm") return norm_rows_of_groups(x, x[1]).length();
  if (op == "group_norm")
    return norm_rows_of_groups(x, problem.params->as<GroupNormParams>().groups).length();
  return norm_rows_over(x, problem.params->as<MeanVarianceParams>().axes).length();
}

Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  return refuse_order_panels(*problem.contract, row_length(problem));
}

template <class F, Isa isa>
KernelRow row(std::string_view name) {
  return {.op = F::op,
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse,
          .run = run<F, isa>,
          .prepare = [](const Problem& problem, int) {
            return prepare_order(*problem.contract, row_length(problem));
          }};
}

// d = x - mean, then fma(d, scale / sqrt(var + eps), bias), over runs of one channel, or of all
// channels where each element has its own.
template <class T>
void batch_normalize(const KernelCall& call, Isa isa) {
  const BatchNormDefinition::Plan plan = BatchNormDefinition::plan(call);
  const Contract& c = call.contract();
  const OrderTiles<T>& tiles = order_tiles<T>(isa, c);
  const OrderSource x(call.input(0), c, call.threads);
  const auto padded = [&](std::int64_t n) {
    return (n + tiles.width - 1) / tiles.width * tiles.width;
  };
  const std::int64_t channels = plan.channels, room = padded(channels);
  const auto each = [&](OrderEach op, const OrderOperands<T>& o) {
    const RoundingScope scope(op == OrderEach::fma ? tiles.chains : tiles.others);
    tiles.each[static_cast<int>(op)](o);
  };
  std::vector<T> values[4];  // factor, bias, mean, root
  for (int i = 0; i < 4; ++i) {
    values[i].resize(static_cast<std::size_t>(room));
    const OrderOperand<T> of(call.input(static_cast<std::size_t>(1 + i)), tiles, c, 1);
    std::copy_n(of.data(), channels, values[i].data());
  }
  T *factor = values[0].data(), *bias = values[1].data(), *mean = values[2].data(),
    *root = values[3].data();
  const T eps = static_cast<T>(SoftOps(c).round(plan.eps));
  each(OrderEach::add, {.to = root, .a = {root}, .b = {&eps, 0, true}, .rows = 1, .lanes = room});
  {
    const RoundingScope scope(tiles.others);
    tiles.root(root, room);
  }
  each(OrderEach::div, {.to = factor, .a = {factor}, .b = {root}, .rows = 1, .lanes = room});
  constexpr std::int64_t kBlock = 1024;
  const bool varies = plan.inner == 1;
  parallel_for(plan.count, call.threads, 16384, [&](std::int64_t begin, std::int64_t end) {
    T d[kBlock];
    while (begin < end) {
      const std::int64_t channel = begin / plan.inner % channels;
      const std::int64_t left = varies ? channels - channel : plan.inner - begin % plan.inner;
      const std::int64_t n = std::min({end - begin, left, kBlock - 64}), lanes = padded(n);
      std::fill_n(d + n, lanes - n, T{0});
      {
        const RoundingScope scope(tiles.others);
        tiles.enter(x.data() + begin, d, n);
      }
      // Numbers of a run of channels may end before a vector does.
      T of_run[3][kBlock];
      const auto operand = [&](const T* v, T* run) -> typename OrderOperands<T>::Operand {
        if (!varies) return {v + channel, 0, true};
        std::copy_n(v + channel, n, run);
        std::fill_n(run + n, lanes - n, T{0});
        return {run};
      };
      each(OrderEach::sub,
           {.to = d, .a = {d}, .b = operand(mean, of_run[0]), .rows = 1, .lanes = lanes});
      each(OrderEach::fma, {.to = d,
                            .a = {d},
                            .b = operand(factor, of_run[1]),
                            .c = operand(bias, of_run[2]),
                            .rows = 1,
                            .lanes = lanes});
      store_order(call, tiles, begin, d, n);
      begin += n;
    }
  });
}

template <Isa isa>
KernelRow batch_norm_row(std::string_view name) {
  return {.op = "batch_norm",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = [](const Problem& problem) { return refuse_order_contract(problem, 5); },
          .run =
              [](const KernelCall& call) {
                if (call.input(0).numel() == 0) return;
                with_accumulator(call.contract(),
                                 [&]<class T>(T) { batch_normalize<T>(call, isa); });
              }};
}

// x over (sum |x|^p)^(1/p), eps where the op has it; a row whose norm is 0 is zeros of its signs.
template <class T>
void lp_normalize(const KernelCall& call, Isa isa) {
  using enum OrderEach;
  const LpNormDefinition::Plan plan = LpNormDefinition::plan(call);
  const Contract& c = call.contract();
  const auto first = [&](std::int64_t row) {
    return plan.rows.firsts[static_cast<std::size_t>(row)];
  };
  const OrderPanels<T> panels(call, isa,
                              {.rows = plan.rows.rows,
                               .first = first,
                               .terms = plan.rows.offsets,
                               .term_run = run_of(plan.rows.offsets)},
                              1);
  const SoftOps ops(c);
  const double power = ops.round(plan.p), root = ops.div(ops.round(1), power);
  const T eps = panels.constant(plan.eps);
  panels.run([&](OrderPanel<T>& p, T* norm) {
    const auto limit = [&](OrderEach op) { p.each_row(op, norm, p.row(norm), p.number(eps)); };
    if (plan.p == 2) {
      p.sum(p.x, true, norm);
    } else {
      std::vector<T> powers(p.x, p.x + p.size());
      for (T& v : powers) v = std::fabs(v);
      if (plan.p != 1) call_order_power(c, isa, panels.tiles(), power, powers.data(), p.size());
      p.sum(powers.data(), false, norm);
    }
    if (plan.eps_in == NormEps::sum_max) limit(max);
    if (plan.eps_in == NormEps::sum_add) limit(add);
    if (plan.p == 2)
      p.root(norm);
    else if (plan.p != 1)
      call_order_power(c, isa, panels.tiles(), root, norm, p.rows);
    if (plan.eps_in == NormEps::norm_max) limit(max);
    std::vector<T> x;
    for (std::int64_t lane = 0; lane < p.rows; ++lane)
      if (norm[lane] == 0 && x.empty()) x.assign(p.x, p.x + p.size());
    p.each(div, p.x, p.terms(p.x), p.by_lane(norm));
    for (std::int64_t lane = 0; lane < p.rows && !x.empty(); ++lane)
      for (std::int64_t k = 0; norm[lane] == 0 && k < p.n; ++k)
        p.x[p.at(k, lane)] = std::copysign(T{0}, x[static_cast<std::size_t>(p.at(k, lane))]);
    p.store();
  });
}

std::int64_t lp_row_length(const Problem& problem) {
  return norm_rows_over(problem.input(0).shape, problem.params->as<LpNormParams>().axes).length();
}

template <Isa isa>
KernelRow lp_norm_row(std::string_view name) {
  return {.op = "lp_norm",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = [](const Problem& problem) -> Refusal {
            if (Refusal r = refuse_order_contract(problem)) return r;
            return refuse_order_panels(*problem.contract, lp_row_length(problem));
          },
          .run =
              [](const KernelCall& call) {
                if (call.input(0).numel() == 0) return;
                with_accumulator(call.contract(), [&]<class T>(T) { lp_normalize<T>(call, isa); });
              },
          .prepare = [](const Problem& problem,
                        int) { return prepare_order(*problem.contract, lp_row_length(problem)); }};
}

}  // namespace

std::span<const KernelRow> normalization_order_rows() {
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      row<LayerNorm, Isa::avx512>("layer_norm.order.avx512"),
      row<LayerNorm, Isa::avx2>("layer_norm.order.avx2"),
      row<InstanceNorm, Isa::avx512>("instance_norm.order.avx512"),
      row<InstanceNorm, Isa::avx2>("instance_norm.order.avx2"),
      row<GroupNorm, Isa::avx512>("group_norm.order.avx512"),
      row<GroupNorm, Isa::avx2>("group_norm.order.avx2"),
      row<MeanVariance, Isa::avx512>("mean_variance_normalization.order.avx512"),
      row<MeanVariance, Isa::avx2>("mean_variance_normalization.order.avx2"),
      row<RmsNorm, Isa::avx512>("rms_norm.order.avx512"),
      row<RmsNorm, Isa::avx2>("rms_norm.order.avx2"),
      batch_norm_row<Isa::avx512>("batch_norm.order.avx512"),
      batch_norm_row<Isa::avx2>("batch_norm.order.avx2"),
      lp_norm_row<Isa::avx512>("lp_norm.order.avx512"),
      lp_norm_row<Isa::avx2>("lp_norm.order.avx2"),
      lrn_order_row<Isa::avx512>("lrn.order.avx512"),
      lrn_order_row<Isa::avx2>("lrn.order.avx2"),
#endif
  };
  return rows;
}

}  // namespace etalon
