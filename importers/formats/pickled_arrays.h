// The NumPy arrays that a pickle holds, wherever they stand in it.
//
// An array's name is the shortest path to it: keys and places joined by dots, empty for the pickle
// itself; an array of one object adds nothing. A shared variable of Theano (SharedVariable,
// those on a GPU too) is its value. An array that is reached twice is taken once; the states of
// random generators are no arrays of the file's.
#pragma once

#include "importers/containers/pickle.h"
#include "importers/importers.h"

namespace etalon {

struct PickledArrays {
  TensorList arrays;
  bool theano = false;  // something in it is Theano's
};
PickledArrays pickled_arrays(const std::shared_ptr<const Pickle>& pickle);

}  // namespace etalon
