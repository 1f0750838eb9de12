#include <algorithm>
#include <numeric>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/einsum.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::tf {

// Of an attribute with an entry for every axis.
Ints Ops::spatial(std::string_view attribute, int rank) const {
  const Ints all = n_->integers(attribute);
  if (all.empty()) return {};
  if (all.size() != static_cast<std::size_t>(rank))
    throw bad_input("{} has {} entries for rank {}", attribute, all.size(), rank);
  const auto from = first() ? 2 : 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool window = static_cast<int>(i) >= from && static_cast<int>(i) < from + rank - 2;
    if (!window && all[i] != 1)
      throw bad_input("{} of {} over the batch or the channels", attribute, all[i]);
  }
  return {all.begin() + from, all.begin() + from + rank - 2};
}

void Ops::padding(Fields& f, int rank, bool dilated) {
  const std::string kind = n_->text("padding", "VALID");
  f.emplace_back("strides", spatial("strides", rank));
  if (dilated) f.emplace_back("dilations", spatial("dilations", rank));
  if (kind == "SAME") {
    f.emplace_back("auto_pad", std::string("same_upper"));
    g.note(
        "SAME padding: the output is ceil(input / stride), the odd element of the padding "
        "stands at the end (right, bottom)");
  } else if (kind == "EXPLICIT") {
    const Ints pads = n_->integers("explicit_paddings");
    if (pads.size() != 2 * static_cast<std::size_t>(rank)) throw bad_input("explicit_paddings");
    Ints begin, end;
    for (int i = 0; i < rank - 2; ++i) {
      const auto at = 2 * static_cast<std::size_t>(i + (first() ? 2 : 1));
      begin.push_back(pads[at]);
      end.push_back(pads[at + 1]);
    }
    f.emplace_back("pads_begin", begin);
    f.emplace_back("pads_end", end);
  } else if (kind != "VALID") {
    throw bad_input("padding '{}' is none that TensorFlow has", kind);
  }
}

ValueId Ops::conv() {
  const ValueId x = n_->in(0), w = n_->in(1);
  const int rank = g.rank(x);
  if (rank < 3 || g.rank(w) != rank) throw bad_input("x of rank {}, w of rank {}", rank, g.rank(w));
  Fields f;
  padding(f, rank, true);
  const ValueId in = to_first(x);
  // [spatial, in, out] to [out, in, spatial]
  Ints perm{rank - 1, rank - 2};
  for (int i = 0; i < rank - 2; ++i) perm.push_back(i);
  const ValueId weight = g.transpose(part("weight"), w, perm);
  const std::int64_t channels = g.shape(in)[1], per_group = g.shape(weight)[1];
  if (per_group < 1 || channels % per_group != 0)
    throw bad_input("{} channels for weights of {}", channels, per_group);
  f.emplace_back("groups", channels / per_group);
  g.note(
      "images are NHWC in the file; a convolution's weights [h,w,in,out] are turned to "
      "[out,in,h,w] once, the numbers stay");
  return from_first(g.op("conv", n_->name, {in, weight}, f));
}

ValueId Ops::depthwise() {
  const ValueId x = n_->in(0), w = n_->in(1);
  if (g.rank(x) != 4 || g.rank(w) != 4) throw bad_input("a depthwise convolution wants rank 4");
  Fields f;
  padding(f, 4, true);
  const ValueId in = to_first(x);
  // [h, w, in, multiplier] to [in * multiplier, 1, h, w]
  const Shape& s = g.shape(w);
  const std::int64_t c = s[2], out = s[2] * s[3];
  const Ints shape{out, 1, s[0], s[1]};
  const ValueId weight =
      g.reshape(part("weight"), g.transpose(part("turned"), w, {2, 3, 0, 1}), shape);
  f.emplace_back("groups", c);
  return from_first(g.op("conv", n_->name, {in, weight}, f));
}

