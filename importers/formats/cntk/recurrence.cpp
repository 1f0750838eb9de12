// A loop over a sequence: values that read each other through PastValue or FutureValue.
//
// CNTK keeps the circle itself; here it is a scan over the steps, from the last one where its
// delays look into the future. What a delay of k steps holds is carried as k values, the youngest
// first. The extents of a delayed value stand nowhere in a file: they follow from the circle, which
// is tried with what is known of them until nothing changes.
#include <algorithm>
#include <set>

#include "importers/formats/cntk/walk.h"
#include "importers/formats/control.h"

namespace etalon::cntk {
namespace {

constexpr std::int64_t kMostSteps = 256;  // of a delay inside a loop
constexpr int kMostTrials = 16;

constexpr std::string_view kSameExtents[] = {"Plus",   "Minus", "ElementTimes",
                                             "Select", "Clip",  "LogPlus"};

class Loop {
 public:
  Loop(Ops& ops, Values& values, const Circle& circle, Samples& made)
      : ops_(ops), g_(ops.g), values_(values), circle_(circle), made_(made) {}

  void write() {
    read_delays();
    find_sources();
    find_extents();
    ScanInputs in;
    in.axis = 1;
    in.backwards = backwards_;
    for (const Delay& d : delays_) {
      const Sample first =
          ops_.initial(*d.f, d.initial.empty() ? std::vector<Sample>{{}}
                                               : std::vector<Sample>{{}, made_.at(d.initial)});
      const ValueId state =
          ops_.spread(label(d) + ".initial", first, sequence(), 1, extents_.at(d.name));
      in.carried.insert(in.carried.end(), static_cast<std::size_t>(d.steps), state);
    }
    for (const std::string& name : sequences_) in.sequences.push_back(made_.at(name).value);
    for (const std::string& name : others_) in.read.push_back(made_.at(name).value);
    const ScanOutputs out =
        write_scan(g_, label(delays_[0]) + ".loop", in,
                   [&](GraphBuilder& body, const std::vector<ValueId>& arguments) {
                     return step(body, arguments);
                   });
    for (std::size_t i = 0; i < circle_.read_outside.size(); ++i)
      made_[circle_.read_outside[i]] = {out.stacked[i], 2};
    g_.note(fmt::format("{}: a loop over the sequence{}, written as a scan", label(delays_[0]),
                        backwards_ ? " from its last step" : ""));
  }

 private:
  struct Delay {
    std::string name, from, initial;
    const Function* f = nullptr;
    std::int64_t steps = 1;
  };

  static std::string label(const Delay& d) { return d.f->name.empty() ? d.f->uid : d.f->name; }
  ValueId sequence() const { return made_.at(sequences_[0]).value; }

  void read_delays() {
    if (circle_.delays.empty()) throw Unsupported("a circle without a delay in it");
    const auto future = [&](const std::string& name) {
      return values_.function(name)->op == "FutureValue";
    };
    backwards_ = future(circle_.delays[0]);
    const std::set<std::string> members(circle_.steps.begin(), circle_.steps.end());
    for (const std::string& name : circle_.delays) {
      const ErrorScope where(fmt::format("node {}", printable(name)));
      if (future(name) != backwards_)
        throw Unsupported("a loop over a sequence that reads both past and future");
      const std::vector<std::string> wants = values_.wants(name);
      if (wants.empty()) throw bad_input("a delay of nothing");
      Delay d{name, wants[0], wants.size() > 1 ? wants[1] : "", values_.function(name), 1};
      d.steps = Ops::delay_steps(*d.f);
      if (d.steps > kMostSteps)
        throw Unsupported(fmt::format("a delay of {} steps inside a loop", d.steps));
      if (!d.initial.empty() && !made_.contains(d.initial))
        throw Unsupported("a delay whose first value is of its own loop");
      delays_.push_back(std::move(d));
    }
  }

  // What the circle reads from outside: sequences, of which it takes a step, and others.
  void find_sources() {
    std::set<std::string> seen;
    for (const std::string& name : circle_.steps)
      for (const std::string& w : values_.wants(name))
        if (made_.contains(w) && seen.insert(w).second)
          (made_.at(w).dynamic == 2 ? sequences_ : others_).push_back(w);
    // A delay reads what is behind it only when a step is over.
    for (const Delay& d : delays_)
      if (made_.contains(d.from)) throw internal_error("a delay outside of its circle");
    if (sequences_.empty()) throw Unsupported("a loop that reads no sequence");
  }

  // The values of one step that are read from outside.
  Samples around(const std::vector<ValueId>& arguments, std::size_t first) const {
    Samples local;
    for (const std::string& name : sequences_) local[name] = {arguments[first++], 1};
    for (const std::string& name : others_)
      local[name] = {arguments[first++], made_.at(name).dynamic};
    return local;
  }

  std::vector<Sample> inputs(const std::string& name, const Samples& local) const {
    std::vector<Sample> in;
    for (const std::string& w : values_.wants(name)) in.push_back(local.at(w));
    return in;
  }

