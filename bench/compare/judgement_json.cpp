#include "bench/compare/judgement_json.h"

#include <nlohmann/json.hpp>

#include "engine/numerics/element.h"

namespace etalon {

using nlohmann::json;

json number_json(double x) {
  if (is_nan(x)) return "nan";
  if (!is_finite(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

json judgement_json(const Judgement& j, const std::string& value, const Tensor& got) {
  json o = {{"name", value},
            {"verdict", name(j.verdict)},
            {"cause", j.cause},
            {"sentence", j.sentence},
            {"elements", j.stats.elements},
            {"contract", j.contract},
            {"bits_equal", j.bits_equal}};
  if (j.carried) o["carried"] = true;
  if (!got) return o;
  o["dtype"] = name(got.dtype());
  o["shape"] = std::vector<std::int64_t>(got.shape().dims().begin(), got.shape().dims().end());
  const ErrorStats& s = j.stats;
  if (is_floating(got.dtype())) {
    const double n = s.elements == 0 ? 1 : static_cast<double>(s.elements);
    o["max_ulp"] = number_json(s.max_ulp);
    o["mean_ulp"] = number_json(s.mean_ulp);
    o["p999_ulp"] = number_json(s.p999_ulp);
    o["correctly_rounded"] = static_cast<double>(s.correctly_rounded) / n;
    o["bound_ulp"] = number_json(j.bound_ulp);
    o["bound_used"] = number_json(j.bound_used);
    o["terms"] = j.terms;
    o["non_finite"] = s.non_finite();
    json edges = json::array(), counts = json::array();
    for (int b = 0; b < ErrorStats::kBuckets; ++b) {
      if (b + 1 < ErrorStats::kBuckets) edges.push_back(ErrorStats::edge(b));
      counts.push_back(s.histogram[static_cast<std::size_t>(b)]);
    }
    o["ulp_histogram"] = {{"edges", edges}, {"counts", counts}};
  } else {
    o["different"] = s.different;
  }
  if (s.worst >= 0 && s.worst < got.numel()) {
    json index = json::array();
    std::int64_t rest = s.worst;
    const Shape& shape = got.shape();
    for (int a = 0; a < shape.rank(); ++a) {
      const std::int64_t inner = shape.product(a + 1, shape.rank());
      index.push_back(rest / inner);
      rest %= inner;
    }
    o["worst"] = {{"index", index},
                  {"got", fmt::format("{:a}", load_as_double(got, s.worst))},
                  {"expected", fmt::format("{:a}", s.worst_exact)}};
  }
  return o;
}

}  // namespace etalon
