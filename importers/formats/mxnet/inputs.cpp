// The extents of an input that the file does not say: what the weights behind it want, through
// operators whose extents follow from those of what they read.
#include <algorithm>

#include "importers/containers/bytes.h"
#include "importers/formats/mxnet/symbol.h"

namespace etalon::mxnet {
namespace {

constexpr int kMostSteps = 64;

// Every element stays where it is, or the result has the extents of the first operand.
bool passes(std::string_view op) {
  constexpr std::string_view kPassed[] = {"_copy",
                                          "identity",
                                          "Cast",
                                          "cast",
                                          "amp_cast",
                                          "clip",
                                          "Pad",
                                          "pad",
                                          "Dropout",
                                          "BlockGrad",
                                          "Activation",
                                          "LeakyReLU",
                                          "relu",
                                          "sigmoid",
                                          "tanh",
                                          "LRN",
                                          "Pooling",
                                          "L2Normalization",
                                          "broadcast_sub",
                                          "broadcast_minus",
                                          "broadcast_div",
                                          "broadcast_mul",
                                          "broadcast_add",
                                          "broadcast_plus",
                                          "elemwise_sub",
                                          "elemwise_add",
                                          "elemwise_mul",
                                          "elemwise_div",
                                          "InstanceNorm",
                                          "BatchNorm",
                                          "GroupNorm",
                                          "_contrib_quantize",
                                          "_contrib_quantize_v2",
                                          "exp",
                                          "log",
                                          "sqrt",
                                          "abs",
                                          "square",
                                          "negative"};
  return op.ends_with("_scalar") || op.ends_with("Scalar") ||
         std::ranges::find(kPassed, op) != std::end(kPassed);
}

std::string text_of(const SymbolNode& n, std::string_view key) {
  const auto at = n.attributes.find(key);
  return at == n.attributes.end() ? std::string() : at->second;
}

}  // namespace

const Translator::Readers& Translator::readers_of(std::size_t index) const {
  if (readers_.empty()) {
    readers_.resize(symbol_.nodes.size());
    for (std::size_t at = 0; at < symbol_.nodes.size(); ++at)
      for (std::size_t place = 0; place < symbol_.nodes[at].inputs.size(); ++place)
        readers_[symbol_.nodes[at].inputs[place].first].emplace_back(at, place);
  }
  return readers_[index];
}

bool Translator::read_by(std::string_view op) const {
  const auto index = static_cast<std::size_t>(n_ - symbol_.nodes.data());
  return std::ranges::any_of(
      readers_of(index), [&](const auto& reader) { return symbol_.nodes[reader.first].op == op; });
}

// Each node is looked at once, however many ways lead to it.
const Ints& Translator::wanted_of(std::size_t index, int steps) const {
  const auto [found, fresh] = wanted_.try_emplace(index);
  if (!fresh || steps > kMostSteps) return found->second;
  for (const auto& [at, place] : readers_of(index))
    if (Ints wanted = wanted_by(symbol_.nodes[at], at, place, steps); !wanted.empty()) {
      found->second = std::move(wanted);
      break;
    }
  return found->second;
}

Ints Translator::wanted_by(const SymbolNode& r, std::size_t at, std::size_t place,
                           int steps) const {
  const auto numbers = [&](std::string_view key) {
    Ints out;
    for (const double v : numbers_of(text_of(r, key))) out.push_back(whole(v));
    return out;
  };
  const auto number = [&](std::string_view key, std::int64_t otherwise) {
    const Ints all = numbers(key);
    return all.empty() ? otherwise : all[0];
  };
  if (r.op == "RNN" && place >= 2) {  // the states that it begins with
    const std::string both = text_of(r, "bidirectional");
    const std::int64_t layers = number("num_layers", 1), h = number("state_size", 0);
    if (place > 3 || layers < 1 || layers > 1 << 16 || h < 1) return {};
    return {both == "True" || both == "1" || both == "true" ? 2 * layers : layers, -1, h};
  }
  if (place != 0) return {};
  if (r.op == "RNN") {
    const std::int64_t features = features_of_rnn(r);
    return features > 0 ? Ints{kSteps, -1, features} : Ints{};
  }
  const auto w =
      r.inputs.size() > 1 ? weights_.find(symbol_.nodes[r.inputs[1].first].name) : weights_.end();
  const Shape* weight = w == weights_.end() ? nullptr : &w->second.shape();
  if (r.op.starts_with("Convolution") && weight != nullptr && weight->rank() > 2) {
    Ints dims{-1, checked_mul((*weight)[1], std::max<std::int64_t>(number("num_group", 1), 1))};
    dims.resize(static_cast<std::size_t>(weight->rank()), kImage);
    return dims;
  }
  if (r.op == "FullyConnected" && weight != nullptr && weight->rank() == 2)
    return {-1, (*weight)[1]};
  // Behind these, what is there.
  Ints behind = wanted_of(at, steps + 1);
  if (r.op == "Embedding") {
    if (behind.size() < 3) return {-1, kSteps};
    behind.pop_back();
    std::ranges::replace(behind, kImage, kSteps);
    return behind;
  }
  if (r.op == "BatchNorm" && weight != nullptr) {
    // Of images, unless an inner product of as many features follows.
    if (behind.size() >= 2 && behind[1] == weight->numel()) return behind;
    return {-1, weight->numel(), kImage, kImage};
  }
  if (behind.empty()) return {};
  const auto rank = static_cast<std::int64_t>(behind.size());
  if (r.op == "Flatten" || r.op == "flatten") return rank == 2 ? behind : Ints{};
  if (r.op == "transpose") {
    const Ints axes = numbers("axes");
    if (static_cast<std::int64_t>(axes.size()) != rank) return {};
    Ints dims(behind.size(), 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] < 0 || axes[i] >= rank) return {};
      dims[static_cast<std::size_t>(axes[i])] = behind[i];
    }
    return std::ranges::find(dims, 0) == dims.end() ? dims : Ints{};
  }
  if (r.op == "SwapAxis" || r.op == "swapaxes") {
    const std::int64_t a = number("dim1", 0), b = number("dim2", 0);
    if (a < 0 || b < 0 || a >= rank || b >= rank) return {};
    std::swap(behind[static_cast<std::size_t>(a)], behind[static_cast<std::size_t>(b)]);
    return behind;
  }
  if (r.op == "expand_dims") {
    const std::int64_t axis = number("axis", 0);
    if (axis < 0 || axis >= rank || rank < 2) return {};
    behind.erase(behind.begin() + axis);
    return behind;
  }
  if (r.op == "SliceChannel" || r.op == "split") {  // steps of a sequence
    const std::string squeezed = text_of(r, "squeeze_axis");
    const std::int64_t axis = number("axis", 1), count = number("num_outputs", 1);
    if ((squeezed != "True" && squeezed != "1" && squeezed != "true") || axis < 0 || axis > rank ||
        count < 1 || count > 1 << 16)
      return {};
    behind.insert(behind.begin() + axis, count);
    return behind;
  }
  return passes(r.op) ? behind : Ints{};
}

}  // namespace etalon::mxnet
