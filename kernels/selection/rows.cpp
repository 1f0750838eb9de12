// What is selected, engine/ops/selection.h says; here it is written down.
#include "kernels/selection/rows.h"

#include <algorithm>
#include <cstring>

#include "engine/backend/bits_row.h"
#include "engine/ops/selection.h"

namespace etalon {
namespace {

void run_non_max_suppression(const KernelCall& call) {
  const auto given = [&](std::size_t i) { return call.has(i) ? &call.input(i) : nullptr; };
  const auto found = select_boxes(call.params<NonMaxSuppressionParams>(),
                                  {given(0), given(1), given(2), given(3), given(4)});
  std::int64_t* to = call.output(0).mutable_data<std::int64_t>().data();
  for (const SelectedBox& box : found) to = std::copy(box.begin(), box.end(), to);
}

void run_unique(const KernelCall& call) {
  const auto& params = call.params<UniqueParams>();
  const Tensor& x = call.input(0);
  const UniqueSlices found = unique_slices(params, x);
  const auto [outer, slices, inner] = unique_view(params, x.shape());
  const auto bytes = static_cast<std::size_t>(inner * size_bytes(x.dtype()));
  const std::byte* from = x.bytes().data();
  std::byte* to = output_bytes(call, 0);
  for (std::int64_t o = 0; o < outer; ++o)
    for (const std::int64_t slice : found.first) {
      std::memcpy(to, from + static_cast<std::size_t>(o * slices + slice) * bytes, bytes);
      to += bytes;
    }
  const std::vector<std::int64_t>* lists[] = {&found.first, &found.inverse, &found.counts};
  for (std::size_t i = 0; i < std::size(lists) && i + 1 < call.outputs.size(); ++i)
    std::copy(lists[i]->begin(), lists[i]->end(),
              call.output(i + 1).mutable_data<std::int64_t>().begin());
}

}  // namespace

std::span<const KernelRow> selection_rows() {
  static const KernelRow rows[] = {
      bits_row<run_non_max_suppression>("non_max_suppression", "non_max_suppression.bits"),
      bits_row<run_unique>("unique", "unique.bits"),
  };
  return rows;
}

}  // namespace etalon
