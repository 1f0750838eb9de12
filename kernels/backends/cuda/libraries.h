// cuBLAS and cuDNN, opened at run time: no header of theirs is needed to build and neither library
// to start. A function is looked up by its exported name (cublasCreate_v2, not the header's macro).
#pragma once

#include <string>

namespace etalon::cuda {

struct VendorLibrary {
  std::string name;  // "cuBLAS"
  void* handle = nullptr;
  std::string version;  // "13.1.0"; empty when absent
  std::string reason;   // one sentence, when absent or of a version that cannot be used
  // Throws a `missing` Error that names library and function.
  template <class F>
  F* function(const char* exported) const {
    return reinterpret_cast<F*>(symbol(exported));
  }

 private:
  void* symbol(const char* exported) const;
};

const VendorLibrary& cublas();     // 12 or 13
const VendorLibrary& cublas_lt();  // comes with cuBLAS
const VendorLibrary& cudnn();      // 9

}  // namespace etalon::cuda
