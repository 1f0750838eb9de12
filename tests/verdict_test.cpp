// Verdicts on planted faults: each is named for what it is, none ends as explained; and on clean
// results in foreign orders: none is called wrong. Run with -s for the table of detection rates.
#include "bench/compare/verdict.h"

#include <doctest/doctest.h>

#include "bench/compare/hypotheses.h"
#include "bench/compare/param_fields.h"
#include "engine/ops/normalization.h"
#include "engine/ops/pool.h"
#include "tests/verdict_data.h"

using namespace etalon;
using namespace etalon::verdict_data;

namespace {

Tensor converted(const Tensor& t, const std::function<float(float)>& f) {
  Tensor copy = t.clone();
  for (float& x : copy.mutable_data<float>()) x = f(x);
  return copy;
}
float tf32(float x) { return float_of(bits_of(x) & 0xffffe000U); }
float bf16(float x) { return static_cast<float>(round_to(static_cast<double>(x), DType::bf16)); }
float flush(float x) { return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }

struct Planted {
  const char* name;
  Verdict verdict;
  const char* cause;  // the judgement's cause contains it
  std::function<Layer(std::int64_t, std::int64_t, std::uint64_t)> layer;
  std::function<std::vector<Tensor>(const Layer&, const Contract&)> faulty;
  bool trees = true;   // every sum has K terms, so that a tree over K fits it
  bool fades = false;  // lies inside the bound for any order from some thousand terms on
};

Layer plain(std::int64_t c, std::int64_t k, std::uint64_t seed) { return conv_layer(c, k, seed); }
// Inputs around 2^-127 against weights around 1: the inputs are subnormal, not the sums of many.
Layer tiny(std::int64_t c, std::int64_t k, std::uint64_t seed) {
  return conv_layer(c, k, seed, 0x1p-125);
}

// A row of K numbers is normalised; epsilon counts beside a variance of about 0.05.
Layer normalised(std::int64_t c, std::int64_t k, std::uint64_t seed) {
  Layer layer;
  layer.op = &get_op("layer_norm");
  layer.params = Params(LayerNormParams{});
  const std::int64_t width = c * k * k;
  layer.inputs.push_back(noise({8, width}, seed * 3 + 1));
  layer.inputs.push_back(noise({width}, seed * 3 + 2));
  layer.inputs.push_back(noise({width}, seed * 3 + 3));
  return layer;
}
// Windows of K elements, of which a margin lies in the padding.
Layer averaged(std::int64_t c, std::int64_t k, std::uint64_t seed) {
  AvgPoolParams p;
  const std::int64_t taps = c * k * k, height = taps == 25 ? 5 : taps == 800 ? 25 : 64;
  p.kernel = {height, taps / height};
  p.pads_begin = p.pads_end = {1, 1};
  Layer layer;
  layer.op = &get_op("avg_pool");
  layer.params = Params(p);
  layer.inputs.push_back(noise({2, 2, height + 1, taps / height + 1}, seed));
  return layer;
}
// Gates of K = inputs + 8 terms, scaled so that they do not saturate.
Layer recurrent(const char* op, std::int64_t gates, std::int64_t terms, std::uint64_t seed) {
  Layer layer;
  layer.op = &get_op(op);
  layer.params = layer.op->defaults();
  constexpr std::int64_t kHidden = 8;
  const double scale = 6 / std::sqrt(static_cast<double>(terms));
  layer.inputs.push_back(noise({3, 2, terms - kHidden}, seed * 5 + 1));
  layer.inputs.push_back(noise({1, gates * kHidden, terms - kHidden}, seed * 5 + 2, scale));
  layer.inputs.push_back(noise({1, gates * kHidden, kHidden}, seed * 5 + 3));
  layer.inputs.push_back(noise({1, 2 * gates * kHidden}, seed * 5 + 4));
  return layer;
}

std::vector<Tensor> with_param(const Layer& l, std::string_view field, FieldValue value,
                               const Contract& c) {
  Layer f = l.share();
  f.params = with_field(l.params, field, std::move(value));
  return suspect(f, c);
}

Contract with(const Contract& order, const char* fields) {
  Contract c = order;
  const Contract f = Contract::parse(fields);
  c.acc = f.acc;
  return c;
}

const std::vector<Planted>& planted() {
  static const std::vector<Planted> list = {
      {"TF32-truncated inputs", Verdict::lower_precision, "TF32", plain,
       [](const Layer& l, const Contract& c) {
         Layer f = l.share();
         f.inputs[0] = converted(l.inputs[0], tf32);
         f.inputs[1] = converted(l.inputs[1], tf32);
         return suspect(f, c);
       },
       true, true},
      {"bf16 inputs", Verdict::lower_precision, "bf16", plain,
       [](const Layer& l, const Contract& c) {
         Layer f = l.share();
         f.inputs[0] = converted(l.inputs[0], bf16);
         f.inputs[1] = converted(l.inputs[1], bf16);
         return suspect(f, c);
       },
       true, true},
      {"bf16 accumulation", Verdict::lower_precision, "bf16", plain,
       [](const Layer& l, const Contract& c) { return suspect(l, with(c, "acc=bf16")); }},
      {"f16 accumulation", Verdict::lower_precision, "f16", plain,
       [](const Layer& l, const Contract& c) { return suspect(l, with(c, "acc=f16")); }},
      {"flushed subnormals", Verdict::lower_precision, "flushed", tiny,
       [](const Layer& l, const Contract& c) {
         Layer f = l.share();
         for (Tensor& t : f.inputs) t = converted(t, flush);
         std::vector<Tensor> y = suspect(f, c);
         y[0] = converted(y[0], flush);
         return y;
       }},
      {"symmetric for asymmetric padding", Verdict::wrong, "padding", plain,
       [](const Layer& l, const Contract& c) {
         Layer f = l.share();
         f.params =
             with_field(with_field(l.params, "pads_begin", Ints{2, 2}), "pads_end", Ints{1, 1});
         return suspect(f, c);
       }},
      {"flipped kernel", Verdict::wrong, "kernel is flipped", plain,
       [](const Layer& l, const Contract& c) {
         Layer f = l.share();
         f.inputs[1] = l.inputs[1].clone();
         auto w = f.inputs[1].mutable_data<float>();
         const auto taps = static_cast<std::size_t>(l.inputs[1].shape().product(2, 4));
         for (std::size_t i = 0; i < w.size(); i += taps)
           std::reverse(w.data() + i, w.data() + i + taps);
         return suspect(f, c);
       }},
      {"bias left out", Verdict::wrong, "bias is not added", plain,
       [](const Layer& l, const Contract& c) {
         Layer f = l.share();
         f.inputs[2] = Tensor();
         return suspect(f, c);
       }},
      {"epsilon 1e-3 for 1e-5 (layer_norm)", Verdict::wrong, "epsilon is 0.001, not 1e-05",
       normalised,
       [](const Layer& l, const Contract& c) { return with_param(l, "eps", 1e-3F, c); }},
      {"padding counted (avg_pool)", Verdict::wrong, "count_include_pad is taken as true", averaged,
       [](const Layer& l, const Contract& c) {
         return with_param(l, "count_include_pad", true, c);
       },
       false},
      {"gate order ifco for iofc (lstm)", Verdict::wrong, "in the order ifco, not iofc",
       [](std::int64_t c, std::int64_t k, std::uint64_t seed) {
         return recurrent("lstm", 4, c * k * k, seed);
       },
       [](const Layer& l, const Contract& c) {
         return with_param(l, "gates", std::string("ifco"), c);
       }},
      {"gate order rzh for zrh (gru)", Verdict::wrong, "in the order rzh, not zrh",
       [](std::int64_t c, std::int64_t k, std::uint64_t seed) {
         return recurrent("gru", 3, c * k * k, seed);
       },
       [](const Layer& l, const Contract& c) {
         return with_param(l, "gates", std::string("rzh"), c);
       },
       false},
      {"TF32-truncated inputs (lstm)", Verdict::lower_precision, "TF32",
       [](std::int64_t c, std::int64_t k, std::uint64_t seed) {
         return recurrent("lstm", 4, c * k * k, seed);
       },
       [](const Layer& l, const Contract& c) {
         Layer f = l.share();
         for (std::size_t i = 0; i < 3; ++i) f.inputs[i] = converted(l.inputs[i], tf32);
         return suspect(f, c);
       }},
  };
  return list;
}

// Orders that the suspect may use; never the reference's.
std::vector<Contract> foreign_orders(std::int64_t k, std::uint64_t seed, std::size_t count = 4,
                                     bool trees = true) {
  std::vector<Contract> list;
  if (trees) list = {tree_contract(k, seed, "seq"), tree_contract(k, seed + 100, "fma=off")};
  list.push_back(Contract::parse("order=lanes:7"));
  list.push_back(Contract::parse("order=pairwise:3,fma=off"));
  list.resize(std::min(count, list.size()));
  return list;
}

}  // namespace

