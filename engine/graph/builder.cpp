#include "engine/graph/builder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "engine/graph/known_values.h"
#include "engine/ops/layout.h"

namespace etalon {
namespace {

// About what one takes, with its entries in tables by name.
constexpr std::size_t kValueBytes = 512, kNodeBytes = 512;

Ints to_front(int rank) {  // [N, spatial, C] -> [N, C, spatial]
  Ints perm(static_cast<std::size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  if (rank > 2) std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  return perm;
}

Ints to_back(int rank) {
  Ints perm(static_cast<std::size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  if (rank > 2) std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return perm;
}

bool is_identity(const Ints& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

Shape transposed(const Shape& shape, const Ints& perm) {
  Ints dims;
  for (const std::int64_t axis : perm) dims.push_back(shape[static_cast<int>(axis)]);
  return Shape(dims);
}

Tensor transposed(const Tensor& x, const Ints& perm) {
  const int rank = x.shape().rank();
  const auto from = strides_of(x.shape());
  std::array<std::int64_t, kMaxRank> extent{}, stride{}, at{};
  for (int i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::size_t>(perm[static_cast<std::size_t>(i)]);
    extent[static_cast<std::size_t>(i)] = x.shape()[static_cast<int>(axis)];
    stride[static_cast<std::size_t>(i)] = from[axis];
  }
  Tensor y = Tensor::uninitialized(x.dtype(), transposed(x.shape(), perm));
  const auto size = static_cast<std::size_t>(size_bytes(x.dtype()));
  const std::byte* in = x.bytes().data();
  std::byte* out = y.mutable_bytes().data();
  std::int64_t offset = 0;
  for (std::int64_t n = x.numel(); n > 0; --n) {
    std::memcpy(out, in + static_cast<std::size_t>(offset) * size, size);
    out += size;
    for (int i = rank - 1; i >= 0; --i) {
      const auto a = static_cast<std::size_t>(i);
      offset += stride[a];
      if (++at[a] < extent[a]) break;
      offset -= stride[a] * extent[a];
      at[a] = 0;
    }
  }
  x.forget_pages();  // kernels of a mapped file are in memory once, turned
  return y;
}

// Kernels turned when they are read: who lists a network's weights does not look at them.
Tensor transposed_when_read(const Tensor& x, const Ints& perm) {
  if (x.size_bytes() < Tensor::kDeferredBytes) return transposed(x, perm);
  return Tensor::deferred(
      x.dtype(), transposed(x.shape(), perm),
      [from = std::make_shared<const Tensor>(x.share()), perm] { return transposed(*from, perm); });
}

}  // namespace

const GraphBuilder::Slot& GraphBuilder::slot(ValueId v) const {
  if (v < 0 || static_cast<std::size_t>(v) >= slots_.size())
    throw internal_error("a value that this graph does not have");
  return slots_[static_cast<std::size_t>(v)];
}

const TensorType& GraphBuilder::type(ValueId v) const {
  const Slot& s = slot(v);
  if (!s.type)
    throw bad_input("the type of '{}' is known only when the network runs, and is needed here",
                    s.name);
  return *s.type;
}

Ints GraphBuilder::dims(ValueId v) const {
  const auto known_dims = shape(v).dims();
  Ints dims(known_dims.begin(), known_dims.end());
  const auto& other = slot(v).other;
  if (other && other->shape.rank() == static_cast<int>(dims.size()))
    for (int i = 0; i < other->shape.rank(); ++i)
      if (auto& dim = dims[static_cast<std::size_t>(i)]; other->shape[i] != dim) dim = -1;
  return dims;
}

std::pair<std::int64_t, std::int64_t> GraphBuilder::extents(ValueId v, int axis) const {
  const std::int64_t one = shape(v).dim(axis);
  const auto& other = slot(v).other;
  return {one, other && other->shape.rank() == shape(v).rank() ? other->shape.dim(axis) : one};
}

const Tensor* GraphBuilder::constant_of(ValueId v) const {
  const auto at = constants_.find(v);
  return at == constants_.end() ? nullptr : &at->second;
}

std::pair<const Tensor*, const Tensor*> GraphBuilder::known_elements(ValueId v) const {
  const auto small = [](const Tensor& t) {
    return (t.dtype() == DType::i32 || t.dtype() == DType::i64) && t.numel() <= 64;
  };
  if (const Tensor* c = constant_of(v); c != nullptr)
    return small(*c) ? std::pair{c, c} : std::pair<const Tensor*, const Tensor*>{};
  const Slot& s = slot(v);
  if (!s.value || !s.other_value) return {};
  return {&*s.value, &*s.other_value};
}

std::string GraphBuilder::fresh(const std::string& name, Names& taken) {
  if (!name.empty() && taken.try_emplace(name).second) return name;
  int& count = taken[name].count;
  for (;;) {
    const std::string numbered = fmt::format("{}_{}", name.empty() ? "value" : name, ++count);
    if (taken.try_emplace(numbered).second) return numbered;
  }
}

ValueId GraphBuilder::add(const std::string& name, std::optional<TensorType> type,
                          std::optional<TensorType> other) {
  MemoryBudget::charge(kValueBytes + 2 * name.size());
  slots_.push_back({fresh(name, value_names_), type, other, -1, {}, {}});
  const auto v = static_cast<ValueId>(slots_.size() - 1);
  value_names_[slots_.back().name].value = v;
  return v;
}

ValueId GraphBuilder::input(const std::string& name, const Sizes& sizes) {
  if (!sizes.one)
    throw bad_input("the type of '{}' is known only when the network runs, and is needed here",
                    name);
  const ValueId v = add(name, sizes.one, sizes.other);
  Declaration d;
  d.dtype = sizes.one->dtype;
  d.dims = dims(v);
  d.dim_names.resize(d.dims.size());
  slots_[static_cast<std::size_t>(v)].input = true;
  inputs_.emplace_back(v, std::move(d));
  return v;
}

ValueId GraphBuilder::input(const std::string& name, DType dtype, const Ints& dims,
                            const Ints& nominal) {
  Declaration d;
  d.dtype = dtype;
  d.dims = dims;
  d.dim_names.resize(dims.size());
  Ints one = dims, two = dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) continue;
    if (i == 0) d.dim_names[i] = "batch";
    one[i] = i < nominal.size() && nominal[i] > 0 ? nominal[i] : 1;
    // A size that strides up to 32 divide as they do the first, and no other extent has.
    two[i] = one[i] == 1 ? 3 : one[i] + 32;
  }
  const ValueId v = add(name, TensorType{dtype, Shape(one)}, TensorType{dtype, Shape(two)});
  slots_[static_cast<std::size_t>(v)].input = true;
  inputs_.emplace_back(v, std::move(d));
  return v;
}

ValueId GraphBuilder::constant(const std::string& name, Tensor value) {
  const ValueId v = add(name, value.type(), value.type());
  constants_.emplace_hint(constants_.end(), v, std::move(value));
  return v;
}

std::vector<ValueId> GraphBuilder::nodes(std::string_view op, const std::string& name,
                                         const std::vector<ValueId>& inputs, Params params,
                                         std::size_t outputs) {
  const ErrorScope where("node " + name);
  const OpRow& row = get_op(op);
  struct Inferred {
    std::vector<TensorType> types;
    std::optional<Tensor> value;  // of the first output
  };
  const auto infer_at = [&](std::optional<TensorType> Slot::* size,
                            std::optional<Tensor> Slot::* value) -> Inferred {
    std::vector<InferInput> in;
    for (const ValueId v : inputs) {
      if (v == kAbsent) {
        in.push_back({});
        continue;
      }
      const Slot& s = slot(v);
      if (!(s.*size)) {
        // What is written over some elements keeps its type, wherever they lie.
        const bool over = op == "scatter_nd" || op == "scatter_elements";
        if (over && !in.empty() && in[0].given) return {{in[0].type}, {}};
        return {};
      }
      const Tensor* constant = constant_of(v);
      in.push_back({*(s.*size), constant == nullptr && (s.*value) ? &*(s.*value) : constant, true});
    }
    try {
      Inferred out{infer(row, params, InferInputs(in)), {}};
      if (out.types.size() == 1) out.value = known_value(row, params, in, out.types[0]);
      return out;
    } catch (const NotConstant&) {
      return {};
    }
  };
  Inferred first = infer_at(&Slot::type, &Slot::value), second;
  try {
    second = infer_at(&Slot::other, &Slot::other_value);
  } catch (const Error&) {
    // Written for the first size alone: the network's batch is fixed, and the outputs say so.
    second = {first.types, first.value ? std::optional(first.value->share()) : std::nullopt};
  }
  const std::vector<TensorType>&one = first.types, &two = second.types;
  const auto max = static_cast<std::size_t>(row.max_outputs);
  if (outputs > max && row.max_outputs < kVariadic)
    throw internal_error("{} outputs asked of {}", outputs, op);
  MemoryBudget::charge(kNodeBytes + 2 * name.size());
  Node made{fresh(name, node_names_), &row, std::move(params), inputs, {}, {}};
  for (std::size_t i = 0; i < outputs; ++i) {
    const ValueId v = add(i == 0 ? name : fmt::format("{}.{}", name, i),
                          i < one.size() ? std::optional(one[i]) : std::nullopt,
                          i < two.size() ? std::optional(two[i]) : std::nullopt);
    slots_.back().maker = static_cast<int>(nodes_.size());
    if (i == 0) {
      slots_.back().value = std::move(first.value);
      slots_.back().other_value = std::move(second.value);
    }
    made.outputs.push_back(v);
  }
  std::vector<ValueId> values = made.outputs;
  nodes_.push_back(std::move(made));
  return values;
}

std::vector<ValueId> GraphBuilder::control(std::string_view op, const std::string& name,
                                           const std::vector<ValueId>& inputs,
                                           std::vector<Graph> bodies,
                                           const std::vector<Sizes>& outputs,
                                           const Fields& fields) {
  MemoryBudget::charge(kNodeBytes + 2 * name.size());
  const OpRow& row = get_op(op);
  Node made{fresh(name, node_names_), &row, make_params(row, fields), inputs, {}, {}};
  for (Graph& body : bodies) made.subgraphs.push_back(std::make_shared<Graph>(std::move(body)));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId v =
        add(i == 0 ? name : fmt::format("{}.{}", name, i), outputs[i].one, outputs[i].other);
    slots_.back().maker = static_cast<int>(nodes_.size());
    made.outputs.push_back(v);
  }
  std::vector<ValueId> values = made.outputs;
  nodes_.push_back(std::move(made));
  return values;
}

ValueId GraphBuilder::node(std::string_view op, const std::string& name,
                           const std::vector<ValueId>& inputs, Params params) {
  return nodes(op, name, inputs, std::move(params), 1)[0];
}

ValueId GraphBuilder::op(std::string_view op, const std::string& name,
                         const std::vector<ValueId>& inputs, const Fields& fields) {
  return node(op, name, inputs, make_params(get_op(op), fields));
}

const Params* GraphBuilder::transpose_behind(ValueId x) const {
  const int maker = slot(x).maker;
  if (maker < 0) return nullptr;
  const Node& n = nodes_[static_cast<std::size_t>(maker)];
  return n.op->name == "transpose" ? &n.params : nullptr;
}

ValueId GraphBuilder::transpose(const std::string& name, ValueId x, const Ints& perm) {
  Ints all = perm;
  ValueId from = x;
  if (const Params* p = transpose_behind(x);
      p != nullptr && p->as<TransposeParams>().perm.size() == perm.size()) {
    const Ints& first = p->as<TransposeParams>().perm;
    for (std::int64_t& axis : all) {
      if (axis < 0 || static_cast<std::size_t>(axis) >= first.size())
        throw bad_input("node {}: axis {} of a permutation of {}", name, axis, first.size());
      axis = first[static_cast<std::size_t>(axis)];
    }
    from = nodes_[static_cast<std::size_t>(slot(x).maker)].inputs[0];
  }
  if (is_identity(all)) return from;
  const auto [at, is_new] = transposed_.try_emplace({from, all}, kAbsent);
  if (!is_new) return at->second;
  ValueId y = kAbsent;
  if (const Tensor* c = constant_of(from)) {
    transpose_perm(TransposeParams{.perm = all}, c->shape());
    y = constant(slot(from).name, transposed_when_read(*c, all));
  } else {
    y = node("transpose", name, {from}, TransposeParams{.perm = all});
  }
  return transposed_[{from, all}] = y;
}

ValueId GraphBuilder::reshape(const std::string& name, ValueId x, const Ints& shape) {
  if (const Tensor* c = constant_of(x)) {
    Ints dims = shape;
    std::int64_t known = 1;
    std::ptrdiff_t open = -1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == 0 && static_cast<int>(i) < c->shape().rank())
        dims[i] = c->shape()[static_cast<int>(i)];
      if (dims[i] < 0)
        open = static_cast<std::ptrdiff_t>(i);
      else
        known = checked_mul(known, dims[i]);
    }
    if (open >= 0) dims[static_cast<std::size_t>(open)] = known == 0 ? 0 : c->numel() / known;
    const Shape to(dims);
    if (to.numel() != c->numel())
      throw bad_input("node {}: {} elements do not fit {}", name, c->numel(), to_string(to));
    return constant(slot(x).name, c->reshaped(to));
  }
  return op("reshape", name, {x}, {{"shape", shape}});
}

