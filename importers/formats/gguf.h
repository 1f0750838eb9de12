// GGUF: the weights of ggml's programs.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& gguf_format();

}  // namespace etalon
