// What sorts, counts and chooses; bags of an embedding, distances.
//
// Of equals the first stands first (a stable sort); a NaN stands above every number.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::pytorch_format {
namespace {

constexpr AtenSignature kSignatures[] = {
    {"sort", {"self", "dim", "descending"}},
    {"argsort", {"self", "dim", "descending"}},
    {"kthvalue", {"self", "k", "dim", "keepdim"}},
    {"median", {"self", "dim", "keepdim"}},
    {"cumprod", {"self", "dim", "dtype"}},
    {"nonzero", {"self"}},
    {"masked_select", {"self", "mask"}},
    {"searchsorted", {"sorted_sequence", "self", "out_int32", "right", "side", "sorter"}},
    {"bucketize", {"self", "boundaries", "out_int32", "right"}},
    {"unique_dim", {"self", "dim", "sorted", "return_inverse", "return_counts"}},
    {"_unique2", {"self", "sorted", "return_inverse", "return_counts"}},
    {"cdist", {"x1", "x2", "p", "compute_mode"}},
    {"_cdist_forward", {"x1", "x2", "p", "compute_mode"}},
    {"embedding_bag",
     {"weight", "indices", "offsets", "scale_grad_by_freq", "mode", "sparse", "per_sample_weights",
      "include_last_offset", "padding_idx"}},
    {"_embedding_bag",
     {"weight", "indices", "offsets", "scale_grad_by_freq", "mode", "sparse", "per_sample_weights",
      "include_last_offset", "padding_idx"}},
};

AtenOutputs ordered(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t axis,
                    std::int64_t k, bool descending) {
  return b.nodes("top_k", name, {x},
                 make_params(get_op("top_k"), {{"axis", axis}, {"k", k}, {"largest", descending}}),
                 2);
}

// The k-th in rising sequence, and where it stands.
AtenOutputs kth(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t axis,
                std::int64_t k, bool keep) {
  const std::int64_t n = extent_of(b, x, axis);
  if (k < 1 || k > n) throw bad_input("the {}-th of {} elements", k, n);
  AtenOutputs out = ordered(b, name + ".order", x, axis, k, false);
  for (ValueId& v : out) {
    v = b.op("slice", name + ".kth", {v},
             {{"starts", Ints{k - 1}}, {"ends", Ints{k}}, {"axes", Ints{axis}}});
    if (!keep) v = b.op("squeeze", name + ".value", {v}, {{"axes", Ints{axis}}});
  }
  return out;
}

// The lower one of two in the middle; a NaN anywhere is the median.
AtenOutputs median(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const bool all = c.find("dim") == nullptr, keep = c.flag("keepdim", false);
  if (all) x = b.reshape(name + ".flat", x, {-1});
  const std::int64_t axis = all ? 0 : aten_axis(b, x, c.integer("dim", 0)),
                     n = extent_of(b, x, axis);
  AtenOutputs out = kth(b, name, x, axis, (n + 1) / 2, keep);
  if (is_floating(b.dtype(x))) {
    const ValueId most =
        b.op("reduce_max", name + ".most", {x}, {{"axes", Ints{axis}}, {"keepdims", keep}});
    const ValueId nan = b.op("is_nan", name + ".nan", {most});
    out[0] = b.op("where", name + ".median", {nan, most, out[0]});
    out[1] = b.op(
        "where", name + ".index",
        {nan, b.op("arg_max", name + ".first", {x}, {{"axis", axis}, {"keepdims", keep}}), out[1]});
  }
  if (all) out.pop_back();
  return out;
}

// [count, rank] of the elements that are not zero; their number is known when the network runs.
ValueId coordinates(GraphBuilder& b, const std::string& name, ValueId x) {
  return b.op("transpose", name, {b.op("non_zero", name + ".axes", {x})}, {{"perm", Ints{1, 0}}});
}

ValueId masked_select(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const ValueId mask = c.tensor("mask");
  if (mask == kAbsent) throw AtenUnknown{"masked_select without a mask"};
  const auto wide = [&](const char* role, ValueId v, ValueId other) {
    if (b.dims(v) == b.dims(other)) return v;
    return b.op("expand", name + role, {v, b.op("shape", name + ".shape", {other})});
  };
  return b.op("gather_nd", name,
              {wide(".x", x, mask), coordinates(b, name + ".places", wide(".mask", mask, x))});
}

// Each value's place in a sorted row.
ValueId placed(GraphBuilder& b, const std::string& name, ValueId rows, ValueId values,
               const AtenCall& c) {
  if (rows == kAbsent || values == kAbsent) throw AtenUnknown{"places among what is no tensor"};
  if (c.find("sorter") != nullptr) throw AtenUnknown{"searchsorted by a sorter"};
  const AtenValue* side = c.find("side");
  const bool right = c.flag("right", false) || (side != nullptr && side->text == "right");
  const auto [p, q] = promoted(b, name, rows, values);
  const ValueId y = places_in_rows(b, name, p, q, right);
  return c.flag("out_int32", false) ? aten_cast(b, name, y, DType::i32) : y;
}

AtenOutputs unique(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                   const AtenCall& c) {
  Fields f{{"sorted", true}};  // PyTorch sorts, asked or not
  if (op == "unique_dim") f.emplace_back("axis", aten_axis(b, x, c.integer("dim", 0)));
  const auto y = b.nodes("unique", name, {x}, make_params(get_op("unique"), f), 4);
  const bool inverse = c.flag("return_inverse", false), counts = c.flag("return_counts", false);
  ValueId where = y[2];
  if (inverse && op == "_unique2")
    where = b.op("reshape", name + ".inverse", {where, b.op("shape", name + ".shape", {x})});
  return {y[0], inverse ? where : kAbsent, counts ? y[3] : kAbsent};
}

// [.., P, M] and [.., R, M] to [.., P, R].
ValueId distances(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const ValueId one = c.tensor("x1"), two = c.tensor("x2");
  if (one == kAbsent || two == kAbsent) throw AtenUnknown{"distances of what are no tensors"};
  const float p = c.number("p", 2);
  c.find("compute_mode");  // which of two ways the Euclidean norm is computed
  const ValueId d = b.op("sub", name + ".way",
                         {b.op("unsqueeze", name + ".rows", {one}, {{"axes", Ints{-2}}}),
                          b.op("unsqueeze", name + ".columns", {two}, {{"axes", Ints{-3}}})});
  const auto over = [&](const char* op, ValueId v) {
    return b.op(op, name, {v}, {{"axes", Ints{-1}}, {"keepdims", false}});
  };
  b.note("distances are the norms of differences, one for each pair.");
  if (p == 1) return over("reduce_l1", d);
  if (p == 2) return over("reduce_l2", d);
  if (std::isinf(p) && p > 0) return over("reduce_max", b.op("abs", name + ".abs", {d}));
  throw AtenUnknown{fmt::format("distances of order {}", p)};
}

AtenOutputs bag(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  const ValueId table = c.tensor("weight"), at = c.tensor("indices"), offsets = c.tensor("offsets");
  if (table == kAbsent || at == kAbsent || offsets == kAbsent || b.rank(at) != 1)
    throw AtenUnknown{"a bag without rows or offsets"};
  if (b.rank(table) != 2 || b.rank(offsets) != 1)
    throw bad_input("bags of {} from {}", to_string(b.type(table)), to_string(b.type(offsets)));
  const std::int64_t mode = c.integer("mode", 0);
  if (mode != 0 && mode != 1) throw AtenUnknown{"a bag of the greatest"};
  if (c.integer("padding_idx", -1) >= 0) throw AtenUnknown{"a bag with an index for padding"};
  ValueId rows = b.op("gather", name + ".rows", {table, at}, {{"axis", std::int64_t{0}}});
  if (const ValueId weights = c.tensor("per_sample_weights"); weights != kAbsent)
    rows = b.op("mul", name + ".weighted",
                {rows, b.op("unsqueeze", name + ".weights", {weights}, {{"axes", Ints{1}}})});
  const std::int64_t last = c.flag("include_last_offset", false) ? 1 : 0;
  const std::int64_t bags = extent_of(b, offsets, 0) - last, n = extent_of(b, at, 0);
  if (bags < 0 || n > 1 << 16) throw AtenUnknown{"bags of more than 65536 indices"};
  ValueId begins = offsets;
  if (last != 0)
    begins = b.op("slice", name + ".begins", {offsets},
                  {{"starts", Ints{0}}, {"ends", Ints{bags}}, {"axes", Ints{0}}});
  const ValueId ids = segments_of(b, name, begins, n);
  ValueId y = segment_sum(b, name, rows, ids, bags);
  if (mode == 1) {
    const ValueId ones = b.op("expand", name + ".ones",
                              {b.constant(name + ".one", scalar_of(b.dtype(table), 1)),
                               b.op("shape", name + ".shape", {at})});
    const ValueId counts = b.op("max", name + ".counts",
                                {segment_sum(b, name + ".met", ones, ids, bags),
                                 b.constant(name + ".least", scalar_of(b.dtype(table), 1))});
    y = b.op("div", name + ".mean",
             {y, b.op("unsqueeze", name + ".count", {counts}, {{"axes", Ints{1}}})});
  }
  return {y, kAbsent, kAbsent, kAbsent};
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (op.ends_with("embedding_bag")) return bag(b, name, c);
  if (op.find("cdist") != op.npos) return {distances(b, name, c)};
  const ValueId x = c.tensor("self");
  if (op == "searchsorted") return {placed(b, name, c.tensor("sorted_sequence"), x, c)};
  if (x == kAbsent) throw AtenUnknown{op + " of what is no tensor"};
  if (op == "bucketize") return {placed(b, name, c.tensor("boundaries"), x, c)};
  if (op == "sort" || op == "argsort") {
    c.flag("stable", false);
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", -1));
    AtenOutputs y = ordered(b, name, x, axis, extent_of(b, x, axis), c.flag("descending", false));
    return op == "sort" ? y : AtenOutputs{y[1]};
  }
  if (op == "kthvalue")
    return kth(b, name, x, aten_axis(b, x, c.integer("dim", -1)), c.integer("k", 1),
               c.flag("keepdim", false));
  if (op == "median") return median(b, name, x, c);
  if (op == "cumprod") {
    const ValueId v = c.find("dtype") != nullptr ? cast_as_told(b, name, x, c)
                      : is_floating(b.dtype(x))  ? x
                                                 : aten_cast(b, name, x, DType::i64);
    return {b.op("cum_prod", name, {v}, {{"axis", aten_axis(b, x, c.integer("dim", 0))}})};
  }
  if (op == "nonzero") return {coordinates(b, name, x)};
  if (op == "masked_select") return {masked_select(b, name, x, c)};
  if (op.find("unique") != op.npos) return unique(b, op, name, x, c);
  throw AtenUnknown{op};
}

}  // namespace

AtenFamily order_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
