// i = f(W x + R h + p c + b), c = hold(forget * c + i * g(..)), o reads the new c: as
// NeuralNetwork.proto writes it, every argument of a gate or of the block held as well.
#include "importers/formats/coreml/clipped.h"

#include "engine/core/error.h"
#include "importers/formats/control.h"

namespace etalon::coreml {
namespace {

struct Function {
  std::string name;
  float alpha = 0, beta = 0;
};

ValueId applied(GraphBuilder& g, const std::string& name, const Function& f, ValueId x) {
  const auto scaled = [&](std::string_view role, ValueId v, float by) {
    return g.op("mul", fmt::format("{}.{}", name, role),
                {v, g.constant(name + ".number", scalar_f32(by))});
  };
  if (f.name == "identity") return x;
  if (f.name == "hardsigmoid")
    return g.op("hard_sigmoid", name, {x}, {{"alpha", f.alpha}, {"beta", f.beta}});
  if (f.name == "scaledtanh")
    return scaled("out", g.op("tanh", name, {scaled("in", x, f.beta)}), f.alpha);
  if (f.name == "affine")
    return g.op("add", name,
                {scaled("in", x, f.alpha), g.constant(name + ".beta", scalar_f32(f.beta))});
  return g.op(f.name, name, {x});
}

// Rows [d, begin, begin + count) of weights of all directions.
Tensor rows_of(const Tensor& all, std::int64_t d, std::int64_t begin, std::int64_t count) {
  const std::int64_t columns = all.shape().rank() == 3 ? all.shape()[2] : 1, rows = all.shape()[1];
  const auto data =
      all.data<float>().subspan(static_cast<std::size_t>((d * rows + begin) * columns),
                                static_cast<std::size_t>(count * columns));
  return Tensor::of<float>(
      columns == 1 && all.shape().rank() == 2 ? Shape{count} : Shape{count, columns},
      std::span<const float>(data));
}

}  // namespace

std::vector<ValueId> clipped_lstm(GraphBuilder& g, const std::string& name,
                                  const std::vector<ValueId>& in, const ClippedLstm& how) {
  enum : std::uint8_t { kX, kW, kR, kB, kLengths, kH, kC, kPeepholes };
  const std::int64_t h = how.hidden;
  std::vector<Function> functions;
  std::size_t numbers = 0;
  for (const std::string& f : how.functions) {
    functions.push_back({f, 0, 0});
    if (f != "affine" && f != "hardsigmoid" && f != "scaledtanh") continue;
    functions.back().alpha = how.alpha.at(numbers);
    functions.back().beta = how.beta.at(numbers++);
  }
  const auto weights = [&](std::size_t i) -> const Tensor& { return *g.constant_of(in[i]); };
  std::vector<ValueId> ys, hs, cs;
  for (std::int64_t d = 0; d < how.directions; ++d) {
    const auto part = [&](std::string_view role) { return fmt::format("{}.{}.{}", name, d, role); };
    Tensor bias = rows_of(weights(kB), d, 0, 4 * h);
    const Tensor second = rows_of(weights(kB), d, 4 * h, 4 * h);
    for (std::int64_t i = 0; i < 4 * h; ++i)
      bias.mutable_data<float>()[static_cast<std::size_t>(i)] +=
          second.data<float>()[static_cast<std::size_t>(i)];
    const auto turned = [&](std::string_view role, const Tensor& all) {
      return g.transpose(part(role), g.constant(part(role), rows_of(all, d, 0, 4 * h)), {1, 0});
    };
    const ValueId x = g.op("add", part("biased"),
                           {g.op("matmul", part("inputs"), {in[kX], turned("w", weights(kW))}),
                            g.constant(part("b"), std::move(bias))});
    const ValueId batch =
        g.op("shape", part("batch"), {x}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
    const ValueId to =
        g.op("concat", part("extents"), {batch, g.constant(part("hidden"), ints_tensor({h}))},
             {{"axis", std::int64_t{0}}});
    const auto state = [&](std::size_t i, std::string_view role) {
      if (in[i] == kAbsent)
        return g.op("expand", part(role), {g.constant(part("0"), scalar_f32(0)), to});
      const ValueId one = g.op("slice", part(std::string(role) + ".direction"), {in[i]},
                               {{"starts", Ints{d}}, {"ends", Ints{d + 1}}, {"axes", Ints{0}}});
      return g.op("squeeze", part(role), {one}, {{"axes", Ints{0}}});
    };
    ScanInputs loop{.carried = {state(kH, "h"), state(kC, "c")},
                    .sequences = {x},
                    .read = {turned("r", weights(kR))},
                    .axis = 0,
                    .backwards = how.backwards || d == 1};
    const bool peepholes = in.size() > kPeepholes;
    if (peepholes) {
      for (std::int64_t k = 0; k < 3; ++k)
        loop.read.push_back(g.constant(part("p"), rows_of(weights(kPeepholes), d, k * h, h)));
    }
    const auto step = [&](GraphBuilder& b, const std::vector<ValueId>& v) {
      const auto f = [&](std::size_t k) { return functions[static_cast<std::size_t>(d) * 3 + k]; };
      const auto hold = [&](ValueId at, float limit) {
        return b.op("clip", "held", {at}, {{"min", -limit}, {"max", limit}});
      };
      const ValueId sums = b.op("add", "sums", {v[2], b.op("matmul", "recurrent", {v[0], v[3]})});
      const auto gate = [&](std::int64_t k, std::size_t peephole, ValueId cell) {
        ValueId at =
            b.op("slice", "gate", {sums},
                 {{"starts", Ints{k * h}}, {"ends", Ints{(k + 1) * h}}, {"axes", Ints{1}}});
        if (peepholes && cell != kAbsent)
          at = b.op("add", "gate", {at, b.op("mul", "peephole", {v[4 + peephole], cell})});
        return hold(at, how.held);
      };
      const ValueId i = applied(b, "i", f(0), gate(0, 0, v[1]));
      const ValueId forget = how.coupled ? b.op("sub", "f", {b.constant("one", scalar_f32(1)), i})
                                         : applied(b, "f", f(0), gate(1, 1, v[1]));
      const ValueId block = applied(b, "block", f(1), gate(2, 0, kAbsent));
      const ValueId c = hold(
          b.op("add", "c", {b.op("mul", "kept", {forget, v[1]}), b.op("mul", "new", {i, block})}),
          how.limit);
      const ValueId o = applied(b, "o", f(0), gate(3, 2, c));
      const ValueId y = b.op("mul", "h", {o, applied(b, "out", f(2), c)});
      return std::vector{y, c, y};
    };
    const ScanOutputs out = write_scan(g, part("scan"), loop, step);
    ys.push_back(g.op("unsqueeze", part("y"), {out.stacked[0]}, {{"axes", Ints{1}}}));
    hs.push_back(g.op("unsqueeze", part("h_out"), {out.carried[0]}, {{"axes", Ints{0}}}));
    cs.push_back(g.op("unsqueeze", part("c_out"), {out.carried[1]}, {{"axes", Ints{0}}}));
  }
  if (how.directions == 1) return {ys[0], hs[0], cs[0]};
  return {g.op("concat", name + ".y", ys, {{"axis", std::int64_t{1}}}),
          g.op("concat", name + ".h", hs, {{"axis", std::int64_t{0}}}),
          g.op("concat", name + ".c", cs, {{"axis", std::int64_t{0}}})};
}

}  // namespace etalon::coreml
