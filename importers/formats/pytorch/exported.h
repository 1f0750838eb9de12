// PyTorch's exported programs, .pt2: a zip with the graph as JSON and its weights, and calls of
// ATen ops by name. A call that has no translation leaves the weights alone, and a note names it.
//
// from 2.9: models/NAME.json, data/weights/ with a table (NAME_weights_config.json) and raw members
// 2.8:      models/NAME.json, data/weights/NAME.pt as torch.save writes it (saved.h)
// to 2.7:   serialized_exported_program.json, serialized_state_dict.pt, serialized_constants.pt
// Source: torch/_export/serde/schema.py, torch/export/pt2_archive.
#pragma once

#include <string>

#include "importers/containers/zip.h"
#include "importers/importers.h"

namespace etalon::pytorch_format {

bool is_exported(const ZipReader& zip);
Model open_exported(const ZipReader& zip, const std::string& path);

}  // namespace etalon::pytorch_format
