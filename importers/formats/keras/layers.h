// Keras' layers as ops: what each class of layer means, and where its weights stand.
//
// Values keep the layout of the file: a channels_last network takes and gives [N, spatial, C], and
// the builder moves the transposes that ops need. Conventions, each a note where it matters:
//   kernels     (spatial, in, out), transposed to ours; Theano's are flipped, so they are flipped
//   back same        TensorFlow pads what is odd at the end; Theano and CNTK pad both sides alike
//   flatten     over the layout of the file (channels_first is permuted to channels_last before it)
//   Dense       (in, out); on more than two axes it is applied to the last
//   BatchNormalization, LayerNormalization: epsilon as in the file
//   LSTM        gates i, f, c, o; GRU z, r, h with h' = z*h + (1 - z)*n, reset_after as in the file
//   hard_sigmoid  clip(0.2 x + 0.5) up to Keras 2, clip(x/6 + 0.5) from Keras 3 on
// Source: keras/src/layers (3.x), keras/layers (1.2, 2.x), keras/backend/*_backend.py (2.3).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/graph/builder.h"

namespace etalon::keras_format {

// A layer that has no translation: the caller gives the weights alone.
struct UnknownLayer {
  std::string what;
};

struct Origin {
  int version = 2;  // 1, 2 or 3
  bool theano = false, cntk = false;
  bool unsaid = false;      // no word of its backend, as in files of Keras 1
  bool half_pixels = true;  // bilinear upsampling takes centres of pixels
};

struct LayerCall {
  std::string type, name;  // "Conv2D", "conv1"
  const nlohmann::json& config;
  std::vector<ValueId> inputs;
  std::vector<ValueId> weights;  // in the order of the file
  ValueId mask = kAbsent;        // [N, T], false where a step is padding (masks.h)
  bool operation = false;        // a function of keras.ops, whose operands broadcast as NumPy's
};

// The value of the layer; UnknownLayer names a class or an option without a translation.
ValueId translate(GraphBuilder& builder, const Origin& origin, const LayerCall& call);
bool is_identity(std::string_view type);
bool takes_many(std::string_view type);  // more inputs than one

}  // namespace etalon::keras_format
