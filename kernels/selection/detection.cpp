// TensorFlow Lite's boxes of a detector, as engine/ops/detection.h says.
#include "engine/ops/detection.h"

#include <algorithm>
#include <numeric>

#include "engine/backend/bits_row.h"
#include "engine/numerics/function.h"
#include "kernels/selection/rows.h"

namespace etalon {
namespace {

using Indices = std::vector<std::int64_t>;

// A heap of items whose top is the worst; better(a, b): item a comes before item b. `item` is put
// where a hole is: that sinks to the bottom, and the item rises from there.
template <class Better>
void settle(Indices& heap, std::size_t hole, std::size_t size, std::int64_t item,
            const Better& better) {
  const std::size_t top = hole;
  std::size_t child = 2 * hole + 2;
  for (; child < size; child = 2 * hole + 2) {
    if (better(heap[child], heap[child - 1])) --child;
    heap[hole] = heap[child];
    hole = child;
  }
  if (child == size) {  // a parent of one
    heap[hole] = heap[child - 1];
    hole = child - 1;
  }
  for (; hole > top && better(heap[(hole - 1) / 2], item); hole = (hole - 1) / 2)
    heap[hole] = heap[(hole - 1) / 2];
  heap[hole] = item;
}

// The best `wanted` of [0, values.size()) in order.
Indices best_of(std::span<const float> values, std::size_t wanted) {
  if (wanted == 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < values.size(); ++i)
      if (values[i] > values[best]) best = i;
    return {static_cast<std::int64_t>(best)};
  }
  const auto better = [&](std::int64_t a, std::int64_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  };
  Indices heap(wanted);
  std::iota(heap.begin(), heap.end(), 0);
  for (std::size_t parent = wanted / 2; parent-- > 0;)
    settle(heap, parent, wanted, heap[parent], better);
  for (auto i = static_cast<std::int64_t>(wanted); i < std::ssize(values); ++i)
    if (better(i, heap[0])) settle(heap, 0, wanted, i, better);
  for (std::size_t last = wanted; last-- > 1;) {
    const std::int64_t item = heap[last];
    heap[last] = heap[0];
    settle(heap, 0, last, item, better);
  }
  return heap;
}

struct Box {
  float y0, x0, y1, x1;
};

double exponential(double x) { return correctly_rounded_function(Function::exp, x, DType::f64); }

class Detector {
 public:
  explicit Detector(const KernelCall& call)
      : p_(call.params<TfliteDetectionParams>()),
        scores_(call.input(1).data<float>()),
        boxes_(static_cast<std::size_t>(call.input(0).shape()[1])),
        columns_(static_cast<std::size_t>(call.input(1).shape()[2])),
        classes_(static_cast<std::size_t>(p_.num_classes)),
        background_(columns_ - classes_) {
    const auto codes = call.input(0).data<float>(), anchors = call.input(2).data<float>();
    const auto stride = static_cast<std::size_t>(call.input(0).shape()[2]);
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      const auto code = [&](std::size_t k) { return static_cast<double>(codes[i * stride + k]); };
      const auto anchor = [&](std::size_t k) { return static_cast<double>(anchors[i * 4 + k]); };
      const auto centre = [&](std::size_t k, float scale) {
        return static_cast<float>(code(k) / static_cast<double>(scale) * anchor(k + 2) + anchor(k));
      };
      const auto half = [&](std::size_t k, float scale) {
        return static_cast<float>(0.5 * exponential(code(k) / static_cast<double>(scale)) *
                                  anchor(k));
      };
      const float y = centre(0, p_.y_scale), x = centre(1, p_.x_scale), h = half(2, p_.h_scale),
                  w = half(3, p_.w_scale);
      boxes_[i] = {y - h, x - w, y + h, x + w};
      if (boxes_[i].y0 > boxes_[i].y1 || boxes_[i].x0 > boxes_[i].x1)
        throw bad_input("box {} has its corners the other way round: its anchor is {} by {}", i,
                        anchor(2), anchor(3));
    }
  }

