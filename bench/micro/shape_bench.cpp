#include "bench/micro/shape_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "bench/micro/allocation_watch.h"
#include "bench/micro/framework_peers.h"
#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/core/threads.h"
#include "engine/graph/executor.h"
#include "engine/numerics/fp.h"
#include "kernels/gemm/scratch.h"
#include "kernels/own_layout.h"

namespace etalon {
namespace {

// A shape's inputs after the first are a layer's weights, except in a product of two fresh
// operands.
bool weights_constant(const NamedShape& shape) {
  return shape.op->name != "matmul" &&
         !(shape.op->name == "gemm" && shape.line.find("trans_b=true") == std::string::npos);
}

// One kernel, ready to run: everything but the work itself is done.
class ReadyKernel {
 public:
  ReadyKernel(const NamedShape& shape, const std::vector<Tensor>& inputs, const KernelRow& row,
              const BenchOptions& options, const Contract& contract)
      : name_(row.name), row_(row), contract_(contract), threads_(options.threads) {
    const bool constant = weights_constant(shape);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      pointers_.push_back(&inputs[i]);
      known_.push_back({inputs[i].type(), constant && i > 0 ? &inputs[i] : nullptr, true});
    }
    types_ = shape.outputs;
    problem_.op = shape.op;
    problem_.params = &shape.params;
    problem_.inputs = known_;
    problem_.outputs = types_;
    problem_.contract = &contract_;
    problem_.isa = options.isa;
    for (const TensorType& type : types_) outputs_.push_back(Tensor::zeros(type.dtype, type.shape));
    set_up();
  }
  ReadyKernel(const ReadyKernel&) = delete;
  ReadyKernel& operator=(const ReadyKernel&) = delete;

  // From here on the conversions between our layout and the library's are left out of run(). False
  // where there are none.
  bool convert_beforehand() {
    own_layout_ = run_in_own_layout(row_, call());
    if (own_layout_ == nullptr) return false;
    first_run_s_ = 0;  // it converted
    name_ += ".blocked";
    return true;
  }
  void run() {
    if (own_layout_ != nullptr)
      own_layout_->work();
    else
      row_.run(call());
  }
  // After the last run.
  const Tensor& output() {
    if (own_layout_ != nullptr) own_layout_->finish();
    return outputs_[0];
  }
  const std::string& name() const { return name_; }
  double first_run_s() const { return first_run_s_; }
  bool converts_beforehand() const { return own_layout_ != nullptr; }
  const KernelRow& row() const { return row_; }
  std::string implementation() { return library_implementation(row_, call()); }
  void costs(BenchEntry& to) const {
    to.set_up_s = set_up_s_;
    to.set_up_bytes = set_up_bytes_;
    to.workspace_bytes = workspace_bytes_;
    to.memory_by = memory_by_;
  }

