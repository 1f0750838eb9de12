#include "importers/formats/tflite/file.h"

#include <array>
#include <cmath>

#include "engine/core/error.h"

namespace etalon::tflite {
namespace {

std::optional<DType> dtype_of_code(int code) {
  switch (code) {
    case 0:
      return DType::f32;
    case 1:
      return DType::f16;
    case 2:
      return DType::i32;
    case 3:
      return DType::u8;
    case 4:
      return DType::i64;
    case 6:
      return DType::boolean;
    case 7:
      return DType::i16;
    case 9:
      return DType::i8;
    case 10:
      return DType::f64;
    case 12:
      return DType::u64;
    case 15:
      return DType::u32;
    case 16:
      return DType::u16;
    case 18:
      return DType::bf16;
    default:
      return std::nullopt;
  }
}

std::vector<std::int64_t> wide(const std::vector<std::int32_t>& values) {
  return {values.begin(), values.end()};
}

// A sparse tensor made dense. Its axes are walked in traversal order; a dense axis runs over its
// extent, a sparse (CSR) one over segments[parent] to segments[parent + 1] of its indices. Axes
// beyond the tensor's rank are blocks: index of the block's axis times its size, plus the place in
// the block.
Tensor densified(const FlatTable& sparsity, const TensorType& type, const Blob& data) {
  const auto order = sparsity.list<std::int32_t>(0), block = sparsity.list<std::int32_t>(1);
  const auto axes = sparsity.tables(2);
  const auto rank = static_cast<std::size_t>(type.shape.rank());
  if (order.size() != axes.size() || order.size() != rank + block.size() || rank == 0)
    throw bad_input("a sparse tensor of {} axes and {} blocks lists {}", rank, block.size(),
                    axes.size());
  struct Axis {
    bool sparse = false;
    std::int64_t extent = 0;
    std::vector<std::int64_t> segments, indices;
  };
  const auto numbers = [](const FlatTable& axis, int kind_field) {
    const int kind = axis.get<std::uint8_t>(kind_field, 0);
    const FlatTable vector = axis.table(kind_field + 1);
    std::vector<std::int64_t> out;
    if (kind == 1)
      for (const auto v : vector.list<std::int32_t>(0)) out.push_back(v);
    if (kind == 2)
      for (const auto v : vector.list<std::uint16_t>(0)) out.push_back(v);
    if (kind == 3)
      for (const auto v : vector.list<std::uint8_t>(0)) out.push_back(v);
    return out;
  };
  std::vector<Axis> levels;
  for (const FlatTable& a : axes)
    levels.push_back(
        {a.get<std::int8_t>(0, 0) == 1, a.get<std::int32_t>(1, 0), numbers(a, 2), numbers(a, 4)});
  std::vector<std::int64_t> block_of(rank, 1);
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (block[i] < 0 || static_cast<std::size_t>(block[i]) >= rank)
      throw bad_input("a block of axis {}", block[i]);
    for (std::size_t level = 0; level < order.size(); ++level)
      if (order[level] == static_cast<std::int32_t>(rank + i))
        block_of[static_cast<std::size_t>(block[i])] = levels[level].extent;
  }
  const auto size = static_cast<std::size_t>(size_bytes(type.dtype));
  const std::size_t stored = data.bytes.size() / size;
  Tensor out = Tensor::zeros(type.dtype, type.shape);
  const auto bytes = out.mutable_bytes();
  const auto strides = strides_of(type.shape);
  std::vector<std::int64_t> at(order.size(), 0);
  std::size_t next = 0;
  const auto walk = [&](const auto& self, std::size_t level, std::size_t parent) -> void {
    if (level == levels.size()) {
      std::int64_t element = 0;
      for (std::size_t a = 0; a < rank; ++a) {
        std::int64_t index = at[a] * block_of[a];
        for (std::size_t i = 0; i < block.size(); ++i)
          if (static_cast<std::size_t>(block[i]) == a) index += at[rank + i];
        if (index < 0 || index >= type.shape[static_cast<int>(a)])
          throw bad_input("a sparse tensor names element {} of axis {}", index, a);
        element += index * strides[a];
      }
      if (next >= stored) throw bad_input("a sparse tensor holds fewer values than its axes name");
      std::memcpy(bytes.data() + static_cast<std::size_t>(element) * size,
                  data.bytes.data() + next * size, size);
      ++next;
      return;
    }
    const auto axis = static_cast<std::size_t>(order[level]);
    if (axis >= at.size()) throw bad_input("a sparse tensor walks axis {}", axis);
    const Axis& l = levels[level];
    if (!l.sparse) {
      for (std::int64_t i = 0; i < l.extent; ++i) {
        at[axis] = i;
        self(self, level + 1,
             parent * static_cast<std::size_t>(l.extent) + static_cast<std::size_t>(i));
      }
      return;
    }
    if (parent + 1 >= l.segments.size()) throw bad_input("a sparse axis has no segment {}", parent);
    for (std::int64_t i = l.segments[parent]; i < l.segments[parent + 1]; ++i) {
      if (i < 0 || static_cast<std::size_t>(i) >= l.indices.size())
        throw bad_input("a sparse axis has no index {}", i);
      at[axis] = l.indices[static_cast<std::size_t>(i)];
      self(self, level + 1, static_cast<std::size_t>(i));
    }
  };
  walk(walk, 0, 0);
  return out;
}

constexpr std::int8_t kComplex = 8, kResource = 13, kFourBits = 17;

// Numbers of 4 bits, two in a byte, the first in the lower half; as 8-bit ones.
Tensor widened(const TensorType& type, const Blob& data) {
  const auto n = static_cast<std::size_t>(type.shape.numel());
  if (data.bytes.size() != (n + 1) / 2)
    throw bad_input("{} numbers of 4 bits in {} bytes", n, data.bytes.size());
  Tensor out = Tensor::uninitialized(type.dtype, type.shape);
  for (std::size_t i = 0; i < n; ++i) {
    const auto both = static_cast<unsigned>(data.bytes[i / 2]);
    const int four = static_cast<int>(i % 2 == 0 ? both & 15U : both >> 4U);
    out.mutable_data<std::int8_t>()[i] = static_cast<std::int8_t>(four > 7 ? four - 16 : four);
  }
  return out;
}

struct Code {
  int code;
  std::string custom;
};

void read_graph(const FlatTable& graph, const std::vector<Code>& codes,
                const std::vector<FlatTable>& buffers, const Blob& blob, File& out) {
  for (const FlatTable& t : graph.tables(0)) {
    TensorInfo info;
    info.name = t.text(3);
    const ErrorScope where(fmt::format("tensor {}", printable(info.name)));
    const auto code = t.get<std::int8_t>(1, 0);
    // A complex tensor stands between operators alone, which keep its parts.
    const auto dtype = code == kResource   ? DType::i32
                       : code == kComplex  ? DType::f32
                       : code == kFourBits ? DType::i8
                                           : dtype_of_code(code);
    if (!dtype) throw bad_input("element type {} (strings) is not supported", code);
    info.dtype = *dtype;
    info.resource = code == kResource;
    info.is_complex = code == kComplex;
    info.dims = wide(t.list<std::int32_t>(0));
    info.signature = wide(t.list<std::int32_t>(7));
    info.variable = t.get<std::uint8_t>(5, 0) != 0;
    if (info.signature.size() != info.dims.size()) info.signature = info.dims;
    if (info.dims.size() > static_cast<std::size_t>(kMaxRank))
      throw bad_input("rank {} is beyond {}", info.dims.size(), kMaxRank);
    for (const std::int64_t d : info.dims)
      if (d < 0) throw bad_input("an extent of {}", d);
    if (const FlatTable q = t.table(4)) {
      info.quantisation.scales = q.list<float>(2);
      info.quantisation.zeros = q.list<std::int64_t>(3);
      info.quantisation.axis = q.get<std::int32_t>(6, 0);
      if (!is_floating(info.dtype) && info.quantisation.given())
        for (const float s : info.quantisation.scales)
          if (!(s > 0) || !std::isfinite(s)) throw bad_input("a scale of {}", s);
      if (info.dtype == DType::i8 || info.dtype == DType::u8)
        for (const std::int64_t z : info.quantisation.zeros)
          if (const std::int64_t low = info.dtype == DType::i8 ? -128 : 0; z < low || z > low + 255)
            throw bad_input("a zero point of {} for {}", z, name(info.dtype));
    }
    const auto buffer = t.get<std::uint32_t>(2, 0);
    if (buffer != 0) {
      if (buffer >= buffers.size()) throw bad_input("buffer {} of {}", buffer, buffers.size());
      const FlatTable& b = buffers[buffer];
      Blob data = b.blob(0);
      if (b.has(1) && b.get<std::uint64_t>(1, 0) > 1) {
        // Files beyond 2 GB keep the bytes behind the table.
        const auto at = b.get<std::uint64_t>(1, 0), size = b.get<std::uint64_t>(2, 0);
        if (at > blob.bytes.size() || size > blob.bytes.size() - at)
          throw bad_input("claims bytes {} to {} of {}", at, at + size, blob.bytes.size());
        data = {blob.bytes.subspan(at, size), blob.keeper};
      }
      if (!data.bytes.empty()) {
        const TensorType type{info.dtype, Shape(info.dims)};
        if (code == kComplex) throw bad_input("a constant of complex numbers is not supported");
        if (code == kFourBits) {
          if (t.table(6)) throw bad_input("a sparse tensor of 4 bits is not supported");
          info.value = widened(type, data);
        } else if (const FlatTable sparsity = t.table(6)) {
          // A dense tensor at most 64 times its stored values: blocks and indices tell no more.
          if (claimed_bytes(type) > blob.bytes.size() * 64)
            throw bad_input("a sparse tensor of {} in a file of {} bytes", to_string(type),
                            blob.bytes.size());
          info.value = densified(sparsity, type, data);
        } else {
          info.value = tensor_from_bytes(type, data);
        }
      }
    }
    out.tensors.push_back(std::move(info));
  }
  const auto check = [&](const std::vector<std::int32_t>& list) {
    for (const std::int32_t i : list)
      if (i < -1 || i >= static_cast<std::int32_t>(out.tensors.size()))
        throw bad_input("tensor {} of {}", i, out.tensors.size());
  };
  out.inputs = graph.list<std::int32_t>(1);
  out.outputs = graph.list<std::int32_t>(2);
  check(out.inputs);
  check(out.outputs);
  for (const FlatTable& o : graph.tables(3)) {
    const auto index = o.get<std::uint32_t>(0, 0);
    if (index >= codes.size()) throw bad_input("operator code {} of {}", index, codes.size());
    OperatorInfo op{codes[index].code,
                    codes[index].custom,
                    o.list<std::int32_t>(1),
                    o.list<std::int32_t>(2),
                    o.list<std::int32_t>(8),
                    o.table(4),
                    o.blob(5)};
    check(op.inputs);
    check(op.intermediates);
    check(op.outputs);
    if (const auto name = operator_name(op.code);
        op.outputs.empty() && name != "CALL_ONCE" && name != "ASSIGN_VARIABLE")
      throw bad_input("an operator without outputs");
    out.operators.push_back(std::move(op));
  }
}

}  // namespace

