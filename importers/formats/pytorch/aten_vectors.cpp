// What is computed of vectors: distances, products, weights by their norm; images that are read at
// the points of a grid.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/sampling.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

constexpr AtenSignature kSignatures[] = {
    {"pairwise_distance", {"x1", "x2", "p", "eps", "keepdim"}},
    {"cosine_similarity", {"x1", "x2", "dim", "eps"}},
    {"bilinear", {"input1", "input2", "weight", "bias"}},
    {"_weight_norm", {"v", "g", "dim"}},
    {"_weight_norm_interface", {"v", "g", "dim"}},
    {"cross", {"self", "other", "dim"}},
    {"linalg_cross", {"self", "other", "dim"}},
    {"addmv", {"self", "mat", "vec", "beta", "alpha"}},
    {"addr", {"self", "vec1", "vec2", "beta", "alpha"}},
    {"addbmm", {"self", "batch1", "batch2", "beta", "alpha"}},
    {"inner", {"self", "other"}},
    {"ger", {"self", "vec2"}},
    {"grid_sampler", {"input", "grid", "interpolation_mode", "padding_mode", "align_corners"}},
    {"grid_sampler_2d", {"input", "grid", "interpolation_mode", "padding_mode", "align_corners"}},
    {"grid_sampler_3d", {"input", "grid", "interpolation_mode", "padding_mode", "align_corners"}},
    {"affine_grid_generator", {"theta", "size", "align_corners"}},
    {"max_unpool2d", {"self", "indices", "output_size"}},
    {"max_unpool3d", {"self", "indices", "output_size", "stride", "padding"}},
};

ValueId wanted(const AtenCall& c, std::string_view key) {
  const ValueId v = c.tensor(key);
  if (v == kAbsent) throw AtenUnknown{"a call without the tensor " + std::string(key)};
  return v;
}

ValueId number(GraphBuilder& b, const std::string& name, ValueId like, double v) {
  return b.constant(name + ".number", scalar_of(b.dtype(like), v));
}

ValueId length(GraphBuilder& b, const std::string& name, ValueId x, const Ints& axes, bool keep) {
  return b.op("reduce_l2", name + ".length", {x}, {{"axes", axes}, {"keepdims", keep}});
}

ValueId pairwise(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const float p = c.number("p", 2);
  const ValueId d = paired(b, "sub", name + ".way", wanted(c, "x1"), wanted(c, "x2"));
  const ValueId moved = b.op("add", name + ".moved", {d, number(b, name, d, c.real("eps", 1e-6))});
  const Fields over{{"axes", Ints{-1}}, {"keepdims", c.flag("keepdim", false)}};
  if (p == 1) return b.op("reduce_l1", name, {moved}, over);
  if (p == 2) return b.op("reduce_l2", name, {moved}, over);
  throw AtenUnknown{fmt::format("a distance of order {}", p)};
}

ValueId cosine(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const auto [x, y] = promoted(b, name, wanted(c, "x1"), wanted(c, "x2"));
  const Ints axes{c.integer("dim", 1)};
  const double eps = c.real("eps", 1e-8);
  const auto unit = [&](ValueId v) {
    const ValueId n =
        b.op("max", name + ".held", {length(b, name, v, axes, true), number(b, name, v, eps)});
    return b.op("div", name + ".unit", {v, n});
  };
  b.note("a cosine is the sum of products of unit vectors, each step rounds.");
  return b.op("reduce_sum", name, {b.op("mul", name + ".products", {unit(x), unit(y)})},
              {{"axes", axes}, {"keepdims", false}});
}

