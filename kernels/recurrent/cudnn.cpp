// lstm, gru and rnn by cuDNN 9: one layer, forward inference, the algorithms by name. What the
// library computes: sigmoid and tanh (rnn: tanh or relu), both biases; gru with
// linear_before_reset; one direction forward, or both. All else is refused. What an algorithm
// cannot do (sizes, lengths) the library says when it is asked for its memory: that becomes an
// error that names the status. The dynamic persistent one, which the library compiles at run time,
// has no row.
//
// Each run carries w, r and b to the library's weight space (cudnn_weights.h), and of two
// directions what it lays out otherwise than the op: y [T,B,2,H] where the op has [T,2,B,H], the
// states [2,B,H] where with batch_first it has [B,2,H]. Times hold these moves.
#include "kernels/recurrent/cudnn.h"

#include <algorithm>
#include <limits>

#include "kernels/backends/cuda/cudnn_calls.h"
#include "kernels/recurrent/cuda_cells.h"
#include "kernels/recurrent/cudnn_weights.h"

namespace etalon::cuda {
namespace {

using dnn::as_int;
using dnn::call;
using dnn::Described;
using dnn::handle;

// As the library's C interface has them since version 8.
enum Algorithm : int { kStandard = 0, kPersistStatic = 1, kPersistStaticSmallHidden = 3 };
enum Mode : int { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };
constexpr int kNoBias = 0, kBothBiases = 2;
constexpr int kTimeFirst = 0, kBatchFirst = 2;  // both with padding behind short rows
constexpr unsigned kPadded = 1;
constexpr int kInference = 0, kLinearInput = 0, kClipped = 1;
void* const kNone = nullptr;

Mode mode_of(const RecurrentGeometry& g) {
  if (g.kind != CellKind::rnn) return g.kind == CellKind::gru ? kGru : kLstm;
  return g.activations[0][0].function == CellFunction::relu ? kRelu : kTanh;
}

const std::byte* bytes(const KernelCall& c, std::size_t i) {
  return c.has(i) ? c.input(i).bytes().data() : nullptr;
}

template <class F>
const std::uint32_t* kept_map(Work& work, F&& make) {
  return static_cast<const std::uint32_t*>(work.kept([&] {
    const std::vector<std::uint32_t> map = make();
    const auto own = std::as_bytes(std::span(map));
    return std::vector<std::byte>(own.begin(), own.end());
  }));
}

void exchange(Work& work, const void* from, void* to, std::int64_t outer, std::int64_t a,
              std::int64_t b, std::int64_t inner) {
  MoveTask task;
  task.y = static_cast<std::byte*>(to);
  task.count = outer * a * b * inner;
  task.map = kept_map(work, [&] { return exchange_map(outer, a, b, inner); });
  task.sources = 1;
  task.from[0] = static_cast<const std::byte*>(from);
  task.first[0] = 1;
  check(api().move(task, stream()), "the kernel's launch");
}

// Where the library wants a weight, in floats from the beginning of its space.
std::int64_t place_of(const Described& rnn, const CudnnWeight& w, std::size_t size_bytes,
                      void* space) {
  const Described matrix("Tensor"), bias("Tensor");
  void *matrix_at = nullptr, *bias_at = nullptr;
  call("cudnnGetRNNWeightParams", handle(), rnn.get(), as_int(w.direction), size_bytes,
       static_cast<const void*>(space), as_int(w.linear), matrix.get(), &matrix_at, bias.get(),
       &bias_at);
  const void* const at = w.bias ? bias_at : matrix_at;
  int type = -1, axes = 0, extents[3] = {}, strides[3] = {};
  call("cudnnGetTensorNdDescriptor", w.bias ? bias.get() : matrix.get(), 3, &type, &axes, extents,
       strides);
  // [1, rows, cols], in sequence.
  if (at == nullptr || type != dnn::kFloat || axes != 3 || extents[0] != 1 ||
      extents[1] != w.rows || extents[2] != w.cols || (w.cols > 1 && strides[2] != 1) ||
      strides[1] != w.cols)
    throw missing(
        "cuDNN {}: linear layer {} of a cell is not {} rows of {} floats in sequence, which "
        "its rows count on; take another row, or --device cpu",
        cudnn().version, w.linear, w.rows, w.cols);
  return (static_cast<const std::byte*>(at) - static_cast<std::byte*>(space)) /
         static_cast<std::int64_t>(sizeof(float));
}

void* pack(const KernelCall& host, const RecurrentGeometry& g, const Described& rnn,
           std::size_t size_bytes, Work& work) {
  void* const space = work.scratch(std::max<std::size_t>(sizeof(float), size_bytes));
  MoveTask task;
  task.y = static_cast<std::byte*>(space);
  task.count = static_cast<std::int64_t>(size_bytes / sizeof(float));
  task.map = kept_map(work, [&] {
    const std::vector<CudnnWeight> weights = cudnn_weights(g, host.has(3));
    std::vector<std::int64_t> at;
    for (const CudnnWeight& w : weights) at.push_back(place_of(rnn, w, size_bytes, space));
    return cudnn_weight_map(weights, at, task.count);
  });
  std::int64_t name = 1;
  for (const std::size_t i : {1, 2, 3}) {
    if (!host.has(i)) continue;
    const auto s = static_cast<std::size_t>(task.sources++);
    task.from[s] = bytes(host, i);
    task.first[s] = static_cast<std::uint32_t>(name);
    name += host.input(i).numel();
  }
  check(api().move(task, stream()), "the kernel's launch");
  return space;
}

template <Algorithm algorithm, dnn::Math math>
void enqueue(const KernelCall& host, Work& work) {
  const RecurrentPlan plan = cell_plan(host);
  const RecurrentGeometry& g = plan.g;
  const bool two = g.directions == 2, lstm = g.kind == CellKind::lstm;
  const std::int64_t state = g.directions * g.batch * g.hidden;
  std::vector<int> lengths;
  for (std::int64_t b = 0; b < g.batch; ++b) {
    lengths.push_back(as_int(plan.length_of(b)));
    if (lengths.back() == 0)
      throw missing(
          "cuDNN {}: sequence_lens[{}] is 0, its cells take rows of at least one step; "
          "take another row",
          cudnn().version, b);
  }
  const auto* const on_device = static_cast<const std::int32_t*>(work.kept([&] {
    const auto own = std::as_bytes(std::span(lengths));
    return std::vector<std::byte>(own.begin(), own.end());
  }));

  const Described rnn("RNN"), x("RNNData"), y("RNNData"), h("Tensor");
  call("cudnnSetRNNDescriptor_v8", rnn.get(), static_cast<int>(algorithm),
       static_cast<int>(mode_of(g)), host.has(3) ? kBothBiases : kNoBias, two ? 1 : 0, kLinearInput,
       dnn::kFloat, dnn::kFloat, static_cast<int>(math), as_int(g.inputs), as_int(g.hidden),
       as_int(g.hidden), 1, kNone, kPadded);
  if (plan.cell_clip > 0)
    call("cudnnRNNSetClip_v9", rnn.get(), kClipped, -plan.cell_clip, plan.cell_clip);
  float padding = 0;
  const int layout = g.batch_first ? kBatchFirst : kTimeFirst;
  call("cudnnSetRNNDataDescriptor", x.get(), dnn::kFloat, layout, as_int(g.steps), as_int(g.batch),
       as_int(g.inputs), static_cast<const int*>(lengths.data()), static_cast<void*>(&padding));
  call("cudnnSetRNNDataDescriptor", y.get(), dnn::kFloat, layout, as_int(g.steps), as_int(g.batch),
       as_int(g.directions * g.hidden), static_cast<const int*>(lengths.data()),
       static_cast<void*>(&padding));
  const int extents[] = {as_int(g.directions), as_int(g.batch), as_int(g.hidden)};
  const int strides[] = {as_int(g.batch * g.hidden), as_int(g.hidden), 1};
  call("cudnnSetTensorNdDescriptor", h.get(), dnn::kFloat, 3, static_cast<const int*>(extents),
       static_cast<const int*>(strides));

  std::size_t weight_bytes = 0, work_bytes = 0, reserve_bytes = 0;
  call("cudnnGetRNNWeightSpaceSize", handle(), rnn.get(), &weight_bytes);
  call("cudnnGetRNNTempSpaceSizes", handle(), rnn.get(), kInference, x.get(), &work_bytes,
       &reserve_bytes);
  void* const weights = pack(host, g, rnn, weight_bytes, work);
  void* const workspace = work.scratch(std::max<std::size_t>(1, work_bytes));

  // States and y as the library has them.
  const auto floats = [&](std::int64_t n) {
    return work.scratch(static_cast<std::size_t>(n) * sizeof(float));
  };
  const bool states_move = two && g.batch_first, y_moves = two && !g.batch_first;
  const auto initial = [&](std::size_t i) -> const void* {
    if (!host.has(i) || !states_move) return bytes(host, i);
    void* const own = floats(state);
    exchange(work, bytes(host, i), own, 1, g.batch, 2, g.hidden);
    return own;
  };
  const auto final_state = [&](std::size_t o) -> void* {
    return states_move ? floats(state) : device_floats(host.output(o));
  };
  const void *hx = initial(5), *cx = lstm ? initial(6) : nullptr;
  void *hy = final_state(1), *cy = lstm ? final_state(2) : nullptr;
  void* const out = y_moves ? floats(host.output(0).numel()) : device_floats(host.output(0));
  call("cudnnRNNForward", handle(), rnn.get(), kInference, on_device, x.get(),
       static_cast<const void*>(bytes(host, 0)), y.get(), out, h.get(), hx, hy, h.get(), cx, cy,
       weight_bytes, static_cast<const void*>(weights), work_bytes, workspace, std::size_t{0},
       kNone);
  if (y_moves) exchange(work, out, device_floats(host.output(0)), g.steps, g.batch, 2, g.hidden);
  if (states_move) {
    exchange(work, hy, device_floats(host.output(1)), 1, 2, g.batch, g.hidden);
    if (lstm) exchange(work, cy, device_floats(host.output(2)), 1, 2, g.batch, g.hidden);
  }
}

CellKind kind_of(const Problem& problem) {
  return problem.op->name == "rnn"   ? CellKind::rnn
         : problem.op->name == "gru" ? CellKind::gru
                                     : CellKind::lstm;
}

const RecurrentParams& params_of(const Problem& problem) {
  switch (kind_of(problem)) {
    case CellKind::rnn:
      return problem.params->as<RnnParams>();
    case CellKind::gru:
      return problem.params->as<GruParams>();
    default:
      return problem.params->as<LstmParams>();
  }
}

Refusal refuse(const Problem& problem) {
  const RecurrentParams& p = params_of(problem);
  const RecurrentGeometry g = recurrent_geometry(kind_of(problem), p, InferInputs(problem.inputs));
  if (p.direction == Direction::reverse) return "goes forward or both ways, not backward alone";
  if (p.clip > 0) return "clips no argument of an activation";
  const auto is = [&](std::size_t d, std::size_t i, CellFunction f) {
    return g.activations[d][i].function == f;
  };
  for (std::size_t d = 0; d < static_cast<std::size_t>(g.directions); ++d) {
    if (g.kind == CellKind::rnn) {
      if (!is(d, 0, CellFunction::tanh) && !is(d, 0, CellFunction::relu))
        return "takes Tanh or Relu";
      if (!is(d, 0, g.activations[0][0].function))
        return "takes one activation for both directions";
    } else if (!is(d, 0, CellFunction::sigmoid) || !is(d, 1, CellFunction::tanh) ||
               (g.kind == CellKind::lstm && !is(d, 2, CellFunction::tanh))) {
      return "takes Sigmoid for the gates and Tanh for the rest";
    }
  }
  if (g.kind == CellKind::gru && !problem.params->as<GruParams>().linear_before_reset)
    return "resets behind the product with r: takes linear_before_reset alone";
  if (g.kind == CellKind::lstm) {
    if (problem.params->as<LstmParams>().input_forget) return "has a forget gate of its own";
    if (problem.has(7)) return "has no peepholes";
  }
  std::int64_t weights = 0;
  for (const std::size_t i : {1, 2, 3})
    if (problem.has(i)) weights += problem.input(i).shape.numel();
  if (weights > std::numeric_limits<std::int32_t>::max())
    return "takes weights of fewer than 2^31 elements in all";
  constexpr std::size_t kLengths = 4;
  return dnn::refuse(problem, kLengths);
}

template <Algorithm algorithm, dnn::Math math = dnn::kFmaMath>
DeviceRow row(std::string_view op, std::string_view name) {
  return vendor_row<enqueue<algorithm, math>>(op, name, refuse, [] { return cudnn().version; });
}

}  // namespace

std::span<const DeviceRow> cudnn_recurrent_rows() {
  static const DeviceRow rows[] = {
      row<kStandard>("lstm", "cudnn.lstm.standard"),
      row<kPersistStatic>("lstm", "cudnn.lstm.persist_static"),
      row<kPersistStaticSmallHidden>("lstm", "cudnn.lstm.persist_static_small_h"),
      row<kStandard, dnn::kDefaultMath>("lstm", "cudnn.lstm.standard_tf32"),
      row<kStandard>("gru", "cudnn.gru.standard"),
      row<kPersistStatic>("gru", "cudnn.gru.persist_static"),
      row<kPersistStaticSmallHidden>("gru", "cudnn.gru.persist_static_small_h"),
      row<kStandard, dnn::kDefaultMath>("gru", "cudnn.gru.standard_tf32"),
      row<kStandard>("rnn", "cudnn.rnn.standard"),
      row<kPersistStatic>("rnn", "cudnn.rnn.persist_static"),
      row<kPersistStaticSmallHidden>("rnn", "cudnn.rnn.persist_static_small_h"),
      row<kStandard, dnn::kDefaultMath>("rnn", "cudnn.rnn.standard_tf32")};
  return rows;
}

}  // namespace etalon::cuda