  std::vector<ValueId> step(GraphBuilder& body, const std::vector<ValueId>& arguments) {
    Ops inner(body);
    std::size_t states = 0;
    for (const Delay& d : delays_) states += static_cast<std::size_t>(d.steps);
    Samples local = around(arguments, states);
    std::size_t at = 0;
    for (const Delay& d : delays_) {
      at += static_cast<std::size_t>(d.steps);
      local[d.name] = {arguments[at - 1], 1};
    }
    for (const std::string& name : circle_.steps)
      local[name] = values_.make(inner, name, inputs(name, local));
    std::vector<ValueId> out;
    at = 0;
    for (const Delay& d : delays_) {
      out.push_back(local.at(d.from).value);
      for (std::int64_t k = 1; k < d.steps; ++k) out.push_back(arguments[at++]);
      ++at;
    }
    for (const std::string& name : circle_.read_outside) {
      if (local.at(name).dynamic != 1) throw Unsupported("a loop that makes what is no sample");
      out.push_back(local.at(name).value);
    }
    return out;
  }

  // The extents of what each delay holds.
  void find_extents() {
    for (const Delay& d : delays_)
      if (const Ints known = reversed(d.f->list("shape")); !known.empty()) extents_[d.name] = known;
    try {
      for (int trial = 0; trial < kMostTrials; ++trial)
        if (!try_step()) return;
    } catch (const Unsupported&) {
      throw;
    } catch (const Error& e) {  // a step that cannot be made: the weights are there all the same
      throw Unsupported(e.what());
    }
    throw Unsupported("a loop over a sequence whose extents do not settle");
  }

  // Whether a step, tried in a graph of its own, tells more of the extents.
  bool try_step() {
    GraphBuilder trial("trial");
    Ops inner(trial);
    const auto [one, other] = g_.extents(sequence(), 0);
    const auto guess = [&](const Ints& sample) {
      for (const std::int64_t d : sample)
        if (d < 0) throw Unsupported("a loop over samples of free extents");
      Ints at_one{one}, at_other{other};
      for (Ints* dims : {&at_one, &at_other})
        dims->insert(dims->end(), sample.begin(), sample.end());
      const DType type = g_.dtype(sequence());
      return Sample{trial.input("guess", {TensorType{type, Shape(at_one)},
                                          TensorType{type, Shape(at_other)}}),
                    1};
    };
    Samples local;
    for (const std::string& name : sequences_) {
      const Ints dims = g_.dims(made_.at(name).value);
      local[name] = guess(Ints(dims.begin() + 2, dims.end()));
    }
    for (const std::string& name : others_) {
      const Sample s = made_.at(name);
      const Tensor* constant = g_.constant_of(s.value);
      local[name] = {constant != nullptr ? trial.constant("constant", constant->share())
                                         : trial.input("value", g_.sizes(s.value)),
                     s.dynamic};
    }
    for (const auto& [name, sample] : extents_) local[name] = guess(sample);
    for (const std::string& name : circle_.steps) try_value(inner, name, local, guess);
    bool more = false;
    for (const Delay& d : delays_) {
      const auto at = local.find(d.from);
      if (at == local.end()) continue;
      const Ints dims = trial.dims(at->second.value);
      const Ints sample(dims.begin() + at->second.dynamic, dims.end());
      const auto [before, added] = extents_.try_emplace(d.name, sample);
      more = more || added || before->second != sample;
      before->second = sample;
    }
    if (!more && extents_.size() < delays_.size())
      throw Unsupported("a loop over a sequence whose extents nothing tells");
    return more;
  }

  template <class Guess>
  void try_value(Ops& inner, const std::string& name, Samples& local, const Guess& guess) {
    const Function* f = values_.function(name);
    const std::vector<std::string> wants = values_.wants(name);
    std::vector<Sample> in;
    std::size_t unknown = 0, widest = wants.size();
    const auto size = [&](const Sample& s) { return inner.g.shape(s.value).numel(); };
    for (std::size_t i = 0; i < wants.size(); ++i) {
      const auto at = local.find(wants[i]);
      if (at == local.end()) {
        ++unknown;
        in.emplace_back();
        continue;
      }
      in.push_back(at->second);
      if (widest == wants.size() || size(in[i]) > size(in[widest])) widest = i;
    }
    if (unknown > 0) {
      if (f == nullptr) return;
      const auto fill = [&](Sample with) {
        for (Sample& s : in)
          if (s.value == kAbsent) s = with;
      };
      if (std::ranges::find(kSameExtents, f->op) != std::end(kSameExtents)) {
        // What is not known yet is taken for as large as the largest; one number tells nothing.
        if (widest == wants.size() || inner.g.shape(in[widest].value).rank() <= in[widest].dynamic)
          return;
        const Ints dims = inner.g.dims(in[widest].value);
        fill(guess(Ints(dims.begin() + in[widest].dynamic, dims.end())));
      } else if ((f->op == "Times" || f->op == "TransposeTimes") && in.size() == 2 &&
                 in[0].value != kAbsent && in[0].dynamic == 0) {
        const Ints dims = inner.g.dims(in[0].value);
        const auto rank = static_cast<std::int64_t>(dims.size());
        const std::int64_t out = std::clamp<std::int64_t>(f->integer("outputRank", 1), 0, rank);
        const auto middle = dims.end() - static_cast<std::ptrdiff_t>(out);
        fill(guess(f->op == "Times" ? Ints(dims.begin(), middle) : Ints(middle, dims.end())));
      } else {
        return;
      }
    }
    local[name] = values_.make(inner, name, in);
  }

  Ops& ops_;
  GraphBuilder& g_;
  Values& values_;
  const Circle& circle_;
  Samples& made_;
  std::vector<Delay> delays_;
  bool backwards_ = false;
  std::vector<std::string> sequences_, others_;
  std::map<std::string, Ints> extents_;
};

}  // namespace

void make_loop(Ops& ops, Values& values, const Circle& circle, Samples& made) {
  Loop(ops, values, circle, made).write();
}

}  // namespace etalon::cntk
