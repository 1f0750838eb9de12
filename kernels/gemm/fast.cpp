// gemm, f32, contract seq: each y[m,n] is one fma chain, k ascending (definition.h).
// Loops: block of n, strip of m, group of vectors, k; accumulators carried over all of k.
// Same bits: blocking decides when an operand is loaded, never which fma follows which.
// Limit: two 512-bit fma a cycle; share reached, and what was tried: README.md.
#include "kernels/gemm/fast.h"

#include "engine/ops/gemm.h"
#include "kernels/gemm/refuse.h"
#include "kernels/simd/machine.h"

namespace etalon {
namespace {

// A product below this takes less time than waking a second thread.
constexpr double kSerialFlops = 4e5;
// Bytes of the vector side that stay in the second cache while all strips of m pass by.
constexpr std::int64_t kBlockBytes = 768 << 10;
// Up to so many strips of n, packing the rows of a costs more than it saves: they are read where
// they lie. Rows a multiple of kSetBytes apart all share one set of the first cache, which holds
// those of a tile of AVX2 but no more (there, read in place, 1024 channels took 0.86 to 0.97 of the
// time, 16 columns of 1024 and 4096 terms 0.3). Beside a packed b a tile's rows of few bytes are
// read so whatever n is: they stay in the first caches while all strips pass, and nothing is left
// to pack (1x1 layers over the last axis, 64 to 512 channels: 0.80 to 0.94 of the time).
constexpr std::int64_t kApartStrips = 2, kSetBytes = 4096, kSetWays = 8, kApartBytes = 42 << 10;
// A side of rows k apart that serves few strips of n is walked a block of k at a time, so that each
// of its lines comes from memory once: packed whole, m = 1024, n = 16, k = 500000 took 11 times as
// long as oneDNN.
constexpr std::int64_t kFlatStrips = 4, kFlatBytes = 512 << 10;
// Rows from which packing the vector side pays, when it could be read in place.
constexpr std::int64_t kPackRows = 28;
// A vector side of so few bytes stays in the nearest caches as it lies.
constexpr std::int64_t kSmallBytes = 256 << 10;

// A single row is bound by reading b. From the caches Zen 4 does that faster by itself than when it
// is asked for lines ahead: 113 bytes a ns for 106 from the second, 97 for 78 from the third. From
// memory asking is the better: 37 for 32.
constexpr std::int64_t kThirdCache = 16 << 20;
bool asks_ahead(std::int64_t bytes) { return !is_amd() || bytes > kThirdCache; }

struct Grid {
  std::int64_t block = 1;    // strips of n in a block
  std::int64_t blocks = 1;   // blocks of n
  std::int64_t m_parts = 1;  // parts of m's strips
};

Grid make_grid(std::int64_t n_strips, std::int64_t m_strips, std::int64_t k, int lanes,
               int threads) {
  Grid g;
  g.block = std::max<std::int64_t>(
      4, kBlockBytes / std::max<std::int64_t>(1, k * lanes * std::int64_t{sizeof(float)}));
  const std::int64_t wanted = threads * 4L;
  if (threads > 1 && n_strips / g.block < wanted)
    g.block = std::max<std::int64_t>(4, (n_strips + wanted - 1) / wanted);
  g.block = std::min(g.block, n_strips);
  g.blocks = (n_strips + g.block - 1) / g.block;
  if (threads > 1 && g.blocks < wanted)
    g.m_parts = std::min(m_strips, (wanted + g.blocks - 1) / g.blocks);
  return g;
}

// Terms of one block, or 0 where all of k is one.
std::int64_t flat_block(const GemmTask& task, int lanes) {
  const bool flat = task.packed_b == nullptr && task.a.row_stride == 1 && task.m > 1 &&
                    vector_strips(task.n, lanes) <= kFlatStrips;
  const std::int64_t row_bytes = task.m * std::int64_t{sizeof(float)};
  const std::int64_t block =
      std::max<std::int64_t>(64, kFlatBytes / std::max<std::int64_t>(1, row_bytes));
  return flat && task.k > 2 * block ? block : 0;
}

}  // namespace

void gemm_f32(const TileSet<float>& set, const GemmTask& task, int threads) {
  const std::int64_t m = task.m, n = task.n, k = task.k;
  if (m == 0 || n == 0) return;
  if (const std::int64_t block = flat_block(task, set.lanes); block > 0) {
    // What y holds between two blocks are the accumulators; scaling and c come with the last.
    GemmTask part{.m = m, .n = n, .a = task.a, .b = task.b, .resume = task.resume, .y = task.y};
    for (std::int64_t done = 0; done < k; done += part.k) {
      part.k = std::min(block, k - done);
      if (done + part.k == k) {
        part.alpha = task.alpha;
        part.beta = task.beta;
        part.c = task.c;
        part.c_row = task.c_row;
        part.c_col = task.c_col;
        part.finished = task.finished;
      }
      gemm_f32(set, part, threads);
      part.a.data += part.k * part.a.k_stride;
      part.b.data += part.k * part.b.k_stride;
      part.resume = true;
    }
    return;
  }
  if (2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < kSerialFlops)
    threads = 1;
  const int lanes = set.lanes;
  const RowStrips strips(m, set.rows);
  const std::int64_t n_strips = vector_strips(n, lanes);

  // With few rows each element of b is used a few times only: read it where it lies.
  const bool small = k * n * std::int64_t{sizeof(float)} <= kSmallBytes &&
                     task.b.k_stride * std::int64_t{sizeof(float)} % kSetBytes != 0;
  const bool in_place =
      task.packed_b == nullptr && task.b.row_stride == 1 && (m < kPackRows || small);
  const float* b = task.packed_b;
  std::int64_t b_strip = k * lanes, b_step = lanes;
  const float* tail = nullptr;  // the last strip, packed where it would be read past its end
  if (in_place) {
    b = task.b.data;
    b_strip = lanes;
    b_step = task.b.k_stride;
    if (n % lanes != 0) {
      float* packed = thread_scratch<float>(ScratchSlot::vector, k * lanes);
      pack_rows(set, task.b, n / lanes * lanes, static_cast<int>(n % lanes), lanes, k, packed,
                lanes);
      tail = packed;
    }
  } else if (b == nullptr) {
    float* packed = thread_scratch<float>(ScratchSlot::vector, n_strips * lanes * k);
    pack_vector(set, task.b, n, k, threads, packed);
    b = packed;
  }
  const float* a = task.a.data;
  const std::int64_t row_bytes = task.a.row_stride * std::int64_t{sizeof(float)};
  const bool serves = n_strips <= kApartStrips || (task.packed_b != nullptr && m >= set.rows &&
                                                   set.rows * row_bytes <= kApartBytes);
  const bool apart = task.a.k_stride == 1 && (m == 1 || serves) &&
                     (m <= 4 || set.rows <= kSetWays || row_bytes % kSetBytes != 0);
  // Of a small product each strip of a is packed by who computes its rows: one loop, not two.
  const bool by_strips =
      !apart && ((in_place && small) ||
                 (task.packed_b != nullptr && k * n * std::int64_t{sizeof(float)} <= kSmallBytes));
  if (!apart && !by_strips) {
    float* packed = thread_scratch<float>(ScratchSlot::broadcast, m * k);
    pack_broadcast(set, task.a, strips, k, threads, packed);
    a = packed;
  }

  const bool plain = task.alpha == 1.0F && task.beta == 1.0F;
  const bool lane_bias = plain && task.c != nullptr && task.c_row == 0 && task.c_col == 1;
  const bool scaled = !lane_bias && (task.alpha != 1.0F || task.c != nullptr);
  const bool row_alone = m == 1 && !asks_ahead(k * n * std::int64_t{sizeof(float)});
  const Grid grid = by_strips
                        ? Grid{n_strips, 1, std::min<std::int64_t>(strips.count, threads * 4L)}
                        : make_grid(n_strips, strips.count, k, lanes, threads);
  parallel_for(grid.blocks * grid.m_parts, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* own = by_strips ? thread_scratch<float>(ScratchSlot::broadcast, k * set.rows) : nullptr;
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t part = item % grid.m_parts;
      const std::int64_t first = item / grid.m_parts * grid.block;
      const std::int64_t last = std::min(n_strips, first + grid.block);
      for (std::int64_t s = part * strips.count / grid.m_parts;
           s < (part + 1) * strips.count / grid.m_parts; ++s) {
        const int height = strips.height(s);
        const std::int64_t row = strips.first(s);
        const int widest = apart && height > 1 ? std::min(kApartVectors, widest_tile(set, height))
                                               : widest_tile(set, height);
        if (by_strips) pack_rows(set, task.a, row, height, height, k, own, height);
        TileCall<float> t{.k = k,
                          .a = by_strips ? own : a + row * (apart ? task.a.row_stride : k),
                          .a_step = height,
                          .a_row = task.a.row_stride,
                          .b_strip = b_strip,
                          .c_row = n,
                          .resume = task.resume};
        // A single row is its own strip.
        const auto* tiles = apart && height > 1 ? set.rows_apart.data() : set.plain.data();
        int w = 0;
        for (std::int64_t next = first; next < last; next += w) {
          const bool at_tail = tail != nullptr && next == n_strips - 1;
          const std::int64_t stop =
              tail != nullptr && !at_tail ? std::min(last, n_strips - 1) : last;
          w = static_cast<int>(std::min<std::int64_t>(widest, stop - next));
          const std::int64_t v = task.backwards ? first + last - next - w : next;
          t.b = at_tail ? tail : b + v * b_strip;
          t.b_step = at_tail ? lanes : b_step;
          t.c = task.y + row * n + v * lanes;
          t.last_lanes = static_cast<int>(std::min<std::int64_t>(lanes, n - (v + w - 1) * lanes));
          t.lane_bias = lane_bias ? task.c + v * lanes : nullptr;
          const TileFn<float> tile =
              row_alone ? set.row[static_cast<std::size_t>(w)]
                        : tiles[static_cast<std::size_t>(w)][static_cast<std::size_t>(height)];
          tile(t);
          if (scaled) {
            const std::int64_t columns = (w - 1) * lanes + t.last_lanes;
            for (int r = 0; r < height; ++r)
              set.scale_add(t.c + r * n, columns, task.alpha, task.beta,
                            task.c == nullptr
                                ? nullptr
                                : task.c + (row + r) * task.c_row + v * lanes * task.c_col,
                            task.c_col);
          }
        }
        if (task.finished == nullptr) continue;
        const std::int64_t column = first * lanes, columns = std::min(n, last * lanes) - column;
        (*task.finished)(
            {.begin = row * n + column, .count = columns, .rows = height, .stride = n});
      }
    }
  });
}

