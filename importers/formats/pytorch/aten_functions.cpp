// Functions of one or two operands that are several ops: each step rounds.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"atan2", {"self", "other"}},
    {"arctan2", {"self", "other"}},
    {"hypot", {"self", "other"}},
    {"logaddexp", {"self", "other"}},
    {"xlogy", {"self", "other"}},
    {"heaviside", {"self", "values"}},
    {"fmax", {"self", "other"}},
    {"fmin", {"self", "other"}},
    {"isclose", {"self", "other", "rtol", "atol", "equal_nan"}},
    {"nan_to_num", {"self", "nan", "posinf", "neginf"}},
    {"logit", {"self", "eps"}},
    {"__lshift__", {"self", "other"}},
    {"__rshift__", {"self", "other"}},
    {"bitwise_left_shift", {"self", "other"}},
    {"bitwise_right_shift", {"self", "other"}},
    {"diff", {"self", "n", "dim", "prepend", "append"}},
    {"one_hot", {"self", "num_classes"}},
    {"isin", {"elements", "test_elements", "assume_unique", "invert"}},
};

// Ops under the name of the call.
struct Steps {
  GraphBuilder& b;
  std::string name;
  DType type;

  ValueId op(const char* what, const std::vector<ValueId>& in, const Fields& f = {}) const {
    return b.op(what, name + "." + what, in, f);
  }
  ValueId number(double v) const { return b.constant(name + ".number", scalar_of(type, v)); }
  ValueId where(ValueId c, ValueId x, ValueId y) const { return op("where", {c, x, y}); }
};

// The angle of (x, y): atan(y / x) and the quadrant; signs of zeros and infinities as IEEE 754.
ValueId atan2(const Steps& s, ValueId y, ValueId x) {
  constexpr double kPi = 3.14159265358979323846;
  const ValueId zero = s.number(0), one = s.number(1);
  // A zero's sign is that of its reciprocal.
  const auto below = [&](ValueId v) {
    return s.op("or", {s.op("less", {v, zero}), s.op("less", {s.op("reciprocal", {v}), zero})});
  };
  const auto infinite = [&](ValueId v) { return s.op("is_inf", {v}); };
  const ValueId x_below = below(x), y_below = below(y);
  const ValueId both_infinite = s.op("and", {infinite(x), infinite(y)}),
                both_zero = s.op("and", {s.op("equal", {x, zero}), s.op("equal", {y, zero})});
  const ValueId side = s.where(s.op("xor", {x_below, y_below}), s.number(-1), one);
  // y / x has the sign of a zero where y alone is one.
  ValueId ratio = s.op("div", {y, x});
  ratio = s.where(both_infinite, side, ratio);
  ratio = s.where(both_zero, s.op("mul", {side, zero}), ratio);
  const ValueId base = s.op("atan", {ratio});
  const ValueId turn = s.where(y_below, s.number(-kPi), s.number(kPi));
  return s.where(x_below, s.op("add", {base, turn}), base);
}

// Infinities and NaN become numbers; by default the greatest of the type and 0.
ValueId finite(const Steps& s, ValueId x, const AtenCall& c) {
  if (!is_floating(s.type)) return x;
  if (s.type != DType::f32 && s.type != DType::f64 &&
      (c.find("posinf") == nullptr || c.find("neginf") == nullptr))
    throw AtenUnknown{"nan_to_num of a narrow type"};
  const double most = s.type == DType::f64 ? std::numeric_limits<double>::max()
                                           : static_cast<double>(std::numeric_limits<float>::max());
  const auto infinite = [&](bool positive) {
    return s.op("is_inf", {x}, {{"detect_positive", positive}, {"detect_negative", !positive}});
  };
  ValueId y = s.where(s.op("is_nan", {x}), s.number(c.real("nan", 0)), x);
  y = s.where(infinite(true), s.number(c.real("posinf", most)), y);
  return s.where(infinite(false), s.number(c.real("neginf", -most)), y);
}

ValueId diff(const Steps& s, ValueId x, const AtenCall& c) {
  const std::int64_t axis = aten_axis(s.b, x, c.integer("dim", -1)), times = c.integer("n", 1);
  if (times < 0 || times > 64) throw bad_input("{} differences", times);
  const ValueId before = c.tensor("prepend"), behind = c.tensor("append");
  if (before != kAbsent || behind != kAbsent) {
    std::vector<ValueId> all;
    for (const ValueId v : {before, x, behind})
      if (v != kAbsent) all.push_back(v);
    x = s.op("concat", all, {{"axis", axis}});
  }
  const auto cut = [&](std::int64_t start, std::int64_t end) {
    return s.op("slice", {x}, {{"starts", Ints{start}}, {"ends", Ints{end}}, {"axes", Ints{axis}}});
  };
  for (std::int64_t i = 0; i < times; ++i)
    x = s.op(s.type == DType::boolean ? "xor" : "sub", {cut(1, INT64_MAX), cut(0, -1)});
  return x;
}

