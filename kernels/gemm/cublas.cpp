// gemm and matmul of two matrices by cuBLAS, each math mode a row of its own. Row-major y = a b is
// column-major y' = b' a', so the operands change places.
//
// The rows in f64 widen both operands, multiply in f64 (the f64 units, or fixed point on int8
// tensor units, which the library calls emulation) and round once more to f32: what a user would do
// who wants a product that is right in nearly all bits, and so the peer of `exact`.
#include "kernels/gemm/cublas.h"

#include <fmt/format.h>

#include <limits>

#include "engine/core/error.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/backends/cuda/libraries.h"

namespace etalon::cuda {
namespace {

// As the library's C interface has them since version 11.
using Handle = void*;
enum MathMode : int { kDefault = 0, kPedantic = 2, kTf32 = 3, kBf16x9 = 4, kFixedPoint = 8 };
constexpr int kEager = 2;  // emulate wherever the device can, not only where it is thought to pay
enum Transpose : int { kPlain = 0, kTransposed = 1 };

void require(int status, const char* call) {
  if (status != 0)
    throw missing("cuBLAS {}: {} failed with status {}; run with --device cpu", cublas().version,
                  call, status);
}

Handle handle() {
  thread_local const Handle h = [] {
    Handle made = nullptr;
    require(cublas().function<int(Handle*)>("cublasCreate_v2")(&made), "cublasCreate");
    require(cublas().function<int(Handle, void*)>("cublasSetStream_v2")(made, stream()),
            "cublasSetStream");
    return made;
  }();
  return h;
}

int checked_int(std::int64_t n) {
  if (n > std::numeric_limits<int>::max())
    throw usage_error("cuBLAS takes extents below 2^31, got {}", n);
  return static_cast<int>(n);
}

struct Product {
  std::int64_t m, n, k;
  float alpha = 1, beta = 0;
  bool trans_a = false, trans_b = false;
};

void set_mode(MathMode mode) {
  require(cublas().function<int(Handle, int)>("cublasSetMathMode")(handle(), mode),
          "cublasSetMathMode");
  if (mode == kBf16x9 || mode == kFixedPoint)
    require(cublas().function<int(Handle, int)>("cublasSetEmulationStrategy")(handle(), kEager),
            "cublasSetEmulationStrategy");
}

// In f64, rounded to f32.
void multiply_f64(MathMode mode, const KernelCall& call, Work& work, const Product& p) {
  const auto wide = [&](std::int64_t count) {
    return static_cast<double*>(work.scratch(static_cast<std::size_t>(count) * sizeof(double)));
  };
  double* operands[2] = {};
  for (const std::size_t i : {0, 1}) {
    const Tensor& x = call.input(i);
    operands[i] = wide(x.numel());
    check(api().widen(operands[i], reinterpret_cast<const float*>(x.bytes().data()), x.numel(),
                      stream()),
          "the kernel's launch");
  }
  double* const y = wide(p.m * p.n);
  const auto alpha = static_cast<double>(p.alpha), beta = static_cast<double>(p.beta);
  set_mode(mode);
  using Dgemm = int(Handle, int, int, int, int, int, const double*, const double*, int,
                    const double*, int, const double*, double*, int);
  require(cublas().function<Dgemm>("cublasDgemm_v2")(
              handle(), p.trans_b ? kTransposed : kPlain, p.trans_a ? kTransposed : kPlain,
              checked_int(p.n), checked_int(p.m), checked_int(p.k), &alpha, operands[1],
              checked_int(p.trans_b ? p.k : p.n), operands[0], checked_int(p.trans_a ? p.m : p.k),
              &beta, y, checked_int(p.n)),
          "cublasDgemm");
  check(api().narrow(device_floats(call.output(0)), y, p.m * p.n, stream()), "the kernel's launch");
}

// In f32.
void multiply_f32(MathMode mode, const KernelCall& call, const Product& p) {
  const auto* a = reinterpret_cast<const float*>(call.input(0).bytes().data());
  const auto* b = reinterpret_cast<const float*>(call.input(1).bytes().data());
  set_mode(mode);
  using Sgemm = int(Handle, int, int, int, int, int, const float*, const float*, int, const float*,
                    int, const float*, float*, int);
  require(cublas().function<Sgemm>("cublasSgemm_v2")(
              handle(), p.trans_b ? kTransposed : kPlain, p.trans_a ? kTransposed : kPlain,
              checked_int(p.n), checked_int(p.m), checked_int(p.k), &p.alpha, b,
              checked_int(p.trans_b ? p.k : p.n), a, checked_int(p.trans_a ? p.m : p.k), &p.beta,
              device_floats(call.output(0)), checked_int(p.n)),
          "cublasSgemm");
}

template <MathMode mode, bool f64>
void multiply(const KernelCall& call, Work& work, const Product& p) {
  if constexpr (f64)
    multiply_f64(mode, call, work, p);
  else
    multiply_f32(mode, call, p);
}

template <MathMode mode, bool f64 = false>
void enqueue_gemm(const KernelCall& call, Work& work) {
  const auto& params = call.params<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, call.input(0).shape(), call.input(1).shape());
  multiply<mode, f64>(call, work,
                      {.m = g.m,
                       .n = g.n,
                       .k = g.k,
                       .alpha = params.alpha,
                       .trans_a = params.trans_a,
                       .trans_b = params.trans_b});
}

template <MathMode mode, bool f64 = false>
void enqueue_matmul(const KernelCall& call, Work& work) {
  const Shape &a = call.input(0).shape(), &b = call.input(1).shape();
  multiply<mode, f64>(call, work, {.m = a[0], .n = b[1], .k = a[1]});
}

Refusal refuse(const Problem& problem) {
  if (const Refusal why = refuse_unless_two_matrices(problem)) return why;
  if (cublas().handle == nullptr) return cublas().reason;
  return refuse_without_device();
}

template <Enqueue f>
DeviceRow row(std::string_view op, std::string_view name) {
  return vendor_row<f>(op, name, refuse, [] { return cublas().version; });
}

}  // namespace

