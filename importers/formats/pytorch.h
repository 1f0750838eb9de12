// PyTorch: what torch.save, torch.jit.save and torch.export.save write. Nothing in them is run:
// pickles are read as data (importers/containers/pickle.h), TorchScript by a closed list of calls.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& pytorch_format_row();

}  // namespace etalon
