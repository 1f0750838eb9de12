#include <algorithm>
#include <cmath>

#include "bench/compare/judge.h"
#include "engine/numerics/element.h"

namespace etalon {

// Tries every hypothesis on the small sample; true when one is named.
bool Judge::explain(std::size_t o, std::string& cause, Verdict& verdict) {
  const std::vector<Point> plain_points =
      points_of(static_cast<int>(o), got_[o], hypothesis_rigorous_, hypothesis_likely_);
  const Fit plain = fit_of(plain_points, plain_points, options_.lambda);
  if (plain.energy == 0) return false;
  const double n = static_cast<double>(plain_points.size());
  const double rho = std::min(0.25, std::pow(10.0, -18.0 / std::max(1.0, n)));
  if (replay_contracts(o, plain_points, cause)) {
    verdict = Verdict::lower_precision;
    return true;
  }
  double best = kInfinity;
  for (const Hypothesis& h : hypotheses()) {
    try {
      const std::vector<TensorType> types = eval_.output_types(h.layer);
      if (o >= types.size() || !(types[o] == got_[o].type())) continue;
      // A changed axis makes other slices: then the sample says nothing, unless it is all of
      // them.
      std::vector<std::int64_t> slices = hypothesis_sample_;
      const std::int64_t ours = eval_.slices(layer_, options_.contract);
      if (const std::int64_t n_h = eval_.slices(h.layer, options_.contract); n_h != ours) {
        if (static_cast<std::int64_t>(slices.size()) != ours) continue;
        slices = sample_slices(n_h, n_h);
      }
      const auto likely = eval_.bounds(h.layer, options_.contract, likely_model(), slices);
      if (likely.size() != hypothesis_likely_.size()) continue;
      std::vector<Point> points = points_of(static_cast<int>(o), got_[o], likely, likely);
      if (h.flush_outputs)
        for (Point& p : points)
          if (abs_of(p.real) < smallest_normal(got_[o].dtype())) {
            p.real = 0;
            p.likely = p.bound = 0;
          }
      // A replay without a bound explains nothing.
      const auto open_ended = [](const Point& p) { return !(p.likely < kInfinity); };
      if (std::ranges::count_if(points, open_ended) >
          std::ranges::count_if(plain_points, open_ended))
        continue;
      const Fit fit = fit_of(points, plain_points, options_.lambda);
      if (!(fit.energy < best)) continue;
      const bool fits = fit.within && fit.energy <= (plain.within ? rho : 0.5) * plain.energy;
      // What a replay leaves may be a second, far smaller difference (a folded normalisation).
      const bool dominates = fit.energy <= std::min(1e-4, rho) * plain.energy;
      if (!fits && !dominates) continue;
      best = fit.energy;
      cause = h.cause;
      verdict = h.verdict;
    } catch (const Error&) {
      // The changed layer does not exist (a padding wider than its kernel): not the cause.
    }
  }
  return best < kInfinity;
}

const std::vector<Hypothesis>& Judge::hypotheses() {
  if (!hypotheses_) hypotheses_ = hypotheses_for(layer_);
  return *hypotheses_;
}

// Narrower accumulators, bit for bit: nothing else makes 99 % of the bits of such a contract.
bool Judge::replay_contracts(std::size_t o, const std::vector<Point>& points, std::string& cause) {
  if (layer_.op->nature != OpNature::sum || got_[o].dtype() != DType::f32) return false;
  if (points.size() < 8) return false;
  // A few slices tell most contracts off.
  std::vector<std::int64_t> probe(
      hypothesis_sample_.begin(),
      hypothesis_sample_.begin() +
          static_cast<std::ptrdiff_t>(std::min<std::size_t>(8, hypothesis_sample_.size())));
  for (const ContractReplay& replay : narrow_contracts(terms_)) {
    // What the contract asks for is no lower precision.
    if (replay.contract.acc == options_.contract.acc &&
        replay.contract.round == options_.contract.round)
      continue;
    try {
      if (share_of_bits(o, replay.contract, probe) < 0.75) continue;
      if (share_of_bits(o, replay.contract, hypothesis_sample_) < 0.99) continue;
      cause = replay.cause;
      return true;
    } catch (const Error&) {
      // The contract does not fit this layer.
    }
  }
  return false;
}

double Judge::share_of_bits(std::size_t o, const Contract& c,
                            const std::vector<std::int64_t>& slices) const {
  const std::vector<Tensor> ours = eval_.bits(layer_, c, slices);
  std::int64_t same = 0, all = 0;
  for (const OutputBound& b : hypothesis_likely_)
    if (b.output == static_cast<int>(o) && in_slices(b.index, o, slices)) {
      ++all;
      if (same_bits(got_[o], ours[o], b.index)) ++same;
    }
  return share(same, all);
}

// All outputs (or the outputs before a bias was added) are numbers of a narrower format: f32
// arithmetic leaves a share of 2^-13 (f16) or 2^-16 (bf16) of such numbers by chance.
bool Judge::stored_narrower(std::size_t o, const std::vector<Point>& points,
                            std::string& cause) const {
  if (got_[o].dtype() != DType::f32 || got_[o].numel() < 8) return false;
  const auto y = got_[o].data<float>();
  for (const DType d : {DType::bf16, DType::f16}) {
    std::size_t fits = 0, counted = 0, all = 0;
    for (const Point& p : points) {
      if (p.got == 0 || !p.finite()) continue;
      const bool fit = round_to(p.got, d) == p.got;
      // Where the right value is such a number anyway (sign, one_hot, counts) it tells nothing.
      const double right = load_as_double(truth_.rounded[o], p.index);
      if (round_to(right, d) != right) {
        ++counted;
        fits += fit ? 1 : 0;
      }
      all += fit ? 0 : 1;
    }
    if (counted >= 8 && fits == counted && all == 0) {
      cause = fmt::format("every output is a number of {}: sums are accumulated or stored in it",
                          etalon::name(d));
      return true;
    }
  }
  const std::string_view op = layer_.op->name;
  if ((op == "conv" || op == "gemm") && layer_.inputs.size() > 2 && layer_.inputs[2] &&
      layer_.inputs[2].dtype() == DType::f32) {
    const auto b = layer_.inputs[2].data<float>();
    const Shape& s = got_[o].shape();
    const auto inner = static_cast<std::size_t>(op == "conv" ? s.product(2, s.rank()) : 1);
    const auto channels = static_cast<std::size_t>(s[1]);
    if (b.size() != channels) return false;
    for (const DType d : {DType::bf16, DType::f16}) {
      std::size_t fits = 0, counted = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double sum = static_cast<double>(y[i]) - static_cast<double>(b[i / inner % channels]);
        if (abs_of(sum) < abs_of(static_cast<double>(y[i])) * 0x1p-8) continue;
        ++counted;
        // The final addition rounded once to f32.
        if (abs_of(round_to(sum, d) - sum) <= ulp_of(static_cast<double>(y[i]), DType::f32)) ++fits;
      }
      if (counted >= 8 && fits == counted) {
        cause =
            fmt::format("every output less its bias is a number of {}: sums are accumulated in it",
                        etalon::name(d));
        return true;
      }
    }
  }
  return false;
}

}  // namespace etalon
