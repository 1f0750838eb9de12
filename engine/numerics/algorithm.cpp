#include "engine/numerics/algorithm.h"

#include <fmt/format.h>

#include <charconv>
#include <numeric>
#include <utility>

#include "engine/core/error.h"

namespace etalon {
namespace {

[[noreturn]] void too_large() {
  throw usage_error("contract field points: their fractions leave 64 bits; take smaller ones");
}

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) too_large();
  return r;
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) too_large();
  return r;
}

std::int64_t whole(std::string_view field, std::string_view text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size())
    throw usage_error("contract field {}: '{}' is not a whole number", field, text);
  return n;
}

Fraction parse_fraction(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return {whole("points", text)};
  const std::int64_t q = whole("points", text.substr(slash + 1));
  if (q <= 0) throw usage_error("contract field points: '{}' has a denominator below 1", text);
  return {whole("points", text.substr(0, slash)), q};
}

// 0, then a and -a, then 1/a and -1/a, a = 1, 2, 3, ...: small numbers of few bits first. In the
// reciprocal sequence the partner of a comes before -a: 2, -1/2, -2, 1/2, whose products and sums
// stay smaller when the last pair is cut off.
std::vector<Fraction> usual_points(std::int64_t count, bool reciprocal) {
  std::vector<Fraction> all{{0}, {1}, {-1}};
  for (std::int64_t a = 2; std::ssize(all) < count; ++a) {
    if (reciprocal)
      all.insert(all.end(), {{a}, {-1, a}, {-a}, {1, a}});
    else
      all.insert(all.end(), {{a}, {-a}, {1, a}, {-1, a}});
  }
  all.resize(static_cast<std::size_t>(count));
  return all;
}

std::vector<Fraction> parse_points(std::string_view text, std::int64_t count) {
  if (text.empty() || text == "usual") return usual_points(count, false);
  if (text == "reciprocal") return usual_points(count, true);
  std::vector<Fraction> points;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    const Fraction f = parse_fraction(text.substr(at, end - at));
    for (const Fraction& other : points)
      if (f == other) throw usage_error("contract field points: '{}' is given twice", to_string(f));
    points.push_back(f);
    at = end + 1;
  }
  if (std::ssize(points) != count)
    throw usage_error(
        "contract field points: '{}' names {} points, this tile takes {} beside the one at "
        "infinity",
        text, points.size(), count);
  return points;
}

std::string points_text(const Algorithm& a) {
  std::string points;
  for (const Fraction& f : a.points) points += (points.empty() ? "" : ":") + to_string(f);
  return points;
}

using Option = std::pair<std::string_view, std::string_view>;

// The value of an option; what was asked for is taken out of the list.
std::string_view take(std::vector<Option>& options, std::string_view name) {
  for (std::size_t i = 0; i < options.size(); ++i)
    if (options[i].first == name) {
      const std::string_view value = options[i].second;
      options.erase(options.begin() + static_cast<std::ptrdiff_t>(i));
      return value;
    }
  return {};
}

void parse_winograd(std::string_view size, std::vector<Option>& options, Algorithm& a) {
  const std::size_t slash = size.find('/');
  if (slash == std::string_view::npos)
    throw usage_error(
        "contract field algo: winograd takes M/R (outputs of a tile, extent of the kernel), as in "
        "winograd:4/3, got 'winograd:{}'",
        size);
  a.m = whole("algo", size.substr(0, slash));
  a.r = whole("algo", size.substr(slash + 1));
  if (a.m < 1 || a.r < 2 || a.m > kMaxAlpha || a.r > kMaxAlpha || a.alpha() > kMaxAlpha)
    throw usage_error(
        "contract field algo: winograd:{} needs M of at least 1, R of at least 2, and M + R - 1 of "
        "at most {}",
        size, kMaxAlpha);
  a.points = parse_points(take(options, "points"), a.alpha() - 1);
  const std::string_view transform = take(options, "transform");
  if (transform == "f64")
    a.transform = DType::f64;
  else if (!transform.empty() && transform != "f32")
    throw usage_error("contract field transform: '{}' is neither f32 nor f64", transform);
  const std::string_view channels = take(options, "channels");
  if (channels == "pairwise") {
    a.run = 8;
  } else if (channels.starts_with("pairwise:")) {
    a.run = whole("channels", channels.substr(9));
    if (a.run < 1 || (a.run & (a.run - 1)) != 0)
      throw usage_error("contract field channels: '{}' needs a run that is a power of two",
                        channels);
  } else if (!channels.empty() && channels != "seq") {
    throw usage_error("contract field channels: '{}' is neither seq nor pairwise:B", channels);
  }
}

