// The questions of the lab: answers hold what the engine says elsewhere, trees add up, and what
// cannot be computed gets a sentence. The same text runs in a browser (lab_browser_test.py).
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/lab/answer.h"
#include "bench/lab/problem.h"
#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "kernels/kernels.h"

using namespace etalon;
using nlohmann::json;

namespace {

json ask(const json& question) { return json::parse(lab::answer(question.dump())); }

const json kSmall = {{"channels", 5}, {"height", 9}, {"width", 7}, {"filters", 2},
                     {"kernel", 3},   {"pad", 1},    {"seed", 7}};

json question(const char* what, const char* contract, const char* data = "noise") {
  json q = kSmall;
  q["do"] = what;
  q["contract"] = contract;
  q["data"] = data;
  return q;
}

}  // namespace

TEST_CASE("lab: a convolution has the hash that the executor's fastest kernel gives") {
  int compared = 0;
  std::string seq;
  for (const char* contract :
       {"seq", "order=lanes:8", "order=pairwise:1", "order=blocks:16", "order=splitk:4,fma=off",
        "acc=bf16", "algo=im2col", "exact", "algo=winograd:4/3", "algo=fft:16",
        "order=tensorcore:hopper:tf32", "order=tensorcore:volta:f16,acc=f16"}) {
    CAPTURE(contract);
    const json q = question("conv", contract);
    const json a = ask(q);
    REQUIRE_MESSAGE(!a.contains("error"), a.dump());
    const lab::ConvProblem p = lab::read_problem(q);
    RunOptions options;
    options.contract = p.contract;
    const Tensor* inputs[] = {&p.x, &p.w};
    const OpRun run = run_op(conv_op(), p.params, inputs, all_kernels(), options);
    CHECK(a["hash"] == to_string(hash_tensor(run.outputs[0])));
    if (std::string(contract) == "seq") seq = a["hash"];
    if (std::string(contract) == "order=lanes:8") CHECK(a["hash"] != seq);
    ++compared;
  }
  CHECK(compared == 12);
}

TEST_CASE("lab: the transposed form is the engine's own, counted as it is summed") {
  json q = question("conv", "seq", "cancelling");
  q.update({{"form", "transposed"}, {"stride", 2}, {"filters", 3}, {"dilation", 2}});
  const json plain = [&] {
    json conv = q;
    conv.erase("form");
    return ask(conv);
  }();
  for (const char* contract : {"seq", "order=pairwise:1", "exact"}) {
    CAPTURE(contract);
    q["contract"] = contract;
    q["do"] = "conv";
    const json a = ask(q);
    REQUIRE_MESSAGE(!a.contains("error"), a.dump());
    const lab::ConvProblem p = lab::read_problem(q);
    RunOptions options;
    options.contract = p.contract;
    const Tensor* inputs[] = {&p.x, &p.w};
    const OpRun run = run_op(conv_transpose_op(), p.params, inputs, all_kernels(), options);
    CHECK(a["hash"] == to_string(hash_tensor(run.outputs[0])));
    CHECK(a["shape"] == json({1, 3, 2 * 8 + 5 - 2, 2 * 6 + 5 - 2}));
    CHECK(a["hash"] != plain["hash"]);
    if (p.contract.exact()) {
      CHECK(a["stats"]["correctly_rounded"] == a["stats"]["elements"]);
      continue;
    }
    CHECK(a["bound_ulp"].get<double>() >= a["stats"]["max_ulp"].get<double>());
    // Pairs of channels have equal weights here too: terms cancel, and errors grow in ULP.
    CHECK(a["stats"]["max_ulp"].get<double>() > 16);
    // Each tree has the terms of its output, all of them the counted products.
    double products = 0;
    std::int64_t most = 0;
    q["do"] = "tree";
    const std::int64_t outputs = a["stats"]["elements"];
    for (std::int64_t at = 0; at < outputs / 3; ++at) {
      q["at"] = at;
      const json t = ask(q);
      REQUIRE_MESSAGE(!t.contains("error"), t.dump());
      const json& root = t["nodes"][t["root"].get<std::size_t>()];
      CHECK(root[4] == a["y"][static_cast<std::size_t>(at)]);
      std::int64_t terms = 0;
      for (const json& n : t["nodes"]) terms += n[0] == 2 || n[0] == 3 ? 1 : 0;
      products += static_cast<double>(terms);
      most = std::max(most, terms);
    }
    q.erase("at");
    CHECK(a["cost"]["multiplications"] == 3 * products);
    CHECK(a["k"] == most);
  }
}

