#include "engine/ops/selection.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/numerics/element.h"
#include "engine/ops/ints_input.h"

namespace etalon {
namespace {

using Types = std::vector<TensorType>;
using Names = std::vector<std::string_view>;

struct Box {
  float y0, x0, y1, x1, area;
};

Box make_box(const std::array<float, 4>& v, bool center) {
  Box b{};
  if (center) {
    const float half_width = v[2] / 2, half_height = v[3] / 2;
    b = {v[1] - half_height, v[0] - half_width, v[1] + half_height, v[0] + half_width, 0};
  } else {
    b = {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3]), 0};
  }
  b.area = (b.y1 - b.y0) * (b.x1 - b.x0);
  return b;
}

// More than `limit` of what the two cover together is shared.
bool overlaps(const Box& a, const Box& b, float limit) {
  if (!(a.area > 0) || !(b.area > 0)) return false;
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0),
              width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (!(height > 0) || !(width > 0)) return false;
  const float shared = height * width;
  const float both = a.area + b.area;
  return shared / (both - shared) > limit;
}

float number(const Tensor& t, const char* what) {
  if (t.numel() != 1) throw bad_input("{} must be one number, got {}", what, to_string(t.shape()));
  return static_cast<float>(load_as_double(t, 0));
}

Types infer_non_max_suppression(const Params& params, const InferInputs& in) {
  const Shape &boxes = in.shape(0), &scores = in.shape(1);
  if (boxes.rank() != 3 || boxes[2] != 4 || scores.rank() != 3 || scores[0] != boxes[0] ||
      scores[2] != boxes[1])
    throw bad_input("boxes {} and scores {} must be [B,N,4] and [B,C,N]", to_string(boxes),
                    to_string(scores));
  if (!is_floating(in.dtype(0)) || !is_floating(in.dtype(1)))
    throw bad_input("boxes and scores must be floating tensors, got {} and {}", name(in.dtype(0)),
                    name(in.dtype(1)));
  const auto given = [&](std::size_t i) { return in.has(i) ? &in.constant(i) : nullptr; };
  const auto found = select_boxes(params.as<NonMaxSuppressionParams>(),
                                  {&in.constant(0), &in.constant(1), given(2), given(3), given(4)});
  return {{DType::i64, Shape{static_cast<std::int64_t>(found.size()), 3}}};
}

Types infer_unique(const Params& params, const InferInputs& in) {
  const auto& p = params.as<UniqueParams>();
  const auto n = static_cast<std::int64_t>(unique_slices(p, in.constant(0)).first.size());
  const std::int64_t slices = unique_view(p, in.shape(0))[1];
  const Shape values = p.axis == UniqueParams::kFlat
                           ? Shape{n}
                           : in.shape(0).with_dim(normalize_axis(p.axis, in.shape(0).rank()), n);
  return {{in.dtype(0), values},
          {DType::i64, Shape{n}},
          {DType::i64, Shape{slices}},
          {DType::i64, Shape{n}}};
}

}  // namespace

std::vector<SelectedBox> select_boxes(const NonMaxSuppressionParams& params,
                                      const BoxInputs& inputs) {
  const Shape& shape = inputs.boxes->shape();
  const std::int64_t images = shape[0], n = shape[1], classes = inputs.scores->shape()[1];
  const std::int64_t most =
      inputs.most == nullptr ? 0 : static_cast<std::int64_t>(number(*inputs.most, "most"));
  const float limit = inputs.overlap == nullptr ? 0.0F : number(*inputs.overlap, "overlap");
  const std::optional<float> least =
      inputs.least == nullptr ? std::nullopt : std::optional(number(*inputs.least, "least score"));
  if (!(limit >= 0) || limit > 1) throw bad_input("overlap must lie in 0 .. 1, got {}", limit);
  std::vector<SelectedBox> out;
  if (most <= 0) return out;
  std::vector<Box> boxes(static_cast<std::size_t>(n));
  std::vector<std::pair<float, std::int64_t>> candidates;
  std::vector<std::int64_t> kept;
  for (std::int64_t image = 0; image < images; ++image) {
    for (std::int64_t i = 0; i < n; ++i) {
      std::array<float, 4> v{};
      for (std::int64_t k = 0; k < 4; ++k)
        v[static_cast<std::size_t>(k)] =
            static_cast<float>(load_as_double(*inputs.boxes, (image * n + i) * 4 + k));
      boxes[static_cast<std::size_t>(i)] = make_box(v, params.center_point_box);
    }
    for (std::int64_t c = 0; c < classes; ++c) {
      candidates.clear();
      for (std::int64_t i = 0; i < n; ++i) {
        const auto s =
            static_cast<float>(load_as_double(*inputs.scores, (image * classes + c) * n + i));
        if (s == s && (!least || s > *least)) candidates.emplace_back(s, i);
      }
      std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
      });
      kept.clear();
      for (const auto& [score, i] : candidates) {
        if (static_cast<std::int64_t>(kept.size()) >= most) break;
        const Box& box = boxes[static_cast<std::size_t>(i)];
        const bool free = std::none_of(kept.begin(), kept.end(), [&](std::int64_t k) {
          return overlaps(box, boxes[static_cast<std::size_t>(k)], limit);
        });
        if (free) kept.push_back(i);
      }
      for (const std::int64_t i : kept) out.push_back({image, c, i});
    }
  }
  return out;
}

