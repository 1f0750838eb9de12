#include "bench/micro/framework_peers.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/core/hash.h"
#include "engine/graph/builder.h"

namespace etalon {
namespace {

double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Model model_of(const NamedShape& shape, const std::vector<Tensor>& inputs, bool constant) {
  GraphBuilder builder(shape.full_name());
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto dims = inputs[i].shape().dims();
    const std::string name = i == 0 ? "x" : fmt::format("x{}", i);
    values.push_back(constant && i > 0
                         ? builder.constant(name, inputs[i].share())
                         : builder.input(name, inputs[i].dtype(), Ints(dims.begin(), dims.end())));
  }
  builder.output(builder.node(shape.op->name, "y", values, shape.params));
  Model model;
  *model.graph = builder.finish();
  model.format = "built";
  return model;
}

FrameworkPeers::FrameworkPeers(const std::vector<RunnerTarget>& targets, int threads) {
  for (const RunnerTarget& target : targets) {
    Peer peer;
    peer.name = target.text;
    try {
      RunnerOptions start;
      start.threads = threads;
      peer.runner = start_runner(target, start);
      peer.version = peer.runner->info().framework + " " + peer.runner->info().version;
    } catch (const RunnerError& e) {
      peer.status = name(e.status());
      peer.reason = e.what();
    }
    peers_.push_back(std::move(peer));
  }
}

FrameworkPeers::~FrameworkPeers() = default;

std::vector<FrameworkAnswer> FrameworkPeers::time(const NamedShape& shape,
                                                  const std::vector<Tensor>& inputs, bool constant,
                                                  const std::function<void()>& ours,
                                                  const TimingOptions& timing) {
  const Model model = model_of(shape, inputs, constant);
  TensorMap feeds;
  for (const Declaration& d : model.graph->inputs) {
    const std::string& name = model.graph->value_name(d.value);
    const std::size_t at = name == "x" ? 0 : std::stoul(name.substr(1));
    feeds.emplace(name, inputs[at].share());
  }
  std::vector<FrameworkAnswer> answers;
  for (Peer& peer : peers_) {
    FrameworkAnswer answer;
    BenchEntry& entry = answer.entry;
    entry.kernel = peer.name;
    entry.version = peer.version;
    entry.status = peer.status;
    entry.reason = peer.reason;
    if (peer.runner != nullptr) try {
        if (timing.cache == Cache::cold)
          throw RunnerError(RunnerStatus::refused,
                            fmt::format("{}: only this process can clear the caches before a run; "
                                        "time it with --cache warm",
                                        peer.name));
        const auto resident = [&](bool reset) {
          return peer.runner->peak_memory(reset).value_or(0);
        };
        entry.memory_by = MemoryBy::resident;
        resident(true);
        const std::int64_t before = resident(false);
        const auto start = std::chrono::steady_clock::now();
        peer.runner->load(model);
        entry.set_up_s =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const std::int64_t loaded = resident(false);
        entry.set_up_bytes = std::max<std::int64_t>(0, loaded - before);
        RunAnswer got = peer.runner->run(feeds);
        entry.workspace_bytes = std::max<std::int64_t>(0, resident(false) - loaded);
        if (got.tensors.empty())
          throw RunnerError(RunnerStatus::refused, fmt::format("{}: gave no output", peer.name));
        answer.output = std::move(got.tensors.begin()->second);
        entry.hash = to_string(hash_tensor(answer.output));
        entry.dispatched = peer.runner->profile(feeds);
        peer.runner->time(feeds, std::max(1, timing.warm_up), 1);
        const double once = std::max(1e-7, seconds_of(ours));
        const int runs =
            static_cast<int>(std::clamp(std::ceil(timing.min_time_s / once), 2.0, 1000.0));
        std::vector<double> own, theirs;
        const auto mean = [&](double sum) { return sum / runs; };
        const int repetitions = repetitions_within(timing, once * runs);
        for (int repetition = 0; repetition < repetitions; ++repetition) {
          settle(timing.threads, Watchers::framework);
          wake(timing.threads, ours);
          own.push_back(mean(seconds_of([&] {
            for (int i = 0; i < runs; ++i) ours();
          })));
          settle(timing.threads, Watchers::library);
          double sum = 0;
          for (const double s : peer.runner->time(feeds, 1, runs)) sum += s;
          theirs.push_back(mean(sum));
        }
        entry.timing = summarize(std::move(theirs));
        entry.ours_beside_s = summarize(std::move(own)).median_s;
      } catch (const RunnerError& e) {
        entry.status = name(e.status());
        entry.reason = e.what();
        if (!peer.runner->alive()) {
          peer.status = entry.status;
          peer.reason = entry.reason;
          peer.runner.reset();
        }
      }
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace etalon
