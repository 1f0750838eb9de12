#include <algorithm>
#include <numeric>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::tf {
namespace {

const std::map<std::string_view, std::string_view> kReduce{
    {"Mean", "reduce_mean"}, {"Sum", "reduce_sum"},         {"Max", "reduce_max"},
    {"Min", "reduce_min"},   {"Prod", "reduce_prod"},       {"Any", "reduce_max"},
    {"All", "reduce_min"},   {"EuclideanNorm", "reduce_l2"}};

}  // namespace

ValueId Ops::resize() {
  const ValueId x = n_->in(0);
  const auto sizes = fixed_ints(1);
  if (sizes && (sizes->size() != 2 || (*sizes)[0] < 1 || (*sizes)[1] < 1))
    throw bad_input("sizes must be two");
  const bool linear = n_->op == "ResizeBilinear", corners = n_->flag("align_corners"),
             half = n_->flag("half_pixel_centers");
  const std::string how = corners          ? "align_corners"
                          : half && linear ? "half_pixel"
                          : half           ? "tf_half_pixel_for_nn"
                                           : "asymmetric";
  g.note(fmt::format("resize: coordinates {} in f32", how));
  Fields f{{"mode", std::string(linear ? "linear" : "nearest")},
           {"coordinate_transformation_mode", how},
           {"nearest_mode", std::string(corners ? "round_prefer_ceil" : "floor")},
           {"coordinates", std::string("f32")},
           {"axes", Ints{2, 3}}};
  std::vector<ValueId> in{g.channels_first(x)};
  if (sizes)
    f.emplace_back("sizes", *sizes);
  else
    in.insert(in.end(), {kAbsent, kAbsent, as_i64("sizes", n_->in(1))});
  return g.channels_last(g.op("resize", n_->name, in, f));
}

// Mirrored with the edge repeated, by the indices of the elements.
ValueId Ops::symmetric_pad(const Ints& pads) {
  ValueId y = n_->in(0);
  const std::size_t rank = pads.size() / 2;
  if (static_cast<int>(rank) != g.rank(y))
    throw bad_input("{} paddings for rank {}", rank, g.rank(y));
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t before = pads[axis], after = pads[rank + axis], extent = g.dims(y)[axis];
    if (before == 0 && after == 0) continue;
    if (before < 0 || after < 0 || extent < 0 || before > extent || after > extent)
      throw bad_input("MirrorPad SYMMETRIC of {} and {} around {} is not supported", before, after,
                      extent);
    Ints index;
    for (std::int64_t i = -before; i < extent + after; ++i)
      index.push_back(i < 0 ? -1 - i : i < extent ? i : 2 * extent - 1 - i);
    y = g.op("gather", part("mirrored"), {y, g.constant(part("index"), ints_tensor(index))},
             {{"axis", static_cast<std::int64_t>(axis)}});
  }
  return y;
}

ValueId Ops::space_to_batch() {
  const Ints block = constant_ints(1, "block sizes"), pads = constant_ints(2, "paddings");
  const ValueId x = n_->in(0);
  const auto m = block.size();
  const int rank = g.rank(x);
  if (pads.size() != 2 * m || static_cast<int>(m) >= rank)
    throw bad_input("{} blocks for rank {}", m, rank);
  Ints pad(2 * static_cast<std::size_t>(rank), 0);
  for (std::size_t i = 0; i < m; ++i) {
    pad[1 + i] = pads[2 * i];
    pad[static_cast<std::size_t>(rank) + 1 + i] = pads[2 * i + 1];
  }
  const ValueId padded =
      g.op("pad", part("pad"), {x}, {{"pads", pad}, {"value", n_->number("pad_value")}});
  Ints split{-1}, perm, merged{-1};
  for (std::size_t i = 0; i < m; ++i) {
    const std::int64_t extent = g.shape(padded)[static_cast<int>(i) + 1];
    if (block[i] < 1 || extent % block[i] != 0)
      throw bad_input("{} in blocks of {}", extent, block[i]);
    split.insert(split.end(), {extent / block[i], block[i]});
    perm.push_back(static_cast<std::int64_t>(2 + 2 * i));
    merged.push_back(extent / block[i]);
  }
  perm.push_back(0);
  for (std::size_t i = 0; i < m; ++i) perm.push_back(static_cast<std::int64_t>(1 + 2 * i));
  for (int i = static_cast<int>(m) + 1; i < rank; ++i) {
    split.push_back(g.shape(padded)[i]);
    perm.push_back(static_cast<std::int64_t>(m) + i);
    merged.push_back(g.shape(padded)[i]);
  }
  const ValueId cut = g.op("reshape", part("blocks"), {padded}, {{"shape", split}});
  return g.op("reshape", n_->name, {g.transpose(part("turned"), cut, perm)}, {{"shape", merged}});
}

