// The input of a network whose file does not say it: rank and channels as the first module with
// weights has them; an image's extent is what fits the layers behind it, so several are tried.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/builder.h"

namespace etalon::pytorch_format {

struct InputGuess {
  DType dtype = DType::f32;
  Ints dims, nominal;  // for GraphBuilder::input
  std::string said;    // the note
};

enum class FirstModule { embedding, recurrent, other };

// From the shape of its weight (recurrent: that of the input), the freest first.
std::vector<InputGuess> input_guesses(const Shape& weight, FirstModule module);

}  // namespace etalon::pytorch_format
