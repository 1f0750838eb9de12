// gemm and matmul of two matrices by cuBLAS, each math mode a row of its own. Row-major y = a b is
// column-major y' = b' a', so the operands change places.
#include "kernels/gemm/cublas.h"
#ifdef ETALON_CUDA

#include <fmt/format.h>

#include <limits>

#include "engine/core/error.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/libraries.h"

namespace etalon::cuda {
namespace {

// As the library's C interface has them since version 11.
using Handle = void*;
enum MathMode : int { kPedantic = 2, kTf32 = 3 };
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

template <MathMode mode>
void multiply(const CallOnDevice& on_device, const Product& p) {
  const KernelCall& call = on_device.call();
  const auto* a = reinterpret_cast<const float*>(call.input(0).bytes().data());
  const auto* b = reinterpret_cast<const float*>(call.input(1).bytes().data());
  require(cublas().function<int(Handle, int)>("cublasSetMathMode")(handle(), mode),
          "cublasSetMathMode");
  using Sgemm = int(Handle, int, int, int, int, int, const float*, const float*, int, const float*,
                    int, const float*, float*, int);
  require(cublas().function<Sgemm>("cublasSgemm_v2")(
              handle(), p.trans_b ? kTransposed : kPlain, p.trans_a ? kTransposed : kPlain,
              checked_int(p.n), checked_int(p.m), checked_int(p.k), &p.alpha, b,
              checked_int(p.trans_b ? p.k : p.n), a, checked_int(p.trans_a ? p.m : p.k), &p.beta,
              on_device.y(), checked_int(p.n)),
          "cublasSgemm");
}

template <MathMode mode>
void run_gemm(const KernelCall& host) {
  const auto& params = host.params<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, host.input(0).shape(), host.input(1).shape());
  CallOnDevice on_device(host);
  multiply<mode>(on_device, {.m = g.m,
                             .n = g.n,
                             .k = g.k,
                             .alpha = params.alpha,
                             .trans_a = params.trans_a,
                             .trans_b = params.trans_b});
  on_device.fetch_output();
}

template <MathMode mode>
void run_matmul(const KernelCall& host) {
  const Shape &a = host.input(0).shape(), &b = host.input(1).shape();
  CallOnDevice on_device(host);
  multiply<mode>(on_device, {.m = a[0], .n = b[1], .k = a[1]});
  on_device.fetch_output();
}

Refusal refuse(const Problem& problem) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return fmt::format("input {} is {}, not f32", i, name(problem.input(i).dtype));
  if (problem.has(2)) return "multiplies only: c is not added";
  if (problem.input(0).shape.rank() != 2 || problem.input(1).shape.rank() != 2)
    return "takes two matrices";
  if (problem.outputs[0].shape.numel() == 0 || problem.input(0).shape.numel() == 0)
    return "takes no empty matrix";
  if (cublas().handle == nullptr) return cublas().reason;
  return refuse_without_device();
}

template <MathMode mode>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .promise = Promise::vendor,
          .device = Device::cuda,
          .contracts = "none",
          .refuse = refuse,
          .run = op == "gemm" ? run_gemm<mode> : run_matmul<mode>,
          .version = [] { return cublas().version; }};
}

}  // namespace

std::span<const KernelRow> cublas_rows() {
  static const KernelRow rows[] = {
      row<kPedantic>("gemm", "cublas.gemm.f32"), row<kTf32>("gemm", "cublas.gemm.tf32"),
      row<kPedantic>("matmul", "cublas.matmul.f32"), row<kTf32>("matmul", "cublas.matmul.tf32")};
  return rows;
}

}  // namespace etalon::cuda

#endif
