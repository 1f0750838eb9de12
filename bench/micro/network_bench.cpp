#include "bench/micro/network_bench.h"

#include <memory>

#include "bench/runners/runner.h"
#include "engine/core/hash.h"
#include "engine/graph/executor.h"
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

  std::vector<Peer> peers;
  for (const RunnerTarget& target : options.vs) {
    Peer peer;
    peer.result.name = target.text;
    guarded(peer, [&] {
      RunnerOptions start;
      start.threads = options.threads;
      peer.runner = start_runner(target, start);
      peer.result.version = peer.runner->info().framework + " " + peer.runner->info().version;
      peer.runner->load(model);
      peer.runner->time(inputs, 3, 1);
    });
    peers.push_back(std::move(peer));
  }

  std::vector<double> ours;
  for (int i = 0; i < 2; ++i) executor.run(inputs);
  for (int round = 0; round < options.rounds; ++round) {
    for (int i = 0; i < options.runs_a_round; ++i) ours.push_back(executor.run(inputs).seconds);
    for (Peer& peer : peers)
      guarded(peer, [&] {
        for (const double s : peer.runner->time(inputs, 0, options.runs_a_round))
          peer.seconds.push_back(s);
      });
  }
  row.ours.timing = summarize(std::move(ours));
  for (Peer& peer : peers) {
    if (peer.result.status == "ok") peer.result.timing = summarize(std::move(peer.seconds));
    row.vs.push_back(std::move(peer.result));
  }
  return row;
}

}  // namespace etalon
