// Modules of modules, and those that make, cut and join tables of values. Tables may hold tables
// (nested.h); only the modules of this page may be given one.
#include "engine/core/error.h"
#include "importers/formats/torch7/gmodule.h"
#include "importers/formats/torch7/modules.h"

namespace etalon::torch7 {
namespace {

constexpr std::size_t kMostValues = 1 << 12;

// ---- modules of modules ----
Values in_sequence(const Module& m) {
  Values v = m.in;
  for (std::size_t i = 0; i < m.parts.size(); ++i) v = m.apply(i, v);
  return v;
}
Values some_in_sequence(const Module& m) {
  if (m.parts.empty()) throw bad_input("{} without its modules", m.type);
  return in_sequence(m);
}
Values first_part(const Module& m) {
  if (m.parts.size() != 1) throw bad_input("{} of {} modules", m.type, m.parts.size());
  return m.apply(0, m.in);
}
Values unchanged(const Module& m) { return m.in; }
Values graph_of_nodes(const Module& m) {
  GModule net(
      m.m,
      [&](const T7Object& inner, const Values& read, int number) {
        return m.run(inner, read,
                     fmt::format("{}{}node{}", m.place, m.place.empty() ? "" : ".", number));
      },
      m.tables);
  if (net.input_count() != m.in.size())
    throw bad_input("{} values for a gModule of {}", m.in.size(), net.input_count());
  return net.run(m.in);
}

// ---- one input, or an input each ----
Values concat_table(const Module& m) {
  Values out;
  for (std::size_t i = 0; i < m.parts.size(); ++i) out.push_back(m.tables.pack(m.apply(i, m.in)));
  return out;
}
Values parallel_table(const Module& m) {
  if (m.parts.size() > m.in.size())
    throw bad_input("{} values for {} modules", m.in.size(), m.parts.size());
  Values out;
  for (std::size_t i = 0; i < m.parts.size(); ++i)
    out.push_back(m.tables.pack(m.apply(i, m.tables.open(m.in[i]))));
  return out;
}
Values map_table(const Module& m) {
  Values out;
  if (m.parts.empty()) throw bad_input("MapTable without a module");
  for (const ValueId v : m.in) out.push_back(m.tables.pack(m.apply(0, m.tables.open(v))));
  return out;
}
Values concat(const Module& m) {
  Values out;
  for (std::size_t i = 0; i < m.parts.size(); ++i) {
    const Values y = m.apply(i, m.in);
    if (y.size() != 1) throw bad_input("{} values where one is wanted", y.size());
    out.push_back(y[0]);
  }
  if (out.empty()) throw bad_input("Concat without its modules");
  const int rank = m.g.rank(out[0]);
  const std::int64_t dimension = m.integer("dimension", 2);
  if (dimension < 1 || dimension > rank) throw bad_input("dimension {} of {}", dimension, rank);
  return {m.op("concat", out, {{"axis", dimension - 1}})};
}

// ---- tables ----
Values select_table(const Module& m) {
  const T7Value* key = m.m.find("index");
  if (key != nullptr && key->kind != T7Value::Kind::number)
    throw bad_input("SelectTable by a key that is no number");
  std::int64_t i = m.integer("index", 1);
  if (i < 0) i += static_cast<std::int64_t>(m.in.size()) + 1;  // from the end
  if (i < 1 || static_cast<std::size_t>(i) > m.in.size())
    throw bad_input("value {} of {}", i, m.in.size());
  return m.tables.open(m.in[static_cast<std::size_t>(i - 1)]);
}
Values narrow_table(const Module& m) {
  const std::int64_t offset = m.integer("offset", 1), length = m.integer("length", 1);
  if (offset < 1 || length < 1 || offset - 1 + length > static_cast<std::int64_t>(m.in.size()))
    throw bad_input("values {} to {} of {}", offset, offset + length - 1, m.in.size());
  return {m.in.begin() + offset - 1, m.in.begin() + offset - 1 + length};
}
Values flatten_table(const Module& m) { return m.tables.flatten(m.in); }
// {{a, b}, {c, d}} to {{a, c}, {b, d}}.
Values zip_table(const Module& m) {
  std::vector<Values> zipped;
  for (const ValueId v : m.in) {
    const Values inner = m.tables.open(v);
    if (zipped.empty()) zipped.resize(inner.size());
    if (inner.size() != zipped.size())
      throw bad_input("ZipTable of {} and {} values", zipped.size(), inner.size());
    for (std::size_t i = 0; i < inner.size(); ++i) zipped[i].push_back(inner[i]);
  }
  Values out;
  for (const Values& z : zipped) out.push_back(m.tables.pack(z));
  return out;
}
// The two values of a pair, the second of them opened.
std::pair<ValueId, Values> one_and_many(const Module& m) {
  if (m.in.size() != 2 || Tables::is_table(m.in[0]))
    throw bad_input("{} needs a value and a table", m.type);
  return {m.in[0], m.tables.open(m.in[1])};
}
Values zip_one_to_many(const Module& m) {
  const auto [one, many] = one_and_many(m);
  Values out;
  for (const ValueId v : many) out.push_back(m.tables.pack({one, v}));
  return out;
}
Values add_to_each(const Module& m) {
  const auto [one, many] = one_and_many(m);
  Values out;
  for (const ValueId v : many) {
    if (Tables::is_table(v)) throw bad_input("{} on a table within a table", m.type);
    out.push_back(m.op("add", {v, one}));
  }
  return out;
}
// What the gater gives times each expert's value, summed. The experts are a table, or lie along
// dimension `dim` of one value.
Values mixture(const Module& m) {
  const auto [gater, experts] = one_and_many(m);
  if (m.g.rank(gater) != 2) throw bad_input("a gater of rank {}", m.g.rank(gater));
  ValueId x = experts.empty() ? kAbsent : experts[0];
  const std::int64_t dim = m.integer("dim", 2);
  if (experts.empty() || experts.size() > kMostValues)
    throw bad_input("{} experts", experts.size());
  for (const ValueId v : experts)
    if (Tables::is_table(v)) throw bad_input("{} on a table within a table", m.type);
  if (experts.size() > 1) {
    Values along;
    for (const ValueId v : experts)
      along.push_back(m.part("unsqueeze", "expert", {v}, {{"axes", Ints{dim - 1}}}));
    x = m.part("concat", "experts", along, {{"axis", dim - 1}});
  }
  const int rank = m.g.rank(x);
  if (dim < 2 || dim > rank) throw bad_input("dimension {} of {}", dim, rank);
  const std::int64_t count = m.g.dims(gater)[1];
  if (experts.size() > 1 && count != static_cast<std::int64_t>(experts.size()))
    throw bad_input("{} gates for {} experts", count, experts.size());
  Ints shape(static_cast<std::size_t>(rank), 1);
  shape[0] = 0;
  shape[static_cast<std::size_t>(dim - 1)] = count;
  const ValueId gates = m.g.reshape(m.name("gates"), gater, shape);
  return {m.op("reduce_sum", {m.part("mul", "weighed", {x, gates})},
               {{"axes", Ints{dim - 1}}, {"keepdims", false}})};
}

constexpr ModuleRow kRows[] = {{"Sequential", in_sequence, true},
                               {"DataParallelTable", in_sequence, true},
                               {"gModule", graph_of_nodes, true},
                               {"ConcatTable", concat_table, true},
                               {"ParallelTable", parallel_table, true},
                               {"MapTable", map_table, true},
                               {"Concat", concat, true},
                               {"SelectTable", select_table, true},
                               {"NarrowTable", narrow_table, true},
                               {"FlattenTable", flatten_table, true},
                               {"ZipTable", zip_table, true},
                               {"ZipTableOneToMany", zip_one_to_many, true},
                               {"CAddTensorTable", add_to_each, true},
                               {"MixtureTable", mixture, true},
                               {"Identity", unchanged, true},
                               {"Copy", unchanged, true},
                               {"Contiguous", unchanged, true},
                               {"L1Penalty", unchanged, true},
                               {"GradientReversal", unchanged, true},
                               {"PrintSize", unchanged, true},
                               {"ZeroGrad", unchanged, true},
                               {"NaN", first_part, true},
                               {"Profile", first_part, true},
                               {"DontCast", first_part, true},
                               {"GPU", first_part, true},
                               {"CReLU", some_in_sequence},
                               {"Maxout", some_in_sequence},
                               {"SpatialLPPooling", some_in_sequence},
                               {"LayerNormalization", some_in_sequence}};

}  // namespace

std::span<const ModuleRow> container_rows() { return kRows; }

}  // namespace etalon::torch7
