// conv, f32, algo=winograd and algo=fft: spectra of inputs (V) and weights (U), for each position
// of the spectrum a product of matrices, spectra of outputs (S) back to pixels. All bits are the
// definitions' (winograd_definition.h, fft_definition.h).
// Loops: block of tiles { channels: V; positions { strips of rows { vectors of tiles: S = U V } };
// output channels: Y }. A lane is a tile throughout.
// Same bits: transforms are the definition's program over registers; a sum over channels is one
// accumulator of gemm's tile, k ascending, or chains of `run` channels joined by halves.
// A product of complex spectra is one of real matrices: k = (channel, re or im), rows = (output
// channel, re or im), u[re][c] = (U.re, U.im), u[im][c] = (-U.im, U.re).
// Limit: two 512-bit fma a cycle in the products, which are (alpha / (M R))^2 of direct's; below
// about 64 channels the transforms weigh as much, and weights of many channels come from memory.
#include "kernels/conv/algorithms_fast.h"

#include <algorithm>

#include "kernels/conv/algorithm_tiles.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/refuse.h"

namespace etalon {

const TileTransforms* tile_transforms([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::transforms();
  if (isa == Isa::avx2) return &avx2::transforms();
#endif
  return nullptr;
}

namespace {

constexpr std::int64_t kSerialFlops = 400000;
// V and S of a block of tiles should stay in the second cache, but weights are read once a block:
// fewer than kLeast vectors would wait for them.
constexpr std::int64_t kBlockBytes = 1280 << 10;
constexpr std::int64_t kLeast = 4;
constexpr std::int64_t kCopyBytes = 16 << 20;
constexpr std::int64_t kLine = 64 / sizeof(float);

// S of rows [first, first + height) at one vector or more of tiles, over terms [k0, k1).
void product(const TileChunk& c, const TileBlock& b, const TileCall& whole, int height,
             std::int64_t k0, std::int64_t k1, float* to, std::int64_t to_row) {
  const PreparedTiles& p = c.p;
  const int lanes = c.gemm.lanes;
  const int most = widest_tile(c.gemm, height);
  const std::int64_t vectors = b.padded / lanes;
  if (p.run == 0 || k1 - k0 <= p.run) {
    TileCall t = whole;
    t.k = k1 - k0;
    t.a += k0 * height;
    t.c_row = to_row;
    for (std::int64_t v = 0; v < vectors;) {
      const int w = static_cast<int>(std::min<std::int64_t>(most, vectors - v));
      t.b = whole.b + k0 * b.padded + v * lanes;
      t.c = to + v * lanes;
      if (v > 0) t.next_step = 0;
      c.gemm.plain[static_cast<std::size_t>(w)][static_cast<std::size_t>(height)](t);
      v += w;
    }
    return;
  }
  std::int64_t half = 1;
  while (half * 2 < k1 - k0) half *= 2;
  product(c, b, whole, height, k0, k0 + half, to, to_row);
  // The right half goes behind the left, in memory that its caller does not use.
  std::vector<float> right(static_cast<std::size_t>(height * b.padded + lanes));
  product(c, b, whole, height, k0 + half, k1, right.data(), b.padded);
  for (int r = 0; r < height; ++r)
    c.set.add(to + r * to_row, right.data() + r * b.padded, b.padded);
}

void multiply(const TileChunk& c, const TileBlock& b, std::int64_t group, std::int64_t position,
              const RowStrips& strips, std::int64_t first_strip, std::int64_t last_strip) {
  const PreparedTiles& p = c.p;
  const float* u = c.p.weights.data<float>() + (group * p.positions + position) * p.rows * p.k;
  for (std::int64_t s = first_strip; s < last_strip; ++s) {
    const int height = strips.height(s);
    TileCall t{.k = p.k,
               .a = u + strips.first(s) * p.k,
               .a_step = height,
               .b = b.v + position * b.v_position,
               .b_strip = c.gemm.lanes,
               .b_step = b.padded,
               .last_lanes = c.gemm.lanes};
    if (p.run == 0) {
      t.next = t.a + height * p.k;
      t.next_step = s + 1 < last_strip ? kLine : 0;
    }
    product(c, b, t, height, 0, p.k, b.s + position * b.s_position + strips.first(s) * b.padded,
            b.padded);
  }
}

void run_chunk(const TileChunk& c, int threads) {
  const PreparedTiles& p = c.p;
  const ConvTiles& t = p.t;
  const int lanes = c.set.lanes;
  const std::int64_t vectors = vector_strips(c.tiles, lanes);
  const std::int64_t bytes = p.positions * (p.k + p.rows) * lanes * std::int64_t{sizeof(float)};
  std::int64_t block = std::clamp(kBlockBytes / bytes, kLeast, std::int64_t{64});
  std::int64_t blocks = (vectors + block - 1) / block;
  block = (vectors + blocks - 1) / blocks;
  block = std::min(vectors, (block + 1) / 2 * 2);
  blocks = (vectors + block - 1) / block;
  const RowStrips strips(p.rows, c.gemm.rows);

  const auto make_block = [&](std::int64_t i) {
    TileBlock b;
    b.first = i * block * lanes;
    b.count = std::min(block * lanes, c.tiles - b.first);
    b.padded = vector_strips(b.count, lanes) * lanes;
    // A line more than a power of two, or all positions of a channel would fall into one set.
    b.v_position = p.k * b.padded + kLine;
    b.s_position = p.rows * b.padded + kLine;
    b.v = thread_scratch<float>(ScratchSlot::vector, p.positions * b.v_position + lanes);
    b.s = thread_scratch<float>(ScratchSlot::broadcast, p.positions * b.s_position + lanes);
    return b;
  };
  const std::int64_t in = t.g.group_in(), out = t.g.group_out();
  if (threads > 1 && blocks * t.g.groups >= 2 * threads) {
    parallel_for(blocks * t.g.groups, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t group = i / blocks;
        const TileBlock b = make_block(i % blocks);
        for (std::int64_t k = 0; k < in; ++k) input_channel(c, b, group, k);
        for (std::int64_t k = 0; k < p.positions; ++k)
          multiply(c, b, group, k, strips, 0, strips.count);
        for (std::int64_t k = 0; k < out; ++k) output_channel(c, b, group, k);
      }
    });
    return;
  }
  for (std::int64_t i = 0; i < blocks * t.g.groups; ++i) {
    const std::int64_t group = i / blocks;
    const TileBlock b = make_block(i % blocks);
    parallel_for(in, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) input_channel(c, b, group, k);
    });
    parallel_for(p.positions, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) multiply(c, b, group, k, strips, 0, strips.count);
    });
    parallel_for(out, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) output_channel(c, b, group, k);
    });
  }
}

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  auto p = prepare_tiles(problem);
  if (const Tensor* w = problem.inputs[1].value)
    pack_tile_weights(*p, *tile_transforms(isa), tile_set_f32(isa)->rows, w->data<float>().data(),
                      threads);
  return p;
}

