#include "bench/micro/network_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "bench/runners/runner.h"
#include "engine/core/hash.h"
#include "engine/core/threads.h"
#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/backends/cuda/executor.h"
#include "kernels/kernels.h"

namespace etalon {
namespace {

struct Peer {
  NetworkTime result;
  Runner* runner = nullptr;
  std::vector<double> seconds;
};

// Runs `work`; a runner that fails loses its row and nothing else.
template <class F>
void guarded(Peer& peer, const F& work) {
  if (peer.result.status != "ok") return;
  try {
    work();
  } catch (const RunnerError& e) {
    peer.result.status = name(e.status());
    peer.result.reason = e.what();
  }
}

// Starts those that do not live yet, or no longer.
std::vector<Peer> start_peers(const NetworkBenchOptions& options, LiveRunners& runners,
                              const std::function<void(Peer&)>& prepare) {
  std::vector<Peer> peers;
  for (const RunnerTarget& target : options.vs) {
    Peer peer;
    peer.result.name = target.text;
    guarded(peer, [&] {
      std::unique_ptr<Runner>& live = runners[target.text];
      if (!live || !live->alive()) live = start_runner(target, {.threads = options.threads});
      peer.runner = live.get();
      const RunnerInfo& info = peer.runner->info();
      peer.result.version = info.framework + " " + info.version;
      peer.result.versions = info.versions;
      prepare(peer);
    });
    peers.push_back(std::move(peer));
  }
  return peers;
}

// A network of many layers takes long enough that a machine that is not idle changes its pace
// between two bursts: then ratios of medians over 18 runs of ResNet-50 lay between 1.04 and 1.31.
// More rounds are made until each side ran so often, or this much time went by.
constexpr std::size_t kLeastRuns = 60;
constexpr double kEnough_s = 20;

// Bursts of ours and of each peer's in turn.
NetworkBenchRow interleave(NetworkBenchRow row, const NetworkBenchOptions& options,
                           std::vector<Peer> peers, const std::function<double()>& ours,
                           const std::function<std::vector<double>(Runner&, int)>& theirs) {
  std::vector<double> seconds;
  const int runs = static_cast<int>(std::clamp(std::ceil(options.burst_s / ours()), 2.0, 50.0));
  const auto begin = std::chrono::steady_clock::now();
  const auto enough = [&](int rounds) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (options.most_time_s > 0 && rounds > 0 && spent.count() > options.most_time_s) return true;
    return rounds >= options.rounds && (seconds.size() >= kLeastRuns || spent.count() > kEnough_s);
  };
  // A device has no worker threads that would have to fall asleep; it has to turn from the other
  // process to this one.
  const bool device = options.device == Device::cuda;
  for (int round = 0; !enough(round); ++round) {
    check_interrupt();
    if (device) {
      ours();
    } else {
      settle(options.threads, Watchers::framework);
      wake(options.threads, [&] { ours(); });
    }
    for (int i = 0; i < runs; ++i) seconds.push_back(ours());
    for (Peer& peer : peers)
      guarded(peer, [&] {
        if (!device) settle(options.threads, Watchers::framework);
        for (const double s : theirs(*peer.runner, runs)) peer.seconds.push_back(s);
      });
  }
  row.ours.timing = summarize(std::move(seconds));
  for (Peer& peer : peers) {
    if (peer.result.status == "ok") peer.result.timing = summarize(std::move(peer.seconds));
    row.vs.push_back(std::move(peer.result));
  }
  return row;
}

}  // namespace

namespace {

std::string hash_of(const Trace& trace) {
  HashStream hash;
  for (const auto& [name, tensor] : trace.outputs) hash.update(tensor);
  return to_string(hash.digest());
}

}  // namespace

