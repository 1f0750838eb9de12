#include "kernels/resize/rows.h"

#include <algorithm>
#include <cstring>

#include "kernels/movement/fill_run.h"
#include "kernels/resize/definition.h"
#include "kernels/resize/exact.h"
#include "kernels/resize/fast.h"

namespace etalon {
namespace {

std::int64_t nearest_index(NearestMode mode, const ResizePlace& place, std::int64_t extent) {
  bool up = false;
  switch (mode) {
    case NearestMode::round_prefer_floor:
      up = place.r > 0.5;
      break;
    case NearestMode::round_prefer_ceil:
      up = place.r >= 0.5;
      break;
    case NearestMode::floor:
      break;
    case NearestMode::ceil:
      up = place.r > 0;
      break;
  }
  return std::clamp<std::int64_t>(place.floor + (up ? 1 : 0), 0, extent - 1);
}

// For every axis a table of offsets into x, -1 for the extrapolation value; rows of the last axis
// are gathered, or copied: from x where that axis does not change, else from y where a row is the
// one before it.
template <class U>
void gather_rows(const KernelCall& call) {
  const auto& params = call.params<ResizeParams>();
  const std::vector<InferInput> known = known_inputs(call);
  const auto axes = resize_axes(params, InferInputs(known));
  const Shape& y = call.output(0).shape();
  const auto strides = strides_of(call.input(0).shape());
  const int rank = y.rank();
  const U* from = reinterpret_cast<const U*>(call.input(0).bytes().data());
  U* to = reinterpret_cast<U*>(output_bytes(call, 0));
  if (y.numel() == 0) return;
  if (rank == 0) {
    *to = *from;
    return;
  }
  std::vector<std::vector<std::int64_t>> table(static_cast<std::size_t>(rank));
  for (std::size_t a = 0; a < table.size(); ++a)
    for (std::int64_t o = 0; o < axes[a].out; ++o) {
      const ResizePlace place = resize_place(params, axes[a], o);
      table[a].push_back(
          place.outside ? -1 : nearest_index(params.nearest_mode, place, axes[a].in) * strides[a]);
    }
  U value{};
  store_from_double(call.output(0).dtype(), reinterpret_cast<std::byte*>(&value), 0,
                    static_cast<double>(params.extrapolation_value));
  const std::vector<std::int64_t>& columns = table.back();
  const bool whole = !axes[static_cast<std::size_t>(rank - 1)].changes;
  const std::int64_t n = y[rank - 1];
  parallel_for(y.numel() / n, call.threads, std::max<std::int64_t>(1, 16384 / n),
               [&](std::int64_t begin, std::int64_t end) {
                 std::int64_t gathered = -1;  // the row before's offset, if it was
                 for (std::int64_t r = begin; r < end; ++r) {
                   std::int64_t rest = r, at = 0;
                   bool outside = false;
                   for (int i = rank - 2; i >= 0; --i) {
                     const std::int64_t j =
                         table[static_cast<std::size_t>(i)][static_cast<std::size_t>(rest % y[i])];
                     rest /= y[i];
                     outside |= j < 0;
                     at += j;
                   }
                   U* row = to + r * n;
                   const U* copied = outside          ? nullptr
                                     : whole          ? from + at
                                     : at == gathered ? row - n
                                                      : nullptr;
                   gathered = outside ? -1 : at;
                   if (outside)
                     fill_run(row, n, value);
                   else if (copied != nullptr)
                     std::memcpy(row, copied, static_cast<std::size_t>(n) * sizeof(U));
                   else
                     for (std::int64_t i = 0; i < n; ++i) {
                       const std::int64_t c = columns[static_cast<std::size_t>(i)];
                       row[i] = c < 0 ? value : from[at + c];
                     }
                 }
               });
}

void run_nearest(const KernelCall& call) {
  switch (size_bytes(call.input(0).dtype())) {
    case 1:
      return gather_rows<std::uint8_t>(call);
    case 2:
      return gather_rows<std::uint16_t>(call);
    case 4:
      return gather_rows<std::uint32_t>(call);
    default:
      return gather_rows<std::uint64_t>(call);
  }
}

Refusal nearest_only(const Problem& problem) {
  if (problem.params->as<ResizeParams>().mode != ResizeMode::nearest)
    return "computes mode=nearest";
  return std::nullopt;
}

}  // namespace

std::span<const KernelRow> resize_rows() {
  static const KernelRow definitions[] = {
      bits_row<run_nearest>("resize", "resize.bits", nearest_only),
      [] {
        KernelRow row = definition_row<ResizeDefinition>("resize.definition");
        row.refuse = [](const Problem& problem) -> Refusal {
          if (problem.params->as<ResizeParams>().mode == ResizeMode::nearest)
            return "computes mode=linear and mode=cubic";
          return refuse_definition(problem);
        };
        return row;
      }(),
  };
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all(resize_f32_rows().begin(), resize_f32_rows().end());
    all.insert(all.end(), resize_exact_rows().begin(), resize_exact_rows().end());
    all.insert(all.end(), std::begin(definitions), std::end(definitions));
    return all;
  }();
  return rows;
}

}  // namespace etalon