ValueId Ops::batch_to_space() {
  const Ints block = constant_ints(1, "block sizes"), crops = constant_ints(2, "crops");
  const ValueId x = n_->in(0);
  const auto m = block.size();
  const int rank = g.rank(x);
  if (crops.size() != 2 * m || static_cast<int>(m) >= rank)
    throw bad_input("{} blocks for rank {}", m, rank);
  Ints split = block, perm{static_cast<std::int64_t>(m)}, merged{-1};
  split.push_back(-1);
  Ints starts, ends, axes;
  for (std::size_t i = 0; i < m; ++i) {
    const std::int64_t extent = g.shape(x)[static_cast<int>(i) + 1];
    split.push_back(extent);
    perm.push_back(static_cast<std::int64_t>(m + 1 + i));
    perm.push_back(static_cast<std::int64_t>(i));
    merged.push_back(extent * block[i]);
    starts.push_back(crops[2 * i]);
    ends.push_back(extent * block[i] - crops[2 * i + 1]);
    axes.push_back(static_cast<std::int64_t>(i) + 1);
  }
  for (int i = static_cast<int>(m) + 1; i < rank; ++i) {
    split.push_back(g.shape(x)[i]);
    perm.push_back(static_cast<std::int64_t>(m) + i);
    merged.push_back(g.shape(x)[i]);
  }
  const ValueId cut = g.op("reshape", part("blocks"), {x}, {{"shape", split}});
  const ValueId whole = g.op("reshape", part("merged"), {g.transpose(part("turned"), cut, perm)},
                             {{"shape", merged}});
  return g.op("slice", n_->name, {whole}, {{"starts", starts}, {"ends", ends}, {"axes", axes}});
}

// The elements of an input, where they are known but for a free extent.
std::optional<Ints> Ops::fixed_ints(std::size_t i) const {
  auto known = elements(n_->in(i));
  if (known && g.constant_of(n_->in(i)) == nullptr && std::ranges::count(*known, -1) != 0)
    return std::nullopt;
  return known;
}

// Begins or ends that a run computes: axis by axis.
ValueId Ops::strided_slice_at_run_time() {
  const Ints stride = constant_ints(3, "strides");
  const auto bit = [&](std::string_view mask, std::size_t i) {
    return i < 63 && (n_->integer(mask) >> i & 1) != 0;
  };
  const auto rank = static_cast<std::int64_t>(g.rank(n_->in(0)));
  std::int64_t real = 0;
  for (std::size_t i = 0; i < stride.size(); ++i)
    real += bit("new_axis_mask", i) || bit("ellipsis_mask", i) ? 0 : 1;
  if (real > rank) throw bad_input("{} axes are cut of {}", real, rank);
  const auto ints = [&](std::string_view role, std::int64_t v) {
    return g.constant(part(role), ints_tensor({v}));
  };
  const auto element = [&](std::size_t input, std::size_t i) {
    const auto at = static_cast<std::int64_t>(i);
    return as_i64("bound", g.op("slice", part("element"), {n_->in(input)},
                                {{"starts", Ints{at}}, {"ends", Ints{at + 1}}, {"axes", Ints{0}}}));
  };
  ValueId y = n_->in(0);
  std::int64_t axis = 0;
  for (std::size_t i = 0; i < stride.size(); ++i) {
    if (bit("ellipsis_mask", i)) {
      axis += rank - real;
    } else if (bit("new_axis_mask", i)) {
      y = g.op("unsqueeze", part("new"), {y}, {{"axes", Ints{axis++}}});
    } else if (bit("shrink_axis_mask", i)) {
      const ValueId at = g.reshape(part("at"), element(1, i), {});
      y = g.op("gather", part("dropped"), {y, at}, {{"axis", axis}});
    } else {
      const bool forwards = stride[i] > 0, from_end = bit("begin_mask", i),
                 to_end = bit("end_mask", i);
      if (!from_end || !to_end || stride[i] != 1) {
        const ValueId begin = from_end ? ints("begin", forwards ? 0 : INT64_MAX) : element(1, i);
        const ValueId end = to_end ? ints("end", forwards ? INT64_MAX : INT64_MIN) : element(2, i);
        y = g.op("slice", part("cut"),
                 {y, begin, end, ints("axis", axis), ints("step", stride[i])});
      }
      ++axis;
    }
  }
  return g.op("identity", n_->name, {y});
}

