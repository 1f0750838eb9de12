// What loops keep: counters, and lists of tensors (tf.TensorArray of TensorFlow 2 and 1).
//
// A loop is written out iteration by iteration (graph.cpp), so every index into a list is known and
// a list is here the values of its items; an item that is set under a condition alone is zeros
// else.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"

namespace etalon::tf {
namespace {
constexpr std::int64_t kMostItems = 1 << 14;
}  // namespace

// A range of f32 whose numbers are whole and said by the file.
std::optional<ValueId> Ops::whole_line() {
  double v[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor* c = g.constant_of(n_->in(i));
    if (c == nullptr || c->dtype() != DType::f32 || c->numel() != 1) return std::nullopt;
    v[i] = static_cast<double>(c->data<float>()[0]);
    if (!(v[i] >= -0x1p23) || !(v[i] <= 0x1p23) || v[i] != std::floor(v[i])) return std::nullopt;
  }
  constexpr double kMost = 1 << 16;
  if (v[2] == 0 || (v[1] - v[0]) / v[2] > kMost) return std::nullopt;
  std::vector<float> all;
  for (double at = v[0]; v[2] > 0 ? at < v[1] : at > v[1]; at += v[2])
    all.push_back(static_cast<float>(at));
  Tensor t = Tensor::uninitialized(DType::f32, {static_cast<std::int64_t>(all.size())});
  std::ranges::copy(all, t.mutable_data<float>().begin());
  return g.constant(n_->name, std::move(t));
}

// Of small rows of integers that are known: which are equal, and a choice among them. Shapes are
// computed so, element by element.
std::optional<ValueId> Ops::folded_rows() {
  const std::string& op = n_->op;
  const bool compares = op == "Equal" || op == "NotEqual";
  if ((!compares || n_->inputs.size() != 2) && (op != "SelectV2" || n_->inputs.size() != 3))
    return std::nullopt;
  const std::size_t from = compares ? 0 : 1;
  const ValueId one = n_->in(from), other = n_->in(from + 1);
  if (!g.known(one) || !g.known(other) || g.rank(one) > 1 || g.rank(other) > 1) return std::nullopt;
  const auto a = fixed_ints(from), b = fixed_ints(from + 1);
  const Tensor* holds = compares ? nullptr : g.constant_of(n_->in(0));
  if (!a || !b || (!compares && (holds == nullptr || holds->shape().rank() > 1)))
    return std::nullopt;
  const std::size_t given = compares ? 1 : static_cast<std::size_t>(holds->numel());
  const std::size_t count = std::max({a->size(), b->size(), given});
  for (const std::size_t n : {a->size(), b->size(), given})
    if (n != count && n != 1) return std::nullopt;
  const int rank = std::max({g.rank(one), g.rank(other), compares ? 0 : holds->shape().rank()});
  const DType type = compares ? DType::boolean : g.dtype(one);
  Tensor t =
      Tensor::uninitialized(type, rank == 0 ? Shape{} : Shape{static_cast<std::int64_t>(count)});
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t x = (*a)[a->size() == 1 ? 0 : i], y = (*b)[b->size() == 1 ? 0 : i];
    std::int64_t v = 0;
    if (compares)
      v = (x == y) == (op == "Equal") ? 1 : 0;
    else
      v = load_as_double(*holds, given == 1 ? 0 : static_cast<std::int64_t>(i)) != 0 ? x : y;
    store_from_double(type, t.mutable_bytes().data(), static_cast<std::int64_t>(i),
                      static_cast<double>(v));
  }
  return g.constant(n_->name, std::move(t));
}

