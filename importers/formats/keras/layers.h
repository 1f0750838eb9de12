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
  bool corners = false;     // it takes their corners
};

struct LayerCall {
  std::string type, name;  // "Conv2D", "conv1"
  const nlohmann::json& config;
  std::vector<ValueId> inputs;
  std::vector<ValueId> weights;  // in the order of the file
  // [N, T], false where a step is padding (masks.h); kAbsent: none. One an input, of attention
  // those of query, value and key, then one of every pair, [N, T, S].
  std::vector<ValueId> masks = {};
  std::vector<ValueId> states = {};  // that a recurrent layer begins with
  bool causal = false;               // attention looks at no later step
  bool operation = false;            // a function of keras.ops, whose operands broadcast as NumPy's
  const nlohmann::json* arguments = nullptr;  // all that a function is called with
};

// The values of the layer, of which only recurrent ones with their states have more than one;
// UnknownLayer names a class or an option without a translation.
std::vector<ValueId> translate(GraphBuilder& builder, const Origin& origin, const LayerCall& call);
// [N, T, ...] as a batch of N T samples, and what is made of them as sequences again.
ValueId steps_as_batch(GraphBuilder& builder, const std::string& name, ValueId x);
ValueId batch_as_steps(GraphBuilder& builder, const std::string& name, ValueId y, ValueId like);
DType tensor_type(const std::string& name);  // "float32"
bool is_identity(std::string_view type);
bool takes_many(std::string_view type);          // more inputs than one
bool takes_numbers(std::string_view operation);  // among its operands

}  // namespace etalon::keras_format
