#include "bench/data.h"

#include <filesystem>

#include "bench/resources.h"
#include "engine/core/error.h"
#include "importers/importers.h"

namespace etalon {
namespace {

template <class T>
Tensor as_unit_floats(const Tensor& raw, std::int64_t count) {
  Tensor out = Tensor::uninitialized(DType::f32, raw.shape().with_dim(0, count));
  const auto from = raw.data<T>();
  auto to = out.mutable_data<float>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i]) / 255.0F;
  return out;
}

bool is_input(const Graph& graph, std::string_view name) {
  for (const Declaration& d : graph.inputs)
    if (graph.value_name(d.value) == name) return true;
  return false;
}

bool is_weight(const Graph& graph, std::string_view name) {
  const ValueId v = graph.find_value(name);
  return v != kAbsent && graph.initializers.contains(v);
}

void put(InputMap& inputs, const std::string& name, Tensor tensor) {
  if (!inputs.emplace(name, std::move(tensor)).second)
    throw usage_error("input '{}' is given twice", name);
}

// The word as NAME=FILE of an input of that name: of several such, the one whose file is there.
std::optional<NamedFile> input_word(const Graph& graph, const std::string& word) {
  std::optional<NamedFile> found;
  for (std::size_t at = word.find('='); at != std::string::npos; at = word.find('=', at + 1)) {
    if (!is_input(graph, std::string_view(word).substr(0, at))) continue;
    NamedFile parts{word.substr(0, at), word.substr(at + 1)};
    if (std::filesystem::exists(parts.path)) return parts;
    if (!found) found = std::move(parts);
  }
  if (std::filesystem::exists(word)) return std::nullopt;
  return found;
}

// Why a name that was given is none of an input.
Error no_input(const Graph& graph, const std::string& word, const std::string& name) {
  if (is_weight(graph, name))
    return usage_error("--input {}: '{}' is a weight that the file holds constant; inputs are {}",
                       word, name, input_names(graph));
  return usage_error("--input {}: the network has no input '{}'; its inputs are {}", word, name,
                     input_names(graph));
}

}  // namespace

std::string input_names(const Graph& graph) {
  std::string text;
  for (const Declaration& d : graph.inputs)
    text += (text.empty() ? "" : ", ") + graph.value_name(d.value);
  return text.empty() ? "none" : text;
}

NamedFile named_file(const std::string& word) {
  const std::size_t first = word.find('=');
  if (first == std::string::npos || std::filesystem::exists(word)) return {"", word};
  for (std::size_t at = first; at != std::string::npos; at = word.find('=', at + 1))
    if (std::filesystem::exists(word.substr(at + 1)))
      return {word.substr(0, at), word.substr(at + 1)};
  return {word.substr(0, first), word.substr(first + 1)};
}

Dataset load_dataset(std::string_view name, std::int64_t count) {
  if (name != "mnist")
    throw usage_error("there is no data set '{}'; mnist ships with the program", name);
  const std::string path = resource_path("bench/demo/mnist512.npz");
  const ErrorScope scope(path);
  Tensor x, labels;
  for (auto& [tensor_name, tensor] : load_tensors(path)) {
    if (tensor_name == "x")
      x = std::move(tensor);
    else if (tensor_name == "labels")
      labels = std::move(tensor);
  }
  if (!x || !labels || x.dtype() != DType::u8 || labels.dtype() != DType::u8 ||
      x.shape().rank() != 4 || labels.shape() != Shape{x.shape()[0]})
    throw bad_input("expected x u8[n,1,28,28] and labels u8[n]");
  const std::int64_t n = x.shape()[0];
  if (count < 0 || count > n) throw usage_error("mnist has {} samples here, not {}", n, count);
  if (count == 0) count = n;
  Dataset data;
  data.name = name;
  data.source = fmt::format("{} of MNIST's test images, f32 of u8 / 255", count);
  data.images = as_unit_floats<std::uint8_t>(x, count);
  for (const std::uint8_t label :
       labels.data<std::uint8_t>().first(static_cast<std::size_t>(count)))
    data.labels.push_back(label);
  return data;
}

InputMap read_inputs(const Graph& graph, const std::vector<std::string>& words) {
  InputMap inputs;
  for (const std::string& word : words) {
    // "a=b.npy" names an input only when the graph has one of that name; a path may hold a '='.
    if (const auto named = input_word(graph, word)) {
      auto tensors = load_tensors(named->path);
      if (tensors.size() != 1)
        throw bad_input("{}: holds {} arrays; NAME=FILE takes a file with one", named->path,
                        tensors.size());
      put(inputs, named->name, std::move(tensors.front().tensor));
      continue;
    }
    if (const NamedFile other = named_file(word); !other.name.empty())
      throw no_input(graph, word, other.name);
    auto tensors = load_tensors(word);
    if (tensors.empty()) throw bad_input("{}: holds no array", word);
    const bool single = tensors.size() == 1 && graph.inputs.size() == 1;
    for (auto& [name, tensor] : tensors) {
      if (is_input(graph, name))
        put(inputs, name, std::move(tensor));
      else if (single)
        put(inputs, graph.value_name(graph.inputs.front().value), std::move(tensor));
      else
        throw bad_input("{}: array '{}' is {} of the network; its inputs are {}", word, name,
                        is_weight(graph, name) ? "a weight and no input" : "no input",
                        input_names(graph));
    }
  }
  return inputs;
}

}  // namespace etalon