template <Isa isa>
void run(const KernelCall& call) {
  const TileTransforms& set = *tile_transforms(isa);
  const auto* p = static_cast<const PreparedTiles*>(call.prepared);
  std::shared_ptr<PreparedTiles> fresh;
  if (p == nullptr || !p->packed) {
    fresh = prepare_tiles(*call.problem);
    pack_tile_weights(*fresh, set, tile_set_f32(isa)->rows, call.input(1).data<float>().data(),
                      call.threads);
    p = fresh.get();
  }
  const ConvGeometry& g = p->t.g;
  const std::int64_t tiles = p->t.per_image();
  if (g.batch == 0 || g.out_channels == 0 || tiles == 0) return;
  const int threads =
      g.batch * tiles * p->positions * p->k * p->rows < kSerialFlops ? 1 : call.threads;
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const std::int64_t image_size = std::max<std::int64_t>(1, g.in_channels * p->plane);
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kCopyBytes / (image_size * std::int64_t{sizeof(float)}), 1, g.batch);
  for (std::int64_t image = 0; image < g.batch; image += at_once) {
    const std::int64_t images = std::min(at_once, g.batch - image);
    // Loads of whole vectors reach behind the last row.
    float* copy = thread_scratch<float>(ScratchSlot::padded, images * image_size + 4 * kLine);
    std::fill_n(copy + images * image_size, 4 * kLine, 0.0F);
    parallel_for(images * g.in_channels, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        copy_plane(*p, x + (image * g.in_channels + i) * g.window.in_points(), copy + i * p->plane);
    });
    run_chunk({set, *tile_set_f32(isa), *p, copy,
               call.has(2) ? call.input(2).data<float>().data() : nullptr,
               y + image * g.out_channels * g.window.out_points(), images * tiles},
              threads);
  }
}

Refusal refuse_common(const Problem& problem) {
  if (!problem.contract->is_seq()) return "promises f32, nearest even, fused, subnormals kept";
  return refuse_unless_f32(problem);
}

Refusal refuse_winograd(const Problem& problem) {
  if (Refusal r = winograd_definition_row().refuse(problem)) return r;
  if (Refusal r = refuse_common(problem)) return r;
  const Algorithm a = Algorithm::parse(problem.contract->algo);
  const std::int64_t size = a.alpha();
  if (problem.input(1).shape.rank() != 4 || problem.input(1).shape[2] == 1 ||
      problem.input(1).shape[3] == 1)
    return "transforms both axes; one alone is the definition's";
  if (!((size == 4 && a.m == 2) || (size == 6 && (a.m == 4 || a.m == 2)) ||
        (size == 8 && (a.m == 6 || a.m == 4))))
    return "is compiled for 2/3, 4/3, 6/3, 2/5 and 4/5";
  return std::nullopt;
}

Refusal refuse_fft(const Problem& problem) {
  if (Refusal r = fft_definition_row().refuse(problem)) return r;
  return refuse_common(problem);
}

}  // namespace

template <Isa isa>
KernelRow winograd_f32_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "seq with algo=winograd",
          .refuse = refuse_winograd,
          .run = run<isa>,
          .prepare = prepare<isa>};
}
template KernelRow winograd_f32_row<Isa::avx512>(std::string_view name);
template KernelRow winograd_f32_row<Isa::avx2>(std::string_view name);

template <Isa isa>
KernelRow fft_f32_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = isa,
          .contracts = "seq with algo=fft",
          .refuse = refuse_fft,
          .run = run<isa>,
          .prepare = prepare<isa>};
}
template KernelRow fft_f32_row<Isa::avx512>(std::string_view name);
template KernelRow fft_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