ValueId GraphBuilder::channels_first(ValueId x) {
  return transpose(slot(x).name + ".channels_first", x, to_front(rank(x)));
}

ValueId GraphBuilder::channels_last(ValueId x) {
  return transpose(slot(x).name + ".channels_last", x, to_back(rank(x)));
}

ValueId GraphBuilder::first_twin(ValueId x) const {
  const Params* p = transpose_behind(x);
  if (p == nullptr) return kAbsent;
  const Ints& perm = p->as<TransposeParams>().perm;
  if (perm.size() < 3 || perm != to_back(static_cast<int>(perm.size()))) return kAbsent;
  return nodes_[static_cast<std::size_t>(slot(x).maker)].inputs[0];
}

ValueId GraphBuilder::elementwise(std::string_view name_of_op, const std::string& name,
                                  const std::vector<ValueId>& inputs, const Fields& fields) {
  int twin_rank = 0;
  for (const ValueId v : inputs)
    if (v != kAbsent && first_twin(v) != kAbsent) twin_rank = std::max(twin_rank, rank(v));
  // Every other operand must be a constant that can be turned too.
  bool moves = twin_rank > 0;
  for (const ValueId v : inputs)
    moves = moves &&
            (v == kAbsent || (known(v) && (constant_of(v) != nullptr ? rank(v) <= twin_rank
                                                                     : first_twin(v) != kAbsent &&
                                                                           rank(v) == twin_rank)));
  if (!moves) return op(name_of_op, name, inputs, fields);
  std::vector<ValueId> turned;
  for (const ValueId v : inputs) {
    if (v == kAbsent || first_twin(v) != kAbsent) {
      turned.push_back(v == kAbsent ? v : first_twin(v));
    } else if (shape(v).numel() == 1) {
      turned.push_back(v);
    } else {
      const auto had = shape(v).dims();
      Ints dims(static_cast<std::size_t>(twin_rank) - had.size(), 1);
      dims.insert(dims.end(), had.begin(), had.end());
      turned.push_back(channels_first(reshape(name, v, dims)));
    }
  }
  return channels_last(op(name_of_op, name, turned, fields));
}

