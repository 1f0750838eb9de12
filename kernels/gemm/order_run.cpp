// The programs of kernels/gemm/order.h over the panels of products: what is packed, which functions
// of the arithmetic's table compute a tile, and which tiles are computed again.
#include <algorithm>

#include "engine/core/threads.h"
#include "kernels/gemm/order_steps.h"

namespace etalon {

using Kind = OrderStep::Kind;

namespace {

// What may run without masks and with OrderTiles::quick, until a tile does not hold.
template <class T>
struct QuickOrder {
  QuickOrder(const OrderTiles<T>& tiles, const OrderProgram& program, OrderMode mode, bool masked) {
    const bool nearest = mode.rounding == OrderRounding::nearest;
    chains = nearest && tiles.quick[0] != nullptr;
    const bool restores = tiles.vanishing > 0;
    pairs = nearest && tiles.quick_pairs[0] != nullptr && program.paired &&
            (!restores || !program.chained || !tiles.negative_zeros);
    helps = tiles.held != nullptr && (masked || chains || pairs);
    signs = restores && pairs && tiles.negative_zeros && !program.zeros;
    zeros_count =
        tiles.negative_zeros && (chains || (pairs && !restores) || (masked && program.chained));
  }
  bool chains = false, pairs = false, helps = false;
  // Sums of pairs may have lost the sign of a zero. Not where +0 is added to some: of it comes +0.
  bool signs = false;
  // A chain without its mask adds a zero instead, which makes +0 of -0, and of nothing else
  // something else: where the last sum is not zero, none that it is made of matters. So it is with
  // OrderTiles::quick.
  bool zeros_count = false;
};

// -0 for the zeros that are sums of pairs of negative products that all vanish; any other product
// makes +0 of such a sum.
template <class T>
void restore_signs(const OrderTiles<T>& tiles, const T* a, int height, const T* b,
                   std::int64_t b_step, std::int64_t k, T* tile) {
  const auto vanishes = [&](double p) {
    return p < 0 && p >= -static_cast<double>(tiles.vanishing);
  };
  for (int r = 0; r < height; ++r)
    for (int lane = 0; lane < tiles.width; ++lane) {
      T& sum = tile[r * tiles.width + lane];
      if (sum != 0) continue;
      std::int64_t i = 0;
      while (i < k && vanishes(static_cast<double>(a[i * height + r]) *
                               static_cast<double>(b[i * b_step + lane])))
        ++i;
      if (i == k) sum = -T{0};
    }
}

// Rows of a panel that are computed again for a zero in them, a few times as slowly as in a tile.
constexpr int kMostMissed = 16;

// What a thread needs beside the task.
template <class T>
struct OrderScratch {
  explicit OrderScratch(const OrderTask<T>& task)
      : size(std::int64_t{kOrderRows} * task.tiles.width),
        packed(thread_scratch<T>(ScratchSlot::vector,
                                 std::max<std::int64_t>(1, task.k) * task.tiles.width)),
        stack(thread_scratch<T>(ScratchSlot::tile, task.program.depth * size)),
        mask(thread_scratch<std::uint32_t>(ScratchSlot::masks, std::max<std::int64_t>(1, task.k))) {
  }
  std::int64_t size;
  T *packed, *stack;
  std::uint32_t* mask;
};

template <class T>
OrderChain<T> step_of(const OrderStep& s, T* tile, const OrderStep* join) {
  return {.count = s.count,
          .tile = tile,
          .zeros = s.zeros,
          .resume = s.kind == Kind::extend,
          .join = join != nullptr,
          .join_zero = join != nullptr && join->zeros != 0};
}

// Whether b in its place is any f32: so it is for f64.
template <class T>
bool is_raw(const OrderTask<T>& task) {
  return task.b_raw || std::is_same_v<T, double>;
}

// The lanes of a panel that are columns.
template <class T>
std::uint32_t lanes_of(const OrderTask<T>& task, std::int64_t panel) {
  const std::int64_t left = task.columns - panel * task.tiles.width;
  return left >= 32 ? ~0U : (1U << left) - 1U;
}

// Rows [begin, end) of a panel.
template <class T>
void run_panel(const OrderTask<T>& task, std::int64_t group, std::int64_t panel, std::int64_t begin,
               std::int64_t end) {
  const OrderTiles<T>& tiles = task.tiles;
  const OrderScratch<T> own(task);
  const float* b_f32 = nullptr;
  const T* b = own.packed;
  bool masked = false;
  std::int64_t b_step = tiles.width;
  if (task.b == nullptr || panel >= task.b_panels || (task.b_raw && std::is_same_v<T, float>)) {
    masked = task.pack(group, panel, own.packed, own.mask);
  } else {
    const float* in_place = task.b + (group * task.panels() + panel) * task.b_panel;
    b_step = task.b_step;
    if constexpr (std::is_same_v<T, float>)
      b = in_place;
    else
      b_f32 = in_place;
  }
  const OrderMode mode = order_mode(tiles, task.program, true);
  const QuickOrder<T> could(tiles, task.program, mode, masked);
  bool quick = could.helps;
  // Of trees, where operands have to be within bounds: of this panel, of each strip.
  const bool bounded = could.pairs && tiles.bound != nullptr;
  const T bound_b = bounded ? tiles.bound(b, task.k, b_step, tiles.width) : T{};
  bool pairs = could.pairs;
  // The lanes of columns, and those of them in which a zero is not known to be +0.
  const std::uint32_t lanes = lanes_of(task, panel);
  std::uint32_t nonzero = could.zeros_count && !masked ? lanes : 0;
  for (std::int64_t k = 0; could.zeros_count && masked && k < task.k; ++k)
    nonzero |= own.mask[k] & lanes;
  // Of a strip of 2^strip rows those from `first` on, 2^h of them, [row][width] on the stack.
  const auto compute = [&](const T* a, int strip, int first, int h, bool fast) {
    const std::int64_t height = std::int64_t{1} << strip;
    const auto chain = b_f32 != nullptr       ? tiles.plain_of_f32[h]
                       : fast && could.chains ? tiles.quick[h]
                       : masked && !fast      ? tiles.masked[h]
                                              : tiles.plain[h];
    run_order_steps(tiles, task.program, mode, (std::int64_t{1} << h) * tiles.width,
                    own.stack + first * tiles.width, own.size,
                    [&](const OrderStep& s, T* tile, const OrderStep* join) {
                      const int d = s.pairs - 1;
                      const auto run = s.pairs == 0       ? chain
                                       : b_f32 != nullptr ? tiles.pairs_of_f32[d]
                                       : fast && pairs    ? tiles.quick_pairs[d]
                                       : masked && !fast  ? tiles.masked_pairs[d]
                                                          : tiles.pairs[d];
                      OrderChain<T> t = step_of(s, tile, join);
                      t.a = a + s.first * height + first;
                      t.a_step = s.stride * height;
                      t.b = b_f32 == nullptr ? b + s.first * b_step : nullptr;
                      t.b_f32 = b_f32 == nullptr ? nullptr : b_f32 + s.first * b_step;
                      t.b_step = s.stride * b_step;
                      t.mask = own.mask + s.first;
                      t.mask_step = s.stride;
                      t.rows = 1 << h;
                      run(t);
                    });
  };
  int missed = 0;
  for (std::int64_t row = begin; row < end;) {
    const int h = order_height(task.rows - row), height = 1 << h;
    const T* a = task.a + (group * task.rows + row) * task.k;
    if (quick && bounded) pairs = tiles.within(tiles.bound(a, 1, 0, task.k * height), bound_b);
    compute(a, h, 0, h, quick);
    if (quick && !tiles.held(own.stack, height, 0)) {
      quick = false;
      compute(a, h, 0, h, false);
    } else if (quick && nonzero != 0 && !tiles.held(own.stack, height, nonzero)) {
      for (int r = 0; r < height; ++r)
        if (!tiles.held(own.stack + r * tiles.width, 1, nonzero)) {
          compute(a, h, r, 0, false);
          ++missed;
        }
      quick = missed < kMostMissed;  // a few zeros are no sign that others follow
    } else if (quick && could.signs && !tiles.held(own.stack, height, lanes)) {
      restore_signs(tiles, a, height, b, b_step, task.k, own.stack);
    }
    task.finish(group, panel, row, height, own.stack);
    row += height;
  }
}

// The only row, kOrderAcross panels of b from `panel` on.
template <class T>
void run_across(const OrderTask<T>& task, std::int64_t group, std::int64_t panel) {
  const OrderTiles<T>& tiles = task.tiles;
  const OrderScratch<T> own(task);
  const T* a = task.a + group * task.k;
  const float* b = task.b + (group * task.panels() + panel) * task.b_panel;
  const int raw = is_raw(task) ? 1 : 0;
  const OrderMode mode = order_mode(tiles, task.program, true);
  const auto compute = [&](bool fast) {
    run_order_steps(tiles, task.program, mode, std::int64_t{kOrderAcross} * tiles.width, own.stack,
                    own.size, [&](const OrderStep& s, T* tile, const OrderStep* join) {
                      OrderChain<T> t = step_of(s, tile, join);
                      t.a = a + s.first;
                      t.a_step = s.stride;
                      t.b_f32 = b + s.first * task.b_step;
                      t.b_step = s.stride * task.b_step;
                      t.b_panel = task.b_panel;
                      t.rows = kOrderAcross;
                      const auto run = fast && s.pairs > 0 ? tiles.quick_across[raw][s.pairs - 1]
                                                           : tiles.across[raw][s.pairs];
                      run(t);
                    });
  };
  const bool fast = QuickOrder<T>(tiles, task.program, mode, false).pairs &&
                    tiles.quick_across[raw][0] != nullptr;
  compute(fast);
  bool holds = true;
  for (int i = 0; fast && i < kOrderAcross; ++i)
    holds = holds && tiles.held(own.stack + i * tiles.width, 1, lanes_of(task, panel + i));
  if (!holds) compute(false);
  for (int i = 0; i < kOrderAcross; ++i)
    task.finish(group, panel + i, 0, 1, own.stack + i * tiles.width);
}

}  // namespace

template <class T>
void run_order(const OrderTask<T>& task) {
  // Strips of kOrderRows rows; where panels are few, several threads share one and pack it apart.
  const std::int64_t strips = (task.rows + kOrderRows - 1) / kOrderRows;
  const bool across =
      task.rows == 1 && task.b != nullptr && task.tiles.across[is_raw(task) ? 1 : 0][0] != nullptr;
  const std::int64_t blocks = across ? task.b_panels / kOrderAcross : 0,
                     blocked = blocks * kOrderAcross;
  const std::int64_t each = blocks + task.panels() - blocked, items = task.groups * each;
  const std::int64_t wanted = task.threads <= 1 ? 1 : task.threads * 4L;
  const std::int64_t parts = std::clamp<std::int64_t>(items == 0 ? 1 : wanted / items, 1,
                                                      std::max<std::int64_t>(1, strips));
  parallel_for(items * parts, task.threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t part = i % parts, item = i / parts % each, group = i / parts / each;
      if (item < blocks)
        run_across(task, group, item * kOrderAcross);
      else
        run_panel(task, group, blocked + item - blocks, part * strips / parts * kOrderRows,
                  std::min(task.rows, (part + 1) * strips / parts * kOrderRows));
    }
  });
}
template void run_order<float>(const OrderTask<float>&);
template void run_order<double>(const OrderTask<double>&);

}  // namespace etalon
