#include "engine/graph/channels_last.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "engine/ops/conv.h"
#include "engine/ops/layout.h"
#include "engine/ops/normalization.h"
#include "engine/ops/reduce.h"

namespace etalon {
namespace {

// Turned elements that cost what one output of a depthwise layer gains. Zen 4, MobileNet v1: an
// output gains 0.07 to 0.16 ns (and 0.4 of 7x7), a turned element costs 0.3 where the image is long
// gone from the second cache.
constexpr std::int64_t kTurnedByDepthwise = 4;

constexpr int kImageRank = 4;

// Functions of elements that stand at the same place, or of a single other one.
constexpr auto kElementwise =
    std::to_array<std::string_view>({"relu", "leaky_relu", "sigmoid", "hard_sigmoid", "hard_swish",
                                     "hard_tanh", "silu", "tanh", "clip", "add", "mul"});

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

class Regions {
 public:
  Regions(const Graph& graph, const std::vector<std::optional<TensorType>>& types)
      : graph_(graph),
        types_(types),
        maker_(graph.value_names.size(), -1),
        member_(graph.nodes.size()),
        joined_(graph.nodes.size()) {
    std::iota(joined_.begin(), joined_.end(), std::size_t{0});
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      for (const ValueId v : node.outputs)
        if (v != kAbsent) maker_[index(v)] = static_cast<int>(i);
      member_[i] = has_both_forms(node);
      if (!member_[i]) continue;
      for (std::size_t k = 0; k < node.inputs.size(); ++k)
        if (turns_with(node, k) && made_inside(node.inputs[k]))
          join(index(maker_[index(node.inputs[k])]), i);
    }
    count_gains();
  }

  bool any() const {
    for (std::size_t i = 0; i < member_.size(); ++i)
      if (lies_last(i)) return true;
    return false;
  }
  // Whether node i goes over.
  bool lies_last(std::size_t i) const { return member_[i] && gain_[region(i)] > 0; }
  // Whether input k of a node that goes over is an image, which goes with it.
  bool turns_with(const Node& node, std::size_t k) const {
    const bool is_weight = node.op->name == "conv" && k > 0;
    return !is_weight && is_image(node.inputs[k]);
  }

 private:
  bool is_image(ValueId v) const {
    if (v == kAbsent || graph_.initializers.contains(v)) return false;
    const auto& type = types_[index(v)];
    return type && type->dtype == DType::f32 && type->shape.rank() == kImageRank;
  }
  bool has_both_forms(const Node& node) const {
    if (node.outputs.size() != 1 || node.inputs.empty() || !is_image(node.outputs[0]) ||
        !is_image(node.inputs[0]))
      return false;
    if (node.op->name == "conv" || node.op->name == "global_avg_pool") return true;
    if (node.op->name == "batch_norm") {
      const auto& params = node.params.as<BatchNormParams>();
      return params.axis == 1 && params.spatial;
    }
    if (std::ranges::find(kElementwise, node.op->name) == kElementwise.end()) return false;
    return std::ranges::all_of(node.inputs, [&](ValueId v) {
      if (v == kAbsent) return true;
      const auto& type = types_[index(v)];
      return is_image(v) || (type && type->shape.rank() <= 1 && type->shape.numel() == 1);
    });
  }

  bool made_inside(ValueId v) const {
    return maker_[index(v)] >= 0 && member_[index(maker_[index(v)])];
  }
  std::size_t region(std::size_t i) const {
    while (joined_[i] != i) i = joined_[i];
    return i;
  }
  void join(std::size_t a, std::size_t b) { joined_[region(b)] = region(a); }

  // What regions gain by depthwise layers, less what turning the values at their borders costs.
  void count_gains() {
    gain_.assign(member_.size(), 0);
    const auto elements = [&](ValueId v) {
      const auto& type = types_[index(v)];
      return type ? type->shape.numel() : 0;
    };
    std::vector<std::vector<std::size_t>> turned(graph_.value_names.size());  // once by region
    const auto turn = [&](ValueId v, std::size_t at) {
      std::vector<std::size_t>& regions = turned[index(v)];
      if (std::ranges::find(regions, at) != regions.end()) return;
      regions.push_back(at);
      gain_[at] -= kTurnedByDepthwise * elements(v);
    };
    for (std::size_t i = 0; i < member_.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (member_[i] && is_depthwise(node)) gain_[region(i)] += elements(node.outputs[0]);
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        const bool goes_with = member_[i] && turns_with(node, k);
        if (goes_with && !made_inside(v))
          turn(v, region(i));
        else if (!goes_with && v != kAbsent && made_inside(v))
          turn(v, region(index(maker_[index(v)])));
      }
    }
    for (const Declaration& d : graph_.outputs)
      if (made_inside(d.value)) turn(d.value, region(index(maker_[index(d.value)])));
  }

