#include "engine/graph/channels_last.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/core/error.h"
#include "engine/graph/cheapest_cut.h"
#include "engine/ops/conv.h"
#include "engine/ops/layout.h"
#include "engine/ops/normalization.h"
#include "engine/ops/reduce.h"

namespace etalon {
namespace {

// Costs, in units of 0.04 ns on one thread of a Zen 4. An output of a depthwise layer gains 0.07 to
// 0.16 ns, and 0.4 of 7x7; a turned element costs 0.3 where the image is long gone from the second
// cache; two fma of vectors take a cycle; an addition that ends a product loses 0.05 to 0.1 ns for
// each output, for it meets whole lines of many pixels of its other operand.
constexpr std::int64_t kDepthwise = 2, kTurned = 8, kVectorFma = 6, kAdd = 2;

constexpr int kImageRank = 4;

// Functions of elements that stand at the same place, or of a single other one.
constexpr auto kElementwise =
    std::to_array<std::string_view>({"relu", "leaky_relu", "sigmoid", "hard_sigmoid", "hard_swish",
                                     "hard_tanh", "silu", "tanh", "clip", "add", "mul"});

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// A product of extents as a cost: a graph that was read may declare extents whose product no
// integer holds, and is refused only when it runs.
std::int64_t as_cost(double product) {
  return static_cast<std::int64_t>(std::min(product, 0x1p50));
}
double elements(const Shape& shape) { return static_cast<double>(shape.numel()); }

// Which nodes go over: the cheapest cut between those that do and those that do not, where a node
// costs what it would gain on the other side, and a value that crosses what it takes to turn it,
// once for all its readers.
class Regions {
 public:
  Regions(const Graph& graph, const std::vector<std::optional<TensorType>>& types, int lanes)
      : graph_(graph), types_(types), lanes_(lanes), maker_(graph.value_names.size(), -1) {
    CheapestCut cut;
    std::vector<std::size_t> vertex;  // by node
    std::int64_t most = 0;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      for (const ValueId v : node.outputs)
        if (v != kAbsent) maker_[index(v)] = static_cast<int>(i);
      const bool may = has_both_forms(node);
      vertex.push_back(may ? cut.add_vertex() : CheapestCut::kFar);
      if (!may) continue;
      const std::int64_t gain = gain_of(node);
      most = std::max(most, gain);
      if (gain > 0) cut.add_edge(CheapestCut::kNear, vertex[i], gain);
      if (gain < 0) cut.add_edge(vertex[i], CheapestCut::kFar, -gain);
    }
    last_.assign(graph.nodes.size(), false);
    if (most == 0) return;
    add_values(cut, vertex);
    const std::vector<bool> near = cut.near_side();
    for (std::size_t i = 0; i < last_.size(); ++i) last_[i] = near[vertex[i]];
  }

  bool any() const { return std::ranges::find(last_, true) != last_.end(); }
  // Whether node i goes over.
  bool lies_last(std::size_t i) const { return last_[i]; }
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
    if (node.op->name == "conv") return types_[index(node.inputs[1])].has_value();
    if (node.op->name == "global_avg_pool") return true;
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

  const Shape& shape_of(ValueId v) const {
    const auto& type = types_[index(v)];
    if (!type) throw internal_error("the type of '{}' is not known", graph_.value_name(v));
    return type->shape;
  }

