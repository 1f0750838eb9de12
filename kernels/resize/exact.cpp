#include "kernels/resize/exact.h"

#include <bit>

#include "kernels/gemm/exact_undecided.h"
#include "kernels/gemm/refuse.h"
#include "kernels/resize/fast.h"
#include "kernels/resize/held_taps.h"

namespace etalon {
namespace {

using D = ResizeDefinition;
using Found = HeldTaps<double>::Found;
constexpr double kUp = 1 + 0x1p-40;  // outweighs the roundings of the bounds themselves

// What the weights of an axis, and then those of all axes together, do to magnitudes and errors
// (exact.h), in units of M.
struct Growth {
  double size = 1, error = 0;
  int bits = 0;  // weights are multiples of 2^-bits; kNoGrid: they are not known exactly

  static constexpr int kNoGrid = 64;
};

// The k of the coarsest 2^-k that a weight is a multiple of.
int fraction_bits(double w) {
  if (w == 0) return 0;
  const std::uint64_t b = bits_of(w);
  const auto exponent = static_cast<int>(b >> 52 & 0x7ff);
  if (exponent == 0) return Growth::kNoGrid;
  const int lowest = exponent - 1075 + std::countr_zero(b | std::uint64_t{1} << 52);
  return std::clamp(-lowest, 0, Growth::kNoGrid);
}

// Weights of one output with bounds of their errors. Whether all are known.
template <class A>
bool known_weights(const D::Plan& p, int axis, const ResizePlace& place, Found& found,
                   Growth& growth, double& error) {
  A a;
  found.clear();
  double size = 0, off = 0;
  int bits = 0;
  bool finite = true;
  D::taps(a, p, axis, place, [&](std::int64_t i, const typename A::V& w) {
    const double mid = a.midpoint(w);
    double radius = a.radius(w);
    if constexpr (!std::is_same_v<A, RealF64>) radius += std::abs(mid) * 0x1p-52;
    found.emplace_back(i, mid);
    size += std::abs(mid) + radius;
    off += radius;
    bits = std::max(bits, radius == 0 ? fraction_bits(mid) : Growth::kNoGrid);
    finite = finite && is_finite(mid) && is_finite(radius);
  });
  if (a.undecided || !finite) return false;
  growth.size = std::max(growth.size, size * kUp);
  growth.bits = std::max(growth.bits, bits);
  error = std::max(error, off * kUp);
  return true;
}

// Taps of an axis; `growth` goes on from what it was before the pass. Nothing where a weight is not
// known (a coefficient that is not finite).
std::optional<HeldTaps<double>> exact_taps(const D::Plan& p, int axis, Growth& growth) {
  Growth own;
  double off = 0;
  bool known = true;
  std::size_t most = 0;
  HeldTaps<double> held(p, axis, [&](const ResizePlace& place) {
    Found found;
    known = known && (known_weights<RealF64>(p, axis, place, found, own, off) ||
                      known_weights<RealBig<4>>(p, axis, place, found, own, off) ||
                      known_weights<RealBig<10>>(p, axis, place, found, own, off));
    most = std::max(most, found.size());
    return found;
  });
  if (!known) return std::nullopt;
  const double n = static_cast<double>(most) + 1;
  growth.error = (n * 0x1p-53 * kUp * own.size * (growth.size + growth.error) +
                  own.size * growth.error + off * growth.size) *
                 kUp;
  growth.size *= own.size * kUp;
  growth.bits = std::min(growth.bits + own.bits, Growth::kNoGrid);
  return held;
}

// The bound of the sums of a row; 0 where they are exact.
double row_error(const Growth& growth, const ResizeRange& range) {
  const auto most = static_cast<double>(float_of(range.most));
  const std::uint32_t least = range.least >= 0x7f7fffffU ? 0x7f7fffffU : range.least + 1;
  const auto unit = std::max(static_cast<double>(float_of(least & 0x7f800000U)), 0x1p-126);
  if (growth.bits < Growth::kNoGrid &&
      std::ldexp(growth.size * most * kUp, growth.bits - 30) < unit)
    return 0;
  return growth.error * most;
}

}  // namespace

void run_resize_exact(const KernelCall& call, Isa isa, const ExactSteps& steps) {
  const ResizePasses& passes = *resize_passes(isa);
  const D::Plan p = D::plan(call);
  if (call.output(0).numel() == 0) return;
  if (p.moving.empty() && call.truth.empty()) return resize_copy(call);
  if (p.moving.empty()) return run_definition<D>(call);
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  double* truth = nullptr;
  if (!call.truth.empty() && call.truth[0])
    truth = reinterpret_cast<double*>(const_cast<std::byte*>(call.truth[0].bytes().data()));

  const int last = p.moving.back();
  std::int64_t row = p.x.product(last, p.x.rank());  // elements
  std::vector<ResizeRange> ranges(static_cast<std::size_t>(p.x.product(0, last)));
  parallel_for(static_cast<std::int64_t>(ranges.size()), call.threads,
               std::max<std::int64_t>(1, kResizeGrain / row),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r)
                   ranges[static_cast<std::size_t>(r)] = passes.range(x + r * row, row);
               });

  // Rounds a part of an output row.
  const auto finish = [&](std::int64_t first, std::int64_t n, const double* sums, double error) {
    UndecidedBits bits{};
    for (std::int64_t done = 0; done < n; done += kDecidedAtOnce) {
      const std::int64_t m = std::min(n - done, kDecidedAtOnce), at = first + done;
      if (truth == nullptr)
        passes.decide(sums + done, m, error, y + at, bits.data());
      else
        for (std::int64_t i = 0; i < m; ++i)
          if (error == 0 && is_finite(sums[done + i]))
            y[at + i] = static_cast<float>(truth[at + i] = sums[done + i]);
          else if (!exact_decide(sums[done + i], error, y[at + i], truth + at + i))
            bits[static_cast<std::size_t>(i / 64)] |= std::uint64_t{1} << (i % 64);
      each_undecided(bits, m, steps,
                     [&](std::int64_t i) { correctly_rounded_slice<D>(call, p, at + i); });
    }
  };

  Growth growth;
  Shape shape = p.x;
  std::vector<double> held, next;
  for (auto level = p.moving.size(); level-- > 0;) {
    const int axis = p.moving[level];
    const auto made = exact_taps(p, axis, growth);
    if (!made) return run_definition<D>(call);
    const ResizeTaps<double> taps = made->view();
    const bool begins = axis == last, ends = level == 0;
    const std::int64_t in = shape[axis];
    // An item is what shares its taps, or, of neighbours, the outputs of one row: item
    // (outer * out + o) * between + b, of n outputs.
    const bool along = begins && row == in;
    if (begins) row = row / in * taps.out;
    const std::int64_t between = begins ? 1 : shape.product(axis + 1, last);
    const std::int64_t n = begins && !along ? row / taps.out : row;
    const std::int64_t outer = shape.product(0, axis);
    const std::int64_t items = along ? outer : outer * taps.out * between;
    shape = shape.with_dim(axis, taps.out);
    if (!begins) {
      std::vector<ResizeRange> joined(static_cast<std::size_t>(items));
      for (std::int64_t i = 0; i < items; ++i) {
        ResizeRange& to = joined[static_cast<std::size_t>(i)];
        const std::int64_t o = i / between % taps.out;
        for (int k = 0; k < taps.most && taps.index[k * taps.out + o] >= 0; ++k) {
          const std::int64_t from =
              (i / between / taps.out * in + taps.index[k * taps.out + o]) * between + i % between;
          const ResizeRange& one = ranges[static_cast<std::size_t>(from)];
          to.most = std::max(to.most, one.most);
          to.least = std::min(to.least, one.least);
        }
      }
      ranges = std::move(joined);
    }
    if (!ends) next.resize(static_cast<std::size_t>(shape.numel()));
    const auto compute = [&](std::int64_t i, double* to) {
      if (along) return passes.widening.along(taps, x + i * in, to, false);
      const std::int64_t o = i / between % taps.out, stride = between * n;
      const std::int64_t from = (i / between / taps.out * in * between + i % between) * n;
      if (begins)
        passes.widening.across(taps, o, x + from, stride, n, to, false);
      else
        passes.f64.across(taps, o, held.data() + from, stride, n, to, false);
    };
    parallel_for(items, call.threads, std::max<std::int64_t>(1, kResizeGrain / n),
                 [&](std::int64_t begin, std::int64_t end) {
                   std::vector<double> sums(static_cast<std::size_t>(ends ? n : 0));
                   for (std::int64_t i = begin; i < end; ++i) {
                     compute(i, ends ? sums.data() : next.data() + i * n);
                     if (!ends) continue;
                     const std::int64_t of = begins && !along ? i / taps.out : i;
                     finish(i * n, n, sums.data(),
                            row_error(growth, ranges[static_cast<std::size_t>(of)]));
                   }
                 });
    held.swap(next);
  }
}

namespace {

Refusal refuse_exact(const Problem& problem) {
  if (Refusal why = refuse_resize_passes(problem)) return why;
  return refuse_unless_exact(problem);
}

template <Isa kIsa>
KernelRow row(std::string_view name) {
  return {.op = "resize",
          .name = name,
          .isa = kIsa,
          .contracts = "exact",
          .refuse = refuse_exact,
          .run = [](const KernelCall& call) { run_resize_exact(call, kIsa, {}); }};
}

}  // namespace

std::span<const KernelRow> resize_exact_rows() {
#if defined(__x86_64__)
  static const KernelRow rows[] = {row<Isa::avx512>("resize.exact.avx512"),
                                   row<Isa::avx2>("resize.exact.avx2")};
  return rows;
#else
  return {};
#endif
}

}  // namespace etalon
