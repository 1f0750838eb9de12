// What the forward of known composed classes does: those of torchvision.models, whose code has kept
// its meaning since they were first released. A recipe is words, from left to right:
//   name    the child of that name; with a ? behind it, where there is one
//   [ a | b ]add   branches of one input (an empty one is the input itself), joined by add, mul or
//                  cat (along the channels)
//   :word   a call: flatten, relu, pool1 (a global mean), mean23, avg3 (3x3, stride 1, pad 1),
//           max3s2 (3x3, stride 2), shuffle2 (channels, two groups), first, second (half of the
//           channels), permute (by its dims), norm (layer_norm over channels that stand second);
//           all (the children one behind the other), dense (each sees all that came before)
//   *name   times that parameter
#pragma once

#include <string_view>

namespace etalon::pytorch_format {

struct ModuleRecipe {
  std::string_view type;       // the end of the class's name: "resnet.BasicBlock"
  std::string_view condition;  // "": always; a field that is true, or "field=integer"
  std::string_view recipe;     // where it holds
  std::string_view otherwise;  // "": refused
};

// nullptr where the class is none of torchvision's that are known.
const ModuleRecipe* recipe_of(std::string_view type);

}  // namespace etalon::pytorch_format
