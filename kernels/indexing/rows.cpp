// Indexing: copies of elements and blocks where indices say; what an index is, indices.h.
#include "kernels/indexing/rows.h"

#include <cstring>
#include <vector>

#include "engine/backend/bits_row.h"
#include "kernels/indexing/scatter.h"
#include "kernels/movement/copy.h"

namespace etalon {
namespace {

int element_bytes(const KernelCall& call) { return size_bytes(call.input(0).dtype()); }

void run_gather(const KernelCall& call) {
  const Shape& x = call.input(0).shape();
  const int axis = normalize_axis(call.params<GatherParams>().axis, x.rank());
  const Indices index(call.input(1));
  if (call.output(0).numel() == 0) return;
  const std::int64_t extent = x[axis], count = index.count();
  const std::int64_t block = x.product(axis + 1, x.rank()) * element_bytes(call);
  const std::byte* from = call.input(0).bytes().data();
  std::byte* to = output_bytes(call, 0);
  parallel_for(x.product(0, axis) * count, call.threads, std::max<std::int64_t>(1, 65536 / block),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i)
                   std::memcpy(to + i * block,
                               from + (i / count * extent + index.at(i % count, extent)) * block,
                               static_cast<std::size_t>(block));
               });
}

void copy_element(const KernelCall& call, std::int64_t to, std::int64_t from) {
  const auto bytes = static_cast<std::size_t>(element_bytes(call));
  std::memcpy(output_bytes(call, 0) + static_cast<std::size_t>(to) * bytes,
              call.input(0).bytes().data() + static_cast<std::size_t>(from) * bytes, bytes);
}

void run_gather_elements(const KernelCall& call) {
  const Shape& x = call.input(0).shape();
  const int axis = normalize_axis(call.params<GatherParams>().axis, x.rank());
  const Indices index(call.input(1));
  auto others = strides_of(x);
  const std::int64_t along = others[static_cast<std::size_t>(axis)];
  others[static_cast<std::size_t>(axis)] = 0;
  parallel_for(index.count(), call.threads, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      copy_element(call, i,
                   strided_offset(i, call.input(1).shape(), others) + index.at(i, x[axis]) * along);
  });
}

void run_gather_nd(const KernelCall& call) {
  const Shape& x = call.input(0).shape();
  const NdGeometry g =
      nd_geometry(x, call.input(1).shape(), call.params<GatherNdParams>().batch_dims);
  const Indices index(call.input(1));
  if (call.output(0).numel() == 0) return;
  const auto strides = strides_of(x);
  const std::int64_t batches = x.product(0, g.batch_dims);
  const std::int64_t per_batch = g.count / batches, batch_size = x.numel() / batches;
  const std::int64_t bytes = element_bytes(call);
  for (std::int64_t i = 0; i < g.count; ++i) {
    std::int64_t at = i / per_batch * batch_size;
    for (int d = 0; d < g.depth; ++d)
      at += index.at(i * g.depth + d, x[g.batch_dims + d]) *
            strides[static_cast<std::size_t>(g.batch_dims + d)];
    std::memcpy(output_bytes(call, 0) + i * g.block * bytes,
                call.input(0).bytes().data() + at * bytes,
                static_cast<std::size_t>(g.block * bytes));
  }
}

// ---- scatter ------------------------------------------------------------------------------------

void copy_input(const KernelCall& call) {
  copy_bytes(output_bytes(call, 0), call.input(0).bytes().data(), call.input(0).size_bytes(),
             call.threads);
}