namespace {

void plant_all(std::uint64_t seeds, std::size_t orders, bool all_at_all_lengths) {
  std::string table = "\n| fault | K = 25 | K = 800 | K = 4608 |\n|---|---|---|---|\n";
  for (const Planted& fault : planted()) {
    table += fmt::format("| {} |", fault.name);
    for (const Size& size : kSizes) {
      if (!all_at_all_lengths && size.k() > 1000 && !fault.fades) {
        table += " |";
        continue;
      }
      int named = 0, trials = 0;
      for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const Layer layer = fault.layer(size.channels, size.kernel, seed);
        for (const Contract& order : foreign_orders(size.k(), seed, orders, fault.trees)) {
          const Judgement j = judge_layer(layer, fault.faulty(layer, order), judge_options())[0];
          ++trials;
          const bool right =
              j.verdict == fault.verdict && j.cause.find(fault.cause) != std::string::npos;
          named += right ? 1 : 0;
          CHECK_MESSAGE(j.verdict != Verdict::explained, fault.name << " K=" << size.k());
          CHECK_MESSAGE(j.verdict != Verdict::identical, fault.name << " K=" << size.k());
          if (!right)
            MESSAGE(fault.name << " K=" << size.k() << " seed " << seed << ": " << name(j.verdict)
                               << " (" << j.cause << ")");
        }
      }
      table += fmt::format(" {}/{} |", named, trials);
      CHECK_MESSAGE(named == trials, fault.name << " K=" << size.k());
    }
    table += "\n";
  }
  MESSAGE(table);
}

}  // namespace

