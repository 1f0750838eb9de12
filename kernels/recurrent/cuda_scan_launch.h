// The launches of cuda_scan.h: memory of a call, the choice of a tile, the sequence, and the host
// shim.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/gemm/cuda_tile_choice.h"
#include "kernels/recurrent/cuda_held.h"
#include "kernels/recurrent/cuda_scan_block.h"

namespace etalon {
namespace cuda {  // cuda_held.cu
bool can_hold();
int launch_held(const HeldTask& t, const ScanStep& step, void* stream);
}  // namespace cuda
inline namespace ETALON_ISA_NAMESPACE {

// Memory of a task, as it lies from `base` on; the number of floats.
inline std::int64_t place_scan(ScanTask& t, float* base, std::int64_t most_steps = 0) {
  const RecurrentGeometry& g = t.p.g;
  const auto aligned = [](std::int64_t n) {
    return (n + kScanAlign - 1) / kScanAlign * kScanAlign;
  };
  t.rows = aligned(g.batch);
  const std::int64_t of_step = std::max<std::int64_t>(1, g.directions * g.batch * t.width());
  t.at_once = std::max<std::int64_t>(1, std::min(g.steps, kScanSums / of_step));
  if (most_steps > 0) t.at_once = std::min(t.at_once, most_steps);
  std::int64_t used = 0;
  const auto take = [&](std::int64_t n) {
    float* const p = base == nullptr ? nullptr : base + used;
    used += aligned(n);
    return p;
  };
  const std::int64_t of_gate = g.directions * aligned(g.hidden) * g.hidden;
  t.sums = take(t.at_once * of_step);
  t.weights[0] = take(g.gates * of_gate);
  if (g.kind == CellKind::gru && !t.p.linear_before_reset) {
    const std::int64_t of_two = 2 * of_gate;  // a multiple of kScanAlign
    t.weights[1] = base == nullptr ? nullptr : t.weights[0] + of_two;
  }
  for (float** state : {&t.h[0], &t.h[1], &t.c, &t.z, &t.reset}) *state = take(t.states());
  t.open = reinterpret_cast<std::int32_t*>(take(g.directions * g.batch));
  return used;
}
inline std::int64_t scan_bytes(const RecurrentPlan& plan) {
  ScanTask t{{plan, {}}};
  return place_scan(t, nullptr) * static_cast<std::int64_t>(sizeof(float));
}

// f.template operator()<phase>() for each launch of a step.
template <class F>
void for_each_scan_phase(const RecurrentPlan& p, F&& f) {
  if (p.g.kind == CellKind::rnn) {
    f.template operator()<ScanPhase::rnn>();
  } else if (p.g.kind == CellKind::lstm) {
    f.template operator()<ScanPhase::lstm>();
  } else if (p.linear_before_reset) {
    f.template operator()<ScanPhase::gru_linear>();
  } else {
    f.template operator()<ScanPhase::gru_gates>();
    f.template operator()<ScanPhase::gru_candidate>();
  }
}
// f.template operator()<Across, Rows>() for the tile of a task.
template <class F, int... Tile>
void with_scan_tile(int tile, F&& f, std::integer_sequence<int, Tile...>) {
  static_cast<void>(
      ((tile == Tile &&
        (f.template operator()<kScanTiles[Tile].across, kScanTiles[Tile].rows>(), true)) ||
       ...));
}
template <class F>
void with_scan_tile(int tile, F&& f) {
  with_scan_tile(tile, f, std::make_integer_sequence<int, kScanTileCount>{});
}

// The largest tile that still has work for most of a hundred-odd SMs; no result depends on it.
inline int choose_scan_tile(const ScanTask& of) {
  constexpr int kFew = 0, kSmall = 1, kSixteen = 2, kThirtyTwo = 3, kSixtyFour = 4;
  if (of.p.g.batch <= kScanTiles[kFew].block_rows()) return kFew;
  const auto blocks = [&of](int tile) {
    ScanTask t = of;
    t.tile = tile;
    std::int64_t least = 0;
    for_each_scan_phase(t.p, [&]<ScanPhase phase>() {
      least = least == 0 ? t.blocks(phase) : std::min(least, t.blocks(phase));
    });
    return least;
  };
  constexpr std::int64_t kEnough = 96;
  if (of.p.g.batch > 32 && blocks(kSixtyFour) >= 2 * kEnough) return kSixtyFour;
  const int wide = of.p.g.batch > 16 ? kThirtyTwo : kSixteen;
  return blocks(wide) >= kEnough ? wide : kSmall;
}

// A test may ask for a tile, and for chunks of fewer steps.
inline ScanTask scan_task(const KernelCall& call, const cuda::CellMemory& memory, int tile = -1,
                          std::int64_t most_steps = 0) {
  ScanTask t{cell_task(call, memory)};
  if (call.has(3)) t.bias = reinterpret_cast<const float*>(call.input(3).bytes().data());
  place_scan(t, static_cast<float*>(memory.scratch), most_steps);
  t.tile = tile < 0 ? choose_scan_tile(t) : tile;
  return t;
}

// The terms of x of a chunk, for one direction.
inline TileTask scan_products(const ScanTask& t, const ScanStep& chunk, std::int64_t d,
                              const KernelCall& call) {
  const RecurrentGeometry& g = t.p.g;
  const auto floats = [&](std::size_t i) {
    return reinterpret_cast<const float*>(call.input(i).bytes().data());
  };
  TileTask x;
  x.m = g.batch_first ? chunk.count : chunk.count * g.batch;
  x.n = t.width();
  x.k = g.inputs;
  x.a = floats(0) + chunk.begin(g, d) * (g.batch_first ? 1 : g.batch) * g.inputs;
  x.a_row = g.inputs;
  x.a_col = 1;
  x.b = floats(1) + d * t.width() * g.inputs;
  x.b_row = 1;
  x.b_col = g.inputs;
  if (g.batch_first) {
    x.batch = Shape{g.batch};
    x.a_batch[0] = g.steps * g.inputs;
    x.y_batch = chunk.count * t.width();
  }
  x.y = t.sums + d * t.at_once * g.batch * t.width();
  return x;
}

// The launches of a call, in their sequence: pack<phase>(), begin(), products(tile task),
// step<phase>(step), finish(); or begin(), products(tile task), held(task, chunk), finish().
template <class Launch>
void launch_scan(const ScanTask& t, const KernelCall& call, Launch&& launch) {
  const RecurrentGeometry& g = t.p.g;
  const HeldTask held = launch.holds() ? held_task(t) : HeldTask{t};
  if (held.ranks == 0)
    for_each_scan_phase(t.p, [&]<ScanPhase phase>() { launch.template pack<phase>(); });
  launch.begin();
  for (std::int64_t first = 0; first < g.steps; first += t.at_once) {
    ScanStep step{first, first, std::min(t.at_once, g.steps - first)};
    for (std::int64_t d = 0; d < g.directions; ++d)
      launch.products(scan_products(t, step, d, call));
    if (held.ranks > 0)
      launch.held(held, step);
    else
      for (; step.number < first + step.count; ++step.number)
        for_each_scan_phase(t.p, [&]<ScanPhase phase>() { launch.template step<phase>(step); });
  }
  launch.finish();
}

#if !defined(__CUDACC__)
// Threads and blocks backwards: none may lean on one before it.
template <class Undecided>
struct ScanOnHost {
  const ScanTask& t;
  Undecided& undecided;       // (slice)
  std::int64_t* chunks_held;  // counts them; null: none is to be

  template <class Thread>
  struct Threads {
    std::vector<Thread>& r;
    template <class F>
    void phase(F&& f) const {
      for (int tid = kScanThreads; tid-- > 0;) f(r[static_cast<std::size_t>(tid)], tid);
    }
    void before_there() const {}
    template <int>
    void arrived() const {}
  };

  template <ScanPhase phase>
  void pack() const {
    for (std::int64_t block = scan_pack_blocks(t, phase); block-- > 0;)
      for (int tid = kScanPackThreads; tid-- > 0;)
        scan_pack<phase>(t, kScanTiles[t.tile], block, tid);
  }
  bool holds() const { return chunks_held != nullptr; }
  void begin() const {
    for (std::int64_t i = t.states(); i-- > 0;) scan_begin(t, i);
  }
  void products(const TileTask& x) const { run_tiles_on_host(tile_choice(x, false, true, 132)); }
  template <ScanPhase phase>
  void step(const ScanStep& step) const {
    with_scan_tile(t.tile, [&]<int Across, int Rows>() {
      using Block = ScanBlock<phase, Across, Rows>;
      auto shared = std::make_unique<typename Block::Shared>();
      std::vector<typename Block::Thread> threads(kScanThreads);
      for (std::int64_t block = t.blocks(phase); block-- > 0;) {
        std::memset(static_cast<void*>(shared.get()), 0xA5, sizeof *shared);
        Block::run(t, step, static_cast<std::uint32_t>(block), *shared,
                   Threads<typename Block::Thread>{threads});
      }
    });
  }
  // A cluster, all its blocks side by side.
  template <class Block>
  struct Cluster {
    std::vector<typename Block::Place> places;
    mutable std::vector<std::vector<typename Block::Thread>> r;
    mutable std::vector<typename Block::Shared> shared;
    template <class F>
    void phase(F&& f) const {
      for (std::size_t rank = places.size(); rank-- > 0;)
        for (std::size_t tid = r[rank].size(); tid-- > 0;)
          f(places[rank], r[rank][tid], shared[rank], static_cast<int>(tid));
    }
    void together() const {}
    void all_together() const {}
    float* of(float* own, int rank) const {
      auto* const at = reinterpret_cast<std::byte*>(own);
      for (auto& s : shared) {
        auto* const first = reinterpret_cast<std::byte*>(&s);
        if (at >= first && at < first + sizeof s)
          return reinterpret_cast<float*>(
              reinterpret_cast<std::byte*>(&shared[static_cast<std::size_t>(rank)]) + (at - first));
      }
      return nullptr;
    }
  };
  void held(const HeldTask& task, const ScanStep& step) const {
    ++*chunks_held;
    with_held_form(task, [&]<int Weights>() {
      using Block = HeldBlock<Weights>;
      const auto ranks = static_cast<std::size_t>(task.ranks);
      for (std::int64_t first = task.blocks(); first > 0;) {
        first -= task.ranks;
        Cluster<Block> cluster{
            {},
            {ranks, std::vector<typename Block::Thread>(static_cast<std::size_t>(task.threads()))},
            std::vector<typename Block::Shared>(ranks)};
        std::memset(static_cast<void*>(cluster.shared.data()), 0xA5,
                    ranks * sizeof(typename Block::Shared));
        for (std::size_t rank = 0; rank < ranks; ++rank)
          cluster.places.push_back(Block::place(
              task, static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(rank)));
        Block::run(task, step, cluster);
      }
    });
  }
  void finish() const {
    for (std::int64_t i = t.states(); i-- > 0;)
      if (scan_finish(t, i)) undecided(scan_slice(t, i));
  }
};
template <class Undecided>
void run_scan_on_host(const ScanTask& t, const KernelCall& call, Undecided undecided,
                      std::int64_t* chunks_held) {
  launch_scan(t, call, ScanOnHost<Undecided>{t, undecided, chunks_held});
}
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
