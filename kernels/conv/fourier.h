// Fourier transforms over a number system: the one text of the definition (fft_definition.h says
// the order) and of the vector kernels, for which a number is a register of tiles.
#pragma once

#include <cstdint>

#include "engine/numerics/host_device.h"
#include "engine/numerics/isa_namespace.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// Roots of a transform of at most n. `exact` says that they are of the number system's format, so
// that to read one is no rounding.
struct Roots {
  const double* cosine = nullptr;
  const double* sine = nullptr;
  std::int64_t n = 1;
  bool exact = true;
};

template <class A>
struct ComplexOf {
  typename A::V re, im;
};

template <class A>
class Fourier {
 public:
  using V = typename A::V;
  using C = ComplexOf<A>;

  ETALON_HD Fourier(A& a, const Roots& roots) : a_(a), roots_(roots) {}

  ETALON_HD C add(const C& x, const C& y) const { return {a_.add(x.re, y.re), a_.add(x.im, y.im)}; }
  ETALON_HD C sub(const C& x, const C& y) const { return {a_.sub(x.re, y.re), a_.sub(x.im, y.im)}; }
  ETALON_HD C conj(const C& x) const { return {x.re, a_.neg(x.im)}; }
  // w^k x, w = exp(-2 pi i / n), or its conjugate; 0 <= k < n / 2.
  ETALON_HD C turn(const C& x, std::int64_t k, std::int64_t n, bool inverse) const {
    if (k == 0) return x;
    if (4 * k == n) {
      if (inverse) return {a_.neg(x.im), x.re};
      return {x.im, a_.neg(x.re)};
    }
    const std::int64_t at = k * (roots_.n / n);
    const V c = root(roots_.cosine[at]), s = root(inverse ? roots_.sine[at] : -roots_.sine[at]);
    return {a_.fma(c, x.re, a_.neg(a_.mul(s, x.im))), a_.fma(c, x.im, a_.mul(s, x.re))};
  }

  // X = complex transform of n elements in[i * step], into out[0 .. n).
  ETALON_HD void complex(std::int64_t n, const C* in, std::int64_t step, C* out,
                         bool inverse) const {
    if (n == 1) {
      out[0] = in[0];
      return;
    }
    complex(n / 2, in, 2 * step, out, inverse);
    complex(n / 2, in + step, 2 * step, out + n / 2, inverse);
    for (std::int64_t k = 0; k < n / 2; ++k) {
      const C e = out[k], t = turn(out[k + n / 2], k, n, inverse);
      out[k] = add(e, t);
      out[k + n / 2] = sub(e, t);
    }
  }

  // X_0 .. X_(n/2) of n real elements. work: n + 2 log2 n elements.
  ETALON_HD void real(std::int64_t n, const V* in, std::int64_t step, C* out, C* work) const {
    const V zero = a_.input(0);
    if (n == 1) {
      out[0] = {in[0], zero};
      return;
    }
    if (n == 2) {
      out[0] = {a_.add(in[0], in[step]), zero};
      out[1] = {a_.sub(in[0], in[step]), zero};
      return;
    }
    C *e = work, *o = work + n / 4 + 1, *rest = work + n / 2 + 2;
    real(n / 2, in, 2 * step, e, rest);
    real(n / 2, in + step, 2 * step, o, rest);
    out[0] = {a_.add(e[0].re, o[0].re), zero};
    out[n / 2] = {a_.sub(e[0].re, o[0].re), zero};
    for (std::int64_t k = 1; k < n / 4; ++k) {
      const C t = turn(o[k], k, n, false);
      out[k] = add(e[k], t);
      out[n / 2 - k] = conj(sub(e[k], t));
    }
    out[n / 4] = {e[n / 4].re, a_.neg(o[n / 4].re)};
  }

  // n real elements, n times too large, from X_0 .. X_(n/2). work as above.
  ETALON_HD void real_inverse(std::int64_t n, const C* in, V* out, std::int64_t step,
                              C* work) const {
    if (n == 1) {
      out[0] = in[0].re;
      return;
    }
    if (n == 2) {
      out[0] = a_.add(in[0].re, in[1].re);
      out[step] = a_.sub(in[0].re, in[1].re);
      return;
    }
    const V zero = a_.input(0);
    C *e = work, *o = work + n / 4 + 1, *rest = work + n / 2 + 2;
    e[0] = {a_.add(in[0].re, in[n / 2].re), zero};
    o[0] = {a_.sub(in[0].re, in[n / 2].re), zero};
    for (std::int64_t k = 1; k < n / 4; ++k) {
      const C other = conj(in[n / 2 - k]);
      e[k] = add(in[k], other);
      o[k] = turn(sub(in[k], other), k, n, true);
    }
    const C middle = in[n / 4];
    e[n / 4] = {a_.add(middle.re, middle.re), zero};
    const V twice = a_.add(middle.im, middle.im);
    o[n / 4] = {a_.neg(twice), zero};
    real_inverse(n / 2, e, out, 2 * step, rest);
    real_inverse(n / 2, o, out + step, 2 * step, rest);
  }

  // data [ny, nx] -> spectrum [ny, nx/2 + 1]; work: room(ny, nx) elements.
  ETALON_HD void forward(std::int64_t ny, std::int64_t nx, const V* data, C* spectrum,
                         C* work) const {
    const std::int64_t half = nx / 2 + 1;
    for (std::int64_t i = 0; i < ny; ++i) real(nx, data + i * nx, 1, spectrum + i * half, work);
    columns(ny, half, spectrum, work, false);
  }
  ETALON_HD void inverse(std::int64_t ny, std::int64_t nx, C* spectrum, V* data, C* work) const {
    const std::int64_t half = nx / 2 + 1;
    columns(ny, half, spectrum, work, true);
    for (std::int64_t i = 0; i < ny; ++i)
      real_inverse(nx, spectrum + i * half, data + i * nx, 1, work);
  }
  ETALON_HD static std::int64_t room(std::int64_t ny, std::int64_t nx) {
    return 2 * (ny > nx ? ny : nx) + 64;
  }

 private:
  ETALON_HD V root(double w) const {
    const V v = a_.input(w);
    return roots_.exact ? v : a_.mul(v, a_.constant(1));  // one rounding
  }
  ETALON_HD void columns(std::int64_t ny, std::int64_t half, C* spectrum, C* work,
                         bool inverse) const {
    if (ny == 1) return;
    for (std::int64_t j = 0; j < half; ++j) {
      complex(ny, spectrum + j, half, work, inverse);
      for (std::int64_t i = 0; i < ny; ++i) spectrum[i * half + j] = work[i];
    }
  }

  A& a_;
  const Roots& roots_;
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