TEST_CASE("lab: an output that no tap reaches is the sum of nothing, and drawn as that") {
  json convolved = question("tree", "seq");
  convolved.update({{"kernel", 1}, {"pad", 1}});  // the corner lies in the padding
  json transposed = question("tree", "seq");
  transposed.update({{"form", "transposed"}, {"kernel", 1}, {"pad", 0}, {"stride", 3}, {"at", 1}});
  for (const json& q : {convolved, transposed}) {
    const json t = ask(q);
    REQUIRE_MESSAGE(!t.contains("error"), t.dump());
    REQUIRE(t["nodes"].size() == 1);
    CHECK(t["nodes"][0][4] == 0);
    CHECK(t["exact"] == 0);
  }
}

TEST_CASE("lab: under exact every output is correctly rounded, under others errors are counted") {
  const json exact = ask(question("conv", "exact", "cancelling"));
  CHECK(exact["stats"]["correctly_rounded"] == exact["stats"]["elements"]);
  CHECK(exact["stats"]["max_ulp"].get<double>() <= 0.5);
  const json seq = ask(question("conv", "seq", "cancelling"));
  CHECK(seq["stats"]["max_ulp"].get<double>() > 16);  // large terms, small sums
  CHECK(seq["bound_ulp"].get<double>() >= seq["stats"]["max_ulp"].get<double>());
  CHECK(seq["exact_hash"] == exact["hash"]);
}

TEST_CASE("lab: rounded factors are rounded once, and their error is counted from the data") {
  json q = question("conv", "exact");
  const json plain = ask(q);
  for (const auto& [format, bits] : {std::pair{"bf16", 8}, std::pair{"f16", 11}}) {
    CAPTURE(std::string(format));
    q["factors"] = format;
    q["contract"] = "exact";
    const json a = ask(q);
    REQUIRE_MESSAGE(!a.contains("error"), a.dump());
    CHECK(a["hash"] != plain["hash"]);
    CHECK(a["exact_hash"] == plain["hash"]);
    CHECK(a["stats"]["mean_ulp"].get<double>() > 8);
    // A product of factors of 8 or 11 bits is exact in f32, so fusing changes nothing.
    q["contract"] = "seq";
    const json fused = ask(q);
    q["contract"] = "order=seq,fma=off";
    CHECK(fused["hash"] == ask(q)["hash"]);
    CHECK(!fused.contains("bound_ulp"));
    const lab::ConvProblem p = lab::read_problem(q);
    const lab::ConvProblem drawn = lab::read_problem(question("conv", "seq"));
    int changed = 0;
    for (std::size_t i = 0; i < p.x.data<float>().size(); ++i) {
      const float before = drawn.x.data<float>()[i], after = p.x.data<float>()[i];
      CHECK(std::abs(after - before) <= std::ldexp(std::abs(before), -bits));
      changed += after != before ? 1 : 0;
    }
    CHECK(changed > 100);
  }
  // The tree's errors explain the sum of the factors it was given.
  q["do"] = "tree";
  q["contract"] = "seq";
  q["at"] = 31;
  const json t = ask(q);
  REQUIRE_MESSAGE(!t.contains("error"), t.dump());
  double born = 0;
  for (const json& n : t["nodes"]) born += n[5].get<double>();
  const json& root = t["nodes"][t["root"].get<std::size_t>()];
  CHECK(root[4].get<double>() - t["exact"].get<double>() == doctest::Approx(born).epsilon(1e-6));
}

TEST_CASE("lab: relative errors are of the whole output, and costs need no computing") {
  const json seq = ask(question("conv", "seq")), exact = ask(question("conv", "exact"));
  // Every output is within half a unit in its last place, at most 2^-24 of its size.
  CHECK(exact["stats"]["relative"].get<double>() <= 1);
  CHECK(exact["stats"]["relative"].get<double>() > 0.1);
  CHECK(seq["stats"]["relative"] > exact["stats"]["relative"]);
  json large = question("cost", "algo=winograd:4/3");
  large.update({{"channels", 64}, {"height", 64}, {"width", 64}, {"filters", 64}});
  const json winograd = ask(large);
  REQUIRE_MESSAGE(!winograd.contains("error"), winograd.dump());
  large["contract"] = "seq";
  const json direct = ask(large);
  CHECK(direct["elements"] == 64 * 64 * 64);
  CHECK(direct["cost"]["multiplications"] == 64.0 * 64 * 64 * 64 * 9);
  CHECK(winograd["cost"]["multiplications"] < direct["cost"]["multiplications"]);
  CHECK(ask(question("conv", "algo=fft:16"))["cost"] ==
        ask(question("cost", "algo=fft:16"))["cost"]);
}

