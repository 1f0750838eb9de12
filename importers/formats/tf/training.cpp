#include "importers/formats/tf/training.h"

#include <algorithm>
#include <optional>

#include "engine/core/error.h"
#include "importers/formats/tf/importer.h"
#include "importers/formats/tf/schema.h"

namespace etalon::tf {
namespace {

bool is_loss(const std::string& op) {
  return op == "SoftmaxCrossEntropyWithLogits" || op == "SparseSoftmaxCrossEntropyWithLogits" ||
         op == "CTCLoss" || op == "CTCLossV2" || op == "InTopK" || op == "InTopKV2";
}

bool assigns(const std::string& op) {
  return op.starts_with("Apply") || op.starts_with("ResourceApply") ||
         op.starts_with("SparseApply") || op.starts_with("ResourceSparseApply") ||
         op.starts_with("Assign") || op == "ScatterAdd" || op == "ScatterSub" ||
         op == "ScatterUpdate" || op.starts_with("ResourceScatter");
}

// tf.gradients puts its nodes into a scope "gradients", "gradients_1" ..
bool of_gradients(const std::string& name) {
  for (std::size_t at = name.find("gradients"); at != std::string::npos;
       at = name.find("gradients", at + 1)) {
    if (at != 0 && name[at - 1] != '/') continue;
    std::size_t end = at + 9;
    if (end < name.size() && name[end] == '_')
      end = std::min(name.find_first_not_of("0123456789", end + 1), name.size());
    if (end < name.size() && name[end] == '/') return true;
  }
  return false;
}

bool starts_training(const PbMessage& n) {
  const std::string op = n.text("op");
  return is_loss(op) || assigns(op) || op.starts_with("Save") || op.starts_with("Restore") ||
         op.find("Summary") != std::string::npos || op.ends_with("Grad") ||
         of_gradients(n.text("name"));
}

// The node that makes a tensor, behind what only passes it on; nullptr where there is none.
const PbMessage* maker(const Body& body, std::string text) {
  for (int step = 0; step < 16; ++step) {
    const auto at = body.by_name.find(reference(text).node);
    if (at == body.by_name.end()) return nullptr;
    const PbMessage& n = body.nodes[at->second];
    const std::string op = n.text("op");
    if ((op != "Identity" && op != "PlaceholderWithDefault") || n.count("input") < 1) return &n;
    text = n.texts("input")[0];
  }
  return nullptr;
}

// The placeholder that a tensor is made of alone: another shape or type of it.
std::string placeholder_of(const Body& body, std::string text) {
  for (int step = 0; step < 32; ++step) {
    const auto at = body.by_name.find(reference(text).node);
    if (at == body.by_name.end()) return "";
    const PbMessage& n = body.nodes[at->second];
    const std::string op = n.text("op");
    if (op == "Placeholder") return n.text("name");
    if ((op != "Identity" && op != "Reshape" && op != "StopGradient" && op != "Cast" &&
         op != "OneHot" && op != "Squeeze" && op != "ExpandDims" &&
         op != "PlaceholderWithDefault") ||
        n.count("input") < 1)
      return "";
    text = n.texts("input")[0];
  }
  return "";
}

std::optional<float> number_of(const PbMessage& constant) {
  const PbMessage t = attribute(constant, "value").message("tensor");
  if (constant.text("op") != "Const" || t.integer("dtype") != 1) return std::nullopt;
  std::size_t budget = 64;
  try {
    const Tensor value = tensor_of(t, budget);
    if (value.numel() == 1) return value.data<float>()[0];
  } catch (const Error&) {
    return std::nullopt;  // the node's own reading says what is wrong with it
  }
  return std::nullopt;
}

}  // namespace

Training training_of(const Body& main) {
  Training t;
  std::vector<std::string> open;
  const auto leave = [&](const std::string& name) {
    if (t.nodes.insert(name).second) open.push_back(name);
  };
  for (const PbMessage& n : main.nodes) {
    if (!starts_training(n)) continue;
    leave(n.text("name"));
    const auto inputs = n.texts("input");
    if (!is_loss(n.text("op")) || of_gradients(n.text("name")) || inputs.size() < 2) continue;
    const bool ranks = n.text("op").starts_with("InTopK");
    t.scores.push_back(inputs[0]);
    if (const std::string labels = ranks ? "" : placeholder_of(main, inputs[1]); !labels.empty())
      leave(labels);
  }
  while (!open.empty()) {
    const std::string at = open.back();
    open.pop_back();
    for (const std::size_t reader : main.readers(at)) leave(main.nodes[reader].text("name"));
  }
  // What nothing but assignments reads goes with them.
  for (const PbMessage& n : main.nodes)
    if (assigns(n.text("op"))) open.push_back(n.text("name"));
  std::set<std::string> updates(open.begin(), open.end());
  std::map<std::string, std::size_t> gone;  // how many readers of a node went
  while (!open.empty()) {
    const auto at = main.by_name.find(open.back());
    open.pop_back();
    std::set<std::string> read;
    for (const std::string& in : main.nodes[at->second].texts("input"))
      if (const Reference r = reference(in); !r.control) read.insert(r.node);
    for (const std::string& node : read) {
      const auto from = main.by_name.find(node);
      if (++gone[node] < main.readers(node).size() || from == main.by_name.end() ||
          main.nodes[from->second].text("op") == "Placeholder")
        continue;
      t.nodes.insert(node);
      if (updates.insert(node).second) open.push_back(node);
    }
  }
  return t;
}

std::map<std::string, bool> inference_switches(const Body& main, std::size_t& seen) {
  std::map<std::string, bool> out;
  std::set<std::string> open;  // truth values that an input gives
  for (const PbMessage& n : main.nodes)
    if (n.text("op") == "Placeholder" && attribute(n, "dtype").integer("type") == 10)
      open.insert(n.text("name"));
  constexpr int kMostLooks = 64;
  // A look walks what leads to a node, and again for each predicate there.
  const std::size_t most_seen = seen + 1024 + kMostLooks / 2 * main.nodes.size();
  int looks = 0;
  for (const PbMessage& n : main.nodes) {
    const std::string op = n.text("op"), name = n.text("name");
    const bool batch = op.starts_with("FusedBatchNorm") && !op.ends_with("Grad") &&
                       attribute(n, "is_training").integer("b", 1) != 0;
    const bool draws = op.starts_with("Random") || op == "TruncatedNormal";
    if (open.empty() || looks == kMostLooks) break;
    if ((!batch && !draws && !assigns(op)) || of_gradients(name)) continue;
    ++looks;
    for (const auto& [predicate, sides] : sides_of(main, name, seen)) {
      const std::string from = reference(predicate).node;
      if (!open.contains(from)) continue;
      if (seen > most_seen) return out;
      const auto own = sides_of(main, name, seen, predicate);
      const auto at = own.find(predicate);
      if (at == own.end() || at->second.size() != 1) continue;
      out[from] = *at->second.begin() != 1;
      open.erase(from);
    }
  }
  return out;
}

Dropout dropout_of(const Body& body, std::size_t node) {
  std::string at = body.nodes[node].text("name"), beside;
  for (int step = 0; step < 8; ++step) {
    const auto& readers = body.readers(at);
    if (readers.size() != 1) return Dropout::none;
    const PbMessage& n = body.nodes[readers[0]];
    const std::string op = n.text("op");
    const auto inputs = n.texts("input");
    const bool adds = op == "Add" || op == "AddV2", compares = op == "GreaterEqual";
    if (op != "Mul" && op != "Identity" && op != "Floor" && !adds && !compares)
      return Dropout::none;
    if ((adds || compares) && inputs.size() >= 2)
      beside = inputs[reference(inputs[0]).node == at ? 1 : 0];
    if (op == "Floor" || compares) {
      if (beside.empty() || (compares && reference(inputs[0]).node != at)) return Dropout::none;
      const PbMessage* share = maker(body, beside);
      if (share == nullptr) return Dropout::none;
      if (const auto value = number_of(*share))
        return *value == (compares ? 0.0F : 1.0F) ? Dropout::never : Dropout::always;
      // An input's, or one minus it.
      const std::string from = share->text("op");
      if (from == "Placeholder") return Dropout::given;
      if (from == "Sub" && share->count("input") >= 2)
        if (const PbMessage* rate = maker(body, share->texts("input")[1]); rate != nullptr) {
          if (rate->text("op") == "Placeholder") return Dropout::given;
          if (const auto value = number_of(*rate))
            return *value == (compares ? 1.0F : 0.0F) ? Dropout::never : Dropout::always;
        }
      return Dropout::none;
    }
    at = n.text("name");
  }
  return Dropout::none;
}

}  // namespace etalon::tf
