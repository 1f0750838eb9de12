// Whole modules (torch.save of an nn.Module): a graph where the classes are those of torch.nn whose
// meaning is known (Sequential and what stands in one). The code of other classes is not in the
// file, so a network of these gives its weights alone.
//
// Each module is read as the call that its forward makes (aten.h); settings that an old file lacks
// are PyTorch's defaults. Networks saved in training are read for inference: batch norms by their
// statistics, dropout the identity.
#pragma once

#include "importers/formats/pytorch/tensors.h"

namespace etalon::pytorch_format {

// True, and the model has a graph; else a note of why not, and the model is as before.
bool open_module(const Pickle& pickle, Storages& storages, Model& model);

}  // namespace etalon::pytorch_format
