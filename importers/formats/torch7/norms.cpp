// Normalisations by stored statistics, across planes and around each place; normalised weights.
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/torch7/modules.h"

namespace etalon::torch7 {
namespace {

Values batch_norm(const Module& m) {
  const Tensor mean = m.need("running_mean");
  const Shape c{mean.numel()};
  const float eps = m.real("eps", 1e-5);
  Tensor var = m.tensor("running_var");
  float used = eps;
  if (!var) {
    var = m.need("running_std").clone();
    // Old files keep 1 / sqrt(var + eps).
    for (float& v : var.mutable_data<float>()) v = 1 / (v * v);
    used = 0;
    m.g.note("batch norm of an old file: running_std is the inverse deviation, squared back");
  }
  const auto of = [&](const char* key, float otherwise) {
    return m.tensor(key) ? m.weight(key, c)
                         : m.g.constant(m.name(key), filled_f32(c[0], otherwise));
  };
  if (var.numel() != c[0]) throw bad_input("running_var is {}", to_string(var.shape()));
  m.g.note(fmt::format("batch norm: eps {} (a double in Torch7, rounded to f32 here)", used));
  return {m.op("batch_norm",
               {m.x(), of("weight", 1), of("bias", 0), m.weight("running_mean", c),
                m.g.constant(m.name("running_var"), var.reshaped(c))},
               {{"eps", used}})};
}

Values cross_map_lrn(const Module& m) {
  m.g.note("LRN: alpha is divided by the window's size");
  // cudnn's first versions call k by its large letter.
  return {m.op("lrn", {m.x()},
               {{"size", m.integer("size", 5)},
                {"alpha", m.real("alpha", 1e-4)},
                {"beta", m.real("beta", 0.75)},
                {"bias", m.real("K", m.m.number("k", 1))}})};
}

// ---- around each place ----
// The estimators are networks in the file. At the edges they see padding: what they give for ones
// tells how much of the window was inside.
Values estimated(const Module& m, const char* key, ValueId x) {
  const T7Object* estimator = m.m.find_object(key);
  if (estimator == nullptr) throw bad_input("{} without its {}", m.type, key);
  return m.run(*estimator, {x}, m.name(key));
}
ValueId one_value(const Module& m, const Values& values) {
  if (values.size() != 1) throw bad_input("{} whose part gives {} values", m.type, values.size());
  return values[0];
}
// The estimators give an axis more, of 1, which Torch7's arithmetic does not mind.
ValueId as_given(const Module& m, ValueId v) {
  return m.part("reshape", "as_given", {v, m.part("shape", "extents", {m.x()})});
}
ValueId share_inside(const Module& m) {
  const ValueId shape = m.part("shape", "extents", {m.x()});
  const ValueId ones = m.part("expand", "ones", {m.number(1), shape});
  return one_value(m, estimated(m, "meanestimator", ones));
}
Values subtractive(const Module& m) {
  const ValueId sums = one_value(m, estimated(m, "meanestimator", m.x()));
  return {m.op("sub", {m.x(), as_given(m, m.part("div", "mean", {sums, share_inside(m)}))})};
}
Values divisive(const Module& m) {
  const ValueId deviation = one_value(m, estimated(m, "stdestimator", m.x()));
  const ValueId inside = m.part("div", "deviation", {deviation, share_inside(m)});
  return {m.op("div", {m.x(), as_given(m, one_value(m, estimated(m, "thresholder", inside)))})};
}
// restore_weights has given the module its weights.
Values wrapped(const Module& m) {
  if (m.parts.size() != 1) throw bad_input("{} of {} modules", m.type, m.parts.size());
  m.g.note("WeightNorm: the weights are v scaled by g over its rows' norms, rounded to f32");
  return m.apply(0, m.in);
}
Values contrastive(const Module& m) { return estimated(m, "normalizer", m.x()); }

constexpr ModuleRow kRows[] = {{"BatchNormalization", batch_norm},
                               {"SpatialBatchNormalization", batch_norm},
                               {"VolumetricBatchNormalization", batch_norm},
                               {"SpatialCrossMapLRN", cross_map_lrn},
                               {"SpatialSubtractiveNormalization", subtractive},
                               {"SpatialDivisiveNormalization", divisive},
                               {"SpatialContrastiveNormalization", contrastive},
                               {"WeightNorm", wrapped}};

}  // namespace

// v scaled by g over the norm of each of its rows, with 1e-4 under the root; rows belong to places
// of axis outputDim.
void restore_weights(T7Object& m, std::size_t& room) {
  const T7Object* list = m.find_object("modules");
  const T7Value* first = list == nullptr        ? nullptr
                         : list->list().empty() ? nullptr
                                                : list->list()[0];
  const T7Object *v = m.find_object("v"), *g = m.find_object("g"),
                 *extents = m.find_object("weightSize");
  if (first == nullptr || !first->object || v == nullptr || g == nullptr) return;
  T7Object& inner = *first->object;
  T7Value* held = nullptr;
  for (auto& [key, value] : inner.entries)
    if (key.kind == T7Value::Kind::text && key.text == "weight") held = &value;
  const bool there = held != nullptr && held->object && held->object->tensor;
  if (there && !m.flag("train", true)) return;
  if (!v->tensor || !g->tensor) return;
  const Shape shape = there ? held->object->tensor.shape() : Shape(sizes_in(extents));
  const auto axis = static_cast<int>(whole(m.number("outputDim", 1)) - 1);
  if (axis < 0 || axis >= shape.rank() || v->tensor.numel() != shape.numel() ||
      g->tensor.numel() != shape[axis])
    return;
  const std::size_t size = claimed_bytes({DType::f32, shape});
  if (size > room) throw bad_input("normalised weights that are larger than the file");
  room -= size;
  const Tensor rows = as_f32(v->tensor), lengths = as_f32(g->tensor);
  Tensor w = Tensor::uninitialized(DType::f32, shape);
  const auto to = w.mutable_data<float>();
  const auto from = rows.data<float>(), length = lengths.data<float>();
  const auto count = static_cast<std::size_t>(shape[axis]),
             before = static_cast<std::size_t>(shape.product(0, axis)),
             after = static_cast<std::size_t>(shape.product(axis + 1, shape.rank())),
             columns = before * after;
  for (std::size_t r = 0; r < count; ++r) {
    double squares = 0;
    for (const float f : from.subspan(r * columns, columns)) squares += static_cast<double>(f) * f;
    const double scale = static_cast<double>(length[r]) / std::sqrt(squares + 10e-5);
    for (std::size_t o = 0; o < before; ++o)
      for (std::size_t i = 0; i < after; ++i)
        to[(o * count + r) * after + i] =
            static_cast<float>(from[r * columns + o * after + i] * scale);
  }
  auto weight = std::make_shared<T7Object>();
  weight->type = "torch.FloatTensor";
  weight->tensor = std::move(w);
  T7Value value;
  value.kind = T7Value::Kind::object;
  value.object = std::move(weight);
  if (held != nullptr) {
    *held = std::move(value);
    return;
  }
  T7Value key;
  key.kind = T7Value::Kind::text;
  key.text = "weight";
  inner.entries.emplace_back(std::move(key), std::move(value));
}

std::span<const ModuleRow> norm_rows() { return kRows; }

}  // namespace etalon::torch7
