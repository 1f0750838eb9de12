// gemm, f32, contract seq: each y[m,n] is one fma chain, k ascending (definition.h).
// Loops: block of n by part of m, block of k, strip of m, group of vectors, k. Between two blocks
// of k the accumulators lie in y, as the f32 they are.
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
constexpr std::int64_t kFewestStrips = 4;  // of n in a block
constexpr std::size_t kLineBytes = 64;
// Two threads that share the columns of y both read all of a, half of which the other one wrote:
// its lines come from another core, later than packed ones of b come from the third cache. Of many
// rows they share those, unless that makes a strip of a leave the first cache for few uses. Where a
// lies k after k they share rows too: of each step a thread reads one run, and what must be packed
// is packed once.
constexpr std::int64_t kSharedRows = 128, kSharedTerms = 256;
// Rows a multiple of kSetBytes apart all share one set of the first cache: a tile that reads its
// rows where they lie takes no more of them than the set holds.
constexpr std::int64_t kSetBytes = 4096;
constexpr int kSetWays = 8;
// Where a lies k after k, tiles of up to so many strips of n read it so; more are worth packing it.
constexpr std::int64_t kBesideStrips = 4;
// Terms of a block of k, by what is packed (README.md has the times).
constexpr std::int64_t kTerms = 512;       // a, or b for few rows: blocks that are wide in n
constexpr std::int64_t kLongTerms = 4096;  // b for many rows
constexpr std::int64_t kRowTerms = 2048;   // b for one row, turned: rows of it are read long
constexpr std::int64_t kBesideTerms = 32;  // nothing: the steps of a block stay in the first cache
constexpr std::int64_t kManyRows = 64;
// Rows from which packing the vector side pays, when it could be read in place.
constexpr std::int64_t kPackRows = 28;
// A vector side of so few bytes stays in the nearest caches as it lies; few rows read one of so
// many as fast as its copy (35x700x2048 1.19 to 1.03 of oneDNN's time), no more (35x1500x2560 1.7).
constexpr std::int64_t kSmallBytes = 256 << 10, kNearBytes = 8 << 20;

// A single row is bound by reading b. From the caches Zen 4 does that faster by itself than when it
// is asked for lines ahead: 113 bytes a ns for 106 from the second, 97 for 78 from the third. From
// memory asking is the better: 37 for 32.
constexpr std::int64_t kThirdCache = 16 << 20;
bool asks_ahead(std::int64_t bytes) { return !is_amd() || bytes > kThirdCache; }

// Vectors are columns of y. Of a single one they would hold one lane; its rows fill them: from the
// second cache 20 bytes a ns instead of 14, from memory 14 instead of 12.
bool turns(std::int64_t m, std::int64_t n, std::int64_t a_k_stride) {
  return n == 1 && m > 1 && a_k_stride == 1;
}

// How a product is cut. Items are blocks of n times parts of m; each walks the blocks of k and
// packs what it needs by itself, so that no thread waits for another.
struct Plan {
  RowStrips strips;
  std::int64_t n_strips = 0;
  bool apart = false;       // a is read where it lies, each row along k,
  bool beside = false;      // or rows side by side; else packed strip by strip
  bool b_in_place = false;  // so is b, but for a last strip of fewer columns
  std::int64_t k_blocks = 1;
  std::int64_t width = 1;  // strips of n in a block
  std::int64_t n_blocks = 1, m_parts = 1;
  bool ahead = false;         // the next block of n is asked for while one is computed
  bool source_ahead = false;  // so is what is packed next
  bool copies = false;        // the first strip of rows packs b on its way
  bool by_rows = false;  // the items of a part of m follow each other, else those of a block of n
};

// Two or three rows are bound by reading b as one is, which four vectors at a time hide better than
// two. Where lines must be asked for, of b as it lies or of one in memory, a is packed for that.
bool few_rows(const GemmTask& task) {
  return task.m > 1 && task.m <= kUnaskedRows && task.ending == nullptr;
}
bool crowds(std::int64_t stride) { return stride * std::int64_t{sizeof(float)} % kSetBytes == 0; }

