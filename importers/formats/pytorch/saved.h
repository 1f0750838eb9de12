// What torch.save wrote: a zip with data.pkl and its storages, as a file of its own or as a member
// of another archive (the weights of exported programs up to PyTorch 2.8).
//
// Names are paths: keys of dicts joined by dots, and of a module what its state_dict would say.
// Entries that are no tensors are passed over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "importers/containers/pickle.h"
#include "importers/containers/zip.h"
#include "importers/formats/pytorch/tensors.h"

namespace etalon::pytorch_format {

struct SavedTensors {
  TensorList tensors;
  std::vector<std::string> classes;  // of modules
};
SavedTensors collect_tensors(const Pickle& pickle, Storages& storages);

// "leaf", or "NAME/leaf" of an archive whose members all lie in a folder; null where neither is.
const ZipMember* root_member(const ZipReader& zip, std::string_view leaf);

// A member that is itself what torch.save wrote. It has to be stored as it is: an archive packed
// within a packed one could unfold to the square of what a file's size justifies.
TensorList tensors_of_member(const ZipReader& zip, const ZipMember& member);

}  // namespace etalon::pytorch_format
