#include "kernels/gemm/order_windows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/core/threads.h"
#include "kernels/gemm/order_steps.h"
#include "kernels/gemm/rounding_scope.h"

namespace etalon {
namespace {

// Turned points that stay in the second cache.
constexpr std::int64_t kTurned = std::int64_t{1} << 15;
constexpr std::int64_t kMostPrograms = 4096, kMostAlongAxis = std::int64_t{1} << 24;

// The sets of taps of one axis that lie in the input, by output: each is a run of taps.
struct AxisSets {
  struct Set {
    std::int64_t first, count;
    bool operator==(const Set&) const = default;
  };
  explicit AxisSets(const WindowAxis& a) : axis(a) {
    for (std::int64_t o = 0; o < a.out; ++o) {
      const std::int64_t at = a.at(o, 0);
      const auto below = [&](std::int64_t end) {  // taps under which a coordinate before it lies
        return at >= end ? 0 : std::min(a.kernel, (end - 1 - at) / a.dilation + 1);
      };
      Set s{below(0), below(a.in) - below(0)};
      if (s.count <= 0) s = {0, 0};
      const auto found = std::ranges::find(sets, s);
      of.push_back(found - sets.begin());
      if (found == sets.end()) sets.push_back(s);
    }
  }
  WindowAxis axis;
  std::vector<Set> sets;
  std::vector<std::int64_t> of;  // the set of output o

  // Whether outputs [o, o + count) have one set.
  bool same(std::int64_t o, std::int64_t count) const {
    const auto first = of.begin() + o;
    return std::all_of(first, first + count, [&](std::int64_t set) { return set == *first; });
  }
  std::size_t of_output(std::int64_t o) const {
    return static_cast<std::size_t>(of[static_cast<std::size_t>(o)]);
  }
  const Set& at(std::int64_t o) const { return sets[of_output(o)]; }
};

template <class T>
class Windows {
 public:
  Windows(const KernelCall& call, const OrderWindows<T>& task)
      : call_(call),
        task_(task),
        tiles_(task.tiles),
        x_(call.input(0), call.contract(), call.threads),
        d_(task.window.axes[0]),
        h_(task.window.axes[1]),
        w_(task.window.axes[2]) {
    for (const auto& z : d_.sets)
      for (const auto& y : h_.sets)
        for (const auto& x : w_.sets) {
          std::vector<std::int64_t> index(static_cast<std::size_t>(task.window.taps()), -1);
          std::int64_t present = 0;
          for (std::int64_t rz = z.first; rz < z.first + z.count; ++rz)
            for (std::int64_t ry = y.first; ry < y.first + y.count; ++ry)
              for (std::int64_t rx = x.first; rx < x.first + x.count; ++rx)
                index[static_cast<std::size_t>((rz * h_.axis.kernel + ry) * w_.axis.kernel + rx)] =
                    present++;
          programs_.push_back(of_present_terms(task.program, index));
          depth_ = std::max(depth_, programs_.back().depth);
        }
    // As many planes as hide an addition's latency, then as many rows as the cache holds of them.
    together_ = task.channels_last > 0 ? task.channels_last : task.planes;
    while (height_ < 2 && (tiles_.width << height_) < together_) ++height_;
    lanes_ = std::int64_t{tiles_.width} << height_;
    // Outputs side by side whose inputs are so too, as many as a tile has rows for.
    pixels_ = w_.axis.stride == 1 ? kOrderRows >> height_ : 1;
    const std::int64_t row = d_.axis.kernel * w_.axis.in * lanes_;
    const std::int64_t held = kTurned / std::max<std::int64_t>(1, row);
    rows_ = std::clamp<std::int64_t>(
        (held - (h_.axis.kernel - 1) * h_.axis.dilation - 1) / h_.axis.stride + 1, 1, h_.axis.out);
  }

  void run() const {
    const std::int64_t of_image = (together_ + lanes_ - 1) / lanes_;
    const std::int64_t panels = of_image * (task_.planes / together_);
    const std::int64_t blocks = (h_.axis.out + rows_ - 1) / rows_, depth = d_.axis.out;
    parallel_for(
        panels * depth * blocks, call_.threads, 1, [&](std::int64_t begin, std::int64_t end) {
          Scratch s = scratch();
          std::int64_t before = -1;
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t panel = item / (depth * blocks);
            const std::int64_t first = panel / of_image * together_ + panel % of_image * lanes_;
            if (panel != before) enter(first, s);
            before = panel;
            block(first, item / blocks % depth, item % blocks * rows_, s);
          }
        });
  }

 private:
  struct Scratch {
    float* points;  // [depth tap][row][column][lane]
    T* weights;     // [tap][output of a run][lane]
    T* sums;        // [output][lane], and behind an output the stack of its program
    T* dense;       // [lane][output]
    float* left;    // sums as they are stored
    std::vector<std::int64_t> first, terms, at;
  };

