// Recurrent cells that TensorFlow has as one operator: LSTMBlockCell, BlockLSTM, GRUBlockCell.
//
// Gates of an LSTM stand in w as input, cell, forget, output, in BlockLSTMV2 as input, forget,
// cell, output; version 1 adds forget_bias to the forget gate. Each step rounds as TensorFlow's has
// it: one product of [x, h] and w, then the bias.
#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/control.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::tf {
namespace {

struct Cell {
  float forget_bias = 1, clip = 3;
  bool peepholes = false, forget_first = false;  // forget gate before the cell's
};

// i, cs, f, o, ci, co, h of one step; `weights`: w, wci, wcf, wco, b.
std::vector<ValueId> lstm_step(GraphBuilder& g, const Cell& cell, ValueId x, ValueId state,
                               ValueId h, const std::vector<ValueId>& weights, std::int64_t width) {
  const auto op = [&](std::string_view what, const std::vector<ValueId>& in, const Fields& f = {}) {
    return g.op(what, std::string(what), in, f);
  };
  const ValueId joined = op("concat", {x, h}, {{"axis", std::int64_t{1}}});
  const ValueId gates = op("add", {op("matmul", {joined, weights[0]}), weights[4]});
  const auto quarters = g.nodes(
      "split", "gates", {gates},
      make_params(get_op("split"), {{"axis", std::int64_t{1}}, {"split", Ints(4, width)}}), 4);
  const auto peeping = [&](ValueId gate, ValueId weight, ValueId at) {
    return cell.peepholes ? op("add", {op("mul", {at, weight}), gate}) : gate;
  };
  ValueId forget = quarters[cell.forget_first ? 1 : 2];
  if (cell.forget_bias != 0)
    forget = op("add", {forget, g.constant("forget_bias", scalar_f32(cell.forget_bias))});
  const ValueId i = op("sigmoid", {peeping(quarters[0], weights[1], state)}),
                f = op("sigmoid", {peeping(forget, weights[2], state)}),
                ci = op("tanh", {quarters[cell.forget_first ? 2 : 1]});
  ValueId cs = op("add", {op("mul", {ci, i}), op("mul", {state, f})});
  if (cell.clip > 0) cs = op("clip", {cs}, {{"min", -cell.clip}, {"max", cell.clip}});
  const ValueId o = op("sigmoid", {peeping(quarters[3], weights[3], cs)}), co = op("tanh", {cs});
  return {i, cs, f, o, ci, co, op("mul", {co, o})};
}

}  // namespace

std::vector<ValueId> Ops::block_lstm(bool sequence) {
  const std::string& op = n_->op;
  const bool second = op == "BlockLSTMV2";
  Cell cell;
  cell.forget_bias = second ? 0 : n_->number("forget_bias", 1);
  cell.clip = n_->number("cell_clip", second ? 0 : 3);
  cell.peepholes = n_->flag("use_peephole");
  cell.forget_first = second;
  const std::size_t at = sequence ? 1 : 0;
  const ValueId x = n_->in(at), state = n_->in(at + 1), h = n_->in(at + 2);
  const std::vector<ValueId> weights{n_->in(at + 3), n_->in(at + 4), n_->in(at + 5), n_->in(at + 6),
                                     n_->in(at + 7)};
  if (g.rank(x) != (sequence ? 3 : 2) || g.rank(weights[0]) != 2 || g.rank(state) != 2)
    throw bad_input("{} of {} with weights {}", op, to_string(g.type(x)),
                    to_string(g.type(weights[0])));
  const std::int64_t width = known_extent(g, state, 1);
  if (width < 1 || width > 1 << 20 || known_extent(g, weights[0], 1) != 4 * width)
    throw bad_input("{}: weights {} for a state of {}", op, to_string(g.type(weights[0])), width);
  g.note(fmt::format("{}: gates in the sequence {}, forget_bias {}, cell_clip {}", op,
                     second ? "i, f, c, o" : "i, c, f, o", cell.forget_bias, cell.clip));
  if (!sequence) {
    std::vector<ValueId> out = lstm_step(g, cell, x, state, h, weights, width);
    for (ValueId& v : out) v = g.op("identity", n_->name, {v});
    return out;
  }
  const std::int64_t steps = g.dims(x)[0];
  const auto length = known(n_->in(0));
  ScanInputs in{.carried = {state, h}, .sequences = {x}, .read = weights};
  const ScanOutputs out =
      write_scan(g, n_->name, in, [&](GraphBuilder& b, const std::vector<ValueId>& v) {
        const std::vector<ValueId> made =
            lstm_step(b, cell, v[2], v[0], v[1], {v.begin() + 3, v.end()}, width);
        std::vector<ValueId> all{made[1], made[6]};
        for (const ValueId m : made) all.push_back(b.op("identity", "stacked", {m}));
        return all;
      });
  if (length && *length == steps) return out.stacked;
  // Behind the longest sequence all is 0.
  const ValueId zero = g.constant(part("from"), scalar_of(DType::i64, 0)),
                one = g.constant(part("by"), scalar_of(DType::i64, 1));
  const ValueId count = g.op("gather", part("steps"), {g.op("shape", part("extents"), {x}), zero},
                             {{"axis", std::int64_t{0}}});
  const ValueId held =
      g.op("less", part("held"),
           {g.op("range", part("numbers"), {zero, count, one}), as_i64("length", n_->in(0))});
  const ValueId rows = g.op("unsqueeze", part("rows"), {held}, {{"axes", Ints{1, 2}}});
  std::vector<ValueId> kept;
  for (const ValueId v : out.stacked)
    kept.push_back(g.op("where", part("kept"), {rows, v, number(0)}));
  return kept;
}

// r, u, c, h.
std::vector<ValueId> Ops::block_gru() {
  const ValueId x = n_->in(0), h = n_->in(1);
  const auto op = [&](std::string_view what, const std::vector<ValueId>& in, const Fields& f = {}) {
    return g.op(what, part(what), in, f);
  };
  if (g.rank(x) != 2 || g.rank(h) != 2) throw bad_input("{} of {}", n_->op, to_string(g.type(x)));
  const std::int64_t width = known_extent(g, h, 1);
  if (width < 1 || width > 1 << 20) throw bad_input("{} of {} units", n_->op, width);
  const auto product = [&](ValueId state, std::size_t w, std::size_t b) {
    return op("add",
              {op("matmul", {op("concat", {x, state}, {{"axis", std::int64_t{1}}}), n_->in(w)}),
               n_->in(b)});
  };
  const auto halves = g.nodes(
      "split", part("gates"), {product(h, 2, 4)},
      make_params(get_op("split"), {{"axis", std::int64_t{1}}, {"split", Ints(2, width)}}), 2);
  const ValueId r = op("sigmoid", {halves[0]}), u = op("sigmoid", {halves[1]}),
                c = op("tanh", {product(op("mul", {h, r}), 3, 5)});
  const ValueId rest = op("sub", {number(1), u});
  return {r, u, c, g.op("add", n_->name, {op("mul", {rest, c}), op("mul", {u, h})})};
}

std::optional<std::vector<ValueId>> Ops::cells() {
  const std::string& op = n_->op;
  if (op == "LSTMBlockCell") return block_lstm(false);
  if (op == "BlockLSTM" || op == "BlockLSTMV2") return block_lstm(true);
  if (op == "GRUBlockCell") return block_gru();
  return std::nullopt;
}

}  // namespace etalon::tf