// One thread: which update is the last is a matter of sequence.
void run_scatter(const KernelCall& call) {
  copy_input(call);
  const std::vector<std::int64_t> targets = scatter_targets(call, is_scatter_nd(*call.problem->op));
  const ScatterReduction reduction = scatter_reduction(*call.problem->op, *call.problem->params);
  const auto bytes = static_cast<std::size_t>(element_bytes(call));
  if (reduction == ScatterReduction::none) {
    for (std::size_t i = 0; i < targets.size(); ++i)
      std::memcpy(output_bytes(call, 0) + static_cast<std::size_t>(targets[i]) * bytes,
                  call.input(2).bytes().data() + i * bytes, bytes);
    return;
  }
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      T* y = reinterpret_cast<T*>(output_bytes(call, 0));
      const auto updates = call.input(2).data<T>();
      for (std::size_t i = 0; i < targets.size(); ++i) {
        T& slot = y[targets[i]];
        const T u = updates[i];
        const auto a = static_cast<std::uint64_t>(slot), b = static_cast<std::uint64_t>(u);
        slot = reduction == ScatterReduction::add   ? static_cast<T>(a + b)
               : reduction == ScatterReduction::mul ? static_cast<T>(a * b)
               : reduction == ScatterReduction::max ? std::max(slot, u)
                                                    : std::min(slot, u);
      }
    }
  });
}

void run_scatter_definition(const KernelCall& call) {
  copy_input(call);
  fill_truth_from_outputs(call);
  run_definition<ScatterDefinition>(call);
}

Refusal refuse_floating_reduction(const Problem& problem) {
  if (is_floating(problem.input(0).dtype) &&
      scatter_reduction(*problem.op, *problem.params) != ScatterReduction::none)
    return "computes on integers";
  return std::nullopt;
}

KernelRow scatter_definition_row(std::string_view op, std::string_view name) {
  KernelRow row = definition_row<ScatterDefinition>(name);
  row.op = op;
  row.run = run_scatter_definition;
  row.refuse = [](const Problem& problem) -> Refusal {
    if (!is_floating(problem.input(0).dtype)) return "computes on floating types";
    if (scatter_reduction(*problem.op, *problem.params) == ScatterReduction::none)
      return "computes reductions";
    return refuse_definition(problem);
  };
  return row;
}

// ---- tensors from shapes ------------------------------------------------------------------------

void run_one_hot(const KernelCall& call) {
  const Tensor& indices = call.input(0);
  const Shape& y = call.output(0).shape();
  const int axis = normalize_axis(call.params<OneHotParams>().axis, y.rank());
  const int bytes = size_bytes(call.output(0).dtype());
  const std::int64_t depth = y[axis], inner = y.product(axis + 1, y.rank());
  const std::byte* values = call.input(2).bytes().data();
  fill_elements(output_bytes(call, 0), y.numel(), values, bytes);
  if (y.numel() == 0) return;
  for (std::int64_t i = 0; i < indices.numel(); ++i) {
    double v = load_as_double(indices, i);
    if (abs_of(v) < 0x1p53) v = static_cast<double>(static_cast<std::int64_t>(v));
    if (v < 0) v += static_cast<double>(depth);
    if (!(v >= 0 && v < static_cast<double>(depth))) continue;
    const std::int64_t at = (i / inner * depth + static_cast<std::int64_t>(v)) * inner + i % inner;
    std::memcpy(output_bytes(call, 0) + at * bytes, values + bytes,
                static_cast<std::size_t>(bytes));
  }
}

void run_shape(const KernelCall& call) {
  const Shape& x = call.input(0).shape();
  const auto [begin, end] = shape_range(call.params<ShapeParams>(), x.rank());
  auto* y = reinterpret_cast<std::int64_t*>(output_bytes(call, 0));
  for (int i = begin; i < end; ++i) y[i - begin] = x[i];
}

void run_size(const KernelCall& call) {
  *reinterpret_cast<std::int64_t*>(output_bytes(call, 0)) = call.input(0).numel();
}

void run_constant_of_shape(const KernelCall& call) {
  const std::array<std::byte, 8> zero{};
  fill_elements(output_bytes(call, 0), call.output(0).numel(),
                call.has(1) ? call.input(1).bytes().data() : zero.data(),
                size_bytes(call.output(0).dtype()));
}

