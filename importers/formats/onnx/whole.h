// Arithmetic of TensorFlow Lite's integers (engine/ops/tflite.h) as ONNX's elementary operators on
// i64: additions, products and quotients that are exact there, so that every runtime has the same
// bits. What wraps in 32 bits does not here; the scales of a trained network lead nowhere near it.
#pragma once

#include <string>
#include <vector>

#include "engine/ops/tflite_values.h"
#include "importers/formats/onnx/export.h"

namespace etalon::onnx_format {

// A tensor of integers as unsigned bytes, `by` times what lies above `zero`; one of 16 bits is two
// of them.
struct Bytes {
  std::string name;
  std::int64_t zero = 0, by = 1;
};

class Whole {
 public:
  using Name = std::string;
  explicit Whole(NodeWriter& w) : w_(w) {}

  Name step(std::string_view type, const std::vector<Name>& inputs) {
    return w_.step(type, inputs);
  }
  Name number(std::int64_t v);
  // One for each channel, in front of `trailing` axes; a single one is a scalar.
  Name numbers(const Ints& v, int trailing);
  Name real(float v) { return w_.constant("real", Tensor::of<float>({}, {v})); }
  Name real64(double v) { return w_.constant("real", Tensor::of<double>({}, {v})); }
  Name reals(const std::vector<float>& v, int trailing);
  Name table(const Ints& v) { return w_.constant("table", v); }
  Name cast(const Name& x, DType to) { return w_.step("Cast", {x}, "to", onnx_of_dtype(to)); }
  Name add(const Name& a, const Name& b) { return w_.step("Add", {a, b}); }
  Name add(const Name& a, std::int64_t b) { return b == 0 ? a : add(a, number(b)); }
  Name sub(const Name& a, const Name& b) { return w_.step("Sub", {a, b}); }
  Name mul(const Name& a, const Name& b) { return w_.step("Mul", {a, b}); }
  Name mul(const Name& a, std::int64_t b) { return b == 1 ? a : mul(a, number(b)); }
  Name div(const Name& a, const Name& b) { return w_.step("Div", {a, b}); }
  Name div(const Name& a, std::int64_t b) { return b == 1 ? a : div(a, number(b)); }
  Name held(const Name& v, std::int64_t low, std::int64_t high);
  // Likewise of what may lie beyond 32 bits (some runtimes' minima of i64 see the lower half
  // alone).
  Name held_wide(const Name& v, std::int64_t low, std::int64_t high) {
    const Name above = chosen(w_.step("Less", {v, number(low)}), number(low), v);
    return chosen(w_.step("Greater", {above, number(high)}), number(high), above);
  }
  Name wrapped(const Name& v) { return cast(cast(v, DType::i32), DType::i64); }
  Name chosen(const Name& when, const Name& a, const Name& b) {
    return w_.step("Where", {when, a, b});
  }
  Name at_least(const Name& v, std::int64_t least) {
    return w_.step("GreaterOrEqual", {v, number(least)});
  }
  Name from_table(const Ints& values, const Name& at) {
    return w_.step("Gather", {table(values), at});
  }
  Name reduced(std::string_view type, const Name& v, const Ints& axes, bool keep);

  // Input i, less a zero point.
  Name distance(std::size_t i, std::int64_t zero);
  // floor(v / 2^bits + 1/2).
  Name halved(const Name& v, int bits) { return halved(v, Ints{bits}, 0); }
  Name halved(const Name& v, const Ints& bits, int trailing);
  // v / 2^bits to nearest, halves away from zero.
  Name nearest(const Name& v, const Ints& bits, int trailing);
  // Times 2^exponent in 32 bits: held, or `nearest`.
  Name moved(const Name& v, int exponent);
  // The doubled high half of a product.
  Name product(const Name& a, const Name& b) { return halved(mul(a, b), 31); }
  Name product(const Name& a, std::int64_t b) { return product(a, number(b)); }
  // The number of bits of v > 0.
  Name bit_width(const Name& v);

  // By a factor for each channel, of what was moved `left` bits before; in steps, of 64 bits, in
  // one rounding.
  Name scaled(const Name& v, const std::vector<tflite::Multiplier>& by, int trailing, int left = 0);
  Name scaled(const Name& v, const tflite::Multiplier& by, int left = 0) {
    return scaled(v, std::vector{by}, 0, left);
  }
  Name scaled_wide(const Name& v, const std::vector<tflite::Multiplier>& by, int trailing);
  Name scaled_once(const Name& v, const std::vector<tflite::Multiplier>& by, bool wide);

  // f32 to the nearest integer, halves away from zero.
  Name rounded(const Name& v);

  std::vector<Bytes> bytes_of(const Name& x, DType dtype, std::int64_t zero);
  std::vector<Bytes> bytes_of(std::size_t i, std::int64_t zero) {
    return bytes_of(w_.input(i), w_.dtype(i), zero);
  }
  // Sums of products: what `node` makes of each pair of bytes, from names of x, w and their zeros.
  template <class Node>
  Name sums(const std::vector<Bytes>& x, const std::vector<Bytes>& w, const Node& node) {
    Name all;
    for (const Bytes& a : x)
      for (const Bytes& b : w) {
        const Name sum =
            mul(cast(node(a.name, b.name, byte(a.zero), byte(b.zero)), DType::i64), a.by * b.by);
        all = all.empty() ? sum : add(all, sum);
      }
    return all;
  }
  Name byte(std::int64_t v);

  // The outputs of the node: v, held to the activation and the type.
  void give(const Name& v, const TfliteOutput& out, DType dtype);
  void give(const Name& v, DType dtype) {
    set(w_.write("Cast", {v}, w_.outputs()), "to", std::int64_t{onnx_of_dtype(dtype)});
  }

 private:
  NodeWriter& w_;
};

// What a convolution says of its window, over a kernel of these extents.
void write_window(NodeWriter& w, pb::NodeProto& n, const Ints& kernel);

}  // namespace etalon::onnx_format
