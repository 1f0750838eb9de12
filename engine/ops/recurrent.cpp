#include "engine/ops/recurrent.h"

#include <algorithm>

namespace etalon {
namespace {

constexpr std::string_view kGates[] = {"h", "zrh", "iofc"};

struct FunctionRow {
  std::string_view name;
  CellFunction function;
  bool has_alpha = false, has_beta = false;
  float alpha = 0, beta = 0;  // defaults: those of the op
};
constexpr FunctionRow kFunctions[] = {
    {"affine", CellFunction::affine, true, true, 1, 0},
    {"elu", CellFunction::elu, true, false, 1, 0},
    {"hardsigmoid", CellFunction::hard_sigmoid, true, true, 0.2F, 0.5F},
    {"leakyrelu", CellFunction::leaky_relu, true, false, 0.01F, 0},
    {"relu", CellFunction::relu},
    {"scaledtanh", CellFunction::scaled_tanh, true, true, 1, 1},
    {"sigmoid", CellFunction::sigmoid},
    {"softplus", CellFunction::softplus},
    {"softsign", CellFunction::softsign},
    {"tanh", CellFunction::tanh},
    {"thresholdedrelu", CellFunction::thresholded_relu, true, false, 1, 0},
    {"identity", CellFunction::identity},
};

const FunctionRow& function_row(std::string_view name) {
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  std::string known;
  for (const FunctionRow& row : kFunctions) {
    if (row.name == lower) return row;
    known.append(known.empty() ? "" : ", ").append(row.name);
  }
  throw bad_input("'{}' is no activation of a recurrent cell; they are {}", name, known);
}

void parse_activations(const RecurrentParams& p, RecurrentGeometry& g) {
  const std::size_t each = g.kind == CellKind::rnn ? 1 : g.kind == CellKind::gru ? 2 : 3;
  const std::size_t count = each * static_cast<std::size_t>(g.directions);
  if (!p.activations.empty() && p.activations.size() != count)
    throw bad_input("activations must name {} functions, {} for each direction, got {}", count,
                    each, p.activations.size());
  std::size_t alphas = 0, betas = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view otherwise =
        g.kind != CellKind::rnn && i % each == 0 ? "sigmoid" : "tanh";
    const FunctionRow& row =
        function_row(p.activations.empty() ? otherwise : std::string_view(p.activations[i]));
    CellActivation& a = g.activations[i / each][i % each];
    a = {row.function, row.alpha, row.beta};
    if (row.has_alpha && alphas < p.activation_alpha.size()) a.alpha = p.activation_alpha[alphas++];
    if (row.has_beta && betas < p.activation_beta.size()) a.beta = p.activation_beta[betas++];
  }
}

void parse_gates(const RecurrentParams& p, RecurrentGeometry& g) {
  const std::string_view own = kGates[static_cast<std::size_t>(g.kind)];
  if (!std::ranges::is_permutation(p.gates, own))
    throw bad_input("gates must be a permutation of '{}', got '{}'", own, p.gates);
  std::string without_cell = p.gates;
  std::erase(without_cell, 'c');
  for (std::size_t q = 0; q < own.size(); ++q) {
    g.block_of[q] = static_cast<std::int64_t>(p.gates.find(own[q]));
    g.peephole_of[q] = static_cast<std::int64_t>(without_cell.find(own[q]));
  }
}

void expect(const InferInputs& in, std::size_t i, std::string_view name, const Shape& shape) {
  if (in.has(i) && in.shape(i) != shape)
    throw bad_input("{} must be {}, got {}", name, to_string(shape), to_string(in.shape(i)));
}

template <CellKind Kind, class P>
std::vector<TensorType> infer_cell(const Params& params, const InferInputs& in) {
  const P& p = params.as<P>();
  const RecurrentGeometry g = recurrent_geometry(Kind, p, in);
  const Shape state = g.batch_first ? Shape{g.batch, g.directions, g.hidden}
                                    : Shape{g.directions, g.batch, g.hidden};
  const Shape y = g.batch_first ? Shape{g.batch, g.steps, g.directions, g.hidden}
                                : Shape{g.steps, g.directions, g.batch, g.hidden};
  std::vector<TensorType> types{{in.dtype(0), y}, {in.dtype(0), state}};
  if (Kind == CellKind::lstm) types.push_back({in.dtype(0), state});
  return types;
}

template <CellKind Kind, class P>
OpRow row(std::string_view name, std::string_view summary) {
  constexpr bool lstm = Kind == CellKind::lstm;
  return {.name = name,
          .summary = summary,
          .nature = OpNature::composite,
          .min_inputs = 3,
          .max_inputs = lstm ? 8 : 6,
          .min_outputs = 1,
          .max_outputs = lstm ? 3 : 2,
          .defaults = [] { return Params(P{}); },
          .infer = infer_cell<Kind, P>,
          .input_names =
              [] {
                std::vector<std::string_view> n{"x", "w", "r", "b", "sequence_lens", "initial_h"};
                if (Kind == CellKind::lstm) n.insert(n.end(), {"initial_c", "p"});
                return n;
              },
          .output_names =
              [] {
                std::vector<std::string_view> n{"y", "y_h"};
                if (Kind == CellKind::lstm) n.push_back("y_c");
                return n;
              }};
}

}  // namespace