void run_eye_like(const KernelCall& call) {
  const Shape& y = call.output(0).shape();
  const DType dtype = call.output(0).dtype();
  const std::int64_t k = call.params<EyeLikeParams>().k;
  std::memset(output_bytes(call, 0), 0, call.output(0).size_bytes());
  if (k < -y[0] || k > y[1]) return;
  for (std::int64_t i = std::max<std::int64_t>(0, -k); i < y[0] && i + k < y[1]; ++i)
    store_from_double(dtype, output_bytes(call, 0), i * y[1] + i + k, 1.0);
}

void run_non_zero(const KernelCall& call) {
  const Tensor& x = call.input(0);
  auto* y = reinterpret_cast<std::int64_t*>(output_bytes(call, 0));
  const std::int64_t count = call.output(0).shape()[1];
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (!(load_as_double(x, i) != 0)) continue;
    std::int64_t rest = i;
    for (int a = x.shape().rank() - 1; a >= 0; --a) {
      y[a * count + found] = rest % x.shape()[a];
      rest /= x.shape()[a];
    }
    ++found;
  }
}

void run_integer_range(const KernelCall& call) {
  visit_dtype(call.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      const auto start = static_cast<std::uint64_t>(call.input(0).data<T>()[0]);
      const auto delta = static_cast<std::uint64_t>(call.input(2).data<T>()[0]);
      T* y = reinterpret_cast<T*>(output_bytes(call, 0));
      for (std::int64_t i = 0; i < call.output(0).numel(); ++i)
        y[i] = static_cast<T>(start + static_cast<std::uint64_t>(i) * delta);
    }
  });
}

struct RangeDefinition {
  static constexpr std::string_view op = "range";
  static constexpr bool rounded_once = true;
  struct Plan {
    Source start, delta;
    std::int64_t count;
  };
  static Plan plan(const KernelCall& call) {
    return {Source(call, 0), Source(call, 2), call.output(0).numel()};
  }
  static std::int64_t slices(const Plan& p) { return p.count; }
  template <class A, class Out>
  static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const auto n = static_cast<double>(i);
    auto v = a.fma(a.constant(n), a.input(p.delta[0]), a.input(p.start[0]));
    // i * delta may also be added up: a sum of 1 + i terms, one of them perhaps a product.
    if constexpr (std::is_same_v<A, AnyOrder>)
      v = {v.mid, 0, abs_of(p.start[0]) + n * abs_of(p.delta[0]), 1 + i, 1};
    out(0, i, v);
  }
};

Refusal refuse_floating(const Problem& problem) {
  if (is_floating(problem.input(0).dtype)) return "computes on integers";
  return std::nullopt;
}

KernelRow range_definition_row() {
  KernelRow row = definition_row<RangeDefinition>("range.definition");
  row.refuse = [](const Problem& problem) -> Refusal {
    if (!is_floating(problem.input(0).dtype)) return "computes on floating types";
    return refuse_definition(problem);
  };
  return row;
}

}  // namespace

std::span<const KernelRow> indexing_rows() {
  static const KernelRow rows[] = {
      bits_row<run_gather>("gather", "gather.bits"),
      bits_row<run_gather_elements>("gather_elements", "gather_elements.bits"),
      bits_row<run_gather_nd>("gather_nd", "gather_nd.bits"),
      bits_row<run_scatter>("scatter_elements", "scatter_elements.bits", refuse_floating_reduction),
      scatter_definition_row("scatter_elements", "scatter_elements.definition"),
      bits_row<run_scatter>("scatter_nd", "scatter_nd.bits", refuse_floating_reduction),
      scatter_definition_row("scatter_nd", "scatter_nd.definition"),
      bits_row<run_one_hot>("one_hot", "one_hot.bits"),
      bits_row<run_shape>("shape", "shape.bits"),
      bits_row<run_size>("size", "size.bits"),
      bits_row<run_integer_range>("range", "range.bits", refuse_floating),
      range_definition_row(),
      bits_row<run_constant_of_shape>("constant_of_shape", "constant_of_shape.bits"),
      bits_row<run_eye_like>("eye_like", "eye_like.bits"),
      bits_row<run_non_zero>("non_zero", "non_zero.bits"),
  };
  return rows;
}

}  // namespace etalon
