#include "bench/micro/network_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>

#include "bench/runners/runner.h"
#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/kernels.h"

namespace etalon {
namespace {

struct Peer {
  NetworkTime result;
  std::unique_ptr<Runner> runner;
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
    peer.runner.reset();
  }
}

std::vector<Peer> start_peers(const NetworkBenchOptions& options,
                              const std::function<void(Peer&)>& prepare) {
  std::vector<Peer> peers;
  for (const RunnerTarget& target : options.vs) {
    Peer peer;
    peer.result.name = target.text;
    guarded(peer, [&] {
      RunnerOptions start;
      start.threads = options.threads;
      peer.runner = start_runner(target, start);
      peer.result.version = peer.runner->info().framework + " " + peer.runner->info().version;
      prepare(peer);
    });
    peers.push_back(std::move(peer));
  }
  return peers;
}

// Bursts of ours and of each peer's in turn.
NetworkBenchRow interleave(NetworkBenchRow row, const NetworkBenchOptions& options,
                           std::vector<Peer> peers, const std::function<double()>& ours,
                           const std::function<std::vector<double>(Runner&, int)>& theirs) {
  std::vector<double> seconds;
  const int runs = static_cast<int>(std::clamp(std::ceil(options.burst_s / ours()), 2.0, 50.0));
  for (int round = 0; round < options.rounds; ++round) {
    settle(options.threads, Watchers::framework);
    for (int i = 0; i < runs; ++i) seconds.push_back(ours());
    for (Peer& peer : peers)
      guarded(peer, [&] {
        settle(options.threads, Watchers::framework);
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

NetworkBenchRow bench_network(const Model& model, const InputMap& inputs,
                              const NetworkBenchOptions& options) {
  RunOptions run;
  run.contract = options.contract;
  run.threads = options.threads;
  run.isa = options.isa;
  Executor executor(model.graph, all_kernels(), run);
  NetworkBenchRow row;
  row.ours.name = "etalon " + short_name(options.contract);
  HashStream hash;
  for (const auto& [name, tensor] : executor.run(inputs).outputs) hash.update(tensor);
  row.ours.hash = to_string(hash.digest());

  std::vector<Peer> peers = start_peers(options, [&](Peer& peer) {
    peer.runner->load(model);
    peer.runner->time(inputs, 3, 1);
  });
  for (int i = 0; i < 2; ++i) executor.run(inputs);
  return interleave(
      std::move(row), options, std::move(peers), [&] { return executor.run(inputs).seconds; },
      [&](Runner& runner, int runs) { return runner.time(inputs, 0, runs); });
}

NetworkBenchRow bench_import(const std::string& path, const NetworkBenchOptions& options) {
  NetworkBenchRow row;
  row.ours.name = "etalon";
  const auto open_and_hash = [&] {
    const auto begin = std::chrono::steady_clock::now();
    const Model model = open_model(path);
    HashStream hash;
    for (const auto& [id, tensor] : model.graph->initializers) hash.update(tensor);
    row.ours.hash = to_string(hash.digest());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  open_and_hash();  // the file comes into the system's cache
  std::vector<Peer> peers =
      start_peers(options, [&](Peer& peer) { peer.runner->time_open(path, 1); });
  return interleave(row, options, std::move(peers), open_and_hash,
                    [&](Runner& runner, int runs) { return runner.time_open(path, runs); });
}

}  // namespace etalon
