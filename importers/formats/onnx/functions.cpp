#include "importers/formats/onnx/functions.h"

#include <map>
#include <string>
#include <string_view>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "importers/containers/bytes.h"

namespace etalon::onnx_format {
namespace {

constexpr std::size_t kMostNodes = 1 << 18;
constexpr int kMostCalls = 64;

std::string key_of(const std::string& domain, const std::string& name,
                   const std::string& overload) {
  return fmt::format("{}.{}.{}", domain == "ai.onnx" ? "" : domain, name, overload);
}

// Names of a body as the graph around it has them.
struct Names {
  std::string prefix;
  std::map<std::string, std::string, std::less<>> known;
  std::string of(const std::string& name) const {
    if (name.empty()) return name;
    const auto at = known.find(name);
    return at == known.end() ? prefix + name : at->second;
  }
};

class Inliner {
 public:
  explicit Inliner(pb::ModelProto& model) : model_(model) {
    for (const auto& f : model.functions())
      if (!functions_.emplace(key_of(f.domain(), f.name(), f.overload()), &f).second)
        throw bad_input("the function {} stands twice", printable(f.name()));
  }

  void run(pb::GraphProto& graph, int depth) {
    pb::GraphProto expanded;
    for (pb::NodeProto& node : *graph.mutable_node()) add(expanded, node, depth);
    graph.mutable_node()->Swap(expanded.mutable_node());
  }

 private:
  using Attributes = google::protobuf::RepeatedPtrField<pb::AttributeProto>;

  void add(pb::GraphProto& to, pb::NodeProto& node, int depth) {
    if (++count_ > kMostNodes)
      throw bad_input("its functions unfold to more than {} nodes", kMostNodes);
    const auto f = functions_.find(key_of(node.domain(), node.op_type(), node.overload()));
    if (f == functions_.end()) {
      for (pb::AttributeProto& a : *node.mutable_attribute()) {
        if (a.has_g()) run(*a.mutable_g(), depth);
        for (pb::GraphProto& g : *a.mutable_graphs()) run(g, depth);
      }
      to.add_node()->Swap(&node);
      return;
    }
    const ErrorScope scope(fmt::format("function {}", printable(f->second->name())));
    if (depth >= kMostCalls)
      throw bad_input("functions call each other more than {} deep", kMostCalls);
    call(to, *f->second, node, depth + 1);
  }

  void call(pb::GraphProto& to, const pb::FunctionProto& f, const pb::NodeProto& node, int depth) {
    for (const auto& own : f.opset_import())
      for (const auto& all : model_.opset_import())
        if (own.domain() == all.domain() && own.version() != all.version())
          throw bad_input(
              "it is of opset {} of domain '{}', the model of {}; inline it "
              "(onnx.inliner)",
              own.version(), printable(own.domain()), all.version());
    if (node.input_size() > f.input_size() || node.output_size() > f.output_size())
      throw bad_input("{} inputs and {} outputs, it has {} and {}", node.input_size(),
                      node.output_size(), f.input_size(), f.output_size());
    Names names{.prefix = fmt::format("{}/{}.{}/", node.name(), f.name(), ++calls_), .known = {}};
    for (int i = 0; i < f.input_size(); ++i)
      names.known.insert_or_assign(f.input(i), i < node.input_size() ? node.input(i) : "");
    for (int i = 0; i < f.output_size(); ++i)
      if (i < node.output_size() && !node.output(i).empty()) {
        // An input that is given back as it stands becomes a node of its own.
        const auto [at, fresh] = names.known.emplace(f.output(i), node.output(i));
        if (fresh) continue;
        pb::NodeProto& copy = *to.add_node();
        copy.set_op_type("Identity");
        copy.add_input(at->second);
        copy.add_output(node.output(i));
      }
    for (const pb::NodeProto& inner : f.node()) {
      MemoryBudget::charge(inner.ByteSizeLong());
      pb::NodeProto copy = inner;
      rename(copy, names);
      bind(copy, f, node.attribute());
      add(to, copy, depth);
    }
  }

  void rename(pb::NodeProto& node, const Names& names) {
    node.set_name(names.prefix + (node.name().empty() ? node.op_type() : node.name()));
    for (std::string& v : *node.mutable_input()) v = names.of(v);
    for (std::string& v : *node.mutable_output()) v = names.of(v);
    const auto graph = [&](pb::GraphProto& g) {
      for (pb::ValueInfoProto& v : *g.mutable_input()) v.set_name(names.of(v.name()));
      for (pb::ValueInfoProto& v : *g.mutable_output()) v.set_name(names.of(v.name()));
      for (pb::ValueInfoProto& v : *g.mutable_value_info()) v.set_name(names.of(v.name()));
      for (pb::TensorProto& t : *g.mutable_initializer()) t.set_name(names.of(t.name()));
      for (pb::NodeProto& n : *g.mutable_node()) rename(n, names);
    };
    for (pb::AttributeProto& a : *node.mutable_attribute()) {
      if (a.has_g()) graph(*a.mutable_g());
      for (pb::GraphProto& g : *a.mutable_graphs()) graph(g);
    }
  }

  // Attributes that stand for the caller's: those, else the function's own, else none.
  void bind(pb::NodeProto& node, const pb::FunctionProto& f, const Attributes& given) {
    pb::NodeProto bound;
    for (pb::AttributeProto& a : *node.mutable_attribute()) {
      if (a.has_g())
        for (pb::NodeProto& n : *a.mutable_g()->mutable_node()) bind(n, f, given);
      for (pb::GraphProto& g : *a.mutable_graphs())
        for (pb::NodeProto& n : *g.mutable_node()) bind(n, f, given);
      if (a.ref_attr_name().empty()) {
        bound.add_attribute()->Swap(&a);
        continue;
      }
      const pb::AttributeProto* value = nullptr;
      for (const Attributes* from : {&f.attribute_proto(), &given})
        for (const pb::AttributeProto& one : *from)
          if (one.name() == a.ref_attr_name()) value = &one;
      if (value == nullptr) continue;
      pb::AttributeProto& to = *bound.add_attribute();
      to = *value;
      to.set_name(a.name());
    }
    node.mutable_attribute()->Swap(bound.mutable_attribute());
  }

  pb::ModelProto& model_;
  std::map<std::string, const pb::FunctionProto*, std::less<>> functions_;
  std::size_t count_ = 0, calls_ = 0;
};

}  // namespace

void inline_functions(pb::ModelProto& model) {
  if (model.functions_size() == 0) return;
  Inliner(model).run(*model.mutable_graph(), 0);
}

}  // namespace etalon::onnx_format
