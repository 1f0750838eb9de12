// cuDNN 9's calls as its rows use them: looked up by name at run time, no header of the library is
// needed. A status that is not success is an error that names the call.
#pragma once

#include <fmt/format.h>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/libraries.h"

namespace etalon::cuda::dnn {

using Handle = void*;
using Descriptor = void*;
// As the library's C interface has them since version 8.
inline constexpr int kFloat = 0, kNchw = 0;
enum Math : int { kDefaultMath = 0, kFmaMath = 3 };  // kDefaultMath may take TF32, kFmaMath never

void require(int status, const char* call);
template <class... A>
void call(const char* name, A... arguments) {
  require(cudnn().function<int(A...)>(name)(arguments...), name);
}

Handle handle();  // of this thread, on its stream

// A descriptor with one owner; `kind` stands in the names of its functions.
class Described {
 public:
  explicit Described(const char* kind) : kind_(kind) {
    call(fmt::format("cudnnCreate{}Descriptor", kind_).c_str(), &d_);
  }
  ~Described() {
    cudnn().function<int(Descriptor)>(fmt::format("cudnnDestroy{}Descriptor", kind_).c_str())(d_);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  Descriptor get() const { return d_; }

 private:
  const char* kind_;
  Descriptor d_ = nullptr;
};

// Extents are 32 bits there; refuse_size says so before.
inline int as_int(std::int64_t n) { return static_cast<int>(n); }
inline void set_4d(const Described& d, std::int64_t n, std::int64_t c, std::int64_t h,
                   std::int64_t w) {
  call("cudnnSetTensor4dDescriptor", d.get(), kNchw, kFloat, as_int(n), as_int(c), as_int(h),
       as_int(w));
}

// What all its rows refuse: types other than f32, empty and very large tensors, no library, no
// device. Input `integers` may hold integers, which the row reads on the host.
inline constexpr std::size_t kNoInput = ~std::size_t{0};
Refusal refuse(const Problem& problem, std::size_t integers = kNoInput);

}  // namespace etalon::cuda::dnn