TEST_CASE("verdict: planted faults are named at K = 25, 800, 4608, and none is explained") {
  plant_all(1, 1, false);
}

TEST_SUITE("long") {
  TEST_CASE("verdict: planted faults, four foreign orders and three seeds each") {
    plant_all(3, 4, true);
  }
}

TEST_CASE("verdict: clean results in foreign orders are explained, never wrong") {
  double used = 0, likely = 0;
  for (const bool positive : {false, true})
    for (const Size& size : kSizes) {
      const std::uint64_t seed = positive ? 2 : 1;
      const Layer layer = conv_layer(size.channels, size.kernel, seed, 1, positive);
      for (const Contract& order : foreign_orders(size.k(), seed, size.k() > 1000 ? 2 : 4)) {
        const Judgement j = judge_layer(layer, suspect(layer, order), judge_options())[0];
        CHECK_MESSAGE((j.verdict == Verdict::explained || j.verdict == Verdict::identical),
                      short_name(order)
                          << " K=" << size.k() << ": " << name(j.verdict) << " " << j.cause);
        if (order.order.kind == OrderKind::tree) {
          CHECK(j.verdict == Verdict::explained);
          CHECK(j.bits_equal < 1);
        }
        used = std::max(used, j.bound_used);
        likely = std::max(likely, j.likely_used);
      }
    }
  CHECK(used > 0);
  CHECK(used < 1);
  MESSAGE("clean results use at most " << used << " of the rigorous and " << likely
                                       << " of the probabilistic bound");
}

TEST_CASE("verdict: clean recurrent cells in foreign orders are explained") {
  for (const char* op : {"rnn", "gru", "lstm"})
    for (const std::int64_t terms : {25, 800}) {
      const Layer layer = recurrent(op, op[0] == 'r' ? 1 : op[0] == 'g' ? 3 : 4, terms, 4);
      for (const Contract& order :
           {tree_contract(terms, 9, "fma=off"), Contract::parse("order=lanes:7")}) {
        const std::vector<Tensor> y = suspect(layer, order);
        for (const Judgement& j : judge_layer(layer, y, judge_options())) {
          CHECK_MESSAGE(j.verdict == Verdict::explained,
                        op << " K=" << terms << ": " << name(j.verdict) << " " << j.cause);
          CHECK(j.bound_used < 1);
          CHECK(j.bound_used > 1e-5);  // a bound that says something
        }
      }
    }
}

TEST_CASE("verdict: identical names the order") {
  const Layer layer = conv_layer(32, 5, 3);
  for (const char* text : {"seq", "fma=off", "order=blocks:256", "order=blocks:144",
                           "order=lanes:8", "walk=rsc", "walk=c16rs,order=blocks:400",
                           "order=pairwise:1", "order=blocks:400+400", "walk=c8rs,fma=off"}) {
    const Contract c = Contract::parse(text);
    const Judgement j = judge_layer(layer, suspect(layer, c), judge_options())[0];
    CHECK_MESSAGE(j.verdict == Verdict::identical, std::string(text) << ": " << j.cause);
    CHECK_MESSAGE(suspect(layer, Contract::parse(j.contract))[0].bytes().size() > 0, j.contract);
    CHECK(hash_tensor(suspect(layer, Contract::parse(j.contract))[0]) ==
          hash_tensor(suspect(layer, c)[0]));
  }
}

