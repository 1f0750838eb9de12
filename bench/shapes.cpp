#include "bench/shapes.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "bench/op_text.h"
#include "bench/resources.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/core/function_ref.h"
#include "engine/core/philox.h"
#include "engine/numerics/element.h"
#include "engine/ops/conv_channels_last.h"
#include "engine/ops/conv_transpose.h"
#include "engine/ops/gemm.h"

namespace etalon {
namespace {

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.emplace_back(line.substr(begin, end - begin));
    at = end;
  }
  return words;
}

}  // namespace

namespace {

// Types, then parameters, from word `first` on.
NamedShape shape_of(const OpRow& op, std::string suite, std::string name,
                    const std::vector<std::string>& words, std::size_t first) {
  NamedShape shape;
  shape.op = &op;
  shape.suite = std::move(suite);
  shape.name = std::move(name);
  std::vector<std::string> params;
  for (std::size_t i = first; i < words.size(); ++i) {
    shape.line += (shape.line.empty() ? "" : " ") + words[i];
    if (words[i].find('=') != std::string::npos)
      params.push_back(words[i]);
    else
      shape.inputs.push_back(parse_tensor_type(words[i]));
  }
  shape.params = parse_params(op, params);
  std::vector<InferInput> inputs;
  for (const TensorType& type : shape.inputs) inputs.push_back({type, nullptr, true});
  shape.outputs = infer_alone(op, shape.params, InferInputs(inputs));
  return shape;
}

// parse(line) for every line that is not empty or a comment.
std::vector<NamedShape> parse_lines(std::string_view text, std::string_view file,
                                    FunctionRef<NamedShape(std::string_view)> parse) {
  std::vector<NamedShape> shapes;
  std::map<std::string, int> lines;  // of each name
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const ErrorScope scope(fmt::format("{}:{}", file, number));
    NamedShape shape = parse(line);
    for (const TensorType& type : shape.inputs)
      if (type.shape.numel() == 0)
        throw bad_input("{} has no elements; every extent of a shape to time is at least 1",
                        to_string(type));
    if (const auto [it, first] = lines.emplace(shape.full_name(), number); !first)
      throw bad_input("{} is named on line {} already; every problem of a file has its own name",
                      it->first, it->second);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace

NamedShape parse_shape(const OpRow& op, std::string_view line) {
  const std::vector<std::string> words = split_words(line);
  const std::size_t dot = words.empty() ? std::string::npos : words[0].find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == words[0].size())
    throw bad_input("'{}' does not begin with SUITE.NAME", line);
  return shape_of(op, words[0].substr(0, dot), words[0].substr(dot + 1), words, 1);
}

std::vector<NamedShape> parse_shapes(const OpRow& op, std::string_view text,
                                     std::string_view file) {
  return parse_lines(text, file, [&](std::string_view line) { return parse_shape(op, line); });
}

std::vector<NamedShape> parse_suite(const std::string& suite, std::string_view text,
                                    std::string_view file) {
  return parse_lines(text, file, [&](std::string_view line) {
    const std::vector<std::string> words = split_words(line);
    if (words.size() < 3)
      throw bad_input("'{}' is not a name, an op and the types of its inputs", line);
    return shape_of(get_op(words[1]), suite, words[0], words, 2);
  });
}

std::vector<NamedShape> load_shapes(std::string_view op) {
  namespace fs = std::filesystem;
  const auto files_of = [](const char* folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(resource_path(folder)))
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  };
  std::vector<NamedShape> shapes;
  const auto keep = [&](std::vector<NamedShape> more) {
    for (NamedShape& shape : more)
      if (op.empty() || shape.op->name == op) shapes.push_back(std::move(shape));
  };
  for (const fs::path& path : files_of("bench/shapes"))
    if (const std::string stem = path.stem().string(); op.empty() || stem == op)
      keep(parse_shapes(get_op(stem), read_text_file(path), path.string()));
  for (const fs::path& path : files_of("bench/shapes/suites"))
    keep(parse_suite(path.stem().string(), read_text_file(path), path.string()));
  return shapes;
}

bool only_by_name(std::string_view suite) {
  return suite == "edge" || suite == "vendor_order" || suite == "halves" || suite == "everyday" ||
         suite.starts_with("deepbench_");
}