ValueId Ops::strided_slice() {
  if (!fixed_ints(1) || !fixed_ints(2)) return strided_slice_at_run_time();
  const Ints begin = constant_ints(1, "begins"), end = constant_ints(2, "ends"),
             stride = constant_ints(3, "strides");
  const std::int64_t begin_mask = n_->integer("begin_mask"), end_mask = n_->integer("end_mask"),
                     ellipsis = n_->integer("ellipsis_mask"), added = n_->integer("new_axis_mask"),
                     shrink = n_->integer("shrink_axis_mask");
  if (begin.size() != end.size() || begin.size() != stride.size())
    throw bad_input("{} begins, {} ends, {} strides", begin.size(), end.size(), stride.size());
  const ValueId x = n_->in(0);
  const auto rank = static_cast<std::int64_t>(g.rank(x));
  const auto bit = [](std::int64_t mask, std::size_t i) { return i < 63 && (mask >> i & 1) != 0; };
  std::int64_t real = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) real += bit(added, i) || bit(ellipsis, i) ? 0 : 1;
  Ints starts, ends, axes, steps, gone, fresh;
  std::int64_t axis = 0, out = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (bit(ellipsis, i)) {
      axis += rank - real;
      out += rank - real;
    } else if (bit(added, i)) {
      fresh.push_back(out++);
    } else {
      if (axis >= rank) throw bad_input("{} axes are cut of {}", real, rank);
      const bool drop = bit(shrink, i);
      starts.push_back(bit(begin_mask, i) && !drop ? (stride[i] > 0 ? 0 : INT64_MAX) : begin[i]);
      std::int64_t to = bit(end_mask, i) ? (stride[i] > 0 ? INT64_MAX : INT64_MIN) : end[i];
      if (drop) to = begin[i] == -1 ? INT64_MAX : begin[i] + 1;
      ends.push_back(to);
      steps.push_back(drop ? 1 : stride[i]);
      axes.push_back(axis);
      if (drop)
        gone.push_back(axis);
      else
        ++out;
      ++axis;
    }
  }
  ValueId y = g.op("slice", n_->name, {x},
                   {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}});
  if (!gone.empty()) y = g.op("squeeze", part("dropped"), {y}, {{"axes", gone}});
  if (!fresh.empty()) y = g.op("unsqueeze", part("new"), {y}, {{"axes", fresh}});
  return y;
}