  std::int64_t present_lanes(std::int64_t first) const {
    return std::min(lanes_, together_ - first % together_);
  }
  // Of a point of plane `first` where channels lie last.
  std::int64_t place(std::int64_t first, std::int64_t point, std::int64_t points) const {
    return (first / together_ * points + point) * together_ + first % together_;
  }
  std::int64_t input_rows() const {
    return (rows_ - 1) * h_.axis.stride + (h_.axis.kernel - 1) * h_.axis.dilation + 1;
  }

  std::int64_t reach() const { return pixels_ * lanes_; }

  Scratch scratch() const {
    const std::int64_t outputs = rows_ * w_.axis.out * lanes_;
    const std::int64_t taps = task_.window.taps();
    const std::int64_t stack = depth_ * kOrderRows * std::int64_t{tiles_.width};
    Scratch s{};
    s.points = thread_scratch<float>(ScratchSlot::vector,
                                     d_.axis.kernel * input_rows() * w_.axis.in * lanes_ + lanes_);
    s.weights = thread_scratch<T>(ScratchSlot::tile, taps * reach() + 2 * outputs + stack);
    s.dense = s.weights + taps * reach();
    s.sums = s.dense + outputs;
    s.left = reinterpret_cast<float*>(s.dense);
    s.first.resize(static_cast<std::size_t>(lanes_));
    s.terms.resize(static_cast<std::size_t>(taps));
    s.at.resize(static_cast<std::size_t>(taps));
    return s;
  }

  // Planes past the last are like the last.
  void enter(std::int64_t first, Scratch& s) const {
    if (task_.of == OrderTerm::product) {
      task_.weights(first, lanes_, s.weights);
      for (std::int64_t tap = task_.window.taps() - 1; pixels_ > 1 && tap >= 0; --tap)
        for (std::int64_t i = pixels_ - 1; i >= 0; --i)
          std::memmove(s.weights + tap * reach() + i * lanes_, s.weights + tap * lanes_,
                       static_cast<std::size_t>(lanes_) * sizeof(T));
    }
    if (task_.channels_last > 0) return;
    for (std::int64_t lane = 0; lane < lanes_; ++lane)
      s.first[static_cast<std::size_t>(lane)] =
          task_.plane(std::min(first + lane, task_.planes - 1)) * task_.window.in_points();
  }

  void block(std::int64_t first, std::int64_t oz, std::int64_t oy0, Scratch& s) const {
    const std::int64_t rows = std::min(rows_, h_.axis.out - oy0);
    const std::int64_t in_w = w_.axis.in, top = h_.axis.at(oy0, 0);
    const std::int64_t held = input_rows();
    const std::int64_t begin = std::max<std::int64_t>(0, top);
    const std::int64_t end =
        std::min(h_.axis.in, h_.axis.at(oy0 + rows - 1, h_.axis.kernel - 1) + 1);
    for (std::int64_t rz = 0; rz < d_.axis.kernel; ++rz) {
      const std::int64_t z = d_.axis.at(oz, rz);
      if (z < 0 || z >= d_.axis.in || begin >= end) continue;
      float* to = s.points + (rz * held + begin - top) * in_w * lanes_;
      const std::int64_t point = (z * h_.axis.in + begin) * in_w, count = (end - begin) * in_w;
      if (task_.channels_last > 0) {
        copy_points(first, point, count, to);
      } else {
        for (std::int64_t lane = 0; lane < lanes_; lane += tiles_.block)
          tiles_.turn(x_.data() + point, s.first.data() + lane, count, to + lane, lanes_);
        settle_order(tiles_, to, count * lanes_);
      }
    }
    sum_rows(first, oz, oy0, rows, s);
    store(first, (oz * h_.axis.out + oy0) * w_.axis.out, rows * w_.axis.out, s);
  }