// Arithmetic on single integers and truth values that are known, and ranges of them.
std::optional<ValueId> Ops::folded() {
  const std::string& op = n_->op;
  if (op == "Range" && n_->inputs.size() == 3 && g.constant_of(n_->in(0)) != nullptr &&
      g.dtype(n_->in(0)) == DType::f32)
    return whole_line();
  if (op == "Range" && n_->inputs.size() == 3) {
    const auto from = known(n_->in(0)), to = known(n_->in(1)), by = known(n_->in(2));
    constexpr std::int64_t kFar = 1LL << 40, kMost = 4096;
    if (!from || !to || !by || *by == 0 || is_floating(g.dtype(n_->in(0))) || *from < -kFar ||
        *from > kFar || *to < -kFar || *to > kFar || *by < -kFar || *by > kFar)
      return std::nullopt;
    Ints all;
    for (std::int64_t i = *from; *by > 0 ? i < *to : i > *to; i += *by) {
      if (static_cast<std::int64_t>(all.size()) == kMost) return std::nullopt;
      all.push_back(i);
    }
    if (g.dtype(n_->in(0)) != DType::i32)
      return g.constant(n_->name,
                        Tensor::of<std::int64_t>({static_cast<std::int64_t>(all.size())}, all));
    const std::vector<std::int32_t> narrow(all.begin(), all.end());
    return g.constant(n_->name,
                      Tensor::of<std::int32_t>({static_cast<std::int64_t>(all.size())}, narrow));
  }
  if ((op == "SelectV2" || op == "Select") && n_->inputs.size() == 3 && g.known(n_->in(0)) &&
      g.rank(n_->in(0)) == 0 && g.known(n_->in(1)) && g.known(n_->in(2)) &&
      g.sizes(n_->in(1)) == g.sizes(n_->in(2)))
    if (const auto holds = known(n_->in(0))) return n_->in(*holds != 0 ? 1 : 2);
  // One side may decide alone.
  if (op == "LogicalAnd" || op == "LogicalOr")
    for (std::size_t i = 0; i < 2; ++i)
      if (const ValueId in = n_->in(i);
          g.known(in) && g.rank(in) == 0 && g.known(n_->in(1 - i)) && g.rank(n_->in(1 - i)) == 0)
        if (const auto value = known(in); value && (*value != 0) == (op == "LogicalOr")) return in;
  if (n_->inputs.empty() || n_->inputs.size() > 2) return std::nullopt;
  std::int64_t v[2] = {0, 0};
  for (std::size_t i = 0; i < n_->inputs.size(); ++i) {
    const ValueId in = n_->in(i);
    if (!g.known(in) || g.rank(in) != 0 || is_floating(g.dtype(in))) return std::nullopt;
    const auto value = known(in);
    if (!value) return std::nullopt;
    v[i] = *value;
  }
  const auto [a, b] = std::pair(v[0], v[1]);
  const auto truth = [&](bool t) {
    return g.constant(n_->name, scalar_of(DType::boolean, t ? 1 : 0));
  };
  if (op == "LogicalNot") return truth(a == 0);
  if (n_->inputs.size() != 2) return std::nullopt;
  if (op == "Less") return truth(a < b);
  if (op == "LessEqual") return truth(a <= b);
  if (op == "Greater") return truth(a > b);
  if (op == "GreaterEqual") return truth(a >= b);
  if (op == "LogicalAnd") return truth(a != 0 && b != 0);
  if (op == "LogicalOr") return truth(a != 0 || b != 0);
  const DType type = g.dtype(n_->in(0));
  if (type != DType::i32 && type != DType::i64) return std::nullopt;
  std::int64_t out = 0;
  if (op == "Add" || op == "AddV2")
    out = checked_add(a, b);
  else if (op == "Sub" && b != INT64_MIN)
    out = checked_add(a, -b);
  else if (op == "Minimum")
    out = std::min(a, b);
  else if (op == "Maximum")
    out = std::max(a, b);
  else
    return std::nullopt;
  if (type == DType::i32 && (out < INT32_MIN || out > INT32_MAX))
    throw bad_input("{} and {} overflow int32", a, b);
  return g.constant(n_->name, type == DType::i32
                                  ? Tensor::of<std::int32_t>({}, {static_cast<std::int32_t>(out)})
                                  : Tensor::of<std::int64_t>({}, {out}));
}

ValueId Ops::list(std::vector<ValueId> items) {
  const ValueId handle = g.constant(part("list"), Tensor::of<std::int32_t>({}, {0}));
  lists_.emplace(handle, std::move(items));
  return handle;
}

std::vector<ValueId>& Ops::items(std::size_t i) {
  const auto at = lists_.find(n_->in(i));
  if (at == lists_.end()) throw bad_input("its input {} is no list of tensors", i);
  return at->second;
}

// As many items as input i says, none of them set.
std::vector<ValueId> Ops::new_items(std::size_t i) const {
  const auto count = known(n_->in(i));
  if (!count || *count < 0 || *count > kMostItems)
    throw bad_input("a list whose length is not known before a run, or beyond {}", kMostItems);
  return std::vector<ValueId>(static_cast<std::size_t>(*count), kAbsent);
}

std::size_t Ops::item_index(std::size_t i, std::size_t count) const {
  const auto at = known(n_->in(i));
  if (!at || *at < 0)
    throw bad_input("an index into a list of {} that is not known before a run", count);
  if (static_cast<std::size_t>(*at) >= count)
    throw ListEnd(bad_input("an index beyond a list of {}", count));
  return static_cast<std::size_t>(*at);
}

ValueId Ops::chosen(const std::string& name, ValueId holds, ValueId next, ValueId now,
                    ValueId last) {
  const auto either = [&](ValueId yes, ValueId no) {
    if (!g.known(yes) || !g.known(no) || g.sizes(yes) != g.sizes(no))
      throw bad_input("a choice on data between tensors whose types differ or are not known");
    return g.op("where", name + "/chosen", {holds, yes, no});
  };
  if (!is_list(next)) return either(next, last);
  const std::vector<ValueId>&after = items_of(next), &before = items_of(now);
  std::vector<ValueId> out = items_of(last);
  if (after.size() != before.size() || after.size() != out.size())
    throw bad_input("a list whose length hangs on data is not supported");
  // An item that only one side has set is zeros on the other.
  const auto unset = [&](ValueId like) {
    return g.constant(name + "/unset", scalar_of(g.dtype(like), 0));
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (after[i] == before[i]) continue;
    if (after[i] != kAbsent && out[i] != kAbsent)
      out[i] = either(after[i], out[i]);
    else if (after[i] != kAbsent)
      out[i] = g.op("where", name + "/set", {holds, after[i], unset(after[i])});
    else
      out[i] = g.op("where", name + "/set", {holds, unset(out[i]), out[i]});
  }
  const ValueId handle = g.constant(name + "/list", Tensor::of<std::int32_t>({}, {0}));
  lists_.emplace(handle, std::move(out));
  return handle;
}

