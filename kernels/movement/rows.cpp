// Movement: copies of elements, one row an op, every type and contract. Each op says where its
// elements lie; copy.h moves them.
#include "kernels/movement/rows.h"

#include <cstring>
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/ops/ints_input.h"
#include "engine/ops/layout.h"
#include "kernels/movement/copy.h"

namespace etalon {
namespace {

int element_bytes(const KernelCall& call) { return size_bytes(call.input(0).dtype()); }
const std::byte* source(const KernelCall& call, std::size_t i) {
  return call.input(i).bytes().data();
}

void run_copy(const KernelCall& call) {
  copy_bytes(output_bytes(call, 0), source(call, 0), call.output(0).size_bytes(), call.threads);
}

// Operand 0 row-major over `dims`, operand 1 by the strides given.
StridedLoop<2> gather_loop(std::span<const std::int64_t> dims, std::span<const std::int64_t> from) {
  std::vector<std::int64_t> to(dims.size());
  std::int64_t step = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    to[i] = step;
    step *= dims[i];
  }
  StridedLoop<2> loop;
  for (std::size_t i = 0; i < dims.size(); ++i) loop.add_axis(dims[i], {to[i], from[i]});
  return loop;
}

void gather_copy(const KernelCall& call, std::span<const std::int64_t> dims,
                 std::span<const std::int64_t> from, std::int64_t first = 0) {
  if (call.output(0).numel() == 0) return;
  copy_strided(gather_loop(dims, from), element_bytes(call), output_bytes(call, 0),
               source(call, 0) + first * element_bytes(call), call.threads);
}

// `x` seen as `view` (row-major), its axes permuted.
void permuted_copy(const KernelCall& call, std::span<const std::int64_t> view,
                   std::span<const std::int64_t> perm) {
  std::vector<std::int64_t> own(view.size()), dims, from;
  std::int64_t step = 1;
  for (std::size_t i = view.size(); i-- > 0;) {
    own[i] = step;
    step *= view[i];
  }
  for (const std::int64_t p : perm) {
    dims.push_back(view[static_cast<std::size_t>(p)]);
    from.push_back(own[static_cast<std::size_t>(p)]);
  }
  gather_copy(call, dims, from);
}

void run_transpose(const KernelCall& call) {
  const Shape& x = call.input(0).shape();
  permuted_copy(call, x.dims(), transpose_perm(call.params<TransposeParams>(), x));
}

void run_depth_to_space(const KernelCall& call) {
  const auto& p = call.params<DepthToSpaceParams>();
  const Shape& x = call.input(0).shape();
  const std::int64_t b = p.blocksize, c = x[1] / (b * b);
  if (p.mode == DepthMode::dcr)
    permuted_copy(call, std::array{x[0], b, b, c, x[2], x[3]}, Ints{0, 3, 4, 1, 5, 2});
  else
    permuted_copy(call, std::array{x[0], c, b, b, x[2], x[3]}, Ints{0, 1, 4, 2, 5, 3});
}

void run_space_to_depth(const KernelCall& call) {
  const Shape& x = call.input(0).shape();
  const auto& p = call.params<SpaceToDepthParams>();
  const std::int64_t b = p.blocksize;
  permuted_copy(call, std::array{x[0], x[1], x[2] / b, b, x[3] / b, b},
                p.mode == DepthMode::dcr ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4});
}

void run_expand(const KernelCall& call) {
  const Shape& y = call.output(0).shape();
  gather_copy(call, y.dims(), broadcast_strides(call.input(0).shape(), y));
}

void run_tile(const KernelCall& call) {
  const Shape &x = call.input(0).shape(), &y = call.output(0).shape();
  const auto own = strides_of(x);
  Ints dims, from;
  if (y.numel() == 0) return;
  for (int i = 0; i < x.rank(); ++i) {
    dims.insert(dims.end(), {y[i] / x[i], x[i]});
    from.insert(from.end(), {0, own[static_cast<std::size_t>(i)]});
  }
  gather_copy(call, dims, from);
}

void run_slice(const KernelCall& call) {
  const Shape& x = call.input(0).shape();
  const std::vector<InferInput> known = known_inputs(call);
  const auto axes = slice_axes(call.params<SliceParams>(), InferInputs(known));
  auto from = strides_of(x);
  std::int64_t first = 0;
  for (int i = 0; i < x.rank(); ++i) {
    const SliceAxis& a = axes[static_cast<std::size_t>(i)];
    first += a.begin * from[static_cast<std::size_t>(i)];
    // A step that is not taken may be beyond all strides.
    from[static_cast<std::size_t>(i)] *= a.count > 1 ? a.step : 0;
  }
  gather_copy(call, call.output(0).shape().dims(), from, first);
}

