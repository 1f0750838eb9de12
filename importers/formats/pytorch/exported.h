// PyTorch's exported programs, .pt2: a zip with the graph as JSON (models/*.json), its weights
// (data/weights), and calls of ATen ops by name. A call that has no translation leaves the weights
// alone, and a note names it. Source: torch/_export/serde/schema.py (2.9 on).
#pragma once

#include <string>

#include "importers/containers/zip.h"
#include "importers/importers.h"

namespace etalon::pytorch_format {

bool is_exported(const ZipReader& zip);
Model open_exported(const ZipReader& zip, const std::string& path);

}  // namespace etalon::pytorch_format