namespace {

// b in strips, when it is constant.
struct PreparedGemm {
  AlignedBuffer b;
};

template <Isa isa>
Prepared prepare(const Problem& problem, int threads) {
  const Tensor* b = problem.inputs[1].value;
  if (b == nullptr) return nullptr;
  const TileSet<float>& set = *tile_set_f32(isa);
  const auto& params = problem.params->as<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, problem.input(0).shape, problem.input(1).shape);
  auto prepared = std::make_shared<PreparedGemm>();
  pack_vector(set, {b->data<float>().data(), g.b_col, g.b_row}, g.n, g.k, threads,
              prepared->b.at_least<float>(vector_strips(g.n, set.lanes) * set.lanes * g.k));
  return prepared;
}

template <Isa isa>
void run(const KernelCall& call) {
  const auto& params = call.params<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, call.input(0).shape(), call.input(1).shape());
  GemmTask task{.m = g.m,
                .n = g.n,
                .k = g.k,
                .a = {call.input(0).data<float>().data(), g.a_row, g.a_col},
                .b = {call.input(1).data<float>().data(), g.b_col, g.b_row},
                .alpha = params.alpha,
                .beta = params.beta,
                .y = call.output(0).mutable_data<float>().data(),
                .finished = call.finished};
  if (const auto* prepared = static_cast<const PreparedGemm*>(call.prepared))
    task.packed_b = prepared->b.data<float>();
  if (call.has(2)) {
    const auto strides = broadcast_strides(call.input(2).shape(), Shape{g.m, g.n});
    task.c = call.input(2).data<float>().data();
    task.c_row = strides[0];
    task.c_col = strides[1];
  }
  gemm_f32(*tile_set_f32(isa), task, call.threads);
}

}  // namespace

template <Isa isa>
KernelRow gemm_f32_row(std::string_view name) {
  return {.op = "gemm",
          .name = name,
          .isa = isa,
          .contracts = "seq",
          .refuse = refuse_unless_seq_f32,
          .run = run<isa>,
          .prepare = prepare<isa>,
          .announces = true};
}
template KernelRow gemm_f32_row<Isa::avx512>(std::string_view name);
template KernelRow gemm_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
