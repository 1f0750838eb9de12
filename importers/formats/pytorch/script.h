// TorchScript archives: a graph from the code of `forward`, where that is made of known calls.
//
// The code (script_syntax.h) is walked with the values that are known without input: modules and
// their settings from the pickle, integers, lists, extents. A branch is taken where its condition
// is such a value; calls of modules and functions are walked into; a call of ATen on a tensor
// becomes a node (aten.h). Nothing is executed. What is not known (a loop, a branch on data, an
// unknown call) leaves the weights alone, and a note names it.
//
// An archive does not say the shape of its input: rank and channels are those of the first module
// with weights, an image's extent is what fits the linear layers (extents.h); a note says which.
#pragma once

#include <string>

#include "importers/containers/zip.h"
#include "importers/formats/pytorch/tensors.h"

namespace etalon::pytorch_format {

// True, and the model has a graph; else a note of why not, and the model is as before.
bool open_script(const ZipReader& zip, const std::string& folder, const Pickle& pickle,
                 Storages& storages, std::size_t file_bytes, Model& model);

}  // namespace etalon::pytorch_format
