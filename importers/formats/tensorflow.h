// TensorFlow: frozen GraphDef (.pb), SavedModel (folder, 1.x and 2.x), checkpoints (V1 and V2, with
// or without .meta).
//
// Functions are inlined. Of a SavedModel the signature serving_default is imported, else the only
// one; its names are the graph's. Variables come from the checkpoint beside it: in TensorFlow 2 by
// the object graph, before by name. Refused by name: control flow (While, If, Switch, Merge),
// strings, lookup tables, sparse tensors, training. Sources: tensorflow/core/framework/*.proto,
// core/protobuf/{saved_model,meta_graph,tensor_bundle}.proto, core/util/saved_tensor_slice.proto.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& tensorflow_graph_format();
const FormatRow& tensorflow_saved_model_format();
const FormatRow& tensorflow_meta_format();
const FormatRow& tensorflow_checkpoint_format();

}  // namespace etalon
