// Modules that compute each element alone, tables of values, layers without a window. Source: the
// public documentation of nn and its Lua files.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/torch7/modules.h"

namespace etalon::torch7 {
namespace {

// ---- element by element ----
Values hard_tanh(const Module& m) {
  const float low = m.real("min_val", -1), high = m.real("max_val", 1);
  if (!(low <= high)) throw bad_input("{} from {} to {}", m.type, low, high);
  return {m.op("clip", {m.x()}, {{"min", low}, {"max", high}})};
}
Values hard_shrink(const Module& m) {
  return {m.op("shrink", {m.x()}, {{"lambd", m.real("lambda", 0.5)}, {"bias", 0.0F}})};
}
Values soft_shrink(const Module& m) {
  return {m.op("softshrink", {m.x()}, {{"lambd", m.real("lambda", 0.5)}})};
}
Values soft_plus(const Module& m) {
  return {m.op("softplus", {m.x()},
               {{"beta", m.real("beta", 1)}, {"threshold", m.real("threshold", 20)}})};
}
Values celu(const Module& m) { return {m.op("celu", {m.x()}, {{"alpha", m.real("alpha", 1)}})}; }
Values log_sigmoid(const Module& m) { return {m.op("log_sigmoid", {m.x()})}; }
Values tanh_shrink(const Module& m) {
  return {m.op("sub", {m.x(), m.part("tanh", "tanh", {m.x()})})};
}
Values rrelu(const Module& m) {  // its mean slope, at inference
  const double low = m.m.number("lower", 1.0 / 8), high = m.m.number("upper", 1.0 / 3);
  return {m.op("leaky_relu", {m.x()}, {{"alpha", static_cast<float>((low + high) / 2)}})};
}
// One half times the logistic of the other.
Values gated(const Module& m) {
  const int rank = m.g.rank(m.x());
  const std::int64_t axis = m.axis("dim", rank);
  const std::int64_t extent = m.extent(m.x(), axis);
  if (extent % 2 != 0) throw bad_input("halves of {} elements", extent);
  const auto half = [&](std::int64_t from) {
    return m.part(
        "slice", "half", {m.x()},
        {{"starts", Ints{from}}, {"ends", Ints{from + extent / 2}}, {"axes", Ints{axis}}});
  };
  return {m.op("mul", {half(0), m.part("sigmoid", "gate", {half(extent / 2)})})};
}
// Three axes are, in Torch7, the planes of one sample.
std::int64_t classes(const Module& m) {
  const int rank = m.g.rank(m.x());
  if (rank == 3) throw bad_input("{} of a sequence runs over the batch in Torch7", m.type);
  return rank >= 3 ? 1 : rank - 1;
}
Values soft_min(const Module& m) {
  return {m.op("softmax", {m.part("neg", "negative", {m.x()})}, {{"axis", classes(m)}})};
}
Values spatial_log_soft_max(const Module& m) {
  return {m.op("log_softmax", {m.x()}, {{"axis", classes(m)}})};
}

// ---- numbers and vectors of a sample ----
// A tensor's elements as those of a sample [1, ...]; one of as many axes keeps its extents.
ValueId of_sample(const Module& m, std::string_view key, const Tensor& t) {
  if (t.numel() == 1) return m.weight(key, {});
  if (t.shape().rank() == m.g.rank(m.x())) return m.weight(key, t.shape());
  Ints dims = m.g.dims(m.x());
  if (dims.empty()) throw bad_input("{} for a single number", key);
  dims[0] = 1;
  std::int64_t count = 1;
  for (const std::int64_t n : dims) count = n < 1 ? -1 : count < 0 ? -1 : checked_mul(count, n);
  if (count != t.numel())
    throw bad_input("{} is {}, which does not fit a sample", key, to_string(t.shape()));
  return m.weight(key, Shape(dims));
}
Values add(const Module& m) { return {m.op("add", {m.x(), of_sample(m, "bias", m.need("bias"))})}; }
Values multiply(const Module& m) {
  return {m.op("mul", {m.x(), of_sample(m, "weight", m.need("weight"))})};
}
Values with_constant(const Module& m) {
  const char* op = m.type == "MulConstant" ? "mul" : "add";
  if (const Tensor t = m.tensor("constant_scalar"))
    return {m.op(op, {m.x(), of_sample(m, "constant_scalar", t)})};
  if (m.m.find("constant_scalar") == nullptr) throw bad_input("{} without its number", m.type);
  return {m.op(op, {m.x(), m.number(m.real("constant_scalar", 0))})};
}
Values constant(const Module& m) {
  const Tensor value = m.need("value");
  const std::int64_t samples = m.integer("nInputDim", 0);
  const ValueId v = m.weight("value", value.shape());
  if (samples < 1 || m.g.rank(m.x()) <= samples) return {m.op("identity", {v})};
  const ValueId batch =
      m.part("shape", "batch", {m.x()}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
  const auto dims = value.shape().dims();
  return {m.op("expand", {v, m.part("concat", "shape",
                                    {batch, m.ints("dims", Ints(dims.begin(), dims.end()))},
                                    {{"axis", std::int64_t{0}}})})};
}

// ---- tables ----
// Torch7 does not broadcast: of values of other extents the elements meet one by one, in their
// order, in the extents of the first.
ValueId like_first(const Module& m, std::size_t i) {
  if (!m.g.known(m.x(i)) || !m.g.known(m.x()) || m.g.dims(m.x(i)) == m.g.dims(m.x())) return m.x(i);
  return m.part("reshape", "as_first", {m.x(i), m.part("shape", "extents", {m.x()})});
}
// Added or multiplied from the first on.
Values folded(const Module& m) {
  ValueId y = m.x();
  for (std::size_t i = 1; i < m.in.size(); ++i)
    y = m.op(m.type == "CAddTable" ? "add" : "mul", {y, like_first(m, i)});
  return {y};
}
Values of_two(const Module& m) {
  if (m.in.size() != 2) throw bad_input("{} values for {}", m.in.size(), m.type);
  return {m.op(m.type == "CSubTable" ? "sub" : "div", {m.x(0), like_first(m, 1)})};
}
Values join_table(const Module& m) {
  return {m.op("concat", m.in, {{"axis", m.axis("dimension", 1, "nInputDims")}})};
}
Values average_table(const Module& m) {
  m.x();
  return {m.op("mean", m.in)};
}
Values extreme_table(const Module& m) {
  m.x();
  return {m.op(m.type == "CMaxTable" ? "max" : "min", m.in)};
}
ValueId turned(const Module& m, ValueId v) {
  Ints perm;
  for (int i = 0; i < m.g.rank(v); ++i) perm.push_back(i);
  if (perm.size() < 2) throw bad_input("a matrix of rank {}", perm.size());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return m.g.transpose(m.name("turned"), v, perm);
}
Values matrices(const Module& m) {
  const ValueId a = m.m.flag("transA", false) ? turned(m, m.x(0)) : m.x(0),
                b = m.m.flag("transB", false) ? turned(m, m.x(1)) : m.x(1);
  return {m.op("matmul", {a, b})};
}
Values matrix_vector(const Module& m) {
  const ValueId a = m.m.flag("trans", false) ? turned(m, m.x(0)) : m.x(0);
  const ValueId column = m.part("unsqueeze", "column", {m.x(1)}, {{"axes", Ints{-1}}});
  return {m.op("squeeze", {m.part("matmul", "product", {a, column})}, {{"axes", Ints{-1}}})};
}
// A row of each of two tables: sums over the features.
Fields along_rows() { return {{"axes", Ints{1}}, {"keepdims", false}}; }
void two_rows(const Module& m) {
  if (m.g.rank(m.x(0)) != 2 || m.g.rank(m.x(1)) != 2)
    throw bad_input("{} of rank {} and {}", m.type, m.g.rank(m.x(0)), m.g.rank(m.x(1)));
}
Values dot_product(const Module& m) {
  two_rows(m);
  return {m.op("reduce_sum", {m.part("mul", "products", {m.x(0), m.x(1)})}, along_rows())};
}
Values cosine_distance(const Module& m) {
  two_rows(m);
  const auto root = [&](std::size_t i) {
    const ValueId squares = m.part("reduce_sum_square", "squares", {m.x(i)}, along_rows());
    return m.part("sqrt", "root", {m.part("add", "eps", {squares, m.number(1e-12F)})});
  };
  const ValueId dot =
      m.part("reduce_sum", "dot", {m.part("mul", "products", {m.x(0), m.x(1)})}, along_rows());
  return {m.op("div", {dot, m.part("mul", "roots", {root(0), root(1)})})};
}
Values pairwise_distance(const Module& m) {
  two_rows(m);
  const double p = m.m.number("norm", 2);
  if (!(p > 0 && p < 1e6)) throw bad_input("PairwiseDistance with norm={}", p);
  const ValueId d = m.part("sub", "d", {m.x(0), m.x(1)});
  if (p == 1 || p == 2) return {m.op(p == 1 ? "reduce_l1" : "reduce_l2", {d}, along_rows())};
  const ValueId powers =
      m.part("pow", "powers", {m.part("abs", "size", {d}), m.number(static_cast<float>(p))});
  return {m.op("pow", {m.part("reduce_sum", "sum", {powers}, along_rows()),
                       m.number(static_cast<float>(1 / p))})};
}
// Row by row, for every output k: x W_k y + b_k.
Values bilinear(const Module& m) {
  two_rows(m);
  const Tensor w = m.need("weight");
  if (w.shape().rank() != 3) throw bad_input("weights of rank {}", w.shape().rank());
  const std::int64_t out = w.shape()[0], left = w.shape()[1], right = w.shape()[2];
  const ValueId by_left = m.g.reshape(
      m.name("matrix"), m.g.transpose(m.name("left"), m.weight("weight", w.shape()), {1, 0, 2}),
      {left, out * right});
  const ValueId rows =
      m.g.reshape(m.name("rows"), m.part("matmul", "product", {m.x(0), by_left}), {-1, out, right});
  const ValueId column = m.part("unsqueeze", "column", {m.x(1)}, {{"axes", Ints{2}}});
  ValueId y =
      m.part("squeeze", "sums", {m.part("matmul", "sum", {rows, column})}, {{"axes", Ints{2}}});
  if (m.tensor("bias")) y = m.part("add", "biased", {y, m.weight("bias", {out})});
  return {m.op("identity", {y})};
}
// The cosine of a row and each row of the weights; each norm has 1e-12 added.
Values cosine(const Module& m) {
  const Tensor w = m.need("weight");
  if (w.shape().rank() != 2 || m.g.rank(m.x()) != 2)
    throw bad_input("weights of rank {}, rows of rank {}", w.shape().rank(), m.g.rank(m.x()));
  const ValueId v = m.weight("weight", w.shape());
  const auto norm = [&](ValueId of, bool keep) {
    return m.part("add", "eps",
                  {m.part("reduce_l2", "norm", {of}, {{"axes", Ints{1}}, {"keepdims", keep}}),
                   m.number(1e-12F)});
  };
  const ValueId dot = m.part("gemm", "dot", {m.x(), v}, {{"trans_b", true}});
  return {m.op("div", {m.part("div", "by_weights", {dot, norm(v, false)}), norm(m.x(), true)})};
}
// The distance of a row to each column of the weights, of which each may scale the differences.
Values euclidean(const Module& m) {
  const Tensor w = m.need("weight");
  if (w.shape().rank() != 2 || m.g.rank(m.x()) != 2)
    throw bad_input("weights of rank {}, rows of rank {}", w.shape().rank(), m.g.rank(m.x()));
  const ValueId row = m.part("unsqueeze", "column", {m.x()}, {{"axes", Ints{2}}});
  ValueId d = m.part("sub", "d", {row, m.weight("weight", w.shape())});
  if (m.type == "WeightedEuclidean")
    d = m.part("mul", "scaled", {d, m.weight("diagCov", w.shape())});
  return {m.op("reduce_l2", {d}, along_rows())};
}
// v scaled by g over the norm of each of its rows.
Values linear_weight_norm(const Module& m) {
  const Tensor v = m.need("v"), g = m.need("g");
  if (v.shape().rank() != 2 || g.numel() != v.shape()[0])
    throw bad_input("v is {}, g is {}", to_string(v.shape()), to_string(g.shape()));
  Tensor w = v.clone();
  const auto rows = static_cast<std::size_t>(v.shape()[0]),
             columns = static_cast<std::size_t>(v.shape()[1]);
  const auto to = w.mutable_data<float>();
  for (std::size_t i = 0; i < rows; ++i) {
    double squares = 0;
    for (const float f : to.subspan(i * columns, columns)) squares += static_cast<double>(f) * f;
    const double scale = static_cast<double>(g.data<float>()[i]) /
                         std::max(std::sqrt(squares), m.m.number("eps", 1e-16));
    for (float& f : to.subspan(i * columns, columns)) f = static_cast<float>(f * scale);
  }
  m.g.note("LinearWeightNorm: the weights are v scaled by g over its rows' norms, rounded to f32");
  const ValueId bias =
      m.tensor("bias") ? m.weight("bias", {static_cast<std::int64_t>(rows)}) : kAbsent;
  return {fully_connected(m.g, m.path, m.x(), m.g.constant(m.name("weight"), std::move(w)), bias)};
}

// Words and classes count from 1.
ValueId from_zero(const Module& m, ValueId ids) {
  const ValueId whole_ids = m.part("cast", "ids", {ids}, {{"to", std::string("i64")}});
  return m.part("sub", "from_zero", {whole_ids, m.ints("one", {1})});
}
Values lookup_table(const Module& m) {
  const Tensor w = m.need("weight");
  if (w.shape().rank() != 2) throw bad_input("weights of rank {}", w.shape().rank());
  if (m.m.number("maxNorm", 0) > 0)
    throw bad_input("a LookupTable with maxNorm, which scales its rows when it runs");
  m.g.note("LookupTable counts words from 1");
  return {m.op("gather", {m.weight("weight", w.shape()), from_zero(m, m.x())})};
}
Values one_hot(const Module& m) {
  const std::int64_t n = m.integer("outputSize", 0);
  if (n < 1 || n > 1 << 20) throw bad_input("OneHot of {} classes", n);
  Ints all;
  for (std::int64_t i = 1; i <= n; ++i) all.push_back(i);
  const ValueId ids = m.part("cast", "ids", {m.x()}, {{"to", std::string("i64")}});
  const ValueId hit =
      m.part("equal", "hit",
             {m.part("unsqueeze", "rows", {ids}, {{"axes", Ints{-1}}}), m.ints("classes", all)});
  return {m.op("cast", {hit}, {{"to", std::string("f32")}})};
}

// ---- a module on another shape ----
// All axes before the last nInputDim - 1 as one.
Values bottle(const Module& m) {
  const std::int64_t dims = m.integer("nInputDim", 2), out = m.integer("nOutputDim", 2);
  const ValueId x = m.single();
  const int rank = m.g.rank(x);
  if (dims < 1 || dims > rank || out < 1)
    throw bad_input("Bottle from {} to {} of rank {}", dims, out, rank);
  if (m.parts.size() != 1) throw bad_input("{} of {} modules", m.type, m.parts.size());
  if (rank == dims) return m.apply(0, m.in);
  const std::int64_t joined = rank - dims + 1;
  const auto extents = [&](const char* role, ValueId v, std::int64_t from, std::int64_t to) {
    return m.part("shape", role, {v}, {{"start", from}, {"end", to}});
  };
  const auto put = [&](const char* role, ValueId v, const Values& shape) {
    return m.part("reshape", role,
                  {v, m.part("concat", "shape", shape, {{"axis", std::int64_t{0}}})});
  };
  Values flat{m.ints("joined", {-1})};
  if (joined < rank) flat.push_back(extents("rest", x, joined, rank));
  const Values y = m.apply(0, {put("flat", x, flat)});
  if (y.size() != 1) throw bad_input("Bottle of a module of {} values", y.size());
  if (m.g.rank(y[0]) != out) throw bad_input("Bottle whose module gives rank {}", m.g.rank(y[0]));
  Values back{extents("leading", x, 0, joined)};
  if (out > 1) back.push_back(extents("trailing", y[0], 1, out));
  return {put("bottle", y[0], back)};
}

constexpr ModuleRow kTable[] = {{"HardTanh", hard_tanh},
                                {"Clamp", hard_tanh},
                                {"HardShrink", hard_shrink},
                                {"SoftShrink", soft_shrink},
                                {"SoftPlus", soft_plus},
                                {"CELU", celu},
                                {"LogSigmoid", log_sigmoid},
                                {"TanhShrink", tanh_shrink},
                                {"RReLU", rrelu},
                                {"GatedLinearUnit", gated},
                                {"GLU", gated},
                                {"SoftMin", soft_min},
                                {"SpatialLogSoftMax", spatial_log_soft_max},
                                {"Add", add},
                                {"CAdd", add},
                                {"Mul", multiply},
                                {"CMul", multiply},
                                {"MulConstant", with_constant},
                                {"AddConstant", with_constant},
                                {"Constant", constant},
                                {"CAddTable", folded},
                                {"CMulTable", folded},
                                {"CSubTable", of_two},
                                {"CDivTable", of_two},
                                {"JoinTable", join_table},
                                {"CAveTable", average_table},
                                {"CMaxTable", extreme_table},
                                {"CMinTable", extreme_table},
                                {"MM", matrices},
                                {"MV", matrix_vector},
                                {"DotProduct", dot_product},
                                {"CosineDistance", cosine_distance},
                                {"PairwiseDistance", pairwise_distance},
                                {"Bilinear", bilinear},
                                {"Cosine", cosine},
                                {"Euclidean", euclidean},
                                {"WeightedEuclidean", euclidean},
                                {"LinearWeightNorm", linear_weight_norm},
                                {"LookupTable", lookup_table},
                                {"OneHot", one_hot},
                                {"Bottle", bottle}};

}  // namespace

std::span<const ModuleRow> table_rows() { return kTable; }

const T7Object* part_of(const T7Object& container, std::size_t i) {
  const T7Object* list = container.find_object("modules");
  if (list == nullptr) return nullptr;
  for (const auto& [key, value] : list->entries)
    if (key.kind == T7Value::Kind::number && key.number == static_cast<double>(i) + 1)
      return value.object.get();
  return nullptr;
}

Ints sizes_in(const T7Object* held) {
  Ints dims;
  if (held != nullptr && held->tensor)
    dims = to_int64_values(held->tensor);
  else if (held != nullptr)
    for (const T7Value* v : held->list()) dims.push_back(whole(v->number));
  return dims;
}

Tensor to_zero_based(const Tensor& numbers) {
  std::vector<std::int64_t> out;
  for (const float v : as_f32(numbers).data<float>())
    out.push_back(whole(static_cast<double>(v)) - 1);
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(out.size())}, out);
}

