// CNTK 1's network (network_file.cpp reads it) as a graph, or as its weights alone.
#include <algorithm>
#include <set>

#include "importers/containers/bytes.h"
#include "importers/formats/cntk.h"
#include "importers/formats/cntk/network_file.h"
#include "importers/formats/cntk/ops.h"
#include "importers/formats/cntk/walk.h"

namespace etalon {
namespace cntk {
namespace {

class Network : public Values {
 public:
  explicit Network(const Blob& file) : file_(read_network(file)) {}

  Model graph(const std::string& path) {
    GraphBuilder graph(stem_of(path));
    Ops ops(graph);
    const auto& outputs = file_.outputs.empty() ? file_.evaluated : file_.outputs;
    if (outputs.empty()) throw Unsupported("a network without a list of outputs");
    const Samples values = make_all(ops, *this, outputs);
    std::set<ValueId> given;
    for (const std::string& name : outputs)
      if (given.insert(values.at(name).value).second) ops.g.output(values.at(name).value, name);
    ops.g.note(
        "a sample's axes are reversed: what CNTK calls [W,H,C] is [C,H,W] here, the same bytes; "
        "nodes of training (labels, criteria, errors) are left out");
    return finish_model(ops.g, path, "cntk-v1", fmt::format("version {}", file_.version), "CNTK");
  }

  Model weights(const std::string& path, const std::string& why) const {
    Model model;
    model.path = path;
    model.format = "cntk-v1";
    model.version = fmt::format("version {}", file_.version);
    model.producer = "CNTK";
    model.notes.push_back(fmt::format("opened as its weights alone: {}", why));
    for (const std::string& name : file_.order) {
      const NetworkItem& item = file_.items.at(name);
      if (!item.value) continue;
      const Ints dims(item.shape.rbegin(), item.shape.rend());
      model.graph->initializers.emplace(model.graph->add_value(name),
                                        item.value.reshaped(Shape(dims)));
    }
    model.graph->finish();
    return model;
  }

 private:
  // A kernel kept as a matrix [maps, taps]: the bytes are [O][C][kh][kw] all the same.
  Sample kernel(Ops& ops, const NetworkItem& conv, Sample given) const {
    const std::string& name = conv.f.inputs[0];
    const auto at = file_.items.find(name);
    const Ints taps = conv.f.list("poolingWindowShape");
    if (at == file_.items.end() || !at->second.value || at->second.shape.size() != 2 ||
        taps.size() < 2 || taps.size() > 4)
      return given;
    Ints shape = taps;
    std::int64_t n = 1;
    for (const std::int64_t t : taps) n *= std::clamp<std::int64_t>(t, 1, 1 << 20);
    if (n < 1 || at->second.value.numel() % n != 0)
      throw bad_input("{} weights for windows of {}", at->second.value.numel(), n);
    shape.push_back(at->second.value.numel() / n);
    return ops.constant(name, at->second.value, shape);
  }

  void convert_variance(Ops& ops, const NetworkItem& item, std::vector<Sample>& in) const {
    const Tensor* t = in.size() > 4 ? ops.g.constant_of(in[4].value) : nullptr;
    if (t == nullptr || t->dtype() != DType::f32)
      throw Unsupported("a batch norm whose statistics are computed");
    const double eps = item.f.number("epsilon", 0);
    Tensor variance = Tensor::uninitialized(DType::f32, t->shape());
    auto to = variance.mutable_data<float>();
    const auto from = t->data<float>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto r = static_cast<double>(from[i]);
      to[i] = static_cast<float>(1 / (r * r) - eps);
    }
    in[4].value = ops.g.constant(item.f.uid + ".variance", std::move(variance));
    ops.g.note(
        "batch norm of an old version keeps 1 / deviation: the variance is its inverse square less "
        "epsilon, in double, rounded to f32");
  }

  const NetworkItem& item(const std::string& name) const {
    const auto at = file_.items.find(name);
    if (at == file_.items.end()) throw bad_input("no node is called {}", printable(name));
    return at->second;
  }

  std::vector<std::string> wants(const std::string& name) const override {
    const NetworkItem& it = item(name);
    return it.is_input || it.value ? std::vector<std::string>{} : it.f.inputs;
  }

  const Function* function(const std::string& name) const override {
    const NetworkItem& it = item(name);
    return it.is_input || it.value ? nullptr : &it.f;
  }

  Sample make(Ops& ops, const std::string& name, const std::vector<Sample>& in) override {
    const NetworkItem& it = item(name);
    const ErrorScope where(fmt::format("node {}", printable(name)));
    if (it.is_input) {
      if (it.is_sparse) ops.g.note(fmt::format("input {} is sparse there, dense here", name));
      return ops.input(name, DType::f32, it.shape, sequences_ ? 2 : 1);
    }
    if (!it.value) return translate(ops, it, in);
    Ints shape = it.shape;
    // A bias is a column: its last axis is of matrices alone.
    if (shape.size() == 2 && shape[1] == 1 && it.f.op == "LearnableParameter") shape.pop_back();
    return ops.constant(name, it.value, shape);
  }

  Sample translate(Ops& ops, const NetworkItem& item, std::vector<Sample> in) const {
    if (item.f.list("interleaved") == Ints{1})
      throw Unsupported("windows over images whose channels are fastest (HWC)");
    if (item.f.op == "Convolution" && !in.empty()) in[0] = kernel(ops, item, in[0]);
    if (item.f.op == "BatchNormalization" && item.inverse_deviation)
      convert_variance(ops, item, in);
    if (item.f.op == "PerDimMeanVarNormalization") {
      if (in.size() != 3) throw bad_input("{} inputs, expected 3", in.size());
      Function f = item.f;
      f.op = "Minus";
      f.uid = item.f.uid + ".centred";
      const Sample centred = ops.translate(f, {in[0], in[1]});
      f.op = "ElementTimes";
      f.uid = item.f.uid;
      return ops.translate(f, {centred, in[2]});
    }
    if (item.f.op == "Logistic" || item.f.op == "SquareError" || item.f.op == "If")
      throw Unsupported(fmt::format("the function {}", item.f.op));
    return ops.translate(item.f, in);
  }

  // Every input is a sequence there; one step of it is enough where no node looks at another one.
  static bool has_delays(const NetworkFile& file) {
    return std::ranges::any_of(file.items, [](const auto& it) { return is_delay(it.second.f); });
  }

  NetworkFile file_;
  bool sequences_ = has_delays(file_);
};

Model open(const std::string& path, std::span<const std::string>) {
  const Blob blob = map_file(path);
  const ErrorScope scope(path);
  Network network(blob);
  return graph_or_weights(network, path);
}

bool match(const FileView& file) {
  return file.text().starts_with(std::string_view("B\0C\0N\0\0\0", 8));
}

}  // namespace
}  // namespace cntk

const FormatRow& cntk_network_format() {
  static const FormatRow row{.name = "cntk-v1",
                             .endings = ".dnn .cmf",
                             .summary = "CNTK 1 network (BCN).",
                             .match = cntk::match,
                             .open = cntk::open};
  return row;
}

}  // namespace etalon
