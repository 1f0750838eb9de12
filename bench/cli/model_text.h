// What inspect, convert and run say about a model in words.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace etalon::cli {

std::string declaration_text(const Declaration& declared);  // "f32[batch,1,28,28]"

}  // namespace etalon::cli
