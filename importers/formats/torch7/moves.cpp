// Modules that move, cut, reduce and put together: dimensions and indices count from 1, and take in
// the batch, which every input here has.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/torch7/modules.h"

namespace etalon::torch7 {
namespace {

constexpr std::int64_t kMostParts = 1 << 12, kMostCopies = 1 << 20;

ValueId cut(const Module& m, std::string_view role, ValueId x, std::int64_t axis,
            std::int64_t begin, std::int64_t end) {
  return m.part("slice", role, {x},
                {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{axis}}});
}
// Place `index`, from 1 or from the end, of an axis, which vanishes.
ValueId chosen(const Module& m, std::string_view role, ValueId x, std::int64_t axis,
               std::int64_t index) {
  if (index == 0) throw bad_input("index 0, where they count from 1");
  const std::int64_t at = index > 0 ? index - 1 : index;
  const std::int64_t extent = m.g.dims(x)[static_cast<std::size_t>(axis)];
  if (extent >= 0 && (at >= extent || at < -extent))
    throw bad_input("index {} of {}", index, extent);
  return m.part("gather", role,
                {x, m.g.constant(m.name("index"), Tensor::of<std::int64_t>({}, {at}))},
                {{"axis", axis}});
}

// ---- reductions ----
Values reduced(const Module& m) {
  const std::int64_t axis = m.axis("dimension", 1, "nInputDims");
  const bool mean = m.type == "Mean" || (m.type == "Sum" && m.m.flag("sizeAverage", false));
  const char* op = mean              ? "reduce_mean"
                   : m.type == "Sum" ? "reduce_sum"
                   : m.type == "Max" ? "reduce_max"
                                     : "reduce_min";
  return {m.op(op, {m.x()}, {{"axes", Ints{axis}}, {"keepdims", !m.m.flag("squeeze", true)}})};
}
Values normalize(const Module& m) {
  const double p = m.m.number("p", 2);
  if (m.g.rank(m.x()) != 2) throw bad_input("Normalize of rank {}", m.g.rank(m.x()));
  if (std::isinf(p) && p > 0) {
    const ValueId largest = m.part("reduce_max", "largest", {m.part("abs", "size", {m.x()})},
                                   {{"axes", Ints{1}}, {"keepdims", true}});
    return {m.op("div", {m.x(), m.part("add", "eps", {largest, m.number(m.real("eps", 1e-10))})})};
  }
  if (!(p > 0 && p < 1e6)) throw bad_input("Normalize with p={}", p);
  return {m.op("lp_norm", {m.x()},
               {{"p", static_cast<float>(p)},
                {"axes", Ints{1}},
                {"eps", m.real("eps", 1e-10)},
                {"eps_in", std::string("sum_add")}})};
}

// ---- cuts ----
Values select(const Module& m) {
  return {chosen(m, "select", m.x(), m.axis("dimension", 1), m.integer("index", 1))};
}
Values narrow(const Module& m) {
  const std::int64_t axis = m.axis("dimension", 1),
                     extent = m.g.dims(m.x())[static_cast<std::size_t>(axis)];
  std::int64_t first = m.integer("index", 1), length = m.integer("length", 1);
  if ((first < 0 || length < 0) && extent < 1)
    throw bad_input("a cut from the end of an extent that the file does not say");
  if (length < 0) length += extent - first + 2;
  // A place from the end keeps, in Torch7, what `length` leaves of the beginning.
  if (first < 0) {
    first = 1;
    length = extent - length;
  }
  const std::int64_t begin = first - 1;
  if (begin < 0 || length < 1 || (extent >= 0 && begin + length > extent))
    throw bad_input("{} elements from {} of {}", length, first, extent);
  return {cut(m, "narrow", m.x(), axis, begin, begin + length)};
}
Values split_table(const Module& m) {
  const std::int64_t axis = m.axis("dimension", 1, "nInputDims"), n = m.extent(m.x(), axis);
  if (n > kMostParts) throw bad_input("{} pieces", n);
  Values out;
  for (std::int64_t i = 1; i <= n; ++i) out.push_back(chosen(m, "piece", m.x(), axis, i));
  return out;
}
Values index(const Module& m) {
  const ValueId ids = m.part("cast", "ids", {m.x(1)}, {{"to", std::string("i64")}});
  return {m.op("gather", {m.x(0), m.part("sub", "from_zero", {ids, m.ints("one", {1})})},
               {{"axis", m.axis("dimension", 1)}})};
}

// ---- axes ----
Values replicate(const Module& m) {
  const std::int64_t n = m.integer("nfeatures", 1), samples = m.integer("ndim", -1);
  std::int64_t dim = m.integer("dim", 1);
  const int rank = m.g.rank(m.x());
  if (samples >= 0 && rank > samples) ++dim;
  if (n < 1 || n > kMostCopies || dim < 1 || dim > rank + 1)
    throw bad_input("{} copies along dimension {} of {}", n, dim, rank + 1);
  Ints shape(static_cast<std::size_t>(rank) + 1, 1);
  shape[static_cast<std::size_t>(dim - 1)] = n;
  return {m.op("expand", {m.part("unsqueeze", "axis", {m.x()}, {{"axes", Ints{dim - 1}}})},
               {{"shape", shape}})};
}
Values padding(const Module& m) {
  const std::int64_t pad = m.integer("pad", 0), samples = m.integer("nInputDim", -1);
  std::int64_t dim = m.integer("dim", 1);
  const int rank = m.g.rank(m.x());
  if (samples >= 0 && samples != rank) ++dim;
  if (dim < 1 || dim > rank) throw bad_input("dimension {} of {}", dim, rank);
  if (pad < -kMostCopies || pad > kMostCopies) throw bad_input("{} elements of padding", pad);
  Ints pads(2 * static_cast<std::size_t>(rank));
  const auto at = static_cast<std::size_t>(dim - 1);
  const auto padded = [&](ValueId v, bool before) {
    pads[before ? at : at + static_cast<std::size_t>(rank)] = std::abs(pad);
    return m.op("pad", {v},
                {{"mode", std::string("constant")}, {"pads", pads}, {"value", m.real("value", 0)}});
  };
  const std::int64_t index = m.integer("index", 1);
  if (index == 1) return {padded(m.x(), pad < 0)};
  // Before element `index`, or so far from the end.
  const std::int64_t extent = m.extent(m.x(), dim - 1),
                     first = pad > 0 ? extent - index + 1 : index - 1;
  if (first < 0 || first > extent) throw bad_input("index {} of {}", index, extent);
  if (first == 0 || first == extent) return {padded(m.x(), first == 0)};
  return {m.op("concat",
               {padded(cut(m, "before", m.x(), dim - 1, 0, first), false),
                cut(m, "behind", m.x(), dim - 1, first, extent)},
               {{"axis", dim - 1}})};
}
Values squeeze(const Module& m) {
  if (m.m.find("dim") != nullptr)
    return {m.op("squeeze", {m.x()}, {{"axes", Ints{m.axis("dim", 1, "numInputDims")}}})};
  Ints axes;
  const Ints dims = m.g.dims(m.x());
  for (std::size_t i = 1; i < dims.size(); ++i)
    if (dims[i] == 1) axes.push_back(static_cast<std::int64_t>(i));
  m.g.note("Squeeze keeps the batch, even of one sample");
  return axes.empty() ? m.in : Values{m.op("squeeze", {m.x()}, {{"axes", axes}})};
}
Values unsqueeze(const Module& m) {
  const int rank = m.g.rank(m.x());
  std::int64_t at = m.integer("pos", 1);
  if (m.integer("numInputDims", -1) == rank - 1) ++at;
  if (at < 1 || at > rank + 1) throw bad_input("dimension {} of {}", at, rank + 1);
  return {m.op("unsqueeze", {m.x()}, {{"axes", Ints{at - 1}}})};
}
// Pairs of dimensions that change places, one pair after the other.
Values transpose(const Module& m) {
  const int rank = m.g.rank(m.x());
  const std::int64_t further = m.integer("numInputDims", -1) == rank - 1 ? 1 : 0;
  const T7Object* pairs = m.m.find_object("permutations");
  if (pairs == nullptr) throw bad_input("Transpose without its permutations");
  Ints perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  for (const T7Value* v : pairs->list()) {
    const auto pair = v->object ? v->object->list() : std::vector<const T7Value*>{};
    if (pair.size() != 2) throw bad_input("a permutation that is no pair");
    const auto place = [&](const T7Value* d) {
      const std::int64_t dim = whole(d->number) + further;
      if (dim < 1 || dim > rank) throw bad_input("dimension {} of {}", dim, rank);
      return static_cast<std::size_t>(dim - 1);
    };
    std::swap(perm[place(pair[0])], perm[place(pair[1])]);
  }
  return {m.g.transpose(m.path, m.x(), perm)};
}
Values pixel_shuffle(const Module& m) {
  const std::int64_t by = m.integer("upscaleFactor", 1);
  if (by < 1 || by > 4096) throw bad_input("PixelShuffle by {}", by);
  return {m.op("depth_to_space", {m.x()}, {{"blocksize", by}, {"mode", std::string("CRD")}})};
}

// ---- modules beside each other ----
// Each on its place of an axis, which vanishes; put together along another.
Values parallel(const Module& m) {
  const std::int64_t axis = m.axis("inputDimension", 1);
  Values out;
  for (std::size_t i = 0; i < m.parts.size(); ++i)
    for (const ValueId v :
         m.apply(i, {chosen(m, "input", m.single(), axis, static_cast<std::int64_t>(i) + 1)}))
      out.push_back(v);
  if (out.empty()) throw bad_input("Parallel without its modules");
  const int rank = m.g.rank(out[0]);
  std::int64_t to = m.integer("outputDimension", 1);
  if (to < 0) to += rank + 1;
  if (to < 1 || to > rank) throw bad_input("dimension {} of {}", to, rank);
  return {m.op("concat", out, {{"axis", to - 1}})};
}
// Planes of different extents, in the middle of the largest; zeros around them.
Values depth_concat(const Module& m) {
  Values out;
  for (std::size_t i = 0; i < m.parts.size(); ++i)
    for (const ValueId v : m.apply(i, m.in)) out.push_back(v);
  if (out.empty()) throw bad_input("DepthConcat without its modules");
  const int rank = m.g.rank(out[0]);
  const std::int64_t dim = m.integer("dimension", 2);
  if (dim < 1 || dim > rank) throw bad_input("dimension {} of {}", dim, rank);
  Ints most(static_cast<std::size_t>(rank), 1);
  for (const ValueId v : out) {
    if (m.g.rank(v) != rank) throw bad_input("parts of rank {} and {}", rank, m.g.rank(v));
    for (std::int64_t a = 1; a < rank; ++a)
      most[static_cast<std::size_t>(a)] =
          std::max(most[static_cast<std::size_t>(a)], m.extent(v, a));
  }
  for (ValueId& v : out) {
    Ints pads(2 * most.size());
    for (std::size_t a = 1; a < most.size(); ++a) {
      if (static_cast<std::int64_t>(a) == dim - 1) continue;
      const std::int64_t lack = most[a] - m.g.dims(v)[a];
      pads[a] = lack / 2;
      pads[a + most.size()] = lack - lack / 2;
    }
    if (std::ranges::any_of(pads, [](std::int64_t n) { return n > 0; }))
      v = m.part("pad", "padded", {v}, {{"mode", std::string("constant")}, {"pads", pads}});
  }
  return {m.op("concat", out, {{"axis", dim - 1}})};
}

constexpr ModuleRow kRows[] = {{"Sum", reduced},
                               {"Mean", reduced},
                               {"Max", reduced},
                               {"Min", reduced},
                               {"Normalize", normalize},
                               {"Select", select},
                               {"Narrow", narrow},
                               {"SplitTable", split_table},
                               {"Index", index},
                               {"Replicate", replicate},
                               {"Padding", padding},
                               {"Squeeze", squeeze},
                               {"Unsqueeze", unsqueeze},
                               {"Transpose", transpose},
                               {"PixelShuffle", pixel_shuffle},
                               {"Parallel", parallel},
                               {"DepthConcat", depth_concat}};

}  // namespace

std::span<const ModuleRow> move_rows() { return kRows; }

}  // namespace etalon::torch7