void GraphBuilder::free_name(const std::string& name) {
  const auto at = value_names_.find(name);
  if (at == value_names_.end() || at->second.value == kAbsent) return;
  const ValueId holder = at->second.value;
  if (slot(holder).input || slot(holder).output) return;
  const std::string other = fresh(name, value_names_);
  value_names_[other].value = holder;
  slots_[static_cast<std::size_t>(holder)].name = other;
  value_names_.erase(name);
}

void GraphBuilder::output(ValueId v, const std::string& name) {
  const std::string& own = slot(v).name;
  const bool shared = std::exchange(slots_[static_cast<std::size_t>(v)].output, true);
  if (!shared && (name.empty() || name == own)) {
    outputs_.push_back(v);
    return;
  }
  if (!name.empty() && name != own) free_name(name);
  if (!shared && slot(v).maker >= 0 && !value_names_.contains(name)) {
    value_names_[name].value = v;
    slots_[static_cast<std::size_t>(v)].name = name;
    outputs_.push_back(v);
    return;
  }
  const ValueId copy = op("identity", name.empty() ? own + ".output" : name, {v});
  slots_[static_cast<std::size_t>(copy)].output = true;
  outputs_.push_back(copy);
}

void GraphBuilder::note(std::string text) {
  if (noted_.insert(text).second) notes_.push_back(std::move(text));
}