// Input i of concat, output i of split: a block of `extent` along the axis of the whole.
void copy_block(const Shape& whole, int axis, std::int64_t at, std::int64_t extent, int bytes,
                std::byte* to, const std::byte* from, bool into_whole, int threads) {
  const std::int64_t inner = whole.product(axis + 1, whole.rank());
  StridedLoop<2> loop;
  const std::int64_t outer = whole.product(0, axis);
  const std::int64_t large = whole[axis] * inner, small = extent * inner;
  loop.add_axis(outer, into_whole ? std::array{large, small} : std::array{small, large});
  loop.add_axis(small, {1, 1});
  const std::int64_t shift = at * inner * bytes;
  copy_strided(loop, bytes, to + (into_whole ? shift : 0), from + (into_whole ? 0 : shift),
               threads);
}

void run_concat(const KernelCall& call) {
  const Shape& y = call.output(0).shape();
  if (y.numel() == 0) return;
  const int axis = normalize_axis(call.params<AxisParams>().axis, y.rank());
  std::int64_t at = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const std::int64_t extent = call.input(i).shape()[axis];
    copy_block(y, axis, at, extent, element_bytes(call), output_bytes(call, 0), source(call, i),
               true, call.threads);
    at += extent;
  }
}

void run_split(const KernelCall& call) {
  const Shape& x = call.input(0).shape();
  if (x.numel() == 0) return;
  const int axis = normalize_axis(call.params<SplitParams>().axis, x.rank());
  std::int64_t at = 0;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const std::int64_t extent = call.output(i).shape()[axis];
    copy_block(x, axis, at, extent, element_bytes(call), output_bytes(call, i), source(call, 0),
               false, call.threads);
    at += extent;
  }
}

// For every axis a table: which element of x lies at place i of y, or -1 for the value.
std::int64_t padded_source(PadMode mode, std::int64_t i, const PadAxis& a, std::int64_t extent) {
  // Negative pads cut before the mode looks at what is left: [low, low + kept).
  const std::int64_t low = std::max<std::int64_t>(0, -a.begin);
  const std::int64_t kept = extent - low - std::max<std::int64_t>(0, -a.end);
  std::int64_t at = i - std::max<std::int64_t>(0, a.begin);
  if (at >= 0 && at < kept) return low + at;
  if (kept <= 0) return -1;
  const auto modulo = [](std::int64_t v, std::int64_t m) { return (v % m + m) % m; };
  switch (mode) {
    case PadMode::constant:
      return -1;
    case PadMode::edge:
      return low + std::clamp<std::int64_t>(at, 0, kept - 1);
    case PadMode::wrap:
      return low + modulo(at, kept);
    case PadMode::reflect:
      break;
  }
  const std::int64_t period = 2 * (kept - 1);
  at = modulo(at, period);
  return low + (at < kept ? at : period - at);
}

void run_pad(const KernelCall& call) {
  const auto& p = call.params<PadParams>();
  const Tensor& x = call.input(0);
  const Tensor& y = call.output(0);
  const int rank = x.shape().rank(), bytes = element_bytes(call);
  if (y.numel() == 0) return;
  const std::vector<InferInput> known = known_inputs(call);
  const auto axes = pad_axes(p, InferInputs(known));
  std::array<std::byte, 8> value{};
  if (call.has(2))
    std::memcpy(value.data(), source(call, 2), static_cast<std::size_t>(bytes));
  else
    store_from_double(x.dtype(), value.data(), 0, static_cast<double>(p.value));
  std::byte* out = output_bytes(call, 0);
  const std::byte* in = source(call, 0);
  if (rank == 0) return copy_bytes(out, in, y.size_bytes(), 1);

  std::vector<Ints> table(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i)
    for (std::int64_t j = 0; j < y.shape()[i]; ++j)
      table[static_cast<std::size_t>(i)].push_back(
          padded_source(p.mode, j, axes[static_cast<std::size_t>(i)], x.shape()[i]));
  const auto strides = strides_of(x.shape());
  const Ints& columns = table.back();
  // The stretch of the last axis that is copied as it stands.
  const PadAxis& last = axes[static_cast<std::size_t>(rank - 1)];
  const std::int64_t n = y.shape()[rank - 1];
  const std::int64_t begin = std::clamp<std::int64_t>(last.begin, 0, n);
  const std::int64_t end = std::clamp<std::int64_t>(n - last.end, begin, n);
  parallel_for(
      y.numel() / n, call.threads, std::max<std::int64_t>(1, 16384 / n),
      [&](std::int64_t first_row, std::int64_t last_row) {
        for (std::int64_t r = first_row; r < last_row; ++r) {
          std::int64_t rest = r, at = 0;
          bool outside = false;
          for (int i = rank - 2; i >= 0; --i) {
            const std::int64_t j =
                table[static_cast<std::size_t>(i)][static_cast<std::size_t>(rest % y.shape()[i])];
            rest /= y.shape()[i];
            outside |= j < 0;
            at += j * strides[static_cast<std::size_t>(i)];
          }
          std::byte* row = out + r * n * bytes;
          if (outside) {
            fill_elements(row, n, value.data(), bytes);
            continue;
          }
          const auto put = [&](std::int64_t j) {
            const std::int64_t c = columns[static_cast<std::size_t>(j)];
            std::memcpy(row + j * bytes, c < 0 ? value.data() : in + (at + c) * bytes,
                        static_cast<std::size_t>(bytes));
          };
          for (std::int64_t j = 0; j < begin; ++j) put(j);
          if (end > begin)
            std::memcpy(row + begin * bytes,
                        in + (at + columns[static_cast<std::size_t>(begin)]) * bytes,
                        static_cast<std::size_t>((end - begin) * bytes));
          for (std::int64_t j = end; j < n; ++j) put(j);
        }
      });
}