TEST_CASE("lab: the outputs of a question have the hash that its answer names") {
  const json q = question("conv", "algo=winograd:4/3,points=0:1:2:3:4");
  const Tensor y = lab::outputs(q.dump());
  CHECK(ask(q)["hash"] == to_string(hash_tensor(y)));
  CHECK(ask(q)["hash"] != ask(question("conv", "algo=winograd:4/3"))["hash"]);
}

TEST_CASE("lab: the tree of an output adds up to it, and the errors born explain its own") {
  for (const char* contract : {"seq", "order=lanes:4", "order=pairwise:1", "order=seq,fma=off",
                               "algo=winograd:2/3", "algo=fft:8"}) {
    CAPTURE(contract);
    json q = question("tree", contract);
    q["at"] = 31;
    const json t = ask(q);
    REQUIRE_MESSAGE(!t.contains("error"), t.dump());
    q["do"] = "conv";
    const double y = ask(q)["y"][31];
    const json& nodes = t["nodes"];
    CHECK(nodes[t["root"].get<std::size_t>()][4] == y);
    // Every node is what its operands give, but for the error born there.
    int rounded = 0;
    for (const json& n : nodes) {
      const int kind = n[0];
      if (kind == 0) continue;
      // An operand is a place, -2 - place with the sign turned, or -1: a zero that nothing made.
      const auto value = [&](int i) {
        const int at = n[i];
        if (at == -1) return 0.0;
        const double v = nodes[static_cast<std::size_t>(at <= -2 ? -2 - at : at)][4];
        return at <= -2 ? -v : v;
      };
      const double made = n[4].get<double>(), born = n[5].get<double>();
      CHECK(std::abs(born) <= std::abs(made) * 0x1p-24);
      if (kind == 4) {  // a coefficient, p / q
        CHECK(made - born == doctest::Approx(value(1) / value(2)).epsilon(1e-15));
        continue;
      }
      const double product = kind == 1 ? 0 : value(1) * value(2);
      const double exact = kind == 1   ? value(1) + value(2)
                           : kind == 2 ? product
                                       : product + value(3);
      REQUIRE((kind == 1 || kind == 2 || kind == 3));
      const double size = std::abs(product) + (kind == 1   ? std::abs(value(1)) + std::abs(value(2))
                                               : kind == 3 ? std::abs(value(3))
                                                           : 0.0);
      CHECK(std::abs(made - born - exact) <= size * 0x1p-50);
      rounded += n[5] != 0 ? 1 : 0;
    }
    CHECK(rounded > 5);
    // In a chain of sums every error reaches the end whole.
    if (std::string(contract) == "seq") {
      double born = 0;
      for (const json& n : nodes) born += n[5].get<double>();
      CHECK(y - t["exact"].get<double>() == doctest::Approx(born).epsilon(1e-6));
    }
  }
}

TEST_CASE("lab: a tensor core's sum is drawn block by block, whose errors are the output's") {
  for (const auto& [contract, block] :
       {std::pair{"order=tensorcore:hopper:f16", 16}, std::pair{"order=tensorcore:ampere:tf32", 4},
        std::pair{"order=tensorcore:volta:f16,acc=f16", 4}}) {
    CAPTURE(std::string(contract));
    json q = question("tree", contract);
    q["at"] = 31;
    const json t = ask(q);
    REQUIRE_MESSAGE(!t.contains("error"), t.dump());
    q["do"] = "conv";
    const json a = ask(q);
    // No bound of f32 sums holds for factors of fewer bits.
    CHECK(!a.contains("bound_ulp"));
    const double y = a["y"][31];
    const json& nodes = t["nodes"];
    CHECK(nodes[t["root"].get<std::size_t>()][4] == y);
    double born = 0;
    std::int64_t blocks = 0;
    for (const json& n : nodes) {
      CHECK((n[0] == 0 || n[0] == 6));
      if (n[0] != 6) continue;
      ++blocks;
      born += n[5].get<double>();
    }
    CHECK(blocks == (a["k"].get<std::int64_t>() + block - 1) / block);
    CHECK(y - t["exact"].get<double>() == doctest::Approx(born).epsilon(1e-6));
  }
}