Graph GraphBuilder::finish() {
  std::vector<bool> needed(slots_.size(), false), wanted(nodes_.size(), false);
  for (const ValueId v : outputs_) needed[static_cast<std::size_t>(v)] = true;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    for (const ValueId v : nodes_[i].outputs)
      wanted[i] = wanted[i] || needed[static_cast<std::size_t>(v)];
    if (!wanted[i]) continue;
    for (const ValueId v : nodes_[i].inputs)
      if (v != kAbsent) needed[static_cast<std::size_t>(v)] = true;
    for (const ValueId v : nodes_[i].outputs) needed[static_cast<std::size_t>(v)] = true;
  }
  for (const auto& [v, d] : inputs_) needed[static_cast<std::size_t>(v)] = true;
  Graph graph;
  graph.name = name_;
  std::vector<ValueId> now(slots_.size(), kAbsent);
  for (std::size_t v = 0; v < slots_.size(); ++v)
    if (needed[v]) now[v] = graph.add_value(slots_[v].name);
  const auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& v : ids)
      if (v != kAbsent) v = now[static_cast<std::size_t>(v)];
  };
  for (auto& [v, d] : inputs_) {
    d.value = now[static_cast<std::size_t>(v)];
    graph.inputs.push_back(std::move(d));
  }
  for (auto& [v, tensor] : constants_)
    if (needed[static_cast<std::size_t>(v)])
      graph.initializers.emplace_hint(graph.initializers.end(), now[static_cast<std::size_t>(v)],
                                      std::move(tensor));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!wanted[i]) continue;
    renumber(nodes_[i].inputs);
    renumber(nodes_[i].outputs);
    graph.nodes.push_back(std::move(nodes_[i]));
  }
  for (const ValueId v : outputs_) {
    Declaration d;
    d.value = now[static_cast<std::size_t>(v)];
    d.ranked = known(v);
    if (d.ranked) {
      d.dtype = dtype(v);
      d.dims = dims(v);
      d.dim_names.resize(d.dims.size());
      if (!d.dims.empty() && d.dims[0] < 0) d.dim_names[0] = "batch";
    }
    graph.outputs.push_back(std::move(d));
  }
  graph.finish();
  return graph;
}

}  // namespace etalon