const TensorInfo& File::first_output(const OperatorInfo& op) const {
  if (op.outputs.empty() || op.outputs[0] < 0)
    throw bad_input("{} needs its first output, which the file leaves away",
                    operator_name(op.code));
  return tensors[static_cast<std::size_t>(op.outputs[0])];
}

File read_file(const Blob& blob) {
  if (blob.bytes.size() < 16)
    throw bad_input(
        "{} bytes, where a .tflite begins with a root table of 16; the file is cut short, fetch it "
        "again",
        blob.bytes.size());
  const FlatTable model = FlatTable::root(blob);
  const auto version = model.get<std::uint32_t>(0, 0);
  if (version != 3) throw bad_input("schema version {}; 3 is the one there is", version);
  File out;
  out.description = model.text(3);
  std::vector<Code> codes;
  for (const FlatTable& c : model.tables(1))
    codes.push_back(
        {std::max<int>(c.get<std::int8_t>(0, 0), c.get<std::int32_t>(3, 0)), c.text(1)});
  const auto buffers = model.tables(4);
  const auto graphs = model.tables(2);
  if (graphs.empty()) throw bad_input("no graph in it; the file is damaged");
  // Each tensor and operator has an entry of 4 bytes, which two subgraphs do not share.
  std::size_t entries = 0;
  for (const FlatTable& g : graphs) entries += g.tables(0).size() + g.tables(3).size();
  if (entries > blob.bytes.size() / 4)
    throw bad_input("{} subgraphs of {} tensors and operators in {} bytes", graphs.size(), entries,
                    blob.bytes.size());
  read_graph(graphs[0], codes, buffers, blob, out);
  for (std::size_t i = 1; i < graphs.size(); ++i) {
    const ErrorScope where(fmt::format("subgraph {}", i));
    out.called.emplace_back();
    read_graph(graphs[i], codes, buffers, blob, out.called.back());
  }
  return out;
}

