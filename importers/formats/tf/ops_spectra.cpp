// Fourier transforms, whose complex values are kept as two tensors, and what reads such values.
//
// A transform of n numbers is a product with the matrix of n-th roots of unity: the same sum as any
// fast one has, in another sequence.
#include <algorithm>
#include <array>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/roots.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::tf {
namespace {

constexpr std::int64_t kMostPoints = 4096;

// [rows, columns] of cos, or -sin, of 2 pi r c / n.
Tensor root_matrix(std::int64_t n, std::int64_t rows, std::int64_t columns, bool imaginary) {
  const std::vector<Root> roots = roots_of_unity(n);
  Tensor t = Tensor::uninitialized(DType::f32, {rows, columns});
  auto to = t.mutable_data<float>();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const Root& root = roots[static_cast<std::size_t>(r * c % n)];
      to[static_cast<std::size_t>(r * columns + c)] =
          static_cast<float>(imaginary ? -root.sine : root.cosine);
    }
  return t;
}

}  // namespace

void Ops::must_be_tensor(ValueId v, std::string_view what) const {
  if (complex_.contains(v)) throw bad_input("{} is complex; only its parts are read", what);
  if (is_list(v)) throw bad_input("{} is a list of tensors", what);
}

ValueId Ops::complex_constant(const std::string& name, Tensor real, Tensor imaginary) {
  const ValueId handle = g.constant(name, Tensor::of<std::int32_t>({}, {0}));
  const ValueId a = g.constant(name + "/real", std::move(real)),
                b = g.constant(name + "/imaginary", std::move(imaginary));
  complex_.emplace(handle, std::pair(a, b));
  return handle;
}

ValueId Ops::complex(ValueId real, ValueId imaginary) {
  const ValueId handle = g.constant(part("complex"), Tensor::of<std::int32_t>({}, {0}));
  complex_.emplace(handle, std::pair(real, imaginary));
  return handle;
}

std::pair<ValueId, ValueId> Ops::parts_of(std::size_t i) const {
  const auto at = complex_.find(n_->in(i));
  if (at == complex_.end()) throw bad_input("input {} of {} is no complex value", i, n_->op);
  return at->second;
}

// The transform of real rows: n / 2 + 1 complex numbers of each.
ValueId Ops::real_fft() {
  const ValueId x = n_->in(0);
  const Ints lengths = constant_ints(1, "lengths of a transform");
  const std::int64_t n = lengths.empty() ? 0 : lengths.back();
  // TensorFlow Lite writes one of a line as one of two axes, of which the first is 1.
  const bool plane = n_->op == "RFFT2D";
  if (lengths.size() != (plane ? 2U : 1U) ||
      (plane && (lengths[0] != 1 || g.rank(x) < 2 || known_extent(g, x, g.rank(x) - 2) != 1)))
    throw bad_input("{} of two axes is not supported", n_->op);
  const int axis = g.rank(x) - 1;
  if (n < 1 || n > kMostPoints || axis < 0)
    throw bad_input("{} of {} points: 1 to {} of the last axis are read", n_->op, n, kMostPoints);
  if (g.dtype(x) != DType::f32) throw bad_input("{} of {}", n_->op, to_string(g.type(x)));
  const std::int64_t given = known_extent(g, x, axis), bins = n / 2 + 1;
  ValueId rows = x;
  if (given > n)
    rows = g.op("slice", part("cut"), {x},
                {{"starts", Ints{0}}, {"ends", Ints{n}}, {"axes", Ints{axis}}});
  if (given < n) throw bad_input("{} of {} points over {} elements", n_->op, n, given);
  g.note("a Fourier transform is the product with the matrix of roots of unity");
  const auto product = [&](const char* role, bool imaginary) {
    return g.op("matmul", part(role),
                {rows, g.constant(part("roots"), root_matrix(n, n, bins, imaginary))});
  };
  return complex(product("real", false), product("imaginary", true));
}

std::optional<ValueId> Ops::spectra() {
  const std::string op = n_->op;
  if (op == "RFFT" || op == "RFFT2D") return real_fft();
  if (op == "Complex") return complex(n_->in(0), n_->in(1));
  const bool known = !n_->inputs.empty() && complex_.contains(n_->inputs[0]);
  if (op == "Real" || op == "Imag") return op == "Real" ? parts_of(0).first : parts_of(0).second;
  if (op == "ComplexAbs") {
    const auto [real, imaginary] = parts_of(0);
    return g.op("sqrt", n_->name,
                {g.op("add", part("squared"),
                      {g.op("mul", part("real"), {real, real}),
                       g.op("mul", part("imaginary"), {imaginary, imaginary})})});
  }
  if (op == "Conj" && known) {
    const auto [real, imaginary] = parts_of(0);
    return complex(real, g.op("neg", part("negative"), {imaginary}));
  }
  if (!known) return std::nullopt;
  const auto term = [&](std::string_view what, ValueId a, ValueId b) {
    return g.op(what, part(what), {a, b});
  };
  if (op == "Exp") {
    const auto [real, imaginary] = parts_of(0);
    const ValueId size = g.op("exp", part("size"), {real});
    return complex(term("mul", size, g.op("cos", part("cos"), {imaginary})),
                   term("mul", size, g.op("sin", part("sin"), {imaginary})));
  }
  if (n_->inputs.size() == 2 && complex_.contains(n_->inputs[1])) {
    const auto [a, b] = parts_of(0);
    const auto [c, d] = parts_of(1);
    if (op == "Mul")
      return complex(term("sub", term("mul", a, c), term("mul", b, d)),
                     term("add", term("mul", a, d), term("mul", b, c)));
    if (op == "Sub") return complex(term("sub", a, c), term("sub", b, d));
    if (op == "Add" || op == "AddV2") return complex(term("add", a, c), term("add", b, d));
  }
  // What moves whole tensors moves both parts.
  constexpr std::array<std::string_view, 7> kMoved{
      "Reshape", "ExpandDims", "Squeeze", "Transpose", "Identity", "StridedSlice", "Slice"};
  if (std::ranges::find(kMoved, op) == kMoved.end())
    throw bad_input("{} of complex values is not supported", op);
  const auto [real, imaginary] = parts_of(0);
  const OpNode* const own = n_;
  OpNode moved = *own;
  const auto through = [&](ValueId v) {
    moved.inputs[0] = v;
    return translate(moved).at(0);
  };
  const ValueId a = through(real), b = through(imaginary);
  n_ = own;
  return complex(a, b);
}

}  // namespace etalon::tf
