// A ResizeTaps and what it points to.
#pragma once

#include <utility>
#include <vector>

#include "kernels/resize/definition.h"
#include "kernels/resize/passes.h"

namespace etalon {

template <class W>
class HeldTaps {
 public:
  using Found = std::vector<std::pair<std::int64_t, W>>;  // index and weight of each tap
  // find(place) is the Found of an output.
  template <class Find>
  HeldTaps(const ResizeDefinition::Plan& p, int axis, const Find& find) {
    const std::vector<ResizePlace>& places = p.places[static_cast<std::size_t>(axis)];
    const std::size_t out = places.size();
    std::vector<Found> found;
    std::size_t most = 0;
    for (const ResizePlace& place : places) {
      copies_.push_back(ResizeDefinition::copies(p, axis, place) ? ~0U : 0U);
      found.push_back(find(place));
      most = std::max(most, found.back().size());
    }
    index_.assign(out * most, -1);
    weight_.resize(index_.size());
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t k = 0; k < found[o].size(); ++k) {
        index_[k * out + o] = static_cast<std::int32_t>(found[o][k].first);
        weight_[k * out + o] = found[o][k].second;
      }
  }
  ResizeTaps<W> view() const {
    const auto out = static_cast<std::int64_t>(copies_.size());
    return {out, out == 0 ? 0 : static_cast<int>(index_.size() / copies_.size()), index_.data(),
            weight_.data(), copies_.data()};
  }

 private:
  std::vector<std::int32_t> index_;
  std::vector<W> weight_;
  std::vector<std::uint32_t> copies_;
};

}  // namespace etalon
