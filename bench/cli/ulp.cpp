// etalon ulp A B: two saved tensors against each other, in ULP.
//
// B is what A is measured from. Where B's type is wider (f64 beside f32), it stands for the exact
// values: A is correctly rounded where it is B rounded once to A's type. Where the types are the
// same, that share is the share of equal values.
#include "bench/compare/ulp.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/measures.h"
#include "bench/cli/terminal.h"
#include "bench/report/record.h"
#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "engine/numerics/fp.h"
#include "importers/importers.h"

namespace etalon::cli {
namespace {

struct Args {
  std::string a, b;
  std::string fail_above;
};

const Tensor& partner(const NamedTensor& t, const TensorList& others, std::size_t count,
                      const std::string& file) {
  for (const NamedTensor& o : others)
    if (o.name == t.name || (others.size() == 1 && count == 1)) return o.tensor;
  throw bad_input("{}: has no tensor '{}'", file, t.name);
}

std::string place(const Tensor& t, std::int64_t index) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(t.shape().rank()));
  for (int axis = t.shape().rank() - 1; axis >= 0; --axis) {
    at[static_cast<std::size_t>(axis)] = index % t.shape()[axis];
    index /= t.shape()[axis];
  }
  return fmt::format("[{}]", fmt::join(at, ","));
}

int run(const Args& args, const Globals& g) {
  const TensorList as = load_tensors(args.a), bs = load_tensors(args.b);
  if (as.empty()) throw bad_input("{}: holds no tensor", args.a);
  nlohmann::json record = base_record(g.command_line, g.isa);
  nlohmann::json& list = record["ulp"]["tensors"] = nlohmann::json::array();
  Table table({{"tensor"},
               {"elements", Table::Align::right},
               {"max ULP", Table::Align::right},
               {"mean", Table::Align::right},
               {"99.9 %", Table::Align::right},
               {"rounded right", Table::Align::right},
               {"inf, NaN", Table::Align::right},
               {"worst at"},
               {"A"},
               {"B"}});
  bool holds = true;
  double most = kInfinity;
  if (!args.fail_above.empty()) {
    const auto end = args.fail_above.data() + args.fail_above.size();
    const auto read = std::from_chars(args.fail_above.data(), end, most);
    if (read.ec != std::errc{} || read.ptr != end || !(most >= 0))
      throw usage_error("--fail-above {}: a number of ULP, 0 or more", args.fail_above);
  }
  if (as.size() > 1 || bs.size() > 1)
    for (const NamedTensor& b : bs)
      if (std::ranges::find(as, b.name, &NamedTensor::name) == as.end())
        throw bad_input("{}: has no tensor '{}'", args.a, b.name);
  for (const NamedTensor& named : as) {
    const Tensor& a = named.tensor;
    const Tensor& b = partner(named, bs, as.size(), args.b);
    if (a.shape() != b.shape())
      throw bad_input("{} has shape {}, {} has {}; the two must be alike", args.a,
                      to_string(a.shape()), args.b, to_string(b.shape()));
    if (is_floating(a.dtype()) != is_floating(b.dtype()) ||
        (is_floating(a.dtype()) ? info(b.dtype()).precision_bits < info(a.dtype()).precision_bits
                                : a.dtype() != b.dtype()))
      throw bad_input("{} is {}, {} is {}; B's type must be A's or a wider one", args.a,
                      name(a.dtype()), args.b, name(b.dtype()));
    ErrorStats s;
    if (is_floating(a.dtype())) {
      Tensor exact = Tensor::uninitialized(DType::f64, a.shape());
      Tensor rounded = Tensor::uninitialized(DType::f64, a.shape());
      for (std::int64_t i = 0; i < a.numel(); ++i) {
        const double x = load_as_double(b, i);
        exact.mutable_data<double>()[static_cast<std::size_t>(i)] = x;
        rounded.mutable_data<double>()[static_cast<std::size_t>(i)] =
            b.dtype() == a.dtype() ? x : round_to(x, a.dtype());
      }
      s = error_stats(a, rounded, exact);
    } else {
      s = error_stats(a, b, Tensor());
    }
    const double n = std::max<double>(1, static_cast<double>(s.elements));
    const bool floating = is_floating(a.dtype());
    const double right = (floating ? static_cast<double>(s.correctly_rounded)
                                   : n - static_cast<double>(s.different)) /
                         n;
    const bool worst = s.worst >= 0 && (s.max_ulp > 0 || s.non_finite() > 0 || s.different > 0);
    const double worst_a = worst ? load_as_double(a, s.worst) : 0;
    const double worst_b = worst ? load_as_double(b, s.worst) : 0;
    table.row({named.name.empty() ? "-" : named.name, fmt::to_string(s.elements),
               floating ? fmt::format("{:.6g}", s.max_ulp) : "-",
               floating ? fmt::format("{:.4g}", s.mean_ulp) : "-",
               floating ? fmt::format("{:.6g}", s.p999_ulp) : "-",
               fmt::format("{:.4f} %", 100 * right), fmt::to_string(s.non_finite()),
               worst ? place(a, s.worst) : "", worst ? fmt::format("{:a}", worst_a) : "",
               worst ? fmt::format("{:a}", worst_b) : ""});
    nlohmann::json j = {
        {"name", named.name},
        {"dtype", name(a.dtype())},
        {"from", name(b.dtype())},
        {"elements", s.elements},
        {"correctly_rounded", right},
        {"bits_equal", a.dtype() == b.dtype() ? static_cast<double>(bits_equal(a, b)) / n : right},
        {"inf_mismatch", s.inf_mismatch},
        {"nan_mismatch", s.nan_mismatch},
        {"different", s.different}};
    if (floating) {
      j["max_ulp"] = s.max_ulp;
      j["mean_ulp"] = s.mean_ulp;
      j["p999_ulp"] = s.p999_ulp;
      j["histogram"] = s.histogram;
    }
    if (worst)
      j["worst"] = {{"index", s.worst},
                    {"place", place(a, s.worst)},
                    {"a", fmt::format("{:a}", worst_a)},
                    {"b", fmt::format("{:a}", worst_b)}};
    list.push_back(std::move(j));
    if (!args.fail_above.empty())
      holds = holds && s.max_ulp <= most && s.non_finite() == 0 && s.different == 0;
  }
  table.print();
  record["ulp"]["holds"] = holds;
  if (!g.json_path.empty()) write_record(g.json_path, record);
  return holds ? 0 : 1;
}

}  // namespace

Action ulp_command(Options& options) {
  auto a = std::make_shared<Args>();
  options.word("A", a->a, "what was computed: npy, npz or safetensors")
      .word("B", a->b, "what it is measured from; f64 stands for exact values")
      .value("--fail-above", a->fail_above, "X", "exit code 1 when an error is larger, in ULP");
  return [a](const Globals& g) { return run(*a, g); };
}

}  // namespace etalon::cli