void run_reverse_sequence(const KernelCall& call) {
  const auto& p = call.params<ReverseSequenceParams>();
  const Shape& x = call.input(0).shape();
  const int rank = x.rank(), bytes = element_bytes(call);
  const auto batch = static_cast<std::size_t>(normalize_axis(p.batch_axis, rank));
  const auto time = static_cast<std::size_t>(normalize_axis(p.time_axis, rank));
  const Ints lens = to_int64_values(call.input(1));
  const auto strides = strides_of(x);
  for (std::size_t b = 0; b < lens.size(); ++b) {
    const std::int64_t len = lens[b];
    if (len < 0 || len > x[static_cast<int>(time)])
      throw bad_input("sequence_lens[{}] is {}; x {} has {} steps", b, len, to_string(x),
                      x[static_cast<int>(time)]);
    for (const bool reversed : std::array{true, false}) {
      StridedLoop<2> loop;
      const std::int64_t shift = static_cast<std::int64_t>(b) * strides[batch];
      for (int i = 0; i < rank; ++i) {
        const auto a = static_cast<std::size_t>(i);
        const std::int64_t s = strides[a];
        if (a == batch) continue;
        if (a == time)
          loop.add_axis(reversed ? len : x[i] - len, {s, reversed ? -s : s});
        else
          loop.add_axis(x[i], {s, s});
      }
      const std::int64_t to = shift + (reversed ? 0 : len * strides[time]);
      const std::int64_t from = shift + (reversed ? len - 1 : len) * strides[time];
      copy_strided(loop, bytes, output_bytes(call, 0) + to * bytes, source(call, 0) + from * bytes,
                   call.threads);
    }
  }
}

void run_trilu(const KernelCall& call) {
  const auto& p = call.params<TriluParams>();
  const Shape& x = call.input(0).shape();
  const int bytes = element_bytes(call);
  const std::vector<InferInput> known = known_inputs(call);
  const std::int64_t k = int_or(InferInputs(known), 1, p.k, "k");
  const std::int64_t rows = x[x.rank() - 2], n = x[x.rank() - 1];
  if (x.numel() == 0) return;
  for (std::int64_t r = 0; r < x.numel() / n; ++r) {
    const std::int64_t i = r % rows;
    // Element (i, j) is kept when j - i >= k (upper) or j - i <= k (lower).
    const std::int64_t shift = std::clamp(k, -rows - 1, n + 1) + (p.upper ? 0 : 1);
    const std::int64_t edge = std::clamp<std::int64_t>(i + shift, 0, n);
    std::byte* to = output_bytes(call, 0) + r * n * bytes;
    const std::byte* from = source(call, 0) + r * n * bytes;
    const auto head = static_cast<std::size_t>(edge * bytes);
    const auto tail = static_cast<std::size_t>((n - edge) * bytes);
    if (p.upper) {
      std::memset(to, 0, head);
      std::memcpy(to + head, from + head, tail);
    } else {
      std::memcpy(to, from, head);
      std::memset(to + head, 0, tail);
    }
  }
}

}  // namespace

std::span<const KernelRow> movement_rows() {
  static const KernelRow rows[] = {
      bits_row<run_copy>("identity", "identity.bits"),
      bits_row<run_copy>("reshape", "reshape.bits"),
      bits_row<run_copy>("flatten", "flatten.bits"),
      bits_row<run_copy>("squeeze", "squeeze.bits"),
      bits_row<run_copy>("unsqueeze", "unsqueeze.bits"),
      bits_row<run_transpose>("transpose", "transpose.bits"),
      bits_row<run_expand>("expand", "expand.bits"),
      bits_row<run_tile>("tile", "tile.bits"),
      bits_row<run_concat>("concat", "concat.bits"),
      bits_row<run_split>("split", "split.bits"),
      bits_row<run_slice>("slice", "slice.bits"),
      bits_row<run_pad>("pad", "pad.bits"),
      bits_row<run_depth_to_space>("depth_to_space", "depth_to_space.bits"),
      bits_row<run_space_to_depth>("space_to_depth", "space_to_depth.bits"),
      bits_row<run_reverse_sequence>("reverse_sequence", "reverse_sequence.bits"),
      bits_row<run_trilu>("trilu", "trilu.bits"),
  };
  return rows;
}

}  // namespace etalon