std::int64_t block_terms(const GemmTask& task, const Plan& p) {
  if (p.apart) {
    if (task.packed_b != nullptr || p.b_in_place) return task.k;
    return task.m == 1 ? kRowTerms : task.m < kManyRows ? kTerms : kLongTerms;
  }
  return p.beside ? kBesideTerms : kTerms;
}

// Strips of a block, whole tiles of them and up to `most`: the widest, so that a is read least, of
// those that leave the threads parts as equal as any, or nearly (465 strips in blocks of two, for
// the sake of one part in 200, took 1.1 of the time of blocks of six).
std::int64_t even_width(std::int64_t strips, std::int64_t most, int threads) {
  const auto longest = [&](std::int64_t width) {
    const std::int64_t blocks = (strips + width - 1) / width;
    return (blocks + threads - 1) / threads * width;
  };
  std::int64_t best = longest(kApartVectors);
  for (std::int64_t width = kApartVectors; width <= most; width += kApartVectors)
    best = std::min(best, longest(width));
  std::int64_t widest = kApartVectors;
  for (std::int64_t width = widest; width <= most; width += kApartVectors)
    if (longest(width) <= best + best / 32) widest = width;
  return widest;
}

Plan make_plan(const TileSet& set, const GemmTask& task, int threads) {
  Plan p;
  p.n_strips = vector_strips(task.n, set.lanes);
  const bool as_it_lies = task.packed_b == nullptr && task.b.row_stride == 1;
  const std::int64_t b_bytes = task.k * task.n * std::int64_t{sizeof(float)};
  p.apart = task.a.k_stride == 1 && !(few_rows(task) && (as_it_lies || asks_ahead(b_bytes)));
  p.beside = !p.apart && task.a.row_stride == 1 && p.n_strips <= kBesideStrips;
  p.strips = RowStrips(
      task.m, p.apart && crowds(task.a.row_stride) ? std::min(kSetWays, set.rows) : set.rows);
  // With few rows each element of b is used a few times only: read it where it lies.
  const bool near = b_bytes <= (task.m < kManyRows ? kNearBytes : kSmallBytes);
  p.b_in_place = as_it_lies && (task.m < kPackRows || (near && !crowds(task.b.k_stride)));
  const std::int64_t terms = std::max<std::int64_t>(1, std::min(task.k, block_terms(task, p)));
  p.k_blocks = std::max<std::int64_t>(1, (task.k + terms - 1) / terms);
  p.width =
      std::max(kFewestStrips, kBlockBytes / (terms * set.lanes * std::int64_t{sizeof(float)}));
  const std::int64_t wanted = threads * 4L;
  p.by_rows = threads > 1 && (p.apart ? task.packed_b != nullptr && task.m >= kSharedRows &&
                                            (task.k <= kSharedTerms || task.m >= task.k)
                                      : p.strips.count >= wanted);
  if (threads > 1 && !p.by_rows && p.n_strips / p.width < wanted)
    p.width = std::max(kFewestStrips, (p.n_strips + wanted - 1) / wanted);
  // Of one strip of m no other part is left to a thread.
  if (threads > 1 && p.strips.count == 1)
    p.width = std::min(p.width, (p.n_strips + threads - 1) / threads);
  // Weights that come from memory arrive while those before them are used, and leave half of the
  // second cache to these.
  p.ahead = task.packed_b != nullptr && p.apart && set.lanes * sizeof(float) == kLineBytes &&
            b_bytes > kBlockBytes && p.strips.count >= 2 * kApartVectors;
  const std::int64_t half = kBlockBytes / 2 / (terms * set.lanes * std::int64_t{sizeof(float)});
  if (p.by_rows && p.apart) p.width = std::max(kFewestStrips, half);
  if (p.ahead) p.width = even_width(p.n_strips, half, p.by_rows ? 1 : threads);
  p.width = std::min(p.width, p.n_strips);
  // What is packed comes from memory likewise, and half-line tiles of rows apart do not ask: from
  // there eight vectors of a row at a time arrive sooner than a tile's two.
  const bool packs_rows = as_it_lies && p.apart && !p.b_in_place, far = b_bytes > kBlockBytes;
  p.source_ahead = packs_rows && far && set.lanes * sizeof(float) == kLineBytes;
  p.copies = packs_rows && (p.source_ahead || !far);
  p.n_blocks = (p.n_strips + p.width - 1) / p.width;
  if (p.by_rows)
    p.m_parts = std::min<std::int64_t>(p.strips.count, threads);
  else if (threads > 1 && p.n_blocks < (p.ahead ? threads : wanted))
    p.m_parts = std::min(p.strips.count, (wanted + p.n_blocks - 1) / p.n_blocks);
  return p;
}