std::optional<ValueId> Ops::shapes() {
  const std::string& op = n_->op;
  if (op == "Reshape") {
    Ints shape;
    if (n_->inputs.size() > 1) {
      const auto known = elements(n_->in(1));
      if (!known || std::ranges::count(*known, -1) > 1)
        return emit("reshape", {n_->in(0), n_->in(1)}, {{"allowzero", true}});
      shape = *known;
    } else {
      shape = n_->integers("new_shape");
    }
    const bool zero = std::ranges::count(shape, 0) != 0;
    if (g.constant_of(n_->in(0)) != nullptr && !zero) return g.reshape(n_->name, n_->in(0), shape);
    return g.op("reshape", n_->name, {n_->in(0)}, {{"shape", shape}, {"allowzero", zero}});
  }
  if (op == "Squeeze") {
    Ints axes = n_->integers("squeeze_dims");
    if (axes.empty()) axes = n_->integers("axis");
    return g.op("squeeze", n_->name, {n_->in(0)}, {{"axes", axes}});
  }
  if (op == "BroadcastArgs") {
    const Shape both =
        broadcast(Shape(constant_ints(0, "extents")), Shape(constant_ints(1, "extents")));
    const bool wide = g.dtype(n_->in(0)) == DType::i64;
    Tensor t = Tensor::uninitialized(wide ? DType::i64 : DType::i32, {both.rank()});
    for (int a = 0; a < both.rank(); ++a)
      store_from_double(t.dtype(), t.mutable_bytes().data(), a, static_cast<double>(both[a]));
    return g.constant(n_->name, std::move(t));
  }
  if (op == "ExpandDims")
    return g.op("unsqueeze", n_->name, {n_->in(0)}, {{"axes", constant_ints(1, "axes")}});
  if (op == "Transpose") return g.transpose(n_->name, n_->in(0), constant_ints(1, "axes"));
  if (op == "ConcatV2" || op == "Concat") {
    std::vector<ValueId> in = n_->inputs;
    if (in.size() < 2) throw bad_input("a concatenation of nothing");
    const std::size_t where = op == "Concat" ? 0 : in.size() - 1;
    const Ints axis_value = constant_ints(where, "axes");
    if (axis_value.size() != 1) throw bad_input("the axis has {} elements", axis_value.size());
    in.erase(in.begin() + static_cast<std::ptrdiff_t>(where));
    if (g.known(in[0]) && g.rank(in[0]) == 4) {
      const int axis = normalize_axis(axis_value[0], 4);
      for (ValueId& v : in) v = g.channels_first(v);
      constexpr int kMoved[] = {0, 2, 3, 1};
      return g.channels_last(g.op("concat", n_->name, in, {{"axis", std::int64_t{kMoved[axis]}}}));
    }
    return g.op("concat", n_->name, in, {{"axis", axis_value[0]}});
  }
  if (op == "Pack" || op == "Stack") {
    std::vector<ValueId> in;
    const std::int64_t axis = n_->integer("axis");
    for (std::size_t i = 0; i < n_->inputs.size(); ++i)
      in.push_back(g.op("unsqueeze", part("item"), {n_->in(i)}, {{"axes", Ints{axis}}}));
    return g.op("concat", n_->name, in, {{"axis", axis}});
  }
  if (op == "Slice" && (!fixed_ints(1) || !fixed_ints(2))) {
    const ValueId begin = as_i64("begin", n_->in(1)), size = as_i64("size", n_->in(2)),
                  zero = g.constant(part("zero"), scalar_of(DType::i64, 0)),
                  far = g.constant(part("far"), ints_tensor({INT64_MAX}));
    // A size of -1 is all that is left.
    const ValueId end = g.op(
        "where", part("end"),
        {g.op("less", part("all"), {size, zero}), far, g.op("add", part("sum"), {begin, size})});
    return g.op("slice", n_->name, {n_->in(0), begin, end});
  }
  if (op == "Slice") {
    const Ints begin = constant_ints(1, "begins"), size = constant_ints(2, "sizes");
    if (begin.size() != size.size()) throw bad_input("begins and sizes differ");
    Ints ends, axes;
    for (std::size_t i = 0; i < begin.size(); ++i) {
      ends.push_back(size[i] < 0 ? INT64_MAX : begin[i] + size[i]);
      axes.push_back(static_cast<std::int64_t>(i));
    }
    return g.op("slice", n_->name, {n_->in(0)},
                {{"starts", begin}, {"ends", ends}, {"axes", axes}});
  }
  if (op == "StridedSlice") return strided_slice();
  if (op == "ReverseV2" || op == "Reverse") {
    Ints axes;
    if (op == "Reverse") {  // a truth value for each axis
      const Tensor* turned = g.constant_of(n_->in(1));
      if (turned == nullptr || turned->dtype() != DType::boolean)
        throw bad_input("Reverse of axes that are no constant truth values");
      for (std::int64_t a = 0; a < turned->numel(); ++a)
        if (load_as_double(*turned, a) != 0) axes.push_back(a);
    } else {
      axes = constant_ints(1, "axes");
    }
    if (axes.empty()) return n_->in(0);
    return g.op("slice", n_->name, {n_->in(0)},
                {{"starts", Ints(axes.size(), -1)},
                 {"ends", Ints(axes.size(), INT64_MIN)},
                 {"axes", axes},
                 {"steps", Ints(axes.size(), -1)}});
  }
  // Of extents that a run computes the op reads them itself.
  if (op == "Tile" || op == "BroadcastTo") {
    const bool tiles = op == "Tile";
    const std::string what = tiles ? "tile" : "expand";
    if (g.constant_of(n_->in(1)) == nullptr) {
      const ValueId wide = g.op("cast", part("extents"), {n_->in(1)}, {{"to", std::string("i64")}});
      return g.op(what, n_->name, {n_->in(0), wide});
    }
    return tiles ? g.op(what, n_->name, {n_->in(0)}, {{"repeats", constant_ints(1, "multiples")}})
                 : g.op(what, n_->name, {n_->in(0)}, {{"shape", constant_ints(1, "extents")}});
  }
  if (op == "Pad" || op == "PadV2" || op == "MirrorPad") {
    const Ints pairs = constant_ints(1, "paddings");
    Ints pads(pairs.size());
    const std::size_t rank = pairs.size() / 2;
    for (std::size_t i = 0; i < rank; ++i) {
      pads[i] = pairs[2 * i];
      pads[rank + i] = pairs[2 * i + 1];
    }
    if (op == "MirrorPad" && n_->text("mode", "REFLECT") != "REFLECT") return symmetric_pad(pads);
    float value = n_->number("pad_value");  // of a quantised tensor, whose zero is not 0
    if (op == "PadV2") {
      const Tensor* c = g.constant_of(n_->in(2));
      if (c == nullptr || c->numel() != 1)
        throw bad_input("the value of the padding is not constant");
      value = as_f32(*c).data<float>()[0];
    }
    const bool image = rank == 4 && op != "MirrorPad";
    if (image) {
      const Ints perm{0, 3, 1, 2};
      Ints turned(8);
      for (std::size_t i = 0; i < 4; ++i) {
        turned[i] = pads[static_cast<std::size_t>(perm[i])];
        turned[4 + i] = pads[4 + static_cast<std::size_t>(perm[i])];
      }
      pads = turned;
    }
    const Fields f{{"mode", std::string(op == "MirrorPad" ? "reflect" : "constant")},
                   {"pads", pads},
                   {"value", value}};
    if (image) return g.channels_last(g.op("pad", n_->name, {g.channels_first(n_->in(0))}, f));
    return g.op("pad", n_->name, {n_->in(0)}, f);
  }
  if (op == "Shape") {
    const ValueId y = g.op("shape", n_->name, {n_->in(0)});
    if (n_->text("out_type", "i32") != "i32") return y;
    return g.op("cast", part("i32"), {y}, {{"to", std::string("i32")}});
  }
  if (op == "Size") {
    const ValueId y = g.op("size", n_->name, {n_->in(0)});
    if (n_->text("out_type", "i32") != "i32") return y;
    return g.op("cast", part("i32"), {y}, {{"to", std::string("i32")}});
  }
  if (const auto at = kReduce.find(op); at != kReduce.end()) {
    const bool keep = n_->flag("keep_dims");
    if (n_->inputs.size() < 2) return g.op(at->second, n_->name, {n_->in(0)}, {{"keepdims", keep}});
    const Ints axes = constant_ints(1, "axes");
    if (axes.empty()) return n_->in(0);
    return g.op(at->second, n_->name, {n_->in(0)}, {{"axes", axes}, {"keepdims", keep}});
  }
  return std::nullopt;
}

