// Matrix products and convolutions of a device made of host memory.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/conv/cuda_digits.h"
#include "kernels/conv/cuda_exact_winograd_choice.h"
#include "kernels/conv/cuda_winograd.h"
#include "kernels/gemm/cuda_digits.h"
#include "kernels/gemm/cuda_residue_forecast.h"
#include "kernels/gemm/cuda_residues.h"
#include "kernels/gemm/cuda_tile_choice.h"
#include "kernels/gemm/cuda_wide_choice.h"
#include "tests/host_device_kernels.h"

namespace etalon::host {
namespace {

template <class Products, bool conv>
int any_wide(const KernelCall& call, const cuda::WideMemory& memory,
             const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, undecided, shape = device->tile_shape] {
    const WideTask task = wide_task(kept->call(), memory, shape);
    if (task.left_to_residues()) return;
    CHECK((task.splits == 1 || memory.sums != nullptr));
    device->wide_blocks.insert(
        task.thin > 0
            ? fmt::format("thin {}{}", task.thin, task.a.fours && task.b.fours ? " fours" : "")
            : fmt::format("{}{}x{} {}{}{}{}", conv ? "conv " : "", task.rows, task.cols,
                          task.a_k_major ? "k" : "m", task.b_k_major ? "k" : "n",
                          task.a.fours && task.b.fours ? " fours"
                          : task.a.fours               ? " a fours"
                                                       : "",
                          task.splits > 1 ? " split" : ""));
    run_wide_on_host<Products, conv>(
        task, [](std::int64_t) { ++device->open; },
        [&](std::int64_t at) { put_on_list(undecided, at); });
  });
}

}  // namespace

int wide(const KernelCall& call, const cuda::WideMemory& memory,
         const cuda::UndecidedList& undecided, void* s) {
  return any_wide<MatrixProducts, false>(call, memory, undecided, s);
}
int conv_wide(const KernelCall& call, const cuda::WideMemory& memory,
              const cuda::UndecidedList& undecided, void* s) {
  return any_wide<WindowProducts, true>(call, memory, undecided, s);
}

int tiles(const KernelCall& call, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, shape = device->tile_shape] {
    const KernelCall own = kept->call();
    const TileChoice c =
        tile_choice(tile_task(own, cuda::device_floats(own.output(0))),
                    own.problem->op->name == "conv", own.contract().fma, 132, shape);
    run_tiles_on_host(c);
  });
}
int digits(const KernelCall& call, const cuda::DigitMemory& memory, const cuda::UndecidedList& open,
           const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, open, undecided] {
    const DigitTask t = digit_task(kept->call(), memory);
    for (const DigitSide* side : {&t.a, &t.b}) {
      auto shared = std::make_unique<DigitPackShared>();
      for (std::int64_t block = t.pack_blocks(*side); block-- > 0;)
        digit_pack(t, *side, block, *shared, HostThreads<kDigitPackThreads>{});
    }
    multiply_digits_on_host<MatrixProducts>(
        t, open, [&](std::int64_t at) { put_on_list(open, at); },
        [&](std::int64_t at) { put_on_list(undecided, at); });
    device->open += *open.count;
  });
}

int residues(const KernelCall& call, const cuda::ResidueMemory& memory,
             const cuda::UndecidedList& open, const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  const int code = enqueue(s, [kept, memory, open, undecided] {
    ResidueTask all = residue_task(kept->call());
    if (memory.forecast != nullptr) {
      *memory.forecast = 0;
      const auto shared = std::make_unique<ForecastShared>();
      for (int i = kForecastOutputs; i-- > 0;)
        residue_forecast(all, i, *shared, HostThreads<kResidueThreads>{},
                         [&](std::uint32_t share) { *memory.forecast += share; });
      all.forecast = memory.forecast;
      all.most_foreseen = memory.most_foreseen;
      device->foreseen = *memory.forecast;
      if (all.left_to_f64()) return;
    }
    for_each_residue_panel(all, residue_panels(all, memory.panel_bytes), memory.all,
                           [&](const ResidueTask& task) {
                             run_residues_on_host(
                                 task, HostThreads<kResidueThreads>{}, open,
                                 [&](std::int64_t i) { put_on_list(open, i); },
                                 [&](std::int64_t at) { put_on_list(undecided, at); });
                             device->open += *open.count;
                           });
  });
  if (code != 0 || memory.forecast == nullptr) return code;
  return wide(call, memory.wide, undecided, s);
}

int conv_digits(const KernelCall& call, const cuda::ConvDigitMemory& memory,
                const cuda::UndecidedList& open, const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, open, undecided] {
    run_conv_digits_on_host(
        conv_digit_task(kept->call(), memory), HostThreads<kDigitPackThreads>{}, open,
        [&](std::int64_t at) { put_on_list(open, at); },
        [&](std::int64_t at) { put_on_list(undecided, at); });
    device->open += *open.count;
  });
}

int exact_winograd(const KernelCall& call, double* memory, const cuda::UndecidedList& open,
                   const cuda::UndecidedList& undecided, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, open, undecided] {
    const ExactWinogradTask t = exact_winograd_task(kept->call(), memory);
    device->wide_blocks.insert(fmt::format("winograd {}", exact_winograd_products(t).cols));
    run_exact_winograd_on_host(t, [&](std::int64_t at) { put_on_list(open, at); });
    const ConvDigitTask left = exact_winograd_open(t);
    device->open += *open.count;
    settle_digits_on_host<WindowProducts>(left, open,
                                          [&](std::int64_t at) { put_on_list(undecided, at); });
  });
}

int winograd(const KernelCall& call, float* memory, void* s) {
  ++device->launches;
  auto kept = std::make_shared<KeptCall>(call);
  return enqueue(s, [kept, memory, shape = device->tile_shape] {
    const Algorithm algorithm = Algorithm::parse(kept->contract.algo);
    const WinogradTask t = winograd_task(kept->call(), memory);
    CHECK(with_winograd(algorithm, [&]<class W>() {
      const auto f = winograd_factors<typename W::Number>(algorithm);
      for (std::int64_t i = t.inputs(); i-- > 0;) W::input(t, f, i);
      auto kernels = std::make_unique<typename W::Kernels>();
      for (std::int64_t block = t.weight_blocks(); block-- > 0;) {
        std::memset(kernels.get(), 0xA5, sizeof *kernels);
        const HostThreads<kWinogradThreads> threads;
        threads([&](int tid) { W::bring_weights(t, block, *kernels, tid); });
        threads([&](int tid) { W::weight(t, f, block, *kernels, tid); });
      }
      run_tiles_on_host(tile_choice(winograd_products(t, W::kCells), false, true, 132, shape));
      for (std::int64_t i = t.outputs(); i-- > 0;) W::output(t, f, i);
    }));
  });
}

}  // namespace etalon::host