ValueId Ops::conv_transpose() {
  // input_sizes, filter [h, w, out, in], out_backprop
  const ValueId x = n_->in(2), w = n_->in(1);
  const int rank = g.rank(x);
  Fields f;
  padding(f, rank, true);
  if (n_->text("padding") == "EXPLICIT")
    throw bad_input("a transposed convolution with explicit paddings");
  // The batch among them may be free: the extents of the window count alone.
  const auto given = elements(n_->in(0));
  if (!given) throw bad_input("its output sizes are computed while the network runs");
  const Ints& sizes = *given;
  if (sizes.size() != static_cast<std::size_t>(rank) &&
      sizes.size() + 2 != static_cast<std::size_t>(rank))
    throw bad_input("{} output sizes for rank {}", sizes.size(), rank);
  Ints out = sizes;
  if (sizes.size() == static_cast<std::size_t>(rank)) {
    const auto from = first() ? 2 : 1;
    out = Ints(sizes.begin() + from, sizes.begin() + from + rank - 2);
  }
  if (std::ranges::count_if(out, [](std::int64_t n) { return n < 1; }) != 0)
    throw bad_input("its output sizes are computed while the network runs; they must be constant");
  f.emplace_back("output_shape", out);
  Ints perm{rank - 1, rank - 2};
  for (int i = 0; i < rank - 2; ++i) perm.push_back(i);
  return from_first(
      g.op("conv_transpose", n_->name, {to_first(x), g.transpose(part("weight"), w, perm)}, f));
}

ValueId Ops::pool() {
  const ValueId x = n_->in(0);
  const int rank = g.rank(x);
  Fields f;
  padding(f, rank, false);
  f.emplace_back("kernel", spatial("ksize", rank));
  const bool max = n_->op.starts_with("Max");
  if (!max && n_->text("padding") == "SAME")
    g.note("average pooling divides by the elements inside the input, padding does not count");
  return from_first(g.op(max ? "max_pool" : "avg_pool", n_->name, {to_first(x)}, f));
}

// By the statistics of the batch itself, which training takes; each step rounds.
ValueId Ops::batch_norm_of_batch() {
  const ValueId x = n_->in(0);
  const int rank = g.rank(x);
  if (rank != 4 && rank != 5) throw bad_input("{} of {}", n_->op, to_string(g.type(x)));
  Ints axes, by_channel{-1};
  for (int a = 0; a < rank; ++a)
    if (a != (first() ? 1 : rank - 1)) axes.push_back(a);
  const Fields mean_of{{"axes", axes}, {"keepdims", false}};
  const ValueId mean = g.op("reduce_mean", part("mean"), {x}, mean_of);
  by_channel.resize(static_cast<std::size_t>(rank - 1), 1);
  const ValueId beside = first() ? g.reshape(part("beside"), mean, by_channel) : mean;
  const ValueId apart = g.op("sub", part("apart"), {x, beside});
  const ValueId variance = g.op("reduce_mean", part("variance"),
                                {g.op("mul", part("squares"), {apart, apart})}, mean_of);
  const float eps = n_->number("epsilon", 1e-4F);
  g.note(fmt::format("batch norm by the batch's own mean and variance: eps {}", eps));
  return from_first(g.op("batch_norm", n_->name,
                         {to_first(x), n_->in(1), n_->in(2), mean, variance}, {{"eps", eps}}));
}

// BatchNormWithGlobalNormalization: x, mean, variance, beta, gamma.
ValueId Ops::batch_norm_of_parts() {
  const ValueId mean = n_->in(1);
  const float eps = n_->number("variance_epsilon", 1e-3F);
  const ValueId gamma = n_->flag("scale_after_normalization", true)
                            ? n_->in(4)
                            : g.constant(part("ones"), filled_f32(g.shape(mean).numel(), 1));
  g.note(fmt::format("batch norm: eps {}", eps));
  return g.channels_last(g.op("batch_norm", n_->name,
                              {g.channels_first(n_->in(0)), gamma, n_->in(3), mean, n_->in(2)},
                              {{"eps", eps}}));
}

ValueId Ops::batch_norm() {
  if (n_->flag("is_training", true)) return batch_norm_of_batch();
  const float eps = n_->number("epsilon", 1e-4F);
  g.note(fmt::format("batch norm: eps {}", eps));
  return from_first(g.op("batch_norm", n_->name,
                         {to_first(n_->in(0)), n_->in(1), n_->in(2), n_->in(3), n_->in(4)},
                         {{"eps", eps}}));
}

