// One Caffe layer after the other on its way to ops; import.cpp lists the conventions.
//   translator.cpp  which type is what; blobs and weights by name
//   data.cpp        inputs in place of data layers
//   ops.cpp         the types whose translation is longer than a few lines
//   recurrent.cpp   LSTM and RNN
//   choices.cpp     largest elements, pyramids of pooling
//   detection.cpp   SSD's priors and detections
//   branches.cpp    layers of well-known branches of Caffe
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "importers/formats/boxes.h"
#include "importers/formats/caffe/layers.h"
#include "importers/formats/translate.h"

namespace etalon::caffe {

class Translator {
 public:
  using Weights = std::map<std::string, std::vector<Tensor>>;
  // `extent`: of images whose data layer does not tell theirs.
  Translator(const std::string& name, const std::vector<Layer>& layers, const Weights& weights,
             std::int64_t extent)
      : g(name), weights_(weights), extent_(extent) {
    for (const Layer& l : layers)
      for (const std::string& blob : l.bottoms)
        if (auto& all = readers_[blob]; all.empty() || all.back() != &l) all.push_back(&l);
  }

  GraphBuilder g;

  // The first extent is free, but where a layer takes it for its steps.
  void fix_first_extent() { fixed_ = true; }
  void input(const std::string& blob, Ints dims);
  void layer(const Layer& l);
  void outputs() {
    for (const std::string& blob : order_)
      if (unread_.contains(blob)) g.output(blobs_.at(blob), blob);
  }
  // Whether another extent might fit where this one does not.
  bool extents_tried() const { return extents_tried_; }

 private:
  ValueId x(std::size_t i = 0) const;
  void top(ValueId v, std::size_t i = 0);
  std::size_t weight_count() const {
    const auto at = weights_.find(l_->name);
    return at == weights_.end() ? 0 : at->second.size();
  }
  const Tensor& weight_tensor(std::size_t i) const;
  // Weights as the op wants them; 4-D blobs of old files stand for shorter shapes.
  ValueId weight(std::size_t i, const Shape& shape);
  Ints pair(const PbMessage& p, const char* both, const char* h, const char* w,
            std::int64_t otherwise, std::size_t axes) const;
  // data.cpp
  void data(const Layer& l);
  Ints image_of(const Layer& l, std::int64_t height, std::int64_t width);
  // What reads a blob wants: the channels of a convolution, the features of an inner product.
  struct Reader {
    std::int64_t channels = 0, features = 0;
    bool known() const { return channels > 0 || features > 0; }
  };
  Reader reader_of(const std::string& blob, std::set<std::string>& seen) const;

  // branches.cpp: false where it is none of them
  bool branch_layer();
  void shuffle_channels();
  void interpolate();
  void pool_regions();
  void lstm_unit();
  void filter();
  void batch_statistics(float eps);
  void exponential();
  void convolution(bool transposed);
  void pooling();
  void inner_product();
  void scale(bool with_scale, const char* params);
  void lrn();
  void eltwise();
  void reshape();
  void recurrent();
  void arg_max();
  void spatial_pyramid();
  void prior_box();
  void detection_output();
  void stochastic(const Fields& window);
  ValueId op(std::string_view name, const std::vector<ValueId>& in, const Fields& f = {}) {
    return g.op(name, l_->name, in, f);
  }
  std::int64_t axis(std::int64_t a, ValueId v) const { return normalize_axis(a, g.rank(v)); }
  // [C] against axis `axis` of rank `rank`: [C, 1, ...]
  Ints against(const Shape& shape, std::int64_t axis, int rank) const {
    Ints dims(shape.dims().begin(), shape.dims().end());
    while (static_cast<std::int64_t>(dims.size()) + axis < rank) dims.push_back(1);
    return dims;
  }

  std::map<std::string, std::vector<const Layer*>> readers_;  // of a blob, in the file's sequence
  const Weights& weights_;
  std::int64_t extent_ = 0;
  bool fixed_ = false, extents_tried_ = false;
  const Layer* l_ = nullptr;
  std::map<std::string, ValueId> blobs_, shared_;
  std::vector<std::string> order_;
  std::set<std::string> ordered_;          // what is in it
  std::set<std::string> unread_, labels_;  // labels: blobs that training alone has
};

}  // namespace etalon::caffe