RecurrentGeometry recurrent_geometry(CellKind kind, const RecurrentParams& p,
                                     const InferInputs& in) {
  const Shape &x = in.shape(0), &w = in.shape(1), &r = in.shape(2);
  for (const std::size_t i : {0, 1, 2, 3, 5, 6, 7})
    if (in.has(i) && (!is_floating(in.dtype(i)) || in.dtype(i) != in.dtype(0)))
      throw bad_input("input {} must be of x's floating type, x is {} and it is {}", i,
                      name(in.dtype(0)), name(in.dtype(i)));
  if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3)
    throw bad_input("x, w and r must have three axes, got {}, {} and {}", to_string(x),
                    to_string(w), to_string(r));
  RecurrentGeometry g{
      .kind = kind,
      .steps = x[p.batch_first ? 1 : 0],
      .batch = x[p.batch_first ? 0 : 1],
      .inputs = x[2],
      .hidden = r[2],
      .directions = p.direction == Direction::bidirectional ? 2 : 1,
      .gates = static_cast<std::int64_t>(kGates[static_cast<std::size_t>(kind)].size()),
      .block_of = {},
      .peephole_of = {},
      .activations = {},
      .batch_first = p.batch_first,
      .starts_reversed = p.direction == Direction::reverse};
  if (p.hidden_size != 0 && p.hidden_size != g.hidden)
    throw bad_input("hidden_size is {} and r {} says {}", p.hidden_size, to_string(r), g.hidden);
  if (!(p.clip >= 0)) throw bad_input("clip must not be negative, got {}", p.clip);
  const std::int64_t rows = checked_mul(g.gates, g.hidden);
  const Shape state = p.batch_first ? Shape{g.batch, g.directions, g.hidden}
                                    : Shape{g.directions, g.batch, g.hidden};
  expect(in, 1, "w", Shape{g.directions, rows, g.inputs});
  expect(in, 2, "r", Shape{g.directions, rows, g.hidden});
  expect(in, 3, "b", Shape{g.directions, checked_mul(2, rows)});
  expect(in, 4, "sequence_lens", Shape{g.batch});
  expect(in, 5, "initial_h", state);
  expect(in, 6, "initial_c", state);
  expect(in, 7, "p", Shape{g.directions, 3 * g.hidden});
  if (in.has(4) && in.dtype(4) != DType::i32 && in.dtype(4) != DType::i64)
    throw bad_input("sequence_lens must be i32 or i64, got {}", name(in.dtype(4)));
  parse_gates(p, g);
  parse_activations(p, g);
  return g;
}

std::span<const OpRow> recurrent_ops() {
  static const OpRow rows[] = {
      row<CellKind::rnn, RnnParams>("rnn", "Simple recurrent cell over a sequence."),
      row<CellKind::gru, GruParams>("gru", "Gated recurrent unit over a sequence."),
      row<CellKind::lstm, LstmParams>("lstm", "Long short-term memory over a sequence."),
  };
  return rows;
}

}  // namespace etalon
