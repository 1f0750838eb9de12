// Operators that mean what TensorFlow's of another spelling do, without settings of their own.
#include <map>

#include "importers/formats/tflite/operators.h"

namespace etalon::tflite {
namespace {

const std::map<std::string_view, std::string_view> kSame{
    {"FLOOR", "Floor"},
    {"CEIL", "Ceil"},
    {"LOGISTIC", "Sigmoid"},
    {"RELU", "Relu"},
    {"RELU6", "Relu6"},
    {"RELU_N1_TO_1", "ReluN1To1"},
    {"TANH", "Tanh"},
    {"EXP", "Exp"},
    {"LOG", "Log"},
    {"SQRT", "Sqrt"},
    {"RSQRT", "Rsqrt"},
    {"SQUARE", "Square"},
    {"NEG", "Neg"},
    {"ABS", "Abs"},
    {"SIN", "Sin"},
    {"COS", "Cos"},
    {"ROUND", "Round"},
    {"ELU", "Elu"},
    {"HARD_SWISH", "HardSwish"},
    {"PRELU", "Prelu"},
    {"MAXIMUM", "Maximum"},
    {"MINIMUM", "Minimum"},
    {"POW", "Pow"},
    {"SQUARED_DIFFERENCE", "SquaredDifference"},
    {"FLOOR_DIV", "FloorDiv"},
    {"FLOOR_MOD", "FloorMod"},
    {"LESS", "Less"},
    {"LESS_EQUAL", "LessEqual"},
    {"GREATER", "Greater"},
    {"GREATER_EQUAL", "GreaterEqual"},
    {"EQUAL", "Equal"},
    {"NOT_EQUAL", "NotEqual"},
    {"LOGICAL_AND", "LogicalAnd"},
    {"LOGICAL_OR", "LogicalOr"},
    {"LOGICAL_NOT", "LogicalNot"},
    {"SELECT", "Select"},
    {"SELECT_V2", "SelectV2"},
    {"TRANSPOSE", "Transpose"},
    {"EXPAND_DIMS", "ExpandDims"},
    {"SLICE", "Slice"},
    {"TILE", "Tile"},
    {"PAD", "Pad"},
    {"PADV2", "PadV2"},
    {"BROADCAST_TO", "BroadcastTo"},
    {"FILL", "Fill"},
    {"RANGE", "Range"},
    {"RANK", "Rank"},
    {"ZEROS_LIKE", "ZerosLike"},
    {"ADD_N", "AddN"},
    {"GATHER_ND", "GatherNd"},
    {"SPACE_TO_BATCH_ND", "SpaceToBatchND"},
    {"BATCH_TO_SPACE_ND", "BatchToSpaceND"},
    {"TOPK_V2", "TopKV2"},
    {"LOG_SOFTMAX", "LogSoftmax"},
    {"SPLIT_V", "SplitV"},
    {"REVERSE_V2", "ReverseV2"},
    {"SIGN", "Sign"},
    {"SEGMENT_SUM", "SegmentSum"},
    {"UNSORTED_SEGMENT_SUM", "UnsortedSegmentSum"},
    {"UNSORTED_SEGMENT_MAX", "UnsortedSegmentMax"},
    {"UNSORTED_SEGMENT_MIN", "UnsortedSegmentMin"},
    {"UNSORTED_SEGMENT_PROD", "UnsortedSegmentProd"},
    {"MATRIX_SET_DIAG", "MatrixSetDiag"},
    {"BITWISE_XOR", "BitwiseXor"},
    {"COMPLEX_ABS", "ComplexAbs"},
    {"REAL", "Real"},
    {"IMAG", "Imag"},
    {"RFFT2D", "RFFT2D"},
    {"SPARSE_TO_DENSE", "SparseToDense"},
    {"DYNAMIC_UPDATE_SLICE", "XlaDynamicUpdateSlice"}};

}  // namespace

std::string_view tensorflow_name(std::string_view type) {
  const auto at = kSame.find(type);
  return at == kSame.end() ? std::string_view{} : at->second;
}

}  // namespace etalon::tflite
