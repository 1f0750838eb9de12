#include "kernels/backends/openblas/openblas.h"

#include <dlfcn.h>

#include "engine/core/error.h"
#include "engine/core/threads.h"

namespace etalon::openblas {
namespace {

// From the library's public C interface; its enumerations are int.
constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c,
                       int ldc);

struct Library {
  Sgemm sgemm = nullptr;
  void (*set_threads)(int) = nullptr;
  char* (*config)() = nullptr;
  char* (*core)() = nullptr;
  bool there() const { return sgemm != nullptr && set_threads != nullptr; }
};

const Library& library() {
  static const Library found = [] {
    const DefaultFpEnvironment fp;  // a library may set another one when it is loaded
    Library l;
    void* handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return l;
    const auto get = [&]<class F>(const char* name, F& function) {
      function = reinterpret_cast<F>(dlsym(handle, name));
    };
    get("cblas_sgemm", l.sgemm);
    get("openblas_set_num_threads", l.set_threads);
    get("openblas_get_config", l.config);
    get("openblas_get_corename", l.core);
    return l;
  }();
  return found;
}

}  // namespace

Refusal refuse(const Problem& problem) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    if (!problem.has(i)) continue;
    if (problem.input(i).dtype != DType::f32) return "this row takes f32";
    if (problem.input(i).shape.numel() == 0) return "an operand is empty";
    for (const std::int64_t extent : problem.input(i).shape.dims())
      if (extent > INT32_MAX) return "an extent is beyond 32 bits";
  }
  if (problem.isa < detect_isa())
    return "OpenBLAS chooses its own instruction set, --isa caps it not";
  if (!library().there())
    return "OpenBLAS is not on this machine: no libopenblas.so.0 (apt install "
           "libopenblas0-pthread)";
  return std::nullopt;
}

std::string version() {
  const Library& l = library();
  if (!l.there()) return {};
  std::string text = l.config == nullptr ? "OpenBLAS" : l.config();
  const std::string core = l.core == nullptr ? "" : l.core();
  return core.empty() || text.find(core) != std::string::npos ? text : text + ", " + core;
}

void sgemm(const Product& p, int threads) {
  const Library& l = library();
  if (!l.there()) throw internal_error("OpenBLAS was called and is not there");
  const DefaultFpEnvironment fp;
  static int set = 0;  // rows of one process run one after the other
  if (set != threads) l.set_threads(set = threads);
  const auto size = [](std::int64_t x) { return static_cast<int>(x); };
  l.sgemm(kRowMajor, p.trans_a ? kTrans : kNoTrans, p.trans_b ? kTrans : kNoTrans, size(p.m),
          size(p.n), size(p.k), p.alpha, p.a, size(p.lda), p.b, size(p.ldb), p.beta, p.c,
          size(p.ldc));
}

}  // namespace etalon::openblas