std::array<std::int64_t, 3> unique_view(const UniqueParams& params, const Shape& x) {
  if (params.axis == UniqueParams::kFlat) return {1, x.numel(), 1};
  const int axis = normalize_axis(params.axis, x.rank());
  return {x.product(0, axis), x[axis], x.product(axis + 1, x.rank())};
}

UniqueSlices unique_slices(const UniqueParams& params, const Tensor& x) {
  const auto [outer, slices, inner] = unique_view(params, x.shape());
  const auto element = [&, n = slices, width = inner](std::int64_t slice, std::int64_t i) {
    return load_as_double(x, (i / width * n + slice) * width + i % width);
  };
  const std::int64_t size = outer * inner;
  // -1, 0, 1: before, equal, behind. 64-bit integers beyond 2^53 are compared as integers.
  const auto exact = [&](std::int64_t slice, std::int64_t i) {
    return (i / inner * slices + slice) * inner + i % inner;
  };
  const auto compare = [&](std::int64_t a, std::int64_t b) {
    for (std::int64_t i = 0; i < size; ++i) {
      if (x.dtype() == DType::i64 || x.dtype() == DType::u64) {
        const auto difference = [&](auto zero) {
          using T = decltype(zero);
          const T p = x.data<T>()[static_cast<std::size_t>(exact(a, i))],
                  q = x.data<T>()[static_cast<std::size_t>(exact(b, i))];
          return p < q ? -1 : q < p ? 1 : 0;
        };
        if (const int d =
                x.dtype() == DType::i64 ? difference(std::int64_t{}) : difference(std::uint64_t{});
            d != 0)
          return d;
        continue;
      }
      const double p = element(a, i), q = element(b, i);
      if (p != p || q != q) {
        if (p == p) return -1;
        if (q == q) return 1;
        continue;
      }
      if (p != q) return p < q ? -1 : 1;
    }
    return 0;
  };
  std::vector<std::int64_t> sequence(static_cast<std::size_t>(slices));
  std::iota(sequence.begin(), sequence.end(), std::int64_t{0});
  std::sort(sequence.begin(), sequence.end(), [&](std::int64_t a, std::int64_t b) {
    const int d = compare(a, b);
    return d != 0 ? d < 0 : a < b;
  });
  UniqueSlices out;
  out.inverse.resize(static_cast<std::size_t>(slices));
  for (const std::int64_t s : sequence) {
    if (out.first.empty() || compare(out.first.back(), s) != 0) {
      out.first.push_back(s);
      out.counts.push_back(0);
    }
    ++out.counts.back();
    out.inverse[static_cast<std::size_t>(s)] = static_cast<std::int64_t>(out.first.size()) - 1;
  }
  if (params.sorted) return out;
  // As they are met.
  std::vector<std::int64_t> rank(out.first.size()), place(out.first.size());
  std::iota(rank.begin(), rank.end(), std::int64_t{0});
  std::sort(rank.begin(), rank.end(), [&](std::int64_t a, std::int64_t b) {
    return out.first[static_cast<std::size_t>(a)] < out.first[static_cast<std::size_t>(b)];
  });
  UniqueSlices met;
  for (std::size_t i = 0; i < rank.size(); ++i) {
    const auto r = static_cast<std::size_t>(rank[i]);
    place[r] = static_cast<std::int64_t>(i);
    met.first.push_back(out.first[r]);
    met.counts.push_back(out.counts[r]);
  }
  for (const std::int64_t v : out.inverse)
    met.inverse.push_back(place[static_cast<std::size_t>(v)]);
  return met;
}

std::span<const OpRow> selection_ops() {
  static const OpRow rows[] = {
      {.name = "non_max_suppression",
       .summary = "Boxes by falling score, without those that overlap a better one.",
       .nature = OpNature::discrete,
       .min_inputs = 2,
       .max_inputs = 5,
       .per_sample = false,
       .defaults = [] { return Params(NonMaxSuppressionParams{}); },
       .infer = infer_non_max_suppression,
       .input_names = [] { return Names{"boxes", "scores", "most", "overlap", "least_score"}; }},
      {.name = "unique",
       .summary = "The different elements or slices, where they are and how often.",
       .nature = OpNature::movement,
       .min_outputs = 1,
       .max_outputs = 4,
       .per_sample = false,
       .defaults = [] { return Params(UniqueParams{}); },
       .infer = infer_unique,
       .output_names = [] { return Names{"values", "first", "inverse", "counts"}; }},
  };
  return rows;
}

}  // namespace etalon
