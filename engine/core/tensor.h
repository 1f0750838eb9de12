// A dense row-major tensor in host memory.
//
// A Tensor is a move-only handle: no copy happens that the source does not spell out. share() makes
// a second handle on the same bytes, clone() copies them. Bytes may be written only while one
// handle owns them, so a value that two nodes read can never change under one of them. Memory is
// aligned to 64 bytes (a cache line, an AVX-512 vector), except for views of a mapped file. A
// deferred tensor has its type at once and its bytes when the first of its handles is read, so that
// a model of many gigabytes is listed without a look at its weights.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/error.h"
#include "engine/core/shape.h"

namespace etalon {

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_string(const TensorType& type);  // "f32[1,10]"

class Tensor {
 public:
  Tensor() = default;  // absent: an optional input that is not given
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;

  static Tensor uninitialized(DType dtype, const Shape& shape);
  static Tensor zeros(DType dtype, const Shape& shape);
  // Reads `bytes` in place; `keeper` owns them (a mapped file). Never writable. The bytes must be
  // as long as the type says and aligned for it, otherwise an internal Error.
  static Tensor view(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> keeper);
  // Writable memory that `keeper` owns (a pool's block), at least as long as the type says.
  static Tensor owned(DType dtype, const Shape& shape, std::byte* bytes,
                      std::shared_ptr<const void> keeper);
  // What `make` gives, which is asked once, by whichever thread reads a handle first, and must have
  // this type; what it throws comes out of that reading, and the next one asks again. Never
  // writable. The bytes are charged to the MemoryBudget now.
  static Tensor deferred(DType dtype, const Shape& shape, std::function<Tensor()> make);
  // A tensor of fewer bytes costs less than the promise of it.
  static constexpr std::size_t kDeferredBytes = std::size_t{64} << 10;
  template <class T>
  static Tensor of(const Shape& shape, std::span<const T> values);
  template <class T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of<T>(shape, std::span<const T>(values.begin(), values.size()));
  }

  explicit operator bool() const { return bytes_ != nullptr || deferred_ != nullptr; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  const TensorType& type() const { return type_; }
  std::int64_t numel() const { return type_.shape.numel(); }
  std::size_t size_bytes() const;

  Tensor share() const;
  Tensor clone() const;
  // The same bytes under another shape of equal element count.
  Tensor reshaped(const Shape& shape) const;

  std::span<const std::byte> bytes() const { return {start(), size_bytes()}; }
  std::span<std::byte> mutable_bytes();
  // Lets go of the pages of a mapped file that a view stands on; who reads them again gets them
  // from the system's cache. Nothing happens to other tensors.
  void forget_pages() const;

  // Typed access; asking for the wrong type is an internal Error.
  template <class T>
  std::span<const T> data() const {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<const T*>(start()), static_cast<std::size_t>(numel())};
  }
  template <class T>
  std::span<T> mutable_data() {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<std::size_t>(numel())};
  }

 private:
  struct Deferred;
  const std::byte* start() const { return deferred_ == nullptr ? bytes_ : made(); }
  const std::byte* made() const;
  void check_dtype(DType wanted) const;
  static void check_count(const Shape& shape, std::size_t values);

  TensorType type_;
  std::shared_ptr<const void> owner_;
  const std::byte* bytes_ = nullptr;
  Deferred* deferred_ = nullptr;  // what owner_ owns then
  bool writable_ = false;
};

template <class T>
Tensor Tensor::of(const Shape& shape, std::span<const T> values) {
  check_count(shape, values.size());
  Tensor t = uninitialized(dtype_of<T>, shape);
  auto out = t.mutable_data<T>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return t;
}

// The values of a small integer tensor (i64, i32: shapes, axes, pads); bad-input Error otherwise.
std::vector<std::int64_t> to_int64_values(const Tensor& tensor);

}  // namespace etalon
