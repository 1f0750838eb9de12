// What a DeviceExecutor keeps between runs (executor.h): where each value is, and each node's call.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backends/cuda/executor.h"
#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {

// Where a value of the network is.
struct DeviceValue {
  TensorType type;
  Tensor host;            // known when the network is planned, the same in every run
  Tensor device;          // a view of its memory there
  int block = -1;         // of DevicePlan::blocks, where nodes share memory
  bool constant = false;  // no input of the network decides it
};

struct DeviceStep {
  std::size_t node = 0;
  const KernelRow* row = nullptr;
  const DeviceRow* device = nullptr;  // nullptr: computed on the host when planned
  double host_seconds = 0;            // then
  std::vector<NodeRecord> inside;     // the nodes of graphs that this node owns
  std::vector<InferInput> inputs;
  std::vector<TensorType> types;
  std::vector<const Tensor*> call_inputs;
  std::vector<Tensor> call_outputs;
  Problem problem;
  Work work;
  bool alias = false;

  KernelCall call() {
    return {.problem = &problem, .inputs = call_inputs, .outputs = call_outputs};
  }
};

struct GraphHandle {
  void* graph = nullptr;
  ~GraphHandle() {
    if (graph != nullptr) static_cast<void>(api().drop_graph(graph));
  }
};

struct DevicePlan {
  std::map<std::string, TensorType, std::less<>> input_types;
  NamedTensors integers;  // the integer inputs it was made for
  std::vector<DeviceValue> values;
  std::vector<DeviceBuffer> blocks;  // memory of values, used again when the last reader is done
  std::vector<DeviceBuffer> fixed;   // inputs and constants
  std::vector<std::unique_ptr<DeviceStep>> steps;
  std::unique_ptr<DeviceBuffer> counts;  // of undecided slices, one for each step
  GraphHandle graph;
  std::size_t done = 0;  // steps that ran while it was made
  bool ran = false;
  bool node_by_node = false;  // a slice was left undecided once
  bool once = false;          // the host computed a node from what the device had made: for one run
};

// The CPU's copy of a tensor on the device.
Tensor fetch(const Tensor& device);
void send(const Tensor& host, const Tensor& device);
double now_seconds();

struct DeviceExecutor::State {
  std::shared_ptr<const Graph> graph;
  const Registry& registry;
  RunOptions options;
  std::vector<int> uses;
  std::unique_ptr<DevicePlan> plan;
  bool launched = false;

  State(std::shared_ptr<const Graph> g, const Registry& r, RunOptions o);
  // The inputs of a node, and what the graphs that it owns take from around them.
  std::vector<ValueId> reads_of(const Node& node) const;
  // Has the device no kernel for this op at all? One that refuses a contract is another matter.
  bool has_kernels(const Node& node) const;
  bool belongs_to_host(const Node& node) const;
  void check_inputs(const NamedTensors& given) const;
  bool plan_serves(const NamedTensors& given) const;

  // executor_plan.cpp
  // Which of the plan's blocks are in use while it is made.
  struct Memory {
    std::vector<int> left;                                 // readers to come, by block
    std::vector<std::pair<std::size_t, int>> free_blocks;  // size, number
    std::int64_t live = 0;
  };
  // Where a node belongs to the host, what it reads is computed first: the steps before it run
  // while the plan is made, and the plan serves this run alone.
  std::unique_ptr<DevicePlan> make_plan(const NamedTensors& given, Trace& trace, bool time_nodes);
  // Is a node computed once, while the plan is made? Constants, and what follows from the integers
  // it is made for: extents, axes. Floats made of those are a run's work, where the device can.
  bool is_planned(const DevicePlan& p, DeviceStep& step, const Node& node) const;
  static void infer_step(const DevicePlan& p, DeviceStep& step, const Node& node);
  void plan_step(DevicePlan& p, DeviceStep& step, const Node& node, Memory& memory) const;
  // A block goes back when its last reader is planned.
  void read_by(const DevicePlan& p, const Node& node, Memory& memory) const;
  // The value as a kernel of the device reads it: floats there, integers here.
  const Tensor* device_input(DevicePlan& p, ValueId v) const;
  static Tensor view_of(const DeviceBuffer& buffer, const TensorType& type);
  static DeviceBuffer buffer_for(const TensorType& type);
  static void clear_counts(const DevicePlan& p);

  // executor_host.cpp
  // By the CPU's kernel. Of a node that asks for types alone no value is fetched.
  void run_on_host(DevicePlan& p, DeviceStep& step, const Node& node, bool types_alone) const;
  // A node that owns graphs: a graph of this node alone, by the CPU's executor.
  void run_control_on_host(DevicePlan& p, DeviceStep& step, const Node& node) const;
  static void keep_on_host(DevicePlan& p, const Node& node, std::vector<Tensor>& outputs);
  // The value on the host; one that stands on the device alone is copied, into `own`.
  static const Tensor* host_input(const DevicePlan& p, ValueId v, std::vector<Tensor>& own);
  static const Tensor* type_of(const DeviceValue& value);

  static void enqueue(DeviceStep& step);
  // The slices that the device left undecided, on the CPU, from and to the device's memory.
  static void settle(DeviceStep& step);
  // Those from p.done to `end`.
  void run_nodes(DevicePlan& p, Trace& trace, bool time_nodes, std::size_t end);
  // False where a slice was left undecided: what stands on the device means nothing then.
  static bool run_graph(DevicePlan& p);
  Trace run(const NamedTensors& given, bool time_nodes);
};

}  // namespace etalon::cuda