// The ending of a tile whose first element is `at` of y, in this column.
void end_columns(const UsualSteps& steps, std::int64_t column, std::int64_t at, TileEnding& to) {
  if (steps.affine != nullptr) {
    to.mean = steps.affine->mean + column;
    to.factor = steps.affine->factor + column;
    to.bias = steps.affine->bias + column;
  }
  if (steps.add != nullptr) to.other = steps.add->other + at;
}

// One item: rows of the strips [from, to) by columns of the strips [first, last).
class Item {
 public:
  Item(const TileSet& set, const GemmTask& task, const Plan& plan, std::int64_t item)
      : set_(set), task_(task), plan_(plan), item_(item) {
    const std::int64_t part = plan.by_rows ? item / plan.n_blocks : item % plan.m_parts;
    from_ = part * plan.strips.count / plan.m_parts;
    to_ = (part + 1) * plan.strips.count / plan.m_parts;
    first_ = first_strip(item);
    last_ = std::min(plan.n_strips, first_ + plan.width);
  }

  void run() {
    for (std::int64_t block = 0; block < plan_.k_blocks; ++block) {
      const std::int64_t k = first_term(block);
      terms_ = first_term(block + 1) - k;
      resume_ = task_.resume || block > 0;
      ends_ = block + 1 == plan_.k_blocks;
      bring_columns(k);
      ahead_ = plan_.source_ahead ? following(block) : nullptr;
      for (std::int64_t s = from_; s < to_; ++s) rows(s, k);
    }
  }

 private:
  std::int64_t first_term(std::int64_t block) const { return block * task_.k / plan_.k_blocks; }
  std::int64_t first_strip(std::int64_t item) const {
    return (plan_.by_rows ? item % plan_.n_blocks : item / plan_.m_parts) * plan_.width;
  }

  // The vector side of this block of k.
  void bring_columns(std::int64_t k) {
    const std::int64_t lanes = set_.lanes;
    tail_ = nullptr;
    if (task_.packed_b != nullptr) {
      b_ = task_.packed_b + first_ * task_.k * lanes + k * lanes;
      b_strip_ = task_.k * lanes;
      b_step_ = lanes;
      return;
    }
    MatrixView view = task_.b;
    view.data += k * view.k_stride + first_ * lanes * view.row_stride;
    const std::int64_t columns = std::min(task_.n, last_ * lanes) - first_ * lanes;
    if (!plan_.b_in_place) {
      float* packed =
          thread_scratch<float>(ScratchSlot::vector, plan_.width * lanes * (terms_ + 1));
      b_ = packed;
      b_strip_ = terms_ * lanes;
      b_step_ = lanes;
      if (copies()) {
        copied_ = view.data;
        copy_ = packed;
        whole_ = first_ + columns / lanes;
        view.data += columns - columns % lanes;
        pack_vector(set_, view, columns % lanes, terms_, 1, packed + (whole_ - first_) * b_strip_);
      } else {
        pack_vector(set_, view, columns, terms_, 1, packed);
      }
      return;
    }
    b_ = view.data;
    b_strip_ = lanes;
    b_step_ = view.k_stride;
    if (const int left = static_cast<int>(columns % lanes); left != 0) {
      float* packed = thread_scratch<float>(ScratchSlot::vector, terms_ * lanes);
      pack_rows(set_, view, columns - left, left, set_.lanes, terms_, packed, lanes);
      tail_ = packed;
    }
  }