std::string_view operator_name(int code) {
  static constexpr std::array kNames{"ADD",
                                     "AVERAGE_POOL_2D",
                                     "CONCATENATION",
                                     "CONV_2D",
                                     "DEPTHWISE_CONV_2D",
                                     "DEPTH_TO_SPACE",
                                     "DEQUANTIZE",
                                     "EMBEDDING_LOOKUP",
                                     "FLOOR",
                                     "FULLY_CONNECTED",
                                     "HASHTABLE_LOOKUP",
                                     "L2_NORMALIZATION",
                                     "L2_POOL_2D",
                                     "LOCAL_RESPONSE_NORMALIZATION",
                                     "LOGISTIC",
                                     "LSH_PROJECTION",
                                     "LSTM",
                                     "MAX_POOL_2D",
                                     "MUL",
                                     "RELU",
                                     "RELU_N1_TO_1",
                                     "RELU6",
                                     "RESHAPE",
                                     "RESIZE_BILINEAR",
                                     "RNN",
                                     "SOFTMAX",
                                     "SPACE_TO_DEPTH",
                                     "SVDF",
                                     "TANH",
                                     "CONCAT_EMBEDDINGS",
                                     "SKIP_GRAM",
                                     "CALL",
                                     "CUSTOM",
                                     "EMBEDDING_LOOKUP_SPARSE",
                                     "PAD",
                                     "UNIDIRECTIONAL_SEQUENCE_RNN",
                                     "GATHER",
                                     "BATCH_TO_SPACE_ND",
                                     "SPACE_TO_BATCH_ND",
                                     "TRANSPOSE",
                                     "MEAN",
                                     "SUB",
                                     "DIV",
                                     "SQUEEZE",
                                     "UNIDIRECTIONAL_SEQUENCE_LSTM",
                                     "STRIDED_SLICE",
                                     "BIDIRECTIONAL_SEQUENCE_RNN",
                                     "EXP",
                                     "TOPK_V2",
                                     "SPLIT",
                                     "LOG_SOFTMAX",
                                     "DELEGATE",
                                     "BIDIRECTIONAL_SEQUENCE_LSTM",
                                     "CAST",
                                     "PRELU",
                                     "MAXIMUM",
                                     "ARG_MAX",
                                     "MINIMUM",
                                     "LESS",
                                     "NEG",
                                     "PADV2",
                                     "GREATER",
                                     "GREATER_EQUAL",
                                     "LESS_EQUAL",
                                     "SELECT",
                                     "SLICE",
                                     "SIN",
                                     "TRANSPOSE_CONV",
                                     "SPARSE_TO_DENSE",
                                     "TILE",
                                     "EXPAND_DIMS",
                                     "EQUAL",
                                     "NOT_EQUAL",
                                     "LOG",
                                     "SUM",
                                     "SQRT",
                                     "RSQRT",
                                     "SHAPE",
                                     "POW",
                                     "ARG_MIN",
                                     "FAKE_QUANT",
                                     "REDUCE_PROD",
                                     "REDUCE_MAX",
                                     "PACK",
                                     "LOGICAL_OR",
                                     "ONE_HOT",
                                     "LOGICAL_AND",
                                     "LOGICAL_NOT",
                                     "UNPACK",
                                     "REDUCE_MIN",
                                     "FLOOR_DIV",
                                     "REDUCE_ANY",
                                     "SQUARE",
                                     "ZEROS_LIKE",
                                     "FILL",
                                     "FLOOR_MOD",
                                     "RANGE",
                                     "RESIZE_NEAREST_NEIGHBOR",
                                     "LEAKY_RELU",
                                     "SQUARED_DIFFERENCE",
                                     "MIRROR_PAD",
                                     "ABS",
                                     "SPLIT_V",
                                     "UNIQUE",
                                     "CEIL",
                                     "REVERSE_V2",
                                     "ADD_N",
                                     "GATHER_ND",
                                     "COS",
                                     "WHERE",
                                     "RANK",
                                     "ELU",
                                     "REVERSE_SEQUENCE",
                                     "MATRIX_DIAG",
                                     "QUANTIZE",
                                     "MATRIX_SET_DIAG",
                                     "ROUND",
                                     "HARD_SWISH",
                                     "IF",
                                     "WHILE",
                                     "NON_MAX_SUPPRESSION_V4",
                                     "NON_MAX_SUPPRESSION_V5",
                                     "SCATTER_ND",
                                     "SELECT_V2",
                                     "DENSIFY",
                                     "SEGMENT_SUM",
                                     "BATCH_MATMUL",
                                     "PLACEHOLDER_FOR_GREATER_OP_CODES",
                                     "CUMSUM",
                                     "CALL_ONCE",
                                     "BROADCAST_TO",
                                     "RFFT2D",
                                     "CONV_3D",
                                     "IMAG",
                                     "REAL",
                                     "COMPLEX_ABS",
                                     "HASHTABLE",
                                     "HASHTABLE_FIND",
                                     "HASHTABLE_IMPORT",
                                     "HASHTABLE_SIZE",
                                     "REDUCE_ALL",
                                     "CONV_3D_TRANSPOSE",
                                     "VAR_HANDLE",
                                     "READ_VARIABLE",
                                     "ASSIGN_VARIABLE",
                                     "BROADCAST_ARGS",
                                     "RANDOM_STANDARD_NORMAL",
                                     "BUCKETIZE",
                                     "RANDOM_UNIFORM",
                                     "MULTINOMIAL",
                                     "GELU",
                                     "DYNAMIC_UPDATE_SLICE",
                                     "RELU_0_TO_1",
                                     "UNSORTED_SEGMENT_PROD",
                                     "UNSORTED_SEGMENT_MAX",
                                     "UNSORTED_SEGMENT_SUM",
                                     "ATAN2",
                                     "UNSORTED_SEGMENT_MIN",
                                     "SIGN",
                                     "BITCAST",
                                     "BITWISE_XOR",
                                     "RIGHT_SHIFT"};
  return code >= 0 && static_cast<std::size_t>(code) < kNames.size()
             ? kNames[static_cast<std::size_t>(code)]
             : "an unknown operator";
}

}  // namespace etalon::tflite