const std::vector<ValueId>& Ops::items_of(ValueId list) const {
  const auto at = lists_.find(list);
  if (at == lists_.end()) throw bad_input("a list of tensors beside a tensor");
  return at->second;
}

ValueId Ops::stacked(const std::vector<ValueId>& items) {
  std::vector<ValueId> parts;
  for (const ValueId v : items) {
    if (v == kAbsent) throw bad_input("a list is read, of which an item was never set");
    parts.push_back(g.op("unsqueeze", part("part"), {v}, {{"axes", Ints{0}}}));
  }
  if (parts.empty()) throw bad_input("an empty list as a tensor");
  return g.op("concat", n_->name, parts, {{"axis", std::int64_t{0}}});
}

// TensorFlow 1's arrays: (handle, .., flow); what is written is in the flow that comes out.
std::optional<ValueId> Ops::arrays() {
  const std::string& op = n_->op;
  if (!op.starts_with("TensorArray")) return std::nullopt;
  const auto places = [&](std::size_t i, std::size_t count) {
    std::vector<std::size_t> out;
    for (const std::int64_t at : constant_ints(i, "indices")) {
      if (at < 0 || static_cast<std::size_t>(at) >= count)
        throw bad_input("index {} of a list of {}", at, count);
      out.push_back(static_cast<std::size_t>(at));
    }
    return out;
  };
  if (op == "TensorArrayReadV3") {
    const std::vector<ValueId>& now = items(2);
    const std::size_t i = item_index(1, now.size());
    if (now[i] == kAbsent) throw bad_input("item {} of a list is read, and was never set", i);
    return now[i];
  }
  if (op == "TensorArrayWriteV3") {
    std::vector<ValueId> changed = items(3);
    changed[item_index(1, changed.size())] = n_->in(2);
    return list(std::move(changed));
  }
  if (op == "TensorArrayScatterV3") {
    std::vector<ValueId> changed = items(3);
    std::int64_t from = 0;
    for (const std::size_t at : places(1, changed.size()))
      changed[at] =
          g.op("gather", part("item"),
               {n_->in(2), g.constant(part("index"), Tensor::of<std::int64_t>({}, {from++}))},
               {{"axis", std::int64_t{0}}});
    return list(std::move(changed));
  }
  if (op == "TensorArrayGatherV3") {
    const std::vector<ValueId>& now = items(2);
    std::vector<ValueId> chosen;
    for (const std::size_t at : places(1, now.size())) chosen.push_back(now[at]);
    return stacked(chosen);
  }
  if (op == "TensorArraySizeV3")
    return g.constant(n_->name,
                      Tensor::of<std::int32_t>({}, {static_cast<std::int32_t>(items(1).size())}));
  return std::nullopt;
}

std::optional<ValueId> Ops::lists() {
  const std::string& op = n_->op;
  if (!op.starts_with("TensorList")) return std::nullopt;
  if (op == "TensorListReserve") return list(new_items(1));
  if (op == "TensorListFromTensor") {
    const ValueId x = n_->in(0);
    if (g.rank(x) < 1) throw bad_input("a list of a scalar's parts");
    const std::int64_t count = g.dims(x)[0];
    if (count < 0 || count > kMostItems)
      throw bad_input("a loop over an axis whose extent is free, or beyond {}", kMostItems);
    std::vector<ValueId> parts;
    for (std::int64_t i = 0; i < count; ++i)
      parts.push_back(g.op("gather", part("item"),
                           {x, g.constant(part("index"), Tensor::of<std::int64_t>({}, {i}))},
                           {{"axis", std::int64_t{0}}}));
    return list(std::move(parts));
  }
  if (op == "TensorListGetItem" || op == "TensorListSetItem") {
    const std::vector<ValueId>& now = items(0);
    const std::size_t i = item_index(1, now.size());
    if (op == "TensorListSetItem") {
      std::vector<ValueId> changed = now;
      changed[i] = n_->in(2);
      return list(std::move(changed));
    }
    if (now[i] == kAbsent) throw bad_input("item {} of a list is read, and was never set", i);
    return now[i];
  }
  if (op == "TensorListStack") return stacked(items(0));
  if (op == "TensorListLength")
    return g.constant(n_->name,
                      Tensor::of<std::int32_t>({}, {static_cast<std::int32_t>(items(0).size())}));
  return std::nullopt;
}

}  // namespace etalon::tf
