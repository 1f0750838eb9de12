#include "kernels/normalization/order_lrn.h"

#include <algorithm>
#include <vector>

#include "engine/core/threads.h"
#include "kernels/activation/order_functions.h"
#include "kernels/gemm/order_panel.h"
#include "kernels/gemm/order_steps.h"
#include "kernels/gemm/rounding_scope.h"
#include "kernels/normalization/definition.h"

namespace etalon {
namespace {

constexpr std::int64_t kMostWindow = 64;
// A block of pixels with all channels: what the second cache holds.
constexpr std::int64_t kBlock = std::int64_t{1} << 15;

template <class T>
class Lrn {
 public:
  Lrn(const KernelCall& call, Isa isa)
      : call_(call),
        isa_(isa),
        plan_(LrnDefinition::plan(call)),
        tiles_(order_tiles<T>(isa, call.contract())),
        x_(call.input(0), call.contract(), call.threads) {
    const SoftOps ops(call.contract());
    const auto number = [&](double v) { return ops.round(v); };
    const LrnParams& p = plan_.params;
    const double alpha = number(static_cast<double>(p.alpha));
    alpha_ = static_cast<T>(p.alpha_divided ? ops.div(alpha, number(static_cast<double>(p.size)))
                                            : alpha);
    bias_ = static_cast<T>(number(static_cast<double>(p.bias)));
    beta_ = number(static_cast<double>(p.beta));
    // By the taps below that are missing, then those above.
    const OrderProgram whole = compile_order(call.contract().order, p.size);
    for (std::int64_t below = 0; below <= plan_.below; ++below)
      for (std::int64_t above = 0; above <= plan_.above; ++above) {
        std::vector<std::int64_t> index(static_cast<std::size_t>(p.size), -1);
        for (std::int64_t k = below; k < p.size - above; ++k)
          index[static_cast<std::size_t>(k)] = k - below;
        programs_.push_back(of_present_terms(whole, index));
        depth_ = std::max(depth_, programs_.back().depth);
      }
    while (height_ + 1 < kOrderHeights &&
           (tiles_.width << (height_ + 1)) * plan_.channels <= kBlock &&
           (tiles_.width << height_) < plan_.inner)
      ++height_;
  }

  void run() const {
    const std::int64_t lanes = std::int64_t{tiles_.width} << height_, channels = plan_.channels;
    const std::int64_t blocks = (plan_.inner + lanes - 1) / lanes;
    const std::int64_t images = plan_.count / (channels * plan_.inner);
    parallel_for(images * blocks, call_.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      T* x = thread_scratch<T>(ScratchSlot::turned, 2 * channels * lanes);
      T* bases = x + channels * lanes;
      T* stack = thread_scratch<T>(ScratchSlot::tile, depth_ * kOrderRows * tiles_.width);
      std::vector<std::int64_t> at(static_cast<std::size_t>(plan_.params.size));
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t first = item / blocks * channels * plan_.inner + item % blocks * lanes;
        const std::int64_t there = std::min(lanes, plan_.inner - item % blocks * lanes);
        const float* terms = enter(first, there, lanes, x);
        sum_windows(terms, lanes, stack, bases, at);
        finish(first, there, lanes, x, bases);
      }
    });
  }

 private:
  // A block into x, [channel][lane]; returns the same as f32.
  const float* enter(std::int64_t first, std::int64_t there, std::int64_t lanes, T* x) const {
    const std::int64_t channels = plan_.channels;
    const RoundingScope scope(tiles_.others);
    if constexpr (std::is_same_v<T, float>) {
      for (std::int64_t c = 0; c < channels; ++c) {
        tiles_.enter(x_.data() + first + c * plan_.inner, x + c * lanes, there);
        std::fill_n(x + c * lanes + there, lanes - there, 0.0F);
      }
      return x;
    } else {
      auto* singles = thread_scratch<float>(ScratchSlot::vector, channels * lanes);
      for (std::int64_t c = 0; c < channels; ++c) {
        std::copy_n(x_.data() + first + c * plan_.inner, there, singles + c * lanes);
        std::fill_n(singles + c * lanes + there, lanes - there, 0.0F);
      }
      tiles_.enter(singles, x, channels * lanes);
      return singles;
    }
  }

  // Squares of each channel and its neighbours; at: room for their places.
  void sum_windows(const float* terms, std::int64_t lanes, T* stack, T* sums,
                   std::vector<std::int64_t>& at) const {
    const std::int64_t channels = plan_.channels;
    // The mode of all programs, in which each finds it.
    const RoundingScope scope(order_mode(tiles_, programs_.front(), true));
    for (std::int64_t c = 0; c < channels; ++c, sums += lanes) {
      const std::int64_t below = std::max<std::int64_t>(0, plan_.below - c);
      const std::int64_t above = std::max<std::int64_t>(0, c + plan_.above - (channels - 1));
      for (std::size_t k = 0; k < at.size(); ++k)
        at[k] = (c - plan_.below + below + static_cast<std::int64_t>(k)) * lanes;
      sum_order<T>(tiles_, programs_[static_cast<std::size_t>(below * (plan_.above + 1) + above)],
                   {.of = OrderTerm::square, .from = terms, .terms = at.data()}, height_, stack);
      std::copy_n(stack, lanes, sums);
    }
  }

  void finish(std::int64_t first, std::int64_t there, std::int64_t lanes, T* x, T* bases) const {
    const std::int64_t channels = plan_.channels;
    {
      const RoundingScope scope(tiles_.chains);
      tiles_.each[static_cast<int>(OrderEach::fma)]({.to = bases,
                                                     .a = {&alpha_, 0, true},
                                                     .b = {bases, lanes},
                                                     .c = {&bias_, 0, true},
                                                     .rows = channels,
                                                     .lanes = lanes});
    }
    call_order_power(call_.contract(), isa_, tiles_, beta_, bases, channels * lanes);
    {
      const RoundingScope scope(tiles_.others);
      tiles_.each[static_cast<int>(OrderEach::div)](
          {.to = x, .a = {x, lanes}, .b = {bases, lanes}, .rows = channels, .lanes = lanes});
    }
    for (std::int64_t c = 0; c < channels; ++c)
      store_order(call_, tiles_, first + c * plan_.inner, x + c * lanes, there);
  }

  const KernelCall& call_;
  const Isa isa_;
  const LrnDefinition::Plan plan_;
  const OrderTiles<T>& tiles_;
  OrderSource x_;
  T alpha_, bias_;
  double beta_;
  std::vector<OrderProgram> programs_;
  std::int64_t depth_ = 1;
  int height_ = 0;
};

Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  const auto& p = problem.params->as<LrnParams>();
  if (p.size > kMostWindow) return "sums at most 64 channels";
  return refuse_order(problem.contract->order, p.size);
}

}  // namespace

template <Isa isa>
KernelRow lrn_order_row(std::string_view name) {
  return {.op = "lrn",
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse,
          .run = [](const KernelCall& call) {
            if (call.input(0).numel() == 0) return;
            with_accumulator(call.contract(), [&]<class T>(T) { Lrn<T>(call, isa).run(); });
          }};
}
template KernelRow lrn_order_row<Isa::avx512>(std::string_view name);
template KernelRow lrn_order_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
