// The inputs of a network whose file does not say them: as the caller says
// (importers/input_hints.h), or rank and channels as the first module with weights has them; an
// image's extent is what fits the layers behind it, so several are tried.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/builder.h"
#include "importers/formats/pytorch/script_walker.h"

namespace etalon::pytorch_format {

struct InputGuess {
  std::string name;
  DType dtype = DType::f32;
  Ints dims, nominal;  // for GraphBuilder::input
};

// One input for each tensor that is wanted.
struct InputGuesses {
  std::vector<InputGuess> inputs;
  std::string said;  // the note
};

// How many tensors an argument of this type holds: of Tuple[Tensor, Tensor] two, else one.
std::size_t tensors_in(std::string_view type);

enum class FirstModule { embedding, recurrent, other };

// What a network is known to take: `arguments` are those of its forward, nothing is known of their
// types where the format does not say them.
struct WantedInputs {
  std::vector<ScriptParameter> arguments;
  Shape first_weight;  // rank 0: there is none
  FirstModule first = FirstModule::other;
};

// The freest first. AtenUnknown where nothing can be guessed: it says how to tell the shapes.
std::vector<InputGuesses> input_guesses(const WantedInputs& wanted);

}  // namespace etalon::pytorch_format