Refusal refuse_unless_two_matrices(const Problem& problem) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return fmt::format("input {} is {}, not f32", i, name(problem.input(i).dtype));
  if (problem.has(2)) return "multiplies only: c is not added";
  if (problem.input(0).shape.rank() != 2 || problem.input(1).shape.rank() != 2)
    return "takes two matrices";
  if (problem.outputs[0].shape.numel() == 0 || problem.input(0).shape.numel() == 0)
    return "takes no empty matrix";
  return std::nullopt;
}

std::span<const DeviceRow> cublas_device_rows() {
  static const DeviceRow rows[] = {
      row<enqueue_gemm<kDefault>>("gemm", "cublas.gemm.f32"),
      row<enqueue_gemm<kPedantic>>("gemm", "cublas.gemm.f32_pedantic"),
      row<enqueue_gemm<kTf32>>("gemm", "cublas.gemm.tf32"),
      row<enqueue_gemm<kBf16x9>>("gemm", "cublas.gemm.bf16x9"),
      row<enqueue_gemm<kDefault, true>>("gemm", "cublas.gemm.f64"),
      row<enqueue_gemm<kFixedPoint, true>>("gemm", "cublas.gemm.f64_fixed_point"),
      row<enqueue_matmul<kDefault>>("matmul", "cublas.matmul.f32"),
      row<enqueue_matmul<kPedantic>>("matmul", "cublas.matmul.f32_pedantic"),
      row<enqueue_matmul<kTf32>>("matmul", "cublas.matmul.tf32"),
      row<enqueue_matmul<kBf16x9>>("matmul", "cublas.matmul.bf16x9"),
      row<enqueue_matmul<kDefault, true>>("matmul", "cublas.matmul.f64"),
      row<enqueue_matmul<kFixedPoint, true>>("matmul", "cublas.matmul.f64_fixed_point")};
  return rows;
}

}  // namespace etalon::cuda
