#include "bench/compare/lipschitz.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/activation.h"

namespace etalon {
namespace {

struct Row {
  std::string_view op;
  double slope;
};

// Of functions without parameters, or whose parameters only shift or cut them.
constexpr Row kSlopes[] = {
    {"identity", 1},   {"dropout", 1},      {"clip", 1},  {"relu", 1},        {"hard_tanh", 1},
    {"abs", 1},        {"neg", 1},          {"tanh", 1},  {"softsign", 1},    {"sin", 1},
    {"cos", 1},        {"atan", 1},         {"asinh", 1}, {"log_sigmoid", 1},  // sigmoid(-x)
    {"sigmoid", 0.25}, {"hard_swish", 1.5},  // x/3 + 1/2 up to x = 3
    {"erf", 1.1284},                         // 2/sqrt(pi) = 1.12837917
    {"gelu", 1.13},                          // 1.12890 at sqrt(2); the tanh form 1.12903
    {"mish", 1.09},                          // 1.08850 at 1.4907
    {"silu", 1.1},  // of x sigmoid(alpha x), whatever alpha: 1.09984 at alpha x = 2.3994
};

double size(float x) { return std::fabs(static_cast<double>(x)); }

}  // namespace

std::optional<Lipschitz> lipschitz_of(std::string_view op, const Params& params) {
  if (op == "elu") return Lipschitz{std::max(1.0, size(params.as<EluParams>().alpha))};
  if (op == "leaky_relu") return Lipschitz{std::max(1.0, size(params.as<LeakyReluParams>().alpha))};
  if (op == "hard_sigmoid") return Lipschitz{size(params.as<HardSigmoidParams>().alpha)};
  if (op == "selu") {
    const auto& p = params.as<SeluParams>();
    return Lipschitz{size(p.gamma) * std::max(1.0, size(p.alpha))};
  }
  if (op == "celu") {  // e^(x/alpha) left of zero
    if (!(params.as<CeluParams>().alpha > 0)) return std::nullopt;
    return Lipschitz{};
  }
  if (op == "softplus") {  // sigmoid(beta x); past the threshold log(1 + e^-t)/beta is left out
    const auto& p = params.as<SoftplusParams>();
    const double t = static_cast<double>(p.threshold);
    const double jump = std::isinf(t) ? 0 : std::log1p(std::exp(-t)) / size(p.beta);
    if (!(jump < HUGE_VAL)) return std::nullopt;
    return Lipschitz{1, jump * (1 + 0x1p-20)};
  }
  const auto* const row = std::ranges::find(kSlopes, op, &Row::op);
  if (row == std::end(kSlopes)) return std::nullopt;
  return Lipschitz{row->slope};
}

}  // namespace etalon