  bool is_depthwise(const Node& node) const {
    if (node.op->name != "conv") return false;
    const auto& w = types_[index(node.inputs[1])];
    return node.params.as<ConvParams>().groups > 1 && w && w->shape[1] == 1 &&
           w->shape.product(2, w->shape.rank()) > 1;
  }

  const Graph& graph_;
  const std::vector<std::optional<TensorType>>& types_;
  std::vector<int> maker_;           // by value: the node, or -1
  std::vector<bool> member_;         // by node: has a form for either layout
  std::vector<std::size_t> joined_;  // by node: the next towards its region's first
  std::vector<std::int64_t> gain_;   // by first node of a region
};

// The node in the other layout; its values are still those of the graph.
Node in_last_form(Node node) {
  if (node.op->name == "conv") {
    node.op = &get_op("conv_channels_last");
  } else if (node.op->name == "batch_norm") {
    BatchNormParams params = node.params.as<BatchNormParams>();
    params.axis = kImageRank - 1;
    node.params = params;
  } else if (node.op->name == "global_avg_pool") {
    // The same sum, over the same elements in the same sequence.
    node.op = &get_op("reduce_mean");
    node.params = ReduceParams{.axes = {1, 2}};
  }
  return node;
}

// Writes the new graph, node by node.
class Writer {
 public:
  Writer(const Graph& graph, const Regions& regions)
      : graph_(graph),
        regions_(regions),
        made_(std::make_shared<Graph>()),
        last_(graph.value_names.size(), kAbsent),
        given_(graph.value_names.size(), true) {
    made_->name = graph.name;
    for (const std::string& name : graph.value_names) made_->add_value(name);
    made_->inputs = graph.inputs;
    made_->outputs = graph.outputs;
    for (const auto& [v, tensor] : graph.initializers)
      made_->initializers.emplace(v, tensor.share());
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) add_node(i);
    for (const Declaration& d : graph.outputs)
      if (!given_[index(d.value)]) turn_back(d.value, node_of_.back());
  }
  ChannelsLast result() { return {std::move(made_), std::move(node_of_), std::move(turns_)}; }

 private:
  void add_node(std::size_t i) {
    const bool last = regions_.lies_last(i);
    Node node = last ? in_last_form(graph_.nodes[i]) : graph_.nodes[i];
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      ValueId& v = node.inputs[k];
      if (v == kAbsent) continue;
      if (last && regions_.turns_with(graph_.nodes[i], k)) {
        if (last_[index(v)] == kAbsent) turn(v, new_value(v), {0, 2, 3, 1}, i);
        v = last_[index(v)];
      } else if (!given_[index(v)]) {
        turn_back(v, i);
      }
    }
    for (ValueId& v : node.outputs)
      if (last && v != kAbsent) {
        given_[index(v)] = false;
        v = new_value(v);
      }
    add(std::move(node), i, false);
  }

  void turn_back(ValueId v, std::size_t i) {
    turn(last_[index(v)], v, {0, 3, 1, 2}, i);
    given_[index(v)] = true;
  }
  void turn(ValueId from, ValueId to, Ints perm, std::size_t i) {
    add({.name = made_->value_name(to),
         .op = &get_op("transpose"),
         .params = TransposeParams{.perm = std::move(perm)},
         .inputs = {from},
         .outputs = {to},
         .subgraphs = {}},
        i, true);
  }
  void add(Node node, std::size_t i, bool turns) {
    made_->nodes.push_back(std::move(node));
    node_of_.push_back(i);
    turns_.push_back(turns);
  }
  ValueId new_value(ValueId v) {
    std::string name = graph_.value_name(v) + ", channels last";
    while (made_->find_value(name) != kAbsent) name += '\'';
    return last_[index(v)] = made_->add_value(std::move(name));
  }

  const Graph& graph_;
  const Regions& regions_;
  std::shared_ptr<Graph> made_;
  std::vector<ValueId> last_;  // by value: the same with its channels last
  std::vector<bool> given_;    // by value: it is there as the graph has it
  std::vector<std::size_t> node_of_;
  std::vector<bool> turns_;
};

}  // namespace

std::optional<ChannelsLast> channels_last(const Graph& graph,
                                          const std::vector<std::optional<TensorType>>& types) {
  // What a graph inside a node reads, it reads by name.
  if (std::ranges::any_of(graph.nodes, [](const Node& n) { return !n.subgraphs.empty(); }))
    return std::nullopt;
  const Regions regions(graph, types);
  if (!regions.any()) return std::nullopt;
  return Writer(graph, regions).result();
}

}  // namespace etalon