  // Where what is packed after this block begins: a thread goes on to the next item.
  const float* following(std::int64_t block) const {
    std::int64_t k = 0, first = first_;
    if (block + 1 < plan_.k_blocks) {
      k = first_term(block + 1);
    } else {
      const std::int64_t item = item_ + 1;
      if (item >= plan_.n_blocks * plan_.m_parts) return nullptr;
      first = first_strip(item);
    }
    return task_.b.data + k * task_.b.k_stride + first * set_.lanes;
  }

  bool copies() const {
    return plan_.copies && to_ - from_ > 1 &&
           set_.copying[1][static_cast<std::size_t>(plan_.strips.height(from_))] != nullptr;
  }

  // Which lines the tile of `w` strips from `v` on asks for, `tiles_left` before the block's end.
  void ask(std::int64_t s, std::int64_t v, int w, std::int64_t tiles_left, TileCall& t) const {
    t.next_step = 0;
    if (ahead_ != nullptr) {
      // The last tiles ask, each for one strip.
      const std::int64_t strips = last_ - first_;
      if (tiles_left > strips) return;
      t.next = ahead_ + (strips - tiles_left) * set_.lanes;
      t.next_step = task_.b.k_stride;
    } else if (plan_.ahead && s - from_ < w) {
      // Each strip of rows asks for one of the vectors that stand where these do in the next block.
      const std::int64_t next = v + plan_.width + s - from_;
      if (next >= plan_.n_strips) return;
      t.next = task_.packed_b + next * b_strip_;
      t.next_step = set_.lanes;
    }
  }

