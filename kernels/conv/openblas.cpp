// conv by the matrix of inputs (im2col) and OpenBLAS's sgemm, f32, an image and group at a time:
// what Caffe did. Nothing is promised about bits. A bias is written into the output first, and the
// product added onto it. A kernel of one tap without strides or padding needs no matrix.
#include "kernels/conv/openblas.h"

#include <algorithm>
#include <vector>

#include "engine/core/threads.h"
#include "engine/ops/conv.h"
#include "kernels/backends/openblas/openblas.h"

namespace etalon {
namespace {

bool is_its_own_matrix(const Window& w) {
  return std::ranges::all_of(w.axes, [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.out == a.in;
  });
}

// Rows [begin, end) of the matrix [channels * taps, points]; row = (channel, tap).
void fill(const Window& w, const float* x, float* matrix, std::int64_t begin, std::int64_t end) {
  const auto& [d, h, v] = w.axes;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t tap = row % w.taps();
    const float* image = x + row / w.taps() * w.in_points();
    const std::int64_t rv = tap % v.kernel, rh = tap / v.kernel % h.kernel,
                       rd = tap / (v.kernel * h.kernel);
    float* to = matrix + row * w.out_points();
    for (std::int64_t od = 0; od < d.out; ++od)
      for (std::int64_t oh = 0; oh < h.out; ++oh) {
        const std::int64_t id = d.at(od, rd), ih = h.at(oh, rh);
        const bool inside = id >= 0 && id < d.in && ih >= 0 && ih < h.in;
        const float* line = image + (id * h.in + ih) * v.in;
        for (std::int64_t ov = 0; ov < v.out; ++ov) {
          const std::int64_t iv = v.at(ov, rv);
          *to++ = inside && iv >= 0 && iv < v.in ? line[iv] : 0.0F;
        }
      }
  }
}

void run(const KernelCall& call) {
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  const std::int64_t points = g.window.out_points(), k = g.k();
  const bool own = is_its_own_matrix(g.window);
  static thread_local std::vector<float> scratch;
  if (!own) scratch.resize(static_cast<std::size_t>(k * points));
  const float* x = call.input(0).data<float>().data();
  const float* weights = call.input(1).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  float* matrix = scratch.data();
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t group = 0; group < g.groups; ++group) {
      const float* image = x + (n * g.in_channels + group * g.group_in()) * g.window.in_points();
      if (!own)
        parallel_for(k, call.threads, std::max<std::int64_t>(1, 16384 / points),
                     [&](std::int64_t begin, std::int64_t end) {
                       fill(g.window, image, matrix, begin, end);
                     });
      const std::int64_t first = group * g.group_out();
      float* out = y + (n * g.out_channels + first) * points;
      if (call.has(2)) {
        const float* bias = call.input(2).data<float>().data() + first;
        for (std::int64_t o = 0; o < g.group_out(); ++o)
          std::fill_n(out + o * points, points, bias[o]);
      }
      openblas::sgemm({.m = g.group_out(),
                       .n = points,
                       .k = k,
                       .beta = call.has(2) ? 1.0F : 0.0F,
                       .a = weights + first * k,
                       .lda = k,
                       .b = own ? image : matrix,
                       .ldb = points,
                       .c = out,
                       .ldc = points},
                      call.threads);
    }
}

}  // namespace

std::span<const KernelRow> openblas_conv_rows() {
  static const KernelRow rows[] = {{.op = "conv",
                                    .name = "openblas.conv.im2col",
                                    .promise = Promise::vendor,
                                    .contracts = "none",
                                    .refuse = openblas::refuse,
                                    .run = run,
                                    .version = openblas::version}};
  return rows;
}

}  // namespace etalon