  void sum_rows(std::int64_t first, std::int64_t oz, std::int64_t oy0, std::int64_t rows,
                Scratch& s) const {
    const std::int64_t in_w = w_.axis.in, top = h_.axis.at(oy0, 0), held = input_rows();
    // The mode of all programs, in which each finds it.
    const RoundingScope scope(order_mode(tiles_, task_.program, sums_products(task_.of)));
    const auto& z = d_.at(oz);
    T* sums = s.sums;
    for (std::int64_t oy = oy0; oy < oy0 + rows; ++oy) {
      const auto& y = h_.at(oy);
      // Outputs of one set have the same terms, further along the row.
      std::int64_t origin = -1;
      for (std::int64_t ox = 0; ox < w_.axis.out;) {
        std::int64_t alike = 1;
        int height = height_;
        while (2 * alike <= pixels_ && ox + 2 * alike <= w_.axis.out && w_.same(ox, 2 * alike)) {
          alike *= 2;
          ++height;
        }
        if (origin < 0 || w_.of_output(ox) != w_.of_output(origin)) {
          origin = ox;
          const auto& x = w_.at(ox);
          std::size_t n = 0;
          for (std::int64_t rz = z.first; rz < z.first + z.count; ++rz)
            for (std::int64_t ry = y.first; ry < y.first + y.count; ++ry) {
              const std::int64_t row = rz * held + h_.axis.at(oy, ry) - top;
              for (std::int64_t rx = x.first; rx < x.first + x.count; ++rx, ++n) {
                s.terms[n] = (row * in_w + w_.axis.at(ox, rx)) * lanes_;
                s.at[n] = ((rz * h_.axis.kernel + ry) * w_.axis.kernel + rx) * reach();
              }
            }
        }
        const std::size_t set =
            (d_.of_output(oz) * h_.sets.size() + h_.of_output(oy)) * w_.sets.size() +
            w_.of_output(ox);
        sum_order<T>(tiles_, programs_[set],
                     {.of = task_.of,
                      .from = s.points + (ox - origin) * w_.axis.stride * lanes_,
                      .terms = s.terms.data(),
                      .weights = s.weights,
                      .at = s.at.data()},
                     height, sums);
        for (const std::int64_t stop = ox + alike; ox < stop; ++ox) {
          task_.finish(first, (oz * h_.axis.out + oy) * w_.axis.out + ox, lanes_, sums);
          sums += lanes_;
        }
      }
    }
  }

  // Points of an image that lies with its channels last, settled.
  void copy_points(std::int64_t first, std::int64_t point, std::int64_t count, float* to) const {
    const float* from = x_.data() + place(first, point, task_.window.in_points());
    const std::int64_t present = present_lanes(first);
    const RoundingScope scope(tiles_.others);
    const auto copy = [&](const float* some, float* there, std::int64_t n) {
      if constexpr (std::is_same_v<T, float>) {
        if (tiles_.settle != nullptr) return tiles_.enter(some, there, n);
      }
      std::copy_n(some, n, there);
    };
    if (present == together_ && present == lanes_) return copy(from, to, count * lanes_);
    for (std::int64_t i = 0; i < count; ++i) {
      copy(from + i * together_, to + i * lanes_, present);
      std::fill_n(to + i * lanes_ + present, lanes_ - present, 0.0F);
    }
  }

  // Outputs [at, at + count) of planes from `first` on.
  void store(std::int64_t first, std::int64_t at, std::int64_t count, Scratch& s) const {
    const std::int64_t points = task_.window.out_points();
    const std::int64_t planes = present_lanes(first);
    if (task_.channels_last > 0) {
      for (std::int64_t i = 0; i < count; ++i)
        store_order(call_, tiles_, place(first, at + i, points), s.sums + i * lanes_, planes);
      return;
    }
    if (leave_order(call_, tiles_, s.sums, s.left, count * lanes_)) {
      float* y = reinterpret_cast<float*>(const_cast<std::byte*>(call_.outputs[0].bytes().data())) +
                 first * points + at;
      std::int64_t i = 0;
      for (; i + tiles_.block <= count; i += tiles_.block) {
        std::int64_t from[64];
        for (int lane = 0; lane < tiles_.block; ++lane) from[lane] = (i + lane) * lanes_;
        tiles_.turn(s.left, from, planes, y + i, points);
      }
      for (; i < count; ++i)
        for (std::int64_t plane = 0; plane < planes; ++plane)
          y[plane * points + i] = s.left[i * lanes_ + plane];
      return;
    }
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t plane = 0; plane < planes; ++plane)
        s.dense[plane * count + i] = s.sums[i * lanes_ + plane];
    for (std::int64_t plane = 0; plane < planes; ++plane)
      store_order(call_, tiles_, (first + plane) * points + at, s.dense + plane * count, count);
  }

  const KernelCall& call_;
  const OrderWindows<T>& task_;
  const OrderTiles<T>& tiles_;
  OrderSource x_;
  AxisSets d_, h_, w_;
  std::vector<OrderProgram> programs_;  // by sets of the three axes
  std::int64_t depth_ = 1, lanes_ = 0, rows_ = 0, together_ = 0, pixels_ = 1;
  int height_ = 0;
};

}  // namespace

Refusal refuse_order_windows(const Window& window) {
  std::int64_t programs = 1;
  for (const WindowAxis& a : window.axes) {
    if (a.out > kMostAlongAxis) return "takes at most 2^24 outputs along an axis";
    programs *= static_cast<std::int64_t>(AxisSets(a).sets.size());
  }
  if (programs > kMostPrograms) return "tells at most 4096 sets of taps apart";
  return std::nullopt;
}

template <class T>
void run_order_windows(const KernelCall& call, const OrderWindows<T>& task) {
  if (task.planes * task.window.out_points() == 0) return;
  Windows<T>(call, task).run();
}
template void run_order_windows<float>(const KernelCall&, const OrderWindows<float>&);
template void run_order_windows<double>(const KernelCall&, const OrderWindows<double>&);

}  // namespace etalon
