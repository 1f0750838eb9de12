// CNTK's functions of sequences: delays, chosen steps, values repeated along a sequence.
//
// Sequences of a batch have one length here, [batch, sequence, sample], so that a packed sequence
// and an unpacked one are the same bytes: what was a dynamic axis is called a static one.
#include "importers/formats/cntk/ops.h"
#include "importers/formats/scalar.h"

namespace etalon::cntk {
namespace {

constexpr std::int64_t kEnd = 1LL << 40;

}  // namespace

std::int64_t Ops::delay_steps(const Function& f) {
  const std::int64_t steps = f.integer("offset", 1);
  if (steps < 1 || steps > 1 << 20) throw bad_input("a delay of {} steps", steps);
  return steps;
}

ValueId Ops::spread(const std::string& name, Sample x, ValueId like, int taken,
                    const Ints& sample) {
  const int missing = taken + static_cast<int>(sample.size()) - g.rank(x.value);
  if (missing < 0) throw Unsupported("a value of more axes than it is repeated for");
  if (x.dynamic > 0 && missing > 0) {
    Ints axes;
    for (int a = 0; a < missing; ++a) axes.push_back(x.dynamic + a);
    x.value = g.op("unsqueeze", name + ".axes", {x.value}, {{"axes", axes}});
  }
  for (const std::int64_t d : sample)
    if (d < 0) throw Unsupported("a value of free extents that is repeated");
  ValueId to = g.op("slice", name + ".dynamic", {g.op("shape", name + ".extents", {like})},
                    {{"starts", Ints{0}}, {"ends", Ints{taken}}, {"axes", Ints{0}}});
  if (!sample.empty())
    to = g.op("concat", name + ".to", {to, g.constant(name + ".sample", ints_tensor(sample))},
              {{"axis", std::int64_t{0}}});
  return g.op("expand", name, {x.value, to});
}

Sample Ops::initial(const Function& f, const std::vector<Sample>& in) {
  if (in.size() < 2)  // version 1 has a number
    return {g.constant(f.uid + ".initial", scalar_f32(static_cast<float>(f.number("initial", 0)))),
            0};
  if (in[1].dynamic > 1) throw Unsupported("a delay whose first value is a sequence");
  return in[1];
}

Sample Ops::delayed(const Function& f, const std::vector<Sample>& in) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  const Sample x = in[0];
  if (x.dynamic != 2) throw Unsupported("a delay of what is no sequence");
  const std::int64_t steps = delay_steps(f);
  const Ints dims = g.dims(x.value);
  Ints sample(dims.begin() + 1, dims.end());
  sample[0] = steps;
  const ValueId first = spread(name + ".initial", initial(f, in), x.value, 1, sample);
  const bool past = f.op == "PastValue";
  const ValueId both = g.op("concat", name + ".both",
                            past ? std::vector{first, x.value} : std::vector{x.value, first},
                            {{"axis", std::int64_t{1}}});
  return {g.op("slice", name, {both},
               {{"starts", Ints{past ? 0 : steps}},
                {"ends", Ints{past ? -steps : kEnd}},
                {"axes", Ints{1}}}),
          2};
}

Sample Ops::reconciled(const Function& f, Sample x, Sample like) {
  if (x.dynamic >= like.dynamic) return x;
  const Ints dims = g.dims(x.value);
  return {spread(f.name.empty() ? f.uid : f.name, x, like.value, like.dynamic,
                 Ints(dims.begin() + x.dynamic, dims.end())),
          like.dynamic};
}

// The steps from beginIndex to endIndex, counted as a slice counts them; one alone where "step".
Sample Ops::steps(const Function& f, Sample x) {
  const std::string& name = f.name.empty() ? f.uid : f.name;
  if (x.dynamic != 2) throw Unsupported("a step of what is no sequence");
  const std::int64_t end = f.integer("endIndex", 0);
  const bool one = f.integer("step", 0) != 0;
  const ValueId y = g.op(
      "slice", one ? name + ".step" : name, {x.value},
      {{"starts", f.list("beginIndex")}, {"ends", Ints{end == 0 ? kEnd : end}}, {"axes", Ints{1}}});
  if (!one) return {y, 2};
  return {g.op("squeeze", name, {y}, {{"axes", Ints{1}}}), 1};
}

std::optional<Sample> Ops::sequence(const Function& f, const std::vector<Sample>& in) {
  const auto need = [&](std::size_t n) {
    if (in.size() < n) throw bad_input("{} inputs, expected {}", in.size(), n);
  };
  const Sample x = in[0];
  if (is_delay(f)) return delayed(f, in);
  if (f.op == "SequenceSlice") return steps(f, x);
  if (f.op == "ReconcileDynamicAxis") {
    need(2);
    return reconciled(f, x, in[1]);
  }
  if (f.op == "UnpackSequence") {
    if (x.dynamic != 2) throw Unsupported("an unpacked sequence of what is none");
    return Sample{x.value, 1};
  }
  if (f.op == "ToSequence" || f.op == "ToSequenceLike") {
    if (f.op == "ToSequence" && in.size() > 1)
      throw Unsupported("sequences whose lengths are data");
    if (x.dynamic != 1 || rank(x) < 1) throw Unsupported("a sequence made of a sample of rank 0");
    return Sample{x.value, 2};
  }
  return {};
}

}  // namespace etalon::cntk
