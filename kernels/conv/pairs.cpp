// conv of bf16 under seq, two terms of k an instruction (kernels/gemm/pairs.h says why the bits are
// those of seq). Loops, packing and blocks are those of f32 with pixels in lanes (fast_pixels.cpp)
// over words of two taps that follow each other in the walk; x is widened first, so that a tap's
// f32 is the upper half of a word as it stands.
// Limit: two of f32's peak; share reached: README.md.
#include "kernels/conv/pairs.h"

#include "kernels/conv/fast.h"
#include "kernels/conv/fast_chunk.h"
#include "kernels/gemm/halves_row.h"
#include "kernels/gemm/pairs.h"

#if defined(__x86_64__)
namespace etalon {
namespace {

constexpr std::int64_t kGrain = 8;  // channels

struct PreparedPairsConv {
  std::shared_ptr<PreparedConv> conv;
  Magnitudes weights;  // where conv->packed
};

std::shared_ptr<PreparedPairsConv> prepare_words(const ConvGeometry& g, const Tensor* w,
                                                 int threads) {
  auto prepared = std::make_shared<PreparedPairsConv>();
  AlignedBuffer words;
  if (w != nullptr) {
    const std::int64_t k = w->numel() / std::max<std::int64_t>(1, g.out_channels);
    const std::int64_t steps = pair_steps(k);
    float* to = words.at_least<float>(std::max<std::int64_t>(1, g.out_channels * steps));
    prepared->weights =
        seen_by(g.out_channels, threads, kGrain,
                [&](std::int64_t begin, std::int64_t end, Magnitudes& all) {
                  for (std::int64_t o = begin; o < end; ++o)
                    avx512bf16::pair_along(bf16_bits(*w) + o * k, k, to + o * steps, all);
                });
  }
  prepared->conv = prepare_conv(g, pair_tiles(), false, words.data<float>(), threads);
  return prepared;
}

Prepared prepare(const Problem& problem, int threads) {
  return prepare_words(conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                     problem.input(1).shape),
                       problem.inputs[1].value, threads);
}

void run(const KernelCall& call) {
  const auto* prepared = static_cast<const PreparedPairsConv*>(call.prepared);
  std::shared_ptr<PreparedPairsConv> fresh;
  if (prepared == nullptr || !prepared->conv->packed) {
    fresh = prepare_words(
        conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape()),
        &call.input(1), call.threads);
    prepared = fresh.get();
  }
  const Tensor& x = call.input(0);
  const Magnitudes seen = seen_by(x.numel(), call.threads, kHalvesGrain,
                                  [&](std::int64_t begin, std::int64_t end, Magnitudes& all) {
                                    avx512bf16::see(bf16_bits(x) + begin, end - begin, all);
                                  });
  KernelCall inner = call;
  inner.prepared = nullptr;
  if (!keeps_order(seen, prepared->weights)) {
    static const KernelRow f32 = conv_f32_row<Isa::avx512>({});
    return run_widened(inner, f32.run);
  }
  run_widened(inner,
              [&](const KernelCall& wide) { run_conv(wide, *prepared->conv, pair_tiles()); });
}

Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_conv_seq(problem)) return r;
  return refuse_pairs(problem);
}

}  // namespace

KernelRow conv_pairs_row(std::string_view name) {
  return {.op = "conv",
          .name = name,
          .isa = Isa::avx512,
          .contracts = "seq of bf16",
          .refuse = refuse,
          .run = run,
          .prepare = prepare};
}

}  // namespace etalon
#endif