  void rows(std::int64_t s, std::int64_t k) const {
    const GemmTask& task = task_;
    const int lanes = set_.lanes;
    const std::int64_t row = plan_.strips.first(s);
    const int height = plan_.strips.height(s);
    const bool apart = plan_.apart && height > 1;
    MatrixView a = task.a;
    a.data += k * a.k_stride;
    TileCall t{.k = terms_,
               .a = a.data + row * a.row_stride,
               .a_step = plan_.apart    ? 1
                         : plan_.beside ? a.k_stride
                                        : height,
               .a_row = a.row_stride,
               .c_row = task.n,
               .resume = resume_};
    if (!plan_.apart && !plan_.beside) {
      float* packed = thread_scratch<float>(ScratchSlot::broadcast, terms_ * set_.rows);
      pack_rows(set_, a, row, height, height, terms_, packed, height);
      t.a = packed;
    }
    const bool unasked = task.m == 1 ? !asks_ahead(task.k * task.n * std::int64_t{sizeof(float)})
                                     : apart && few_rows(task);
    const int most = widest_tile(set_, height);
    const int widest = apart && !unasked ? std::min(kApartVectors, most) : most;
    const bool plain = task.alpha == 1.0F && task.beta == 1.0F;
    const bool lane_bias = plain && task.c != nullptr && task.c_row == 0 && task.c_col == 1;
    const bool scaled = !lane_bias && (task.alpha != 1.0F || task.c != nullptr);
    const auto* tiles = apart ? set_.rows_apart.data() : set_.plain.data();
    TileEnding ending;
    if (task.ending != nullptr && ends_) {
      ending.relu = task.ending->relu;
      if (task.ending->affine != nullptr) ending.fused = task.ending->affine->fused;
      t.ending = &ending;
    }
    int w = 0;
    std::int64_t tiles_left = (to_ - s) * ((last_ - first_ + widest - 1) / widest);
    for (std::int64_t next = first_; next < last_; next += w) {
      const bool at_tail = tail_ != nullptr && next == last_ - 1;
      const bool copying = copied_ != nullptr && s == from_ && next < whole_;
      const std::int64_t stop = copying ? whole_ : tail_ != nullptr && !at_tail ? last_ - 1 : last_;
      w = static_cast<int>(std::min<std::int64_t>(widest, stop - next));
      const std::int64_t v = task.backwards ? first_ + last_ - next - w : next;
      t.b = at_tail ? tail_ : b_ + (v - first_) * b_strip_;
      t.b_step = at_tail ? lanes : b_step_;
      t.b_strip = b_strip_;
      if (copying) {
        t.b = copied_ + (v - first_) * lanes;
        t.b_strip = lanes;
        t.b_step = task.b.k_stride;
        t.copy = copy_ + (v - first_) * b_strip_;
        t.copy_strip = b_strip_;
      }
      t.c = task.y + row * task.n + v * lanes;
      t.last_lanes = static_cast<int>(std::min<std::int64_t>(lanes, task.n - (v + w - 1) * lanes));
      t.lane_bias = lane_bias && ends_ ? task.c + v * lanes : nullptr;
      if (t.ending != nullptr) end_columns(*task.ending, v * lanes, t.c - task.y, ending);
      ask(s, v, w, tiles_left--, t);
      const TileFn tile =
          copying   ? set_.copying[static_cast<std::size_t>(w)][static_cast<std::size_t>(height)]
          : unasked ? set_.unasked[static_cast<std::size_t>(w)][static_cast<std::size_t>(height)]
                    : tiles[static_cast<std::size_t>(w)][static_cast<std::size_t>(height)];
      tile(t);
      if (scaled && ends_) {
        const std::int64_t columns = (w - 1) * lanes + t.last_lanes;
        for (int r = 0; r < height; ++r)
          set_.scale_add(t.c + r * task.n, columns, task.alpha, task.beta,
                         task.c == nullptr
                             ? nullptr
                             : task.c + (row + r) * task.c_row + v * lanes * task.c_col,
                         task.c_col);
      }
    }
    if (task.finished == nullptr || task.ending != nullptr || !ends_) return;
    const std::int64_t column = first_ * lanes, columns = std::min(task.n, last_ * lanes) - column;
    (*task.finished)(
        {.begin = row * task.n + column, .count = columns, .rows = height, .stride = task.n});
  }

  const TileSet& set_;
  const GemmTask& task_;
  const Plan& plan_;
  std::int64_t item_;
  std::int64_t from_, to_, first_, last_;
  std::int64_t terms_ = 0;
  bool resume_ = false, ends_ = true;
  const float *b_ = nullptr, *tail_ = nullptr, *ahead_ = nullptr;
  // b of this block where it lies, if the first strip of rows copies it, up to strip `whole_`.
  const float* copied_ = nullptr;
  float* copy_ = nullptr;
  std::int64_t whole_ = 0;
  std::int64_t b_strip_ = 0, b_step_ = 0;
};

}  // namespace

void gemm_f32(const TileSet& set, const GemmTask& task, int threads) {
  if (task.m == 0 || task.n == 0) return;
  if (task.ending != nullptr && (task.m < 2 || task.a.k_stride != 1))
    throw internal_error("no tile of gemm ends such sums");
  if (turns(task.m, task.n, task.a.k_stride) && task.packed_b == nullptr) {
    GemmTask turned = task;
    std::swap(turned.m, turned.n);
    std::swap(turned.a, turned.b);
    std::swap(turned.c_row, turned.c_col);
    gemm_f32(set, turned, threads);
    return;
  }
  if (2.0 * static_cast<double>(task.m) * static_cast<double>(task.n) *
          static_cast<double>(task.k) <
      kSerialFlops)
    threads = 1;
  const Plan plan = make_plan(set, task, threads);
  parallel_for(plan.n_blocks * plan.m_parts, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) Item(set, task, plan, i).run();
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
  const TileSet& set = *tile_set_f32(isa);
  const auto& params = problem.params->as<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, problem.input(0).shape, problem.input(1).shape);
  if (turns(g.m, g.n, g.a_col)) return nullptr;
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
