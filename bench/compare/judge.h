// How a verdict is reached: the parts that verdict.cpp, sample.cpp, replay.cpp and
// usual_contracts.cpp share. verdict.h is what others include.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/compare/hypotheses.h"
#include "bench/compare/verdict.h"

namespace etalon {

// One output element of the sample.
struct Point {
  std::int64_t index = 0, terms = 1;
  double got = 0, real = 0, bound = 0, likely = 0;
  double residual() const { return got - real; }
  bool finite() const { return is_finite(got) && is_finite(real); }
  // A mismatch of infinities or NaN that the bound does not excuse.
  bool non_finite_mismatch() const {
    if (finite()) return false;
    if (is_nan(got) && is_nan(real)) return false;
    return got != real && bound < kInfinity;
  }
  bool outside() const { return non_finite_mismatch() || (finite() && abs_of(residual()) > bound); }
};

std::vector<Point> points_of(int output, const Tensor& got,
                             const std::vector<OutputBound>& rigorous,
                             const std::vector<OutputBound>& likely);

struct Fit {
  bool within = false;  // of the probabilistic bound
  double energy = 0;    // sum of (residual / likely)^2
  double used = 0;      // largest |residual| / likely
};

// `weight` gives each point's scale, so that energies under different hypotheses compare.
Fit fit_of(const std::vector<Point>& points, const std::vector<Point>& weight, double lambda);

// Everything of one layer that does not depend on which output is judged.
class Judge {
 public:
  Judge(const Layer& layer, const std::vector<Tensor>& got, const JudgeOptions& options)
      : layer_(layer),
        got_(got),
        options_(options),
        eval_(*options.registry, options.threads, options.isa) {}

  std::vector<Judgement> run();

 private:
  bool given(std::size_t o) const { return o < got_.size() && got_[o]; }
  static double share(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
  }
  AnyOrderModel likely_model() const {
    AnyOrderModel m = model_;
    m.lambda = options_.lambda;
    return m;
  }
  static bool same_bits(const Tensor& a, const Tensor& b, std::int64_t i) {
    const auto size = static_cast<std::size_t>(size_bytes(a.dtype()));
    return std::memcmp(a.bytes().data() + static_cast<std::size_t>(i) * size,
                       b.bytes().data() + static_cast<std::size_t>(i) * size, size) == 0;
  }

  // verdict.cpp
  void judge_by_bits();
  void judge_output(std::size_t o);
  void fill_stats(Judgement& j, std::size_t o, const std::vector<Point>& points) const;
  // What is known, or the hypothesis whose replay has the very bits of output o; empty: none.
  std::string cause_by_equal_replay(std::size_t o);
  void judge_integers(Judgement& j, std::size_t o);
  void judge_floats(Judgement& j, std::size_t o, const std::vector<Point>& points);
  void identical(Judgement& j, const std::string& contract) const;
  void conclude(Judgement& j, Verdict verdict, const std::string& cause) const;

  // sample.cpp
  void take_sample();
  void add_outliers(std::int64_t slices);
  void add_slice(std::vector<std::int64_t>& to, std::int64_t index, std::size_t o,
                 std::int64_t slices) const;
  void add_worst(std::size_t o, std::int64_t slices);
  bool in_slices(std::int64_t index, std::size_t o, const std::vector<std::int64_t>& slices) const;

  // usual_contracts.cpp
  void find_contract();
  bool fits(const Contract& c, const std::vector<std::int64_t>& slices) const;

  // replay.cpp
  bool explain(std::size_t o, std::string& cause, Verdict& verdict);
  const std::vector<Hypothesis>& hypotheses();
  bool replay_contracts(std::size_t o, const std::vector<Point>& points, std::string& cause);
  double share_of_bits(std::size_t o, const Contract& c,
                       const std::vector<std::int64_t>& slices) const;
  // lower_precision or undecided; nullopt where the outputs are not so, or too far off.
  std::optional<Verdict> stored_narrower(std::size_t o, const std::vector<Point>& points,
                                         std::string& cause) const;

  const Layer& layer_;
  const std::vector<Tensor>& got_;
  const JudgeOptions& options_;
  LayerEvaluator eval_;
  std::vector<Judgement> results_;
  std::vector<std::size_t> open_;  // outputs still to be judged
  AnyOrderModel model_;
  std::int64_t terms_ = 1, slices_ = 1;
  bool sampled_ = false;
  std::vector<std::int64_t> sample_, hypothesis_sample_;
  std::vector<OutputBound> rigorous_, likely_, hypothesis_rigorous_, hypothesis_likely_;
  LayerEvaluator::Truth truth_;
  std::optional<Contract> contract_;
  std::optional<std::vector<Hypothesis>> hypotheses_;
};

}  // namespace etalon
