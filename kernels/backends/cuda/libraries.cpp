#include "kernels/backends/cuda/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <initializer_list>

#include "engine/core/error.h"
#include "engine/core/threads.h"

namespace etalon::cuda {
namespace {

VendorLibrary open_first(std::string_view what, std::initializer_list<const char*> names) {
  const DefaultFpEnvironment fp;  // a library may set another one when it is loaded
  VendorLibrary library;
  library.name = what;
  for (const char* file : names) {
    library.handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library.handle != nullptr) return library;
  }
  library.reason =
      fmt::format("{} is not here ({}); install it, or name its folder in LD_LIBRARY_PATH", what,
                  fmt::join(names, ", "));
  return library;
}

VendorLibrary refuse(VendorLibrary library, std::string reason) {
  library.handle = nullptr;  // stays open: code of it may have run
  library.version.clear();
  library.reason = std::move(reason);
  return library;
}

// cuBLAS and cuBLASLt tell their version without a device: MAJOR_VERSION = 0, MINOR_VERSION = 1,
// PATCH_LEVEL = 2.
VendorLibrary open_blas(std::string_view what, std::initializer_list<const char*> names,
                        const char* get_property) {
  VendorLibrary l = open_first(what, names);
  if (l.handle == nullptr) return l;
  auto* const property = reinterpret_cast<int (*)(int, int*)>(dlsym(l.handle, get_property));
  int parts[3] = {};
  for (int i = 0; i < 3; ++i)
    if (property == nullptr || property(i, &parts[i]) != 0)
      return refuse(std::move(l),
                    fmt::format("{} does not tell its version; install 12 or 13", what));
  l.version = fmt::format("{}.{}.{}", parts[0], parts[1], parts[2]);
  return l;
}

}  // namespace

void* VendorLibrary::symbol(const char* exported) const {
  if (handle == nullptr) throw missing("{}", reason);
  void* const found = dlsym(handle, exported);
  if (found == nullptr)
    throw missing("{} {} has no function {}; install a newer one", name, version, exported);
  return found;
}

const VendorLibrary& cublas() {
  static const VendorLibrary library =
      open_blas("cuBLAS", {"libcublas.so.13", "libcublas.so.12"}, "cublasGetProperty");
  return library;
}

const VendorLibrary& cublas_lt() {
  static const VendorLibrary library =
      open_blas("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, "cublasLtGetProperty");
  return library;
}

const VendorLibrary& cudnn() {
  static const VendorLibrary library = [] {
    VendorLibrary l = open_first("cuDNN", {"libcudnn.so.9"});
    if (l.handle == nullptr) return l;
    auto* const number = reinterpret_cast<std::size_t (*)()>(dlsym(l.handle, "cudnnGetVersion"));
    const std::size_t v = number == nullptr ? 0 : number();
    if (v < 90000 || v >= 100000)
      return refuse(std::move(l),
                    fmt::format("cuDNN is version {}, this program uses 9; install cuDNN 9", v));
    l.version = fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
    return l;
  }();
  return library;
}

}  // namespace etalon::cuda