 private:
  // Packing and the like, and a first run for what is made lazily; the memory of both.
  void set_up() {
    const bool vendor = row_.promise == Promise::vendor;
    if (vendor) reset_peak_resident_bytes();
    forget_scratch();
    const std::int64_t before = vendor ? resident_bytes() : 0;
    const auto start = std::chrono::steady_clock::now();
    const auto prepare = [&] {
      if (row_.prepare != nullptr) prepared_ = row_.prepare(problem_, threads_);
      set_up_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    if (!vendor) {
      {
        const AllocationWatch watch;
        prepare();
        set_up_bytes_ = watch.held();
      }
      const AllocationWatch watch;
      first_run();
      workspace_bytes_ = watch.most();
      return;
    }
    prepare();
    const std::int64_t ready = resident_bytes();
    first_run();
    if (const auto told = library_memory(row_, call())) {
      memory_by_ = MemoryBy::library;
      set_up_bytes_ = told->kept;
      workspace_bytes_ = told->workspace;
    } else {
      memory_by_ = MemoryBy::resident;
      set_up_bytes_ = std::max<std::int64_t>(0, ready - before);
      workspace_bytes_ = std::max<std::int64_t>(0, peak_resident_bytes() - ready);
    }
  }

  void first_run() {
    const auto start = std::chrono::steady_clock::now();
    row_.run(call());
    first_run_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  KernelCall call() {
    return {.problem = &problem_,
            .inputs = pointers_,
            .outputs = outputs_,
            .truth = {},
            .threads = threads_,
            .prepared = prepared_.get()};
  }

  std::string name_;
  const KernelRow& row_;
  Contract contract_;
  int threads_;
  std::vector<const Tensor*> pointers_;
  std::vector<InferInput> known_;
  std::vector<TensorType> types_;
  Problem problem_;
  Prepared prepared_;
  std::vector<Tensor> outputs_;
  std::unique_ptr<OwnLayoutRun> own_layout_;
  double set_up_s_ = 0, first_run_s_ = 0;
  std::int64_t set_up_bytes_ = 0, workspace_bytes_ = 0;
  MemoryBy memory_by_ = MemoryBy::counted;
};

// Every input read and every output written once: what no kernel can do without.
double least_bytes(const NamedShape& shape) {
  double bytes = 0;
  for (const std::vector<TensorType>& types : {shape.inputs, shape.outputs})
    for (const TensorType& t : types)
      bytes += static_cast<double>(t.shape.numel() * size_bytes(t.dtype));
  return bytes;
}

void fill_rates(BenchEntry& entry, const BenchRow& row) {
  entry.gflops = 1e-9 * row.flops / entry.timing.median_s;
  entry.gbytes = 1e-9 * row.bytes / entry.timing.median_s;
}

// The kernel among `ready` that is the same implementation of the same library, or "". Two copies
// of one primitive were up to 1.4 times apart, by where their memory lay: as two rows the library
// would have two draws, and the faster one counts.
std::string same_code(ReadyKernel& kernel, const std::vector<std::unique_ptr<ReadyKernel>>& ready) {
  const std::string implementation = kernel.implementation();
  if (implementation.empty()) return {};
  const std::string_view name = kernel.row().name;
  const std::string_view library = name.substr(0, name.find('.') + 1);
  for (const auto& other : ready)
    if (other->row().name.starts_with(library) && other->implementation() == implementation)
      return other->name();
  return {};
}

// A framework may answer with another type or shape.
std::optional<UlpError> error_against(const SampleTruth& truth, const Tensor& got) {
  if (!truth.exact || !got || got.dtype() != DType::f32 || got.numel() < truth.exact.numel())
    return std::nullopt;
  return error_of(got, truth.exact);
}

}  // namespace

BenchRow bench_shape(const NamedShape& shape, const Registry& registry,
                     const BenchOptions& options) {
  const std::vector<Tensor> inputs = shape_inputs(shape);
  BenchRow row;
  row.shape = shape;
  row.contract = to_string(options.contract);
  row.flops = 2 * multiply_adds(shape);
  row.bytes = least_bytes(shape);

  std::vector<InferInput> known;
  const bool constant = weights_constant(shape);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    known.push_back({inputs[i].type(), constant && i > 0 ? &inputs[i] : nullptr, true});
  Problem problem;
  problem.op = shape.op;
  problem.params = &shape.params;
  problem.inputs = known;
  problem.outputs = shape.outputs;
  problem.contract = &options.contract;
  problem.isa = options.isa;

  const MachineWatch watch;  // from the first run on, which may be the one that is told
  std::vector<std::unique_ptr<ReadyKernel>> ready;
  ready.push_back(std::make_unique<ReadyKernel>(
      shape, inputs, registry.require(problem, options.kernels), options, options.contract));
  std::vector<std::string> contracts{""};
  for (const Contract& other : options.also) {
    Problem under = problem;
    under.contract = &other;
    const Selection selection = registry.select(under);
    if (selection.row != nullptr) {
      ready.push_back(std::make_unique<ReadyKernel>(shape, inputs, *selection.row, options, other));
      contracts.push_back(short_name(other));
    } else {
      try {
        registry.require(under);
      } catch (const Error& e) {
        row.refused.push_back(fmt::format("{}: {}", short_name(other), e.what()));
      }
    }
  }
  for (const std::string& prefix : options.vs) {
    for (const KernelRow* candidate : registry.rows_of(shape.op->name)) {
      if (!candidate->name.starts_with(prefix)) continue;
      const Selection one = registry.select(problem, candidate->name);
      if (one.row == candidate) {
        auto kernel =
            std::make_unique<ReadyKernel>(shape, inputs, *candidate, options, options.contract);
        if (const std::string same = same_code(*kernel, ready); !same.empty()) {
          row.refused.push_back(fmt::format("{}: is {} here", candidate->name, same));
          continue;
        }
        ready.push_back(std::move(kernel));
        auto converted =
            std::make_unique<ReadyKernel>(shape, inputs, *candidate, options, options.contract);
        if (converted->convert_beforehand()) ready.push_back(std::move(converted));
      }
      for (const KernelRefusal& refusal : one.refused)
        row.refused.push_back(fmt::format("{}: {}", refusal.row->name, refusal.reason));
    }
  }

  const DefaultFpEnvironment fp;
  std::vector<TimedCandidate> candidates;
  for (const auto& kernel : ready) {
    // One kernel may stand here under several contracts; the timer tells candidates apart by name.
    candidates.push_back({fmt::format("{} {}", kernel->name(), candidates.size()),
                          [k = kernel.get()] { k->run(); }, kernel->first_run_s()});
  }
  TimingOptions timing = options.timing;
  timing.threads = options.threads;
  const std::vector<Timing> timings = time_interleaved(candidates, timing);
  row.load = watch.load();
  SampleTruth truth;
  if (options.errors)
    truth = truth_of_first_sample(shape, inputs, registry, options.isa, options.threads);
  row.no_error_because = truth.none_because;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    BenchEntry entry;
    entry.kernel = ready[i]->name();
    if (i < contracts.size()) entry.contract = contracts[i];
    entry.blocked = ready[i]->converts_beforehand();
    if (ready[i]->row().version != nullptr) entry.version = ready[i]->row().version();
    entry.timing = timings[i];
    fill_rates(entry, row);
    ready[i]->costs(entry);
    const Tensor& output = ready[i]->output();
    entry.hash = to_string(hash_tensor(output));
    entry.error = error_against(truth, output);
    if (i == 0)
      row.ours = std::move(entry);
    else
      row.vs.push_back(std::move(entry));
  }
  if (options.frameworks != nullptr)
    for (FrameworkAnswer& answer : options.frameworks->time(
             shape, inputs, weights_constant(shape), [&] { ready[0]->run(); }, timing)) {
      BenchEntry& entry = answer.entry;
      if (entry.status == "ok") {
        fill_rates(entry, row);
        entry.error = error_against(truth, answer.output);
      }
      row.vs.push_back(std::move(entry));
    }
  return row;
}

}  // namespace etalon