void parse_fft(std::string_view size, std::vector<Option>& options, Algorithm& a) {
  if (size != "full") {
    a.n = whole("algo", size);
    if (a.n < 4 || a.n > kMaxFft || (a.n & (a.n - 1)) != 0)
      throw usage_error(
          "contract field algo: fft:{} is neither fft:full nor a power of two from 4 to {}", size,
          kMaxFft);
  }
  const std::string_view radix = take(options, "radix");
  if (!radix.empty() && radix != "2")
    throw usage_error("contract field radix: '{}' is not known; 2 is", radix);
}

}  // namespace

Fraction::Fraction(std::int64_t numerator, std::int64_t denominator)
    : p(numerator), q(denominator) {
  const std::int64_t g = std::gcd(p, q);
  if (g != 0) {
    p /= g;
    q /= g;
  }
  if (q < 0) {
    p = -p;
    q = -q;
  }
}
Fraction operator+(const Fraction& a, const Fraction& b) {
  return {plus(times(a.p, b.q), times(b.p, a.q)), times(a.q, b.q)};
}
Fraction operator-(const Fraction& a, const Fraction& b) { return a + Fraction{-b.p, b.q}; }
Fraction operator*(const Fraction& a, const Fraction& b) {
  return {times(a.p, b.p), times(a.q, b.q)};
}
Fraction operator/(const Fraction& a, const Fraction& b) {
  if (b.p == 0) throw internal_error("a fraction divided by zero");
  return {times(a.p, b.q), times(a.q, b.p)};
}
std::string to_string(const Fraction& f) {
  return f.q == 1 ? fmt::format("{}", f.p) : fmt::format("{}/{}", f.p, f.q);
}

std::string_view name(Algorithm::Kind kind) {
  switch (kind) {
    case Algorithm::Kind::direct:
      return "direct";
    case Algorithm::Kind::im2col:
      return "im2col";
    case Algorithm::Kind::winograd:
      return "winograd";
    case Algorithm::Kind::fft:
      break;
  }
  return "fft";
}

Algorithm Algorithm::parse(std::string_view text) {
  std::vector<Option> options;
  const std::string_view head = text.substr(0, text.find(','));
  for (std::size_t at = head.size() + 1; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    const std::size_t eq = std::min(item.find('='), item.size());
    options.emplace_back(item.substr(0, eq), item.substr(std::min(eq + 1, item.size())));
    at = end + 1;
  }
  const std::size_t colon = head.find(':');
  const std::string_view kind = head.substr(0, colon);
  const std::string_view size = colon == std::string_view::npos ? "" : head.substr(colon + 1);
  Algorithm a;
  if ((kind == "direct" || kind == "im2col") && colon == std::string_view::npos) {
    a.kind = kind == "direct" ? Kind::direct : Kind::im2col;
  } else if (kind == "winograd") {
    a.kind = Kind::winograd;
    parse_winograd(size, options, a);
  } else if (kind == "fft") {
    a.kind = Kind::fft;
    parse_fft(size, options, a);
  } else {
    throw usage_error(
        "contract field algo: '{}' is not one of direct, im2col, winograd:M/R, fft:N, fft:full",
        head);
  }
  if (!options.empty())
    throw usage_error("contract field {}: algo={} has no such parameter", options[0].first, kind);
  return a;
}

std::string brief(const Algorithm& a) {
  if (a.kind == Algorithm::Kind::fft)
    return fmt::format("fft:{}", a.n == 0 ? "full" : fmt::to_string(a.n));
  if (a.kind != Algorithm::Kind::winograd) return to_string(a);
  std::string text = fmt::format("winograd:{}/{}", a.m, a.r);
  const std::int64_t count = a.alpha() - 1;
  if (a.points != usual_points(count, false))
    text += ",points=" +
            (a.points == usual_points(count, true) ? std::string("reciprocal") : points_text(a));
  if (a.transform != DType::f32) text += ",transform=f64";
  if (a.run != 0) text += fmt::format(",channels=pairwise:{}", a.run);
  return text;
}

std::string to_string(const Algorithm& a) {
  if (a.kind == Algorithm::Kind::winograd)
    return fmt::format("winograd:{}/{},points={},transform={},channels={}", a.m, a.r,
                       points_text(a), name(a.transform),
                       a.run == 0 ? "seq" : fmt::format("pairwise:{}", a.run));
  if (a.kind == Algorithm::Kind::fft)
    return fmt::format("fft:{},radix=2", a.n == 0 ? "full" : fmt::to_string(a.n));
  return std::string(name(a.kind));
}

}  // namespace etalon
