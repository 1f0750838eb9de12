// Functions that ONNX lacks, by those that it has; in f64, so that each is rounded once at the end.
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/onnx/export.h"

namespace etalon::onnx_format {
namespace {

using Name = std::string;

// f64 arithmetic on input 0; the outputs are of its own type.
class Doubles {
 public:
  explicit Doubles(NodeWriter& w) : w_(w), x_(w.step("Cast", {w.input(0)}, "to", kDouble)) {}
  const Name& x() const { return x_; }
  Name number(double v) { return w_.constant("number", Tensor::of<double>({}, {v})); }
  Name step(std::string_view type, const std::vector<Name>& in) { return w_.step(type, in); }
  void give(const Name& y) {
    set(w_.write("Cast", {y}, w_.outputs()), "to", std::int64_t{onnx_of_dtype(w_.dtype())});
  }

 private:
  static constexpr std::int64_t kDouble = 11;
  NodeWriter& w_;
  Name x_;
};

void exp2(NodeWriter& w) {
  Doubles d(w);
  d.give(d.step("Pow", {d.number(2), d.x()}));
}

void log_of_base(NodeWriter& w, double base) {
  Doubles d(w);
  d.give(d.step("Div", {d.step("Log", {d.x()}), d.number(std::log(base))}));
}

void cbrt(NodeWriter& w) {
  Doubles d(w);
  const Name root = d.step("Pow", {d.step("Abs", {d.x()}), d.number(1.0 / 3)});
  d.give(d.step("Mul", {d.step("Sign", {d.x()}), root}));
}

// From a half on, where 1 - erf(x) would lose all digits, exp(-x^2) times a polynomial in
// (x - 3) / (x + 3) that was fitted to exp(x^2) erfc(x) between 0.45 and 10.2, where it is within
// 5e-12 of it; behind, f32 ends.
void erfc(NodeWriter& w) {
  constexpr double kFitted[] = {
      -7.500685396151385e-06, -1.084173187811037e-05, 6.425457378505472e-05, 4.444798055518498e-05,
      -0.000597205700089281,  0.0007079103507654718,  0.004269165345612014,  -0.024392516424936176,
      0.07166583489448575,    -0.15011593569219403,   0.24560380177255253,   -0.3262335600544704,
      0.17900115118117302};
  if (w.dtype() == DType::f64) throw usage_error("erfc of f64 has no form in ONNX");
  Doubles d(w);
  const Name x = d.step("Clip", {d.x(), d.number(0.5), d.number(20)});
  const Name u = d.step("Div", {d.step("Sub", {x, d.number(3)}), d.step("Add", {x, d.number(3)})});
  Name p = d.number(kFitted[0]);
  for (std::size_t i = 1; i < std::size(kFitted); ++i)
    p = d.step("Add", {d.step("Mul", {p, u}), d.number(kFitted[i])});
  const Name far = d.step("Mul", {p, d.step("Exp", {d.step("Neg", {d.step("Mul", {x, x})})})});
  const Name erf = w.step("Cast", {w.step("Erf", {w.input(0)})}, "to", 11);
  const Name near = d.step("Sub", {d.number(1), erf});
  d.give(d.step("Where", {d.step("Less", {d.x(), d.number(0.5)}), near, far}));
}

constexpr WriterRow kRows[] = {
    {"exp2", exp2},
    {"log2", [](NodeWriter& w) { log_of_base(w, 2); }},
    {"log10", [](NodeWriter& w) { log_of_base(w, 10); }},
    {"cbrt", cbrt},
    {"erfc", erfc},
};

}  // namespace

std::span<const WriterRow> function_writers() { return kRows; }

}  // namespace etalon::onnx_format