// The first axes are common to the values and the indices; each index takes all that follows
// `axis`.
ValueId Ops::batched_gather(std::int64_t axis) {
  const ValueId x = n_->in(0);
  ValueId index = n_->in(1);
  int common = g.rank(index) - 1;
  const int rank = g.rank(x);
  // One index for each of what is common: a row of one.
  const bool one =
      n_->integer("batch_dims") == g.rank(index) && normalize_axis(axis, rank) == common + 1;
  if (one) {
    index = g.op("unsqueeze", part("one"), {index}, {{"axes", Ints{++common}}});
    OpNode wide = *n_;
    const OpNode* const own = n_;
    wide.inputs[1] = index;
    n_ = &wide;
    const ValueId y = batched_gather(axis);
    n_ = own;
    return g.op("squeeze", n_->name, {y}, {{"axes", Ints{common}}});
  }
  if (n_->integer("batch_dims") != common || normalize_axis(axis, rank) != common)
    throw bad_input("a gather with {} batch_dims of {} axes along axis {} is not supported",
                    n_->integer("batch_dims"), g.rank(index), axis);
  Ints behind, extents(static_cast<std::size_t>(rank), 1);
  for (int a = common + 1; a < rank; ++a) {
    behind.push_back(a);
    extents[static_cast<std::size_t>(a)] = g.shape(x)[a];
  }
  if (!behind.empty()) {
    index = g.op("unsqueeze", part("index"), {index}, {{"axes", behind}});
    index = g.op("expand", part("indices"), {index}, {{"shape", extents}});
  }
  return g.op("gather_elements", n_->name, {x, index}, {{"axis", std::int64_t{common}}});
}

