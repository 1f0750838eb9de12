#include "bench/compare/ulp.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/numerics/element.h"
#include "engine/numerics/fp.h"

namespace etalon {
namespace {

class Collector {
 public:
  explicit Collector(DType dtype) : dtype_(dtype) {}

  void add(std::int64_t index, double got, double rounded, double exact) {
    ++s_.elements;
    if (!is_floating(dtype_)) {
      if (got == rounded) return;
      ++s_.different;
      keep_worst(index, exact, 1);
      return;
    }
    if (is_nan(got) || is_nan(rounded)) {
      if (is_nan(got) && is_nan(rounded)) {
        ++s_.correctly_rounded;
        return;
      }
      ++s_.nan_mismatch;
      keep_worst(index, exact, kInfinity);
      return;
    }
    if (!is_finite(got) || !is_finite(rounded)) {
      if (got == rounded) {
        ++s_.correctly_rounded;
        return;
      }
      ++s_.inf_mismatch;
      keep_worst(index, exact, kInfinity);
      return;
    }
    if (got == rounded) ++s_.correctly_rounded;
    const double e = error_in_ulp(got, exact, dtype_);
    errors_.push_back(e);
    sum_ += e;
    keep_worst(index, exact, e);
    int bucket = 0;
    while (bucket + 1 < ErrorStats::kBuckets && e > ErrorStats::edge(bucket)) ++bucket;
    ++s_.histogram[static_cast<std::size_t>(bucket)];
  }

  ErrorStats finish() {
    if (!errors_.empty()) {
      s_.mean_ulp = sum_ / static_cast<double>(errors_.size());
      s_.max_ulp = *std::max_element(errors_.begin(), errors_.end());
      // The smallest error that at least 99.9 % of the elements do not exceed.
      const auto rank =
          static_cast<std::size_t>(std::ceil(0.999 * static_cast<double>(errors_.size())) - 1);
      std::nth_element(errors_.begin(), errors_.begin() + static_cast<std::ptrdiff_t>(rank),
                       errors_.end());
      s_.p999_ulp = errors_[rank];
    }
    return s_;
  }

 private:
  void keep_worst(std::int64_t index, double exact, double error) {
    if (s_.worst >= 0 && !(error > worst_error_)) return;
    worst_error_ = error;
    s_.worst = index;
    s_.worst_exact = exact;
  }

  DType dtype_;
  ErrorStats s_;
  std::vector<double> errors_;
  double sum_ = 0, worst_error_ = 0;
};

}  // namespace

double ErrorStats::edge(int bucket) { return std::ldexp(0.5, bucket); }

double error_in_ulp(double got, double exact, DType dtype) {
  if (is_nan(got) || is_nan(exact)) return is_nan(got) && is_nan(exact) ? 0 : kInfinity;
  if (!is_finite(got) || !is_finite(exact)) return got == exact ? 0 : kInfinity;
  return abs_of(got - exact) / ulp_of(exact, dtype);
}

ErrorStats error_stats(const Tensor& got, std::span<const TruthPair> truth) {
  Collector c(got.dtype());
  for (const TruthPair& t : truth) c.add(t.index, load_as_double(got, t.index), t.rounded, t.exact);
  return c.finish();
}

ErrorStats error_stats(const Tensor& got, const Tensor& rounded, const Tensor& exact) {
  Collector c(got.dtype());
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    const double r = load_as_double(rounded, i);
    c.add(i, load_as_double(got, i), r, exact ? load_as_double(exact, i) : r);
  }
  return c.finish();
}

std::int64_t bits_equal(const Tensor& a, const Tensor& b) {
  if (!(a.type() == b.type())) return 0;
  const auto size = static_cast<std::size_t>(size_bytes(a.dtype()));
  std::int64_t equal = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i)
    if (std::memcmp(a.bytes().data() + static_cast<std::size_t>(i) * size,
                    b.bytes().data() + static_cast<std::size_t>(i) * size, size) == 0)
      ++equal;
  return equal;
}

}  // namespace etalon
