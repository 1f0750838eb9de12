// MXNet: symbol JSON of 0.x to 1.9 with .params (V0 to V3, row-sparse and CSR); .params alone.
//
// A symbol says neither the shape of its input nor, always, its rank: the shape is taken from
// __shape__, else derived from the first weights and tried against all others. Conventions, each
// with a note: pooling_convention full rounds up; average pooling counts padding; fix_gamma makes a
// batch norm's scale 1 whatever the file holds; LRN divides alpha by the window.
// Source: mxnet's src/ndarray/ndarray.cc (NDArray::Save), nnvm's JSON of graphs.
#pragma once

#include "importers/importers.h"

namespace etalon {

const FormatRow& mxnet_symbol_format();
const FormatRow& mxnet_params_format();

}  // namespace etalon
