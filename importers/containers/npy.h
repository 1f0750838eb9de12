// NumPy's array file, versions 1 to 3: magic "\x93NUMPY", version, header length (u16 in version 1,
// else u32), a Python dict {'descr', 'fortran_order', 'shape'}, then the elements.
//
// Big-endian and Fortran-ordered arrays are converted; little-endian row-major ones are read in
// place. An array of Python objects is a pickle behind the header. Refused by name: structured,
// text, time and complex arrays. numpy has no bf16, so none is written. Source: numpy.lib.format
// (NEP 1).
#pragma once

#include <string>

#include "engine/ops/params.h"
#include "importers/containers/bytes.h"

namespace etalon {

Tensor read_npy(const Blob& blob);
// The pickle of an array of objects; no bytes where it is an array of numbers.
Blob npy_pickle(const Blob& blob);
// Elements of a NumPy type ("<f4") and order; read in place where they can be.
Tensor array_from_bytes(const std::string& descr, bool fortran, const Ints& shape,
                        const Blob& data);
// Magic, header and its padding: what precedes the elements. The elements begin at a multiple of 64
// bytes.
std::string npy_header(const TensorType& type);
bool is_npy(std::span<const std::byte> prefix);

}  // namespace etalon