ValueId bilinear(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const ValueId x = wanted(c, "input1"), w = wanted(c, "weight"), y = wanted(c, "input2");
  if (b.rank(w) != 3 || b.rank(x) < 1 || b.rank(y) != b.rank(x))
    throw AtenUnknown{"bilinear of these extents"};
  // x W_o for every o, [.., O, J], then its products with y.
  const Shape& of = b.shape(w);
  const ValueId table = b.reshape(name + ".table", b.transpose(name + ".turned", w, {1, 0, 2}),
                                  {of[1], checked_mul(of[0], of[2])});
  Ints split(static_cast<std::size_t>(b.rank(x)) - 1, 0);
  split.insert(split.end(), {of[0], of[2]});
  const ValueId rows = b.reshape(name + ".rows", b.op("matmul", name + ".left", {x, table}), split);
  const ValueId products =
      b.op("mul", name + ".products",
           {rows, b.op("unsqueeze", name + ".right", {y}, {{"axes", Ints{-2}}})});
  const ValueId sum =
      b.op("reduce_sum", name, {products}, {{"axes", Ints{-1}}, {"keepdims", false}});
  const ValueId bias = c.tensor("bias");
  return bias == kAbsent ? sum : b.op("add", name + ".biased", {sum, bias});
}

// g v / |v|, the norm over every axis but one.
AtenOutputs weight_norm(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const ValueId v = wanted(c, "v"), g = wanted(c, "g");
  const std::int64_t axis = c.integer("dim", 0);
  Ints over;
  for (std::int64_t a = 0; a < b.rank(v); ++a)
    if (a != (axis < -1 ? axis + b.rank(v) : axis)) over.push_back(a);
  const ValueId norm = length(b, name, v, over, true);
  return {b.op("mul", name, {v, b.op("div", name + ".ratio", {g, norm})}), norm};
}

ValueId cross(GraphBuilder& b, const std::string& op, const std::string& name, const AtenCall& c) {
  const auto [x, y] = promoted(b, name, wanted(c, "self"), wanted(c, "other"));
  std::int64_t axis = -1;
  if (c.find("dim") != nullptr) {
    axis = aten_axis(b, x, c.integer("dim", -1));
  } else if (op == "cross") {  // the first of three elements
    for (int a = b.rank(x) - 1; a >= 0; --a)
      if (b.dims(x)[static_cast<std::size_t>(a)] == 3) axis = a;
  }
  axis = aten_axis(b, x, axis);
  if (extent_of(b, x, axis) != 3) throw bad_input("a cross product of {}", to_string(b.type(x)));
  const auto turned = [&](ValueId v, std::int64_t by) {
    return b.op("gather", name + ".turned",
                {v, b.constant(name + ".places", Tensor::of<std::int64_t>(
                                                     {3}, {by % 3, (by + 1) % 3, (by + 2) % 3}))},
                {{"axis", axis}});
  };
  return b.op("sub", name,
              {b.op("mul", name + ".one", {turned(x, 1), turned(y, 2)}),
               b.op("mul", name + ".other", {turned(x, 2), turned(y, 1)})});
}

// beta self + alpha product.
ValueId added(GraphBuilder& b, const std::string& op, const std::string& name, const AtenCall& c) {
  ValueId product = kAbsent, x = wanted(c, "self");
  if (op == "addmv") {
    product = b.op("matmul", name + ".product", {wanted(c, "mat"), wanted(c, "vec")});
  } else if (op == "addr") {
    product = b.op("mul", name + ".product",
                   {b.op("unsqueeze", name + ".column", {wanted(c, "vec1")}, {{"axes", Ints{1}}}),
                    wanted(c, "vec2")});
  } else {
    product = b.op("reduce_sum", name + ".sum",
                   {b.op("matmul", name + ".product", {wanted(c, "batch1"), wanted(c, "batch2")})},
                   {{"axes", Ints{0}}, {"keepdims", false}});
  }
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  if (alpha != 1) product = b.op("mul", name + ".times", {product, number(b, name, x, alpha)});
  if (beta == 0) return product;
  if (beta != 1) x = b.op("mul", name + ".part", {x, number(b, name, x, beta)});
  return b.op("add", name, {product, x});
}