std::optional<ValueId> Ops::indices() {
  const std::string& op = n_->op;
  if (op == "Gather" || op == "GatherV2" || op == "ResourceGather") {
    const std::int64_t axis = n_->inputs.size() > 2 ? constant_int(2, "axes") : n_->integer("axis");
    if (n_->integer("batch_dims") != 0) return batched_gather(axis);
    return g.op("gather", n_->name, {n_->in(0), n_->in(1)}, {{"axis", axis}});
  }
  if (op == "GatherNd") return emit("gather_nd");
  if (op == "ArgMax" || op == "ArgMin") {
    const std::int64_t axis = n_->inputs.size() > 1 ? constant_int(1, "axes") : 0;
    ValueId y = g.op(op == "ArgMax" ? "arg_max" : "arg_min", n_->name, {n_->in(0)},
                     {{"axis", axis}, {"keepdims", false}});
    if (n_->text("output_type", "i64") == "i32")
      y = g.op("cast", part("i32"), {y}, {{"to", std::string("i32")}});
    return y;
  }
  if (op == "Fill") return emit("expand", {n_->in(1), n_->in(0)});
  if (op == "ZerosLike" && !g.known(n_->in(0))) {
    // Nothing is less than itself.
    const ValueId none = g.op("less", part("none"), {n_->in(0), n_->in(0)});
    return emit("cast_like", {none, n_->in(0)});
  }
  if (op == "ZerosLike") {
    const ValueId zero = g.constant(part("zero"), scalar_of(g.dtype(n_->in(0)), 0));
    return g.op("expand", n_->name, {zero, g.op("shape", part("shape"), {n_->in(0)})});
  }
  if (op == "Range") return emit("range");
  if (op == "Rank") {
    const auto rank = static_cast<std::int32_t>(g.rank(n_->in(0)));
    return g.constant(n_->name, Tensor::of<std::int32_t>({}, {rank}));
  }
  if (op == "Cumsum")
    return g.op("cum_sum", n_->name, {n_->in(0)},
                {{"axis", constant_int(1, "axes")},
                 {"exclusive", n_->flag("exclusive")},
                 {"reverse", n_->flag("reverse")}});
  if (op == "OneHot") {
    const ValueId values =
        g.op("concat", part("values"),
             {g.reshape(part("off"), n_->in(3), {1}), g.reshape(part("on"), n_->in(2), {1})},
             {{"axis", std::int64_t{0}}});
    // An index below 0 is none here; ours would count it from the end.
    const ValueId index = g.op("cast", part("index"), {n_->in(0)}, {{"to", std::string("i64")}});
    const ValueId depth = g.op("cast", part("depth"), {n_->in(1)}, {{"to", std::string("i64")}});
    const ValueId zero = g.constant(part("zero"), scalar_of(DType::i64, 0));
    const ValueId held =
        g.op("where", part("held"), {g.op("less", part("none"), {index, zero}), depth, index});
    return emit("one_hot", {held, depth, values}, {{"axis", n_->integer("axis", -1)}});
  }
  return std::nullopt;
}
}  // namespace etalon::tf