// [..] of indices to [.., classes] of 0 and 1.
ValueId one_hot(const Steps& s, ValueId x, const AtenCall& c) {
  const std::int64_t classes = c.integer("num_classes", -1);
  if (classes < 1 || classes > 1 << 20)
    throw AtenUnknown{"one_hot of an unknown number of classes"};
  Tensor t = Tensor::uninitialized(DType::i64, {classes});
  for (std::int64_t i = 0; i < classes; ++i)
    t.mutable_data<std::int64_t>()[static_cast<std::size_t>(i)] = i;
  return aten_cast(s.b, s.name,
                   s.op("equal", {s.op("unsqueeze", {x}, {{"axes", Ints{-1}}}),
                                  s.b.constant(s.name + ".classes", std::move(t))}),
                   DType::i64);
}

ValueId is_in(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  ValueId x = c.tensor("elements"), among = c.tensor("test_elements");
  if (x == kAbsent || among == kAbsent) throw AtenUnknown{"isin of what is no tensor"};
  c.flag("assume_unique", false);
  std::tie(x, among) = promoted(b, name, x, among);
  const ValueId met = b.op("equal", name + ".equal",
                           {b.op("unsqueeze", name + ".each", {x}, {{"axes", Ints{-1}}}),
                            b.reshape(name + ".among", among, {-1})});
  const ValueId any =
      b.op("reduce_max", name + ".any", {met}, {{"axes", Ints{-1}}, {"keepdims", false}});
  return c.flag("invert", false) ? b.op("not", name, {any}) : any;
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  if (op == "isin") return {is_in(b, name, c)};
  ValueId x = first_tensor(c, op);
  if (op == "diff") return {diff({b, name, b.dtype(x)}, x, c)};
  if (op == "one_hot") return {one_hot({b, name, b.dtype(x)}, x, c)};
  if (op == "nan_to_num") return {finite({b, name, b.dtype(x)}, x, c)};
  if (op.find("shift") != op.npos) {
    const bool left = op.find("left") != op.npos || op == "__lshift__";
    return {paired(b, "bit_shift", name, x, aten_operand(b, name + ".by", x, c, "other"),
                   {{"direction", std::string(left ? "LEFT" : "RIGHT")}})};
  }
  if (!is_floating(b.dtype(x))) x = aten_cast(b, name, x, DType::f32);
  if (op == "logit") {
    const Steps s{b, name, b.dtype(x)};
    if (c.find("eps") != nullptr) {
      const double eps = c.real("eps", 0);
      x = s.op("min", {s.op("max", {x, s.number(eps)}), s.number(1 - eps)});
    }
    return {s.op("log", {s.op("div", {x, s.op("sub", {s.number(1), x})})})};
  }
  ValueId y = aten_operand(b, name + ".other", x, c, op == "heaviside" ? "values" : "other");
  std::tie(x, y) = promoted(b, name, x, y);
  const Steps s{b, name, b.dtype(x)};
  b.note("a function that is several ops is written step by step, each rounds.");
  if (op == "atan2" || op == "arctan2") return {atan2(s, x, y)};
  if (op == "hypot")
    return {s.op("sqrt", {s.op("add", {s.op("mul", {x, x}), s.op("mul", {y, y})})})};
  if (op == "logaddexp") {
    const ValueId most = s.op("max", {x, y}), d = s.op("neg", {s.op("abs", {s.op("sub", {x, y})})});
    const ValueId sum = s.op("add", {most, s.op("log1p", {s.op("exp", {d})})});
    return {
        s.where(s.op("equal", {x, y}), s.op("add", {x, s.number(0.69314718055994530942)}), sum)};
  }
  if (op == "xlogy")
    return {
        s.where(s.op("and", {s.op("equal", {x, s.number(0)}), s.op("not", {s.op("is_nan", {y})})}),
                s.number(0), s.op("mul", {x, s.op("log", {y})}))};
  if (op == "heaviside")
    return {s.where(s.op("equal", {x, s.number(0)}), y,
                    s.where(s.op("less", {x, s.number(0)}), s.number(0), s.number(1)))};
  if (op == "fmax" || op == "fmin")
    return {s.where(s.op("is_nan", {x}), y,
                    s.where(s.op("is_nan", {y}), x, s.op(op == "fmax" ? "max" : "min", {x, y})))};
  // isclose: |x - y| <= atol + rtol |y|, and what is equal, infinities too.
  const ValueId far =
      s.op("add", {s.number(c.real("atol", 1e-8)),
                   s.op("mul", {s.number(c.real("rtol", 1e-5)), s.op("abs", {y})})});
  const ValueId d = s.op("abs", {s.op("sub", {x, y})});
  const ValueId finite_d = s.op("not", {s.op("or", {s.op("is_inf", {d}), s.op("is_nan", {d})})});
  ValueId close =
      s.op("or", {s.op("equal", {x, y}), s.op("and", {finite_d, s.op("less_or_equal", {d, far})})});
  if (c.flag("equal_nan", false))
    close = s.op("or", {close, s.op("and", {s.op("is_nan", {x}), s.op("is_nan", {y})})});
  return {close};
}

}  // namespace

AtenFamily function_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