  void run(const KernelCall& call) const {
    for (std::size_t o = 0; o < 4; ++o)
      std::ranges::fill(call.output(o).mutable_data<float>(), 0.0F);
    const auto put = [&](std::size_t place, std::size_t box, std::size_t column) {
      const Box& b = boxes_[box];
      const float corners[] = {b.y0, b.x0, b.y1, b.x1};
      std::ranges::copy(corners, call.output(0).mutable_data<float>().begin() +
                                     static_cast<std::ptrdiff_t>(4 * place));
      call.output(1).mutable_data<float>()[place] = static_cast<float>(column - background_);
      call.output(2).mutable_data<float>()[place] = scores_[box * columns_ + column];
    };
    const std::size_t count = p_.regular ? class_by_class(put) : by_best_class(put);
    call.output(3).mutable_data<float>()[0] = static_cast<float>(count);
  }

 private:
  float shared(std::size_t i, std::size_t j) const {
    const Box &a = boxes_[i], &b = boxes_[j];
    const float area_a = (a.y1 - a.y0) * (a.x1 - a.x0), area_b = (b.y1 - b.y0) * (b.x1 - b.x0);
    if (area_a <= 0 || area_b <= 0) return 0;
    const float height = std::max(std::min(a.y1, b.y1) - std::max(a.y0, b.y0), 0.0F),
                width = std::max(std::min(a.x1, b.x1) - std::max(a.x0, b.x0), 0.0F);
    const float both = height * width;
    return both / (area_a + area_b - both);
  }

  // At most `most` boxes by falling score.
  std::vector<std::size_t> select(std::span<const float> scores, std::int64_t most) const {
    std::vector<std::size_t> candidates, kept;
    for (std::size_t i = 0; i < scores.size(); ++i)
      if (scores[i] >= p_.score_threshold) candidates.push_back(i);
    std::sort(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    });
    for (const std::size_t i : candidates) {
      if (std::ssize(kept) >= most) break;
      if (std::ranges::none_of(kept,
                               [&](std::size_t k) { return shared(k, i) > p_.overlap_threshold; }))
        kept.push_back(i);
    }
    return kept;
  }

  template <class Put>
  std::size_t class_by_class(const Put& put) const {
    struct Found {
      float score;
      std::size_t box, column;
    };
    const auto before = [](const Found& a, const Found& b) { return a.score > b.score; };
    const std::int64_t each = std::min(p_.detections_per_class, p_.max_detections);
    std::vector<Found> found, these, both;
    std::vector<float> of_class(boxes_.size());
    for (std::size_t c = background_; c < columns_; ++c) {
      for (std::size_t i = 0; i < boxes_.size(); ++i) of_class[i] = scores_[i * columns_ + c];
      these.clear();
      for (const std::size_t i : select(of_class, each)) these.push_back({of_class[i], i, c});
      both.resize(found.size() + these.size());
      std::merge(found.begin(), found.end(), these.begin(), these.end(), both.begin(), before);
      both.resize(std::min(both.size(), static_cast<std::size_t>(p_.max_detections)));
      found.swap(both);
    }
    for (std::size_t k = 0; k < found.size(); ++k) put(k, found[k].box, found[k].column);
    return found.size();
  }

  template <class Put>
  std::size_t by_best_class(const Put& put) const {
    const auto each = static_cast<std::size_t>(p_.max_classes_per_detection);
    const std::size_t wanted = std::min(each, classes_);
    const auto of_box = [&](std::size_t i) {
      return scores_.subspan(i * columns_ + background_, classes_);
    };
    std::vector<float> best(boxes_.size());
    for (std::size_t i = 0; i < boxes_.size(); ++i)
      best[i] = of_box(i)[static_cast<std::size_t>(best_of(of_box(i), wanted)[0])];
    std::size_t k = 0;
    for (const std::size_t i : select(best, p_.max_detections)) {
      std::size_t place = k++ * each;
      for (const std::int64_t c : best_of(of_box(i), wanted))
        put(place++, i, static_cast<std::size_t>(c) + background_);
    }
    return k;
  }

  const TfliteDetectionParams& p_;
  std::span<const float> scores_;
  std::vector<Box> boxes_;
  std::size_t columns_, classes_, background_;
};

void run_tflite_detection(const KernelCall& call) { Detector(call).run(call); }

}  // namespace

std::span<const KernelRow> detection_rows() {
  static const KernelRow rows[] = {
      bits_row<run_tflite_detection>("tflite_detection", "tflite_detection.bits")};
  return rows;
}

}  // namespace etalon
