#include "kernels/conv/rows.h"

#include "kernels/conv/algorithms.h"
#include "kernels/conv/algorithms_fast.h"
#include "kernels/conv/channels_last.h"
#include "kernels/conv/col2im_definition.h"
#include "kernels/conv/definition.h"
#include "kernels/conv/depthwise.h"
#include "kernels/conv/exact.h"
#include "kernels/conv/fast.h"
#include "kernels/conv/order_rows.h"
#include "kernels/conv/pairs.h"
#include "kernels/conv/transpose_definition.h"
#include "kernels/conv/transpose_phases.h"
#include "kernels/gemm/halves_row.h"

namespace etalon {

void run_conv_definition(const KernelCall& call, std::span<const std::int64_t> outputs) {
  run_definition<ConvDefinition>(call, outputs);
}

std::span<const KernelRow> conv_rows() {
  static const KernelRow rows[] = {
#if defined(__x86_64__)
      depthwise_f32_row<Isa::avx512>("conv.f32.avx512.depthwise"),
      conv_f32_row<Isa::avx512>("conv.f32.avx512.14x32"),
      depthwise_f32_row<Isa::avx2>("conv.f32.avx2.depthwise"),
      conv_f32_row<Isa::avx2>("conv.f32.avx2.6x16"),
      im2col_f32_row<Isa::avx512>("conv.im2col.f32.avx512"),
      im2col_f32_row<Isa::avx2>("conv.im2col.f32.avx2"),
      winograd_f32_row<Isa::avx512>("conv.winograd.f32.avx512"),
      winograd_f32_row<Isa::avx2>("conv.winograd.f32.avx2"),
      fft_f32_row<Isa::avx512>("conv.fft.f32.avx512"),
      fft_f32_row<Isa::avx2>("conv.fft.f32.avx2"),
      conv_exact_row<Isa::amx>("conv.exact.amx.residues"),
      conv_exact_row<Isa::avx512>("conv.exact.avx512.14x16"),
      conv_exact_row<Isa::avx2>("conv.exact.avx2.6x8"),
      halves_row<depthwise_f32_row<Isa::avx512>>("conv.halves.avx512.depthwise"),
      conv_pairs_row("conv.bf16.avx512.14x32"),
      halves_row<conv_f32_row<Isa::avx512>>("conv.halves.avx512.14x32"),
      halves_row<depthwise_f32_row<Isa::avx2>>("conv.halves.avx2.depthwise"),
      halves_row<conv_f32_row<Isa::avx2>>("conv.halves.avx2.6x16"),
      conv_order_row<Isa::avx512>("conv.order.avx512"),
      conv_order_row<Isa::avx2>("conv.order.avx2"),
      conv_channels_last_seq_row<Isa::avx512>("conv_channels_last.f32.avx512.14x32"),
      conv_channels_last_seq_row<Isa::avx2>("conv_channels_last.f32.avx2.6x16"),
      halves_row<conv_channels_last_seq_row<Isa::avx512>>("conv_channels_last.halves.avx512.14x32"),
      halves_row<conv_channels_last_seq_row<Isa::avx2>>("conv_channels_last.halves.avx2.6x16"),
      conv_channels_last_order_row<Isa::avx512>("conv_channels_last.order.avx512"),
      conv_channels_last_order_row<Isa::avx2>("conv_channels_last.order.avx2"),
      conv_channels_last_turned_row<Isa::avx512>("conv_channels_last.turned.avx512"),
      conv_channels_last_turned_row<Isa::avx2>("conv_channels_last.turned.avx2"),
      conv_transpose_seq_row<Isa::avx512>("conv_transpose.f32.avx512.phases"),
      conv_transpose_seq_row<Isa::avx2>("conv_transpose.f32.avx2.phases"),
      conv_transpose_exact_row<Isa::avx512>("conv_transpose.exact.avx512.phases"),
      conv_transpose_exact_row<Isa::avx2>("conv_transpose.exact.avx2.phases"),
      halves_row<conv_transpose_seq_row<Isa::avx512>>("conv_transpose.halves.avx512.phases"),
      halves_row<conv_transpose_seq_row<Isa::avx2>>("conv_transpose.halves.avx2.phases"),
      conv_transpose_order_row<Isa::avx512>("conv_transpose.order.avx512"),
      conv_transpose_order_row<Isa::avx2>("conv_transpose.order.avx2"),
#endif
      definition_row<ConvDefinition>("conv.definition"),
      definition_row<ConvChannelsLastDefinition>("conv_channels_last.definition"),
      // Behind the op's own definition, from which verdicts take their slices and bounds.
      im2col_definition_row(),
      winograd_definition_row(),
      fft_definition_row(),
      definition_row<ConvTransposeDefinition>("conv_transpose.definition"),
      definition_row<Col2ImDefinition>("col2im.definition"),
  };
  return rows;
}

}  // namespace etalon