namespace {
// The same numbers, rounded to nearest.
Tensor in_type(const Tensor& from, DType type) {
  Tensor to = Tensor::uninitialized(type, from.shape());
  auto* bytes = const_cast<std::byte*>(to.bytes().data());
  std::int64_t i = 0;
  for (const float x : from.data<float>())
    store_from_double(type, bytes, i++, static_cast<double>(x));
  return to;
}

// Every value of the type alike. Wider integers are mostly indices, whose range the type does not
// say.
Tensor small_integers(const NamedShape& shape, const TensorType& type, const Philox& random) {
  const int bytes = size_bytes(type.dtype);
  if (bytes > 2)
    throw usage_error(
        "{}: benchmarks draw floating numbers and integers of at most 16 bits, not {}",
        shape.full_name(), name(type.dtype));
  Tensor t = Tensor::uninitialized(type.dtype, type.shape);
  const bool flag = type.dtype == DType::boolean;
  std::uint64_t at = 0;
  for (std::byte& b : t.mutable_bytes())
    b = static_cast<std::byte>(random.word(at++) >> (flag ? 31 : 24));
  return t;
}
}  // namespace

std::vector<Tensor> shape_inputs(const NamedShape& shape, std::uint64_t seed) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < shape.inputs.size(); ++i) {
    const TensorType& type = shape.inputs[i];
    const Philox random{seed, i};
    if (!is_floating(type.dtype)) {
      inputs.push_back(small_integers(shape, type, random));
      continue;
    }
    Tensor t = Tensor::uninitialized(DType::f32, type.shape);
    std::uint64_t at = 0;
    for (float& x : t.mutable_data<float>()) x = random.uniform(at++);
    if (shape.op->name == "batch_norm" && i == 4)  // variances
      for (float& x : t.mutable_data<float>()) x = x < 0 ? -x : x;
    if (type.dtype != DType::f32) t = in_type(t, type.dtype);
    inputs.push_back(std::move(t));
  }
  return inputs;
}

namespace {

// Pairs of an output point and a tap for which `meets` holds on every axis.
template <class Meets>
double met_taps(const Window& window, Meets&& meets) {
  double pairs = 1;
  for (const WindowAxis& a : window.axes) {
    std::int64_t met = 0;
    for (std::int64_t o = 0; o < a.out; ++o)
      for (std::int64_t r = 0; r < a.kernel; ++r) met += meets(a, o, r) ? 1 : 0;
    pairs *= static_cast<double>(met);
  }
  return pairs;
}

}  // namespace

double multiply_adds(const NamedShape& shape) {
  const auto outputs = static_cast<double>(shape.outputs.at(0).shape.numel());
  // Taps in the padding, and those of a transposed convolution that meet no input, are no terms.
  if (shape.op->name == "conv" || shape.op->name == "conv_channels_last") {
    const auto geometry = shape.op->name == "conv" ? conv_geometry : conv_channels_last_geometry;
    const ConvGeometry g =
        geometry(shape.params.as<ConvParams>(), shape.inputs[0].shape, shape.inputs[1].shape);
    return static_cast<double>(g.batch * g.out_channels * g.group_in()) *
           met_taps(g.window, [](const WindowAxis& a, std::int64_t o, std::int64_t r) {
             return a.at(o, r) >= 0 && a.at(o, r) < a.in;
           });
  }
  if (shape.op->name == "conv_transpose") {
    const ConvTransposeGeometry g = conv_transpose_geometry(
        shape.params.as<ConvTransposeParams>(), shape.inputs[0].shape, shape.inputs[1].shape);
    return static_cast<double>(g.batch * g.out_channels * g.group_in()) *
           met_taps(g.window, [](const WindowAxis& a, std::int64_t o, std::int64_t r) {
             return met_input(a, o, r) >= 0;
           });
  }
  if (shape.op->name == "gemm") {
    const bool trans_a = shape.params.as<GemmParams>().trans_a;
    return outputs * static_cast<double>(shape.inputs[0].shape[trans_a ? 0 : 1]);
  }
  if (shape.op->name == "matmul")
    return outputs * static_cast<double>(shape.inputs[0].shape.dim(-1));
  if (shape.op->name == "lstm" || shape.op->name == "gru" || shape.op->name == "rnn") {
    // Every step multiplies x by w and the state by r.
    const Shape& x = shape.inputs[0].shape;
    return static_cast<double>(x[0] * x[1]) *
           static_cast<double>(shape.inputs[1].shape.numel() + shape.inputs[2].shape.numel());
  }
  return 0;
}

}  // namespace etalon