ValueId Module::x(std::size_t i) const {
  if (i >= in.size()) throw bad_input("{} needs value {}", type, i + 1);
  return in[i];
}

ValueId Module::single() const {
  if (in.size() != 1) throw bad_input("{} values where one is wanted", in.size());
  return in[0];
}

Tensor Module::tensor(std::string_view key) const {
  const T7Object* t = m.find_object(key);
  if (t == nullptr || !t->tensor || t->tensor.numel() == 0) return {};
  return as_f32(t->tensor);
}

Tensor Module::need(std::string_view key) const {
  Tensor t = tensor(key);
  if (!t) throw bad_input("{} has no {}", printable(m.type), key);
  return t;
}

ValueId Module::weight(std::string_view key, const Shape& shape) const {
  const Tensor t = need(key);
  if (t.numel() != shape.numel())
    throw bad_input("{} is {}, expected {}", key, to_string(t.shape()), to_string(shape));
  return g.constant(name(key), t.reshaped(shape));
}

std::int64_t Module::axis(std::string_view key, double otherwise, std::string_view samples) const {
  const int rank = g.rank(x());
  std::int64_t d = integer(key, otherwise);
  if (d < 0)
    d += rank + 1;
  else if (!samples.empty() && integer(samples, -1) == rank - 1)
    ++d;
  if (d < 1 || d > rank) throw bad_input("dimension {} of {}", d, rank);
  return d - 1;
}

std::int64_t Module::extent(ValueId v, std::int64_t axis) const {
  const std::int64_t n = g.dims(v)[static_cast<std::size_t>(axis)];
  if (n < 1) throw bad_input("an extent that the file does not say");
  return n;
}

}  // namespace etalon::torch7