  // What a node gains by channels last; less than nothing where it loses.
  std::int64_t gain_of(const Node& node) const {
    if (node.op->name == "add") return -as_cost(kAdd * elements(shape_of(node.outputs[0])));
    if (node.op->name != "conv") return 0;
    const auto& params = node.params.as<ConvParams>();
    const Shape &w = shape_of(node.inputs[1]), &y = shape_of(node.outputs[0]);
    const bool one_tap = w[2] == 1 && w[3] == 1;
    const double batch = static_cast<double>(y[0]),
                 pixels = static_cast<double>(y[2]) * static_cast<double>(y[3]);
    const double channels =
        static_cast<double>(w[1]) * static_cast<double>(params.groups) + static_cast<double>(y[1]);
    const std::int64_t turned = as_cost(kTurned * batch * pixels * channels);
    if (params.groups > 1)
      return w[1] == 1 && !one_tap ? as_cost(kDepthwise * elements(y)) : -turned;
    // Windows read and write either layout in the same time.
    if (!one_tap) return 0;
    // With channels first, a product of one tap has either pixels in lanes, some idle, or its
    // operands turned for channels in lanes.
    const std::int64_t past = y[2] % lanes_ * (y[3] % lanes_) % lanes_;
    const std::int64_t idle = (lanes_ - past) % lanes_;
    return std::min(as_cost(kVectorFma * batch * elements(w) * static_cast<double>(idle) / lanes_),
                    turned);
  }

  // The value that a function of elements follows while it is in registers or in cache; on another
  // side it would be one more pass over it.
  ValueId followed_by(const Node& node) const {
    ValueId last = kAbsent;
    if (node.op->name == "conv" || node.op->name == "global_avg_pool") return last;
    for (const ValueId v : node.inputs)
      if (is_image(v) && maker_[index(v)] >= 0 &&
          (last == kAbsent || maker_[index(v)] > maker_[index(last)]))
        last = v;
    return last;
  }

  // For each image a vertex that stands for it in either layout where somebody wants it so.
  void add_values(CheapestCut& cut, const std::vector<std::size_t>& vertex) const {
    std::vector<std::size_t> made_last(maker_.size(), 0), made_first(maker_.size(), 0);
    const auto cost = [&](ValueId v) { return as_cost(kTurned * elements(shape_of(v))); };
    const auto maker = [&](ValueId v) {
      return maker_[index(v)] < 0 ? CheapestCut::kFar : vertex[index(maker_[index(v)])];
    };
    const auto wanted_first = [&](ValueId v, std::size_t by) {
      if (maker(v) == CheapestCut::kFar) return;
      std::size_t& first = made_first[index(v)];
      if (first == 0) cut.add_edge(maker(v), first = cut.add_vertex(), cost(v));
      cut.add_edge(first, by, CheapestCut::kNever);
    };
    for (std::size_t i = 0; i < vertex.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const ValueId followed = followed_by(node);
      if (followed != kAbsent && vertex[i] != CheapestCut::kFar) {
        cut.add_edge(maker(followed), vertex[i], cost(followed));
        cut.add_edge(vertex[i], maker(followed), cost(followed));
      }
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        if (!is_image(v)) continue;
        const bool goes_with = vertex[i] != CheapestCut::kFar && turns_with(node, k);
        wanted_first(v, goes_with ? vertex[i] : CheapestCut::kFar);
        if (!goes_with) continue;
        std::size_t& last = made_last[index(v)];
        if (last == 0) cut.add_edge(last = cut.add_vertex(), maker(v), cost(v));
        cut.add_edge(vertex[i], last, CheapestCut::kNever);
      }
    }
    for (const Declaration& d : graph_.outputs)
      if (is_image(d.value)) wanted_first(d.value, CheapestCut::kFar);
  }

  const Graph& graph_;
  const std::vector<std::optional<TensorType>>& types_;
  int lanes_;
  std::vector<int> maker_;  // by value: the node, or -1
  std::vector<bool> last_;  // by node
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
                                          const std::vector<std::optional<TensorType>>& types,
                                          int lanes) {
  // What a graph inside a node reads, it reads by name.
  if (std::ranges::any_of(graph.nodes, [](const Node& n) { return !n.subgraphs.empty(); }))
    return std::nullopt;
  const Regions regions(graph, types, lanes);
  if (!regions.any()) return std::nullopt;
  return Writer(graph, regions).result();
}

}  // namespace etalon