TEST_CASE("lab: the trees of two orders differ on the same data") {
  json q = question("tree", "seq");
  const json chain = ask(q);
  q["contract"] = "order=pairwise:1";
  const json tree = ask(q);
  CHECK(chain["nodes"].size() != tree["nodes"].size());
  CHECK(chain["exact"] == tree["exact"]);
}

TEST_CASE("lab: what cannot be is refused in one sentence that names the field") {
  const std::pair<json, const char*> faults[] = {
      {{{"do", "conv"}, {"kernel", 9}, {"height", 4}, {"pad", 0}}, "kernel: 9 by 9"},
      {{{"do", "conv"}, {"kernel", 3}, {"dilation", 4}, {"height", 6}, {"pad", 0}}, "dilation 4"},
      {{{"do", "conv"}, {"channels", 0}}, "channels: 0"},
      {{{"do", "conv"}, {"channels", 1e9}}, "channels: 1000000000"},
      {{{"do", "conv"}, {"height", "x"}}, "height: \"x\""},
      {{{"do", "conv"}, {"data", "gold"}}, "data: 'gold'"},
      {{{"do", "conv"}, {"factors", "f8"}}, "factors: 'f8'"},
      {{{"do", "conv"}, {"contract", "order=up"}}, "order"},
      {{{"do", "conv"}, {"contract", "algo=winograd:4/3"}, {"stride", 2}}, "stride"},
      {{{"do", "conv"},
        {"channels", 64},
        {"height", 64},
        {"width", 64},
        {"filters", 64},
        {"kernel", 7},
        {"pad", 3}},
       "products"},
      {{{"do", "conv"}, {"data", "image"}}, "image"},
      {{{"do", "conv"}, {"data", "image"}, {"image", json::object()}}, "image: it has no width"},
      {{{"do", "conv"}, {"data", "image"}, {"image", {{"width", 4}}}}, "image: it has no height"},
      {{{"do", "conv"}, {"data", "image"}, {"image", {{"rgb", json::array()}}}}, "image: it has"},
      {{{"do", "tree"}, {"contract", "exact"}}, "exact"},
      {{{"do", "tree"}, {"at", 100000}}, "at:"},
      {{{"do", "tree"}, {"at", "last"}}, "at: there is no output \"last\""},
      {{{"do", "spectrum"}, {"at", -1}, {"contract", "algo=fft:16"}}, "at:"},
      {{{"do", "conv"}, {"form", "deconv"}}, "form: 'deconv'"},
      {{{"do", "conv"}, {"form", "transposed"}, {"height", 2}, {"kernel", 1}, {"pad", 4}},
       "pad: 4 cuts the whole output"},
      {{{"do", "conv"}, {"form", "transposed"}, {"contract", "algo=fft:16"}},
       "contract: algo=fft:16,radix=2 is a convolution's"},
      {{{"do", "conv"}, {"form", "transposed"}, {"contract", "order=tensorcore:hopper:tf32"}},
       "tensorcore"},
      {{{"do", "conv"}, {"values", 0}}, "values: 0"},
      {{{"do", "conv"}, {"chanels", 2}}, "chanels: no question has this field"},
      {{{"do", "dance"}}, "dance"},
  };
  for (const auto& [q, word] : faults) {
    CAPTURE(q.dump());
    const json a = ask(q);
    REQUIRE(a.contains("error"));
    CHECK_MESSAGE(a["error"].get<std::string>().find(word) != std::string::npos,
                  a["error"].get<std::string>());
  }
  CHECK(json::parse(lab::answer("[1")).contains("error"));
  const std::string deep =
      R"({"do": "conv", "image": )" + std::string(60000, '[') + std::string(60000, ']') + "}";
  CHECK(json::parse(lab::answer(deep))["error"].get<std::string>().find("nests") !=
        std::string::npos);
  CHECK_THROWS_WITH_AS(lab::outputs(deep), doctest::Contains("nests"), Error);
}
