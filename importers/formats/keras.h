// Keras: whole models and weights, .h5 of Keras 1, 2 and tf.keras, .keras of Keras 3.
//
// The configuration (JSON, in an attribute or a member of the zip) gives the graph, layers/ its
// weights; functional and sequential models, nested in one another. A Lambda layer holds Python
// code, which is not read: such a model, and one with a layer without a translation, gives its
// weights alone, and a note names the layer.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& keras_format_row();

}  // namespace etalon