ValueId Ops::matmul() {
  ValueId a = n_->in(0), b = n_->in(1);
  const auto turned = [&](ValueId v, std::string_view role) {
    const int rank = g.rank(v);
    Ints perm(static_cast<std::size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    if (rank < 2) throw bad_input("a matrix of rank {}", rank);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return g.transpose(part(role), v, perm);
  };
  if (n_->flag("transpose_a") || n_->flag("adj_x")) a = turned(a, "a");
  if (n_->flag("transpose_b") || n_->flag("adj_y")) b = turned(b, "b");
  return emit("matmul", {a, b});
}

ValueId Ops::activation(ValueId x, const std::string& kind) {
  if (kind.empty() || kind == "NONE" || kind == "BiasAdd") return x;
  if (kind == "Relu6")
    return g.elementwise("clip", part(kind), {x}, {{"min", 0.0F}, {"max", 6.0F}});
  if (kind == "ReluN1To1")
    return g.elementwise("clip", part(kind), {x}, {{"min", -1.0F}, {"max", 1.0F}});
  if (kind == "LeakyRelu")
    return g.elementwise("leaky_relu", part(kind), {x},
                         {{"alpha", n_->number("leakyrelu_alpha", 0.2F)}});
  const auto at = unary_ops().find(kind);
  if (at == unary_ops().end()) throw bad_input("the fused activation {} is not supported", kind);
  return g.elementwise(at->second, part(kind), {x});
}

// _FusedConv2D, _FusedMatMul and kin: an op, then those that fused_ops names, in sequence.
ValueId Ops::fused() {
  const std::vector<std::string> steps = n_->texts("fused_ops");
  ValueId y = n_->op.find("MatMul") != std::string::npos      ? matmul()
              : n_->op.find("Depthwise") != std::string::npos ? depthwise()
                                                              : conv();
  std::size_t next = 2;
  for (const std::string& step : steps) {
    if (step == "BiasAdd") {
      y = g.elementwise("add", part(step), {y, bias(y, n_->in(next++))});
    } else if (step == "Prelu") {
      y = g.elementwise("prelu", part(step), {y, n_->in(next++)});
    } else if (step == "FusedBatchNorm") {
      const float eps = n_->number("epsilon", 1e-4F);
      y = from_first(
          g.op("batch_norm", part(step),
               {to_first(y), n_->in(next), n_->in(next + 1), n_->in(next + 2), n_->in(next + 3)},
               {{"eps", eps}}));
      next += 4;
    } else {
      y = activation(y, step);
    }
  }
  g.note("fused nodes are written step by step: each step rounds");
  return y;
}

std::optional<ValueId> Ops::layers() {
  const std::string& op = n_->op;
  if (op == "Conv2D" || op == "Conv3D" || op == "Conv1D") return conv();
  if (op == "DepthwiseConv2dNative") return depthwise();
  if (op == "Conv2DBackpropInput" || op == "Conv3DBackpropInputV2") return conv_transpose();
  if (op == "MaxPool" || op == "AvgPool" || op == "MaxPool3D" || op == "AvgPool3D") return pool();
  if (op == "FusedBatchNorm" || op == "FusedBatchNormV2" || op == "FusedBatchNormV3")
    return batch_norm();
  if (op.starts_with("BatchNormWithGlobalNormalization")) return batch_norm_of_parts();
  if (op == "MatMul" || op == "BatchMatMul" || op == "BatchMatMulV2" || op == "BatchMatMulV3")
    return matmul();
  if (op.starts_with("_Fused") || op.starts_with("Fused")) return fused();
  if (op == "Einsum") {
    const std::string equation = n_->text("equation");
    if (n_->inputs.size() == 2)
      if (const auto y = einsum_of_two(g, n_->name, equation, n_->in(0), n_->in(1))) return y;
    throw bad_input("the Einsum '{}' of {} operands", printable(equation), n_->inputs.size());
  }
  if (op == "Softmax") return emit("softmax");
  if (op == "LogSoftmax") return emit("log_softmax");
  if (op == "LRN") {
    g.note("LRN: alpha is not divided by the window's size (2 * depth_radius + 1)");
    return g.channels_last(g.op("lrn", n_->name, {g.channels_first(n_->in(0))},
                                {{"size", 2 * n_->integer("depth_radius", 5) + 1},
                                 {"alpha", n_->number("alpha", 1)},
                                 {"beta", n_->number("beta", 0.5F)},
                                 {"bias", n_->number("bias", 1)},
                                 {"alpha_divided", false}}));
  }
  if (op == "ResizeBilinear" || op == "ResizeNearestNeighbor") return resize();
  if (op == "DepthToSpace" || op == "SpaceToDepth")
    return from_first(g.op(op == "DepthToSpace" ? "depth_to_space" : "space_to_depth", n_->name,
                           {to_first(n_->in(0))}, {{"blocksize", n_->integer("block_size", 2)}}));
  if (op == "SpaceToBatchND") return space_to_batch();
  if (op == "BatchToSpaceND") return batch_to_space();
  return std::nullopt;
}
}  // namespace etalon::tf
