// gemm and matmul of two matrices by cuBLASLt, each type of computation a row of its own; which
// kernel runs is the library's first suggestion within 32 MiB of workspace. Row-major y = a b is
// column-major y' = b' a', so the operands change places.
#include "kernels/gemm/cublas_lt.h"

#include "engine/core/error.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/backends/cuda/libraries.h"
#include "kernels/gemm/cublas.h"

namespace etalon::cuda {
namespace {

// As the library's C interface has them since version 11 (bf16x9: 12.9).
using Handle = void*;
enum Compute : int { kF32 = 68, kF32Pedantic = 69, kTf32 = 77, kBf16x9 = 78 };
constexpr int kR32f = 0;                 // cudaDataType
constexpr int kTransA = 3, kTransB = 4;  // attributes of a product
constexpr int kMaxWorkspace = 1;         // attribute of a preference
constexpr std::size_t kWorkspace = 32 << 20;
// cublasLtMatmulHeuristicResult_t
struct Suggestion {
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Suggestion) == 96);

template <class... A>
void call(const char* name, A... arguments) {
  const int status = cublas_lt().function<int(A...)>(name)(arguments...);
  if (status != 0)
    throw missing("cuBLASLt {}: {} failed with status {}; take another row, or --device cpu",
                  cublas_lt().version, name, status);
}

Handle handle() {
  thread_local const Handle h = [] {
    Handle made = nullptr;
    call("cublasLtCreate", &made);
    return made;
  }();
  return h;
}

// What the library makes and a call of its own drops.
class Made {
 public:
  explicit Made(const char* drop) : drop_(drop) {}
  ~Made() {
    if (p != nullptr) cublas_lt().function<int(void*)>(drop_)(p);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  void* p = nullptr;

 private:
  const char* drop_;
};

struct Layout : Made {
  Layout(std::int64_t rows, std::int64_t cols) : Made("cublasLtMatrixLayoutDestroy") {
    call("cublasLtMatrixLayoutCreate", &p, kR32f, static_cast<std::uint64_t>(rows),
         static_cast<std::uint64_t>(cols), rows);
  }
};

struct Product {
  std::int64_t m, n, k;
  float alpha = 1;
  bool trans_a = false, trans_b = false;
};

template <Compute compute>
void multiply(const KernelCall& kernel_call, Work& work, const Product& p) {
  Made product("cublasLtMatmulDescDestroy"), preference("cublasLtMatmulPreferenceDestroy");
  call("cublasLtMatmulDescCreate", &product.p, static_cast<int>(compute), kR32f);
  const std::int32_t first = p.trans_b ? 1 : 0, second = p.trans_a ? 1 : 0;
  const auto set = [](const char* name, void* of, int attribute, const void* from,
                      std::size_t size) { call(name, of, attribute, from, size); };
  set("cublasLtMatmulDescSetAttribute", product.p, kTransA, &first, sizeof first);
  set("cublasLtMatmulDescSetAttribute", product.p, kTransB, &second, sizeof second);
  // Column-major: what is stored as [k, n] is n x k.
  const Layout b(p.trans_b ? p.k : p.n, p.trans_b ? p.n : p.k),
      a(p.trans_a ? p.m : p.k, p.trans_a ? p.k : p.m), y(p.n, p.m);
  call("cublasLtMatmulPreferenceCreate", &preference.p);
  const std::size_t room = kWorkspace;
  set("cublasLtMatmulPreferenceSetAttribute", preference.p, kMaxWorkspace, &room, sizeof room);
  Suggestion best{};
  int found = 0;
  call("cublasLtMatmulAlgoGetHeuristic", handle(), product.p, b.p, a.p, y.p, y.p, preference.p, 1,
       &best, &found);
  if (found == 0)
    throw missing("cuBLASLt {}: it has no kernel for this product; take another row",
                  cublas_lt().version);
  void* const workspace = work.scratch(kWorkspace);
  const float zero = 0;
  const auto bytes = [&](std::size_t i) {
    return static_cast<const void*>(kernel_call.input(i).bytes().data());
  };
  void* const to = device_floats(kernel_call.output(0));
  call("cublasLtMatmul", handle(), product.p, static_cast<const void*>(&p.alpha), bytes(1), b.p,
       bytes(0), a.p, static_cast<const void*>(&zero), static_cast<const void*>(to), y.p, to, y.p,
       static_cast<const void*>(&best.algorithm), workspace, kWorkspace, stream());
}

template <Compute compute>
void enqueue_gemm(const KernelCall& c, Work& work) {
  const auto& params = c.params<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, c.input(0).shape(), c.input(1).shape());
  multiply<compute>(c, work,
                    {.m = g.m,
                     .n = g.n,
                     .k = g.k,
                     .alpha = params.alpha,
                     .trans_a = params.trans_a,
                     .trans_b = params.trans_b});
}

template <Compute compute>
void enqueue_matmul(const KernelCall& c, Work& work) {
  const Shape &a = c.input(0).shape(), &b = c.input(1).shape();
  multiply<compute>(c, work, {.m = a[0], .n = b[1], .k = a[1]});
}

Refusal refuse(const Problem& problem) {
  if (const Refusal why = refuse_unless_two_matrices(problem)) return why;
  if (cublas_lt().handle == nullptr) return cublas_lt().reason;
  return refuse_without_device();
}

template <Enqueue f>
DeviceRow row(std::string_view op, std::string_view name) {
  return vendor_row<f>(op, name, refuse, [] { return cublas_lt().version; });
}

}  // namespace

std::span<const DeviceRow> cublas_lt_device_rows() {
  static const DeviceRow rows[] = {
      row<enqueue_gemm<kF32>>("gemm", "cublaslt.gemm.f32"),
      row<enqueue_gemm<kF32Pedantic>>("gemm", "cublaslt.gemm.f32_pedantic"),
      row<enqueue_gemm<kTf32>>("gemm", "cublaslt.gemm.tf32"),
      row<enqueue_gemm<kBf16x9>>("gemm", "cublaslt.gemm.bf16x9"),
      row<enqueue_matmul<kF32>>("matmul", "cublaslt.matmul.f32"),
      row<enqueue_matmul<kF32Pedantic>>("matmul", "cublaslt.matmul.f32_pedantic"),
      row<enqueue_matmul<kTf32>>("matmul", "cublaslt.matmul.tf32"),
      row<enqueue_matmul<kBf16x9>>("matmul", "cublaslt.matmul.bf16x9")};
  return rows;
}

}  // namespace etalon::cuda