ValueId sampled(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const std::int64_t mode = c.integer("interpolation_mode", 0), pad = c.integer("padding_mode", 0);
  if (mode < 0 || mode > 2 || pad < 0 || pad > 2)
    throw bad_input("samples of mode {} with padding of mode {}; both are 0, 1 or 2", mode, pad);
  GridSampling how;
  how.mode = mode == 0   ? GridSampling::Mode::linear
             : mode == 1 ? GridSampling::Mode::nearest
                         : GridSampling::Mode::cubic;
  how.outside = pad == 0   ? GridSampling::Outside::zeros
                : pad == 1 ? GridSampling::Outside::border
                           : GridSampling::Outside::reflection;
  how.corners = c.flag("align_corners", false);
  return grid_sample(b, name, wanted(c, "input"), wanted(c, "grid"), how);
}

// Zeros, and each x at its place of the plane.
ValueId unpooled(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const ValueId x = wanted(c, "self");
  const Ints to = c.ints("output_size", {});
  const auto axes = static_cast<int>(to.size());
  if (b.rank(x) != axes + 2) throw AtenUnknown{"max_unpool of an input without a batch"};
  std::int64_t plane = 1;
  Ints shape{0, 0};
  for (const std::int64_t n : to) {
    if (n < 1 || n > 1 << 24) throw bad_input("an output of {} along an axis", n);
    plane = checked_mul(plane, n);
    shape.push_back(n);
  }
  if (plane > 1 << 24) throw bad_input("an output of {} elements a channel", plane);
  const ValueId values = b.reshape(name + ".values", x, {0, 0, -1}),
                at = b.reshape(name + ".at", wanted(c, "indices"), {0, 0, -1});
  // Zeros of the output's extents: one column of x, times zero, spread. An infinity would make NaN.
  const ValueId one = b.op("slice", name + ".one", {at},
                           {{"starts", Ints{0}}, {"ends", Ints{1}}, {"axes", Ints{2}}});
  const ValueId zeros =
      b.op("expand", name + ".zeros",
           {aten_cast(b, name, b.op("sub", name + ".none", {one, one}), b.dtype(x))},
           {{"shape", Ints{1, 1, plane}}});
  return b.reshape(
      name,
      b.op("scatter_elements", name + ".put", {zeros, at, values}, {{"axis", std::int64_t{2}}}),
      shape);
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (op == "pairwise_distance") return {pairwise(b, name, c)};
  if (op == "cosine_similarity") return {cosine(b, name, c)};
  if (op == "bilinear") return {bilinear(b, name, c)};
  if (op == "_weight_norm") return {weight_norm(b, name, c)[0]};
  if (op == "_weight_norm_interface") return weight_norm(b, name, c);
  if (op.ends_with("cross")) return {cross(b, op, name, c)};
  if (op.starts_with("add")) return {added(b, op, name, c)};
  if (op == "ger") return translate_inner(b, "outer", name, c);
  if (op == "inner") {
    const ValueId x = wanted(c, "self"), y = wanted(c, "other");
    if (b.rank(x) == 0 || b.rank(y) == 0) return {paired(b, "mul", name, x, y)};
    if (b.rank(y) == 1) return {b.op("matmul", name, {x, y})};
    if (b.rank(y) != 2) throw AtenUnknown{"inner products of more axes than two"};
    return {b.op("matmul", name, {x, b.transpose(name + ".turned", y, {1, 0})})};
  }
  if (op.starts_with("grid_sampler")) return {sampled(b, name, c)};
  if (op == "affine_grid_generator") {
    Ints size = c.ints("size", {});
    if (size.size() < 4) throw AtenUnknown{"a grid of unknown extents"};
    return {affine_grid(b, name, wanted(c, "theta"), Ints(size.begin() + 2, size.end()),
                        c.flag("align_corners", false))};
  }
  return {unpooled(b, name, c)};
}

}  // namespace

AtenFamily vector_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
