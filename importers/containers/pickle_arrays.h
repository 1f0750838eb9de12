// NumPy arrays inside a pickle, however they came there.
//
// numpy.core.multiarray._reconstruct with its state (version, shape, dtype, fortran, bytes),
// numpy's scalar, _frombuffer of protocol 5, and Theano's CudaNdarray, which unpickles from a NumPy
// array. Element bytes are read in place where they can be. Source: NumPy's
// multiarray/methods.c (array_setstate), descriptor.c (arraydescr_setstate).
#pragma once

#include <optional>

#include "importers/containers/pickle.h"

namespace etalon {

// Absent when the value is no array, or one of Python objects, texts or fields. The Tensor reads in
// place what `keeper` (the Pickle) keeps alive; without one it copies.
std::optional<Tensor> numpy_array(const PickleValue& value,
                                  const std::shared_ptr<const Pickle>& keeper = nullptr);

}  // namespace etalon