std::vector<NetworkBenchRow> bench_network(const Model& model, std::span<const InputMap> inputs,
                                           const NetworkBenchOptions& options,
                                           LiveRunners& runners) {
  RunOptions run;
  run.contract = options.contract;
  run.threads = options.threads;
  run.isa = options.isa;
  run.device = options.device;
  const Registry& kernels = options.kernels != nullptr ? *options.kernels : all_kernels();
  std::optional<cuda::DeviceExecutor> on_device;
  if (options.device == Device::cuda) on_device.emplace(model.graph, kernels, run);
  run.device = Device::cpu;
  Executor on_cpu(model.graph, kernels, run);
  std::vector<NetworkBenchRow> rows;
  for (const InputMap& given : inputs) {
    NetworkBenchRow& row = rows.emplace_back();
    row.ours.name = "etalon " + short_name(options.contract);
    row.ours.hash = hash_of(on_device ? on_device->run(given) : on_cpu.run(given));
    if (on_device) row.ours.cpu_hash = hash_of(on_cpu.run(given));
  }

  const std::vector<Peer> loaded =
      start_peers(options, runners, [&](Peer& peer) { peer.runner->load(model); });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const InputMap& given = inputs[i];
    const auto trace = [&] { return on_device ? on_device->run(given) : on_cpu.run(given); };
    const auto once = [&] {
      return on_device && on_device->launched_graph() ? on_device->launch_again() : trace().seconds;
    };
    std::vector<Peer> peers = loaded;
    for (Peer& peer : peers) guarded(peer, [&] { peer.runner->time(given, 3, 1); });
    for (int warm_up = 0; warm_up < 2; ++warm_up) trace();
    rows[i] =
        interleave(std::move(rows[i]), options, std::move(peers), once,
                   [&](Runner& runner, int runs) {  // one run wakes it
                     return runner.time(given, options.threads > 1 || on_device ? 1 : 0, runs);
                   });
  }
  return rows;
}

namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;

// Pieces of all tensors are one list of work, whatever their sizes.
Hash128 hash_of_weights(const Graph& graph, int threads) {
  struct Piece {
    std::span<const std::byte> bytes;
    Hash128 hash;
  };
  std::vector<Piece> pieces;
  std::vector<std::pair<std::string, std::size_t>> tensors;  // type, pieces up to its end
  for (const auto& [id, tensor] : graph.initializers) {
    const auto bytes = tensor.bytes();
    for (std::size_t at = 0; at < bytes.size(); at += kPiece)
      pieces.push_back({bytes.subspan(at, std::min(kPiece, bytes.size() - at)), {}});
    tensors.emplace_back(to_string(tensor.type()) + "\n", pieces.size());
  }
  parallel_for(static_cast<std::int64_t>(pieces.size()), threads, 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   Piece& piece = pieces[static_cast<std::size_t>(i)];
                   piece.hash = hash_bytes(piece.bytes);
                 }
               });
  HashStream hash;
  std::size_t at = 0;
  for (const auto& [type, end] : tensors) {
    hash.update(std::string_view(type));
    for (; at < end; ++at) hash.update(std::as_bytes(std::span(&pieces[at].hash, 1)));
  }
  return hash.digest();
}

// Highest resident size since the last reset; -1 where the system does not tell.
std::int64_t own_peak(bool reset) {
  if (reset) std::ofstream("/proc/self/clear_refs") << '5';
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::int64_t kib = 0; word == "VmHWM:" && status >> kib) return kib * 1024;
  return -1;
}

}  // namespace

NetworkBenchRow bench_import(const std::string& path, const NetworkBenchOptions& options) {
  NetworkBenchRow row;
  row.ours.name = "etalon";
  const auto open_and_hash = [&] {
    const auto begin = std::chrono::steady_clock::now();
    const Model model = open_model(path);
    row.ours.hash = to_string(hash_of_weights(*model.graph, options.threads));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const std::int64_t before = own_peak(true);
  open_and_hash();  // the file comes into the system's cache
  if (before >= 0) row.ours.peak_bytes = own_peak(false) - before;
  LiveRunners runners;  // of this file alone: what it opened before would still hold memory
  std::vector<Peer> peers = start_peers(options, runners, [&](Peer& peer) {
    peer.runner->peak_memory(true);
    const auto resident = peer.runner->peak_memory(false);
    peer.runner->time_open(path, 1);
    const auto peak = peer.runner->peak_memory(false);
    if (resident && peak) peer.result.peak_bytes = *peak - *resident;
  });
  // The first opening after somebody else's burst is not counted, on either side: a virtual
  // machine gives memory that is free for two seconds back to its host, and who asks for half a
  // gigabyte then waits two to three times as long.
  bool first = true;
  return interleave(
      row, options, std::move(peers),
      [&] {
        if (std::exchange(first, false)) open_and_hash();
        return open_and_hash();
      },
      [&](Runner& runner, int runs) {
        first = true;
        std::vector<double> seconds = runner.time_open(path, runs + 1);
        seconds.erase(seconds.begin());
        return seconds;
      });
}

}  // namespace etalon