TEST_CASE("verdict: a changed weight bit is named through the parameters, not the bound") {
  for (const Size& size : kSizes) {
    const Layer layer = conv_layer(size.channels, size.kernel, 5);
    Layer f = layer.share();
    f.inputs[1] = layer.inputs[1].clone();
    float& w = f.inputs[1].mutable_data<float>()[7];
    w = float_of(bits_of(w) ^ 1U);
    const std::vector<Tensor> y = suspect(f, tree_contract(size.k(), 3, "seq"));
    JudgeOptions o = judge_options();
    o.known_cause = "parameter w is not the file's: element 7, bit 0";
    const Judgement j = judge_layer(layer, y, o)[0];
    CHECK(j.verdict == Verdict::wrong);
    CHECK(j.cause.find("element 7, bit 0") != std::string::npos);
  }
}

TEST_CASE("verdict: undecided where the bound says nothing") {
  // Two huge terms that cancel: in another order they overflow.
  Layer layer;
  layer.op = &get_op("gemm");
  layer.params = Params(GemmParams{});
  layer.inputs.push_back(Tensor::of<float>({1, 3}, {0x1p127F, 0x1p127F, -0x1p127F}));
  layer.inputs.push_back(Tensor::of<float>({3, 1}, {1, 1, 1}));
  std::vector<Tensor> y;
  y.push_back(Tensor::of<float>({1, 1}, {INFINITY}));
  CHECK(judge_layer(layer, y, judge_options())[0].verdict != Verdict::explained);
  y[0] = Tensor::of<float>({1, 1}, {0x1.1p127F});
  CHECK(judge_layer(layer, y, judge_options())[0].verdict == Verdict::undecided);
  // Total cancellation: the bound is larger than the output.
  layer.inputs[0] = Tensor::of<float>({1, 4}, {1, 0x1p-25F, -1, 0x1p-60F});
  layer.inputs[1] = Tensor::of<float>({4, 1}, {1, 1, 1, 1});
  y[0] = Tensor::of<float>({1, 1}, {0x1p-24F});
  const Judgement j = judge_layer(layer, y, judge_options())[0];
  CHECK(j.verdict == Verdict::undecided);
  // NaN where a number belongs is wrong whatever the bound.
  const Layer sound = conv_layer(1, 5, 1);
  std::vector<Tensor> nan = suspect(sound, Contract::seq());
  Tensor broken = nan[0].clone();
  broken.mutable_data<float>()[3] = NAN;
  nan[0] = std::move(broken);
  const Judgement n = judge_layer(sound, nan, judge_options())[0];
  CHECK(n.verdict == Verdict::wrong);
  CHECK(n.stats.nan_mismatch == 1);
}

TEST_CASE("verdict: a contract's own rounding and flushing in another order is explained") {
  // Judged by the bound for nearest, sums rounded upward would be wrong, and flushed ones less
  // precise than they should be.
  for (const char* fields : {"round=ru", "round=rz", "subnormals=flush"}) {
    const bool flushes = Contract::parse(fields).subnormals == Subnormals::flush;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      Layer layer;
      layer.op = &get_op("gemm");
      layer.params = Params(GemmParams{});
      // Few terms of one sign: errors of one direction add up. Or products about 2^-126.
      layer.inputs.push_back(noise({9, 3}, seed * 3 + 1, flushes ? 0x1p-59 : 1, true));
      layer.inputs.push_back(noise({3, 9}, seed * 3 + 2, flushes ? 0x1p-59 : 1, true));
      JudgeOptions o = judge_options();
      o.contract = Contract::parse(fields);
      const std::vector<Tensor> y =
          suspect(layer, tree_contract(3, seed, (std::string(fields) + ",fma=off").c_str()));
      const Judgement j = judge_layer(layer, y, o)[0];
      CHECK_MESSAGE((j.verdict == Verdict::explained || j.verdict == Verdict::identical),
                    std::string(fields)
                        << " seed " << seed << ": " << name(j.verdict) << ", " << j.cause);
    }
  }
}

TEST_CASE("verdict: other bits than a tensor core's contract are no statement") {
  const Layer layer = conv_layer(32, 5, 3);
  JudgeOptions o = judge_options();
  o.contract = Contract::parse("order=tensorcore:ampere");
  CHECK(judge_layer(layer, suspect(layer, o.contract), o)[0].verdict == Verdict::identical);
  const Judgement j =
      judge_layer(layer, suspect(layer, Contract::parse("order=tensorcore:hopper")), o)[0];
  CHECK(j.verdict == Verdict::undecided);
  CHECK(j.cause.find("tensor core") != std::string::npos);
}
