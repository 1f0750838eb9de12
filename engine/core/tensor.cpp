#include "engine/core/tensor.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "engine/core/file.h"
#include "engine/core/memory_budget.h"

namespace etalon {
namespace {

constexpr std::size_t kAlignment = 64;

// A processor that asks whether a load meets a store before it compares the lowest twelve bits of
// the addresses first, and a cache of 4 KiB a way finds its set by the same bits. Large blocks come
// from the system at the same place of a page each: an op that walks its input and its output side
// by side then waits for its own stores, and a depthwise convolution of [1,14,14,512] takes twice
// the time. So tensors for which a page is little begin at different lines of one. Of 64 lines 25
// is near their golden section: any few in a row lie far apart, in a page and in half of one too.
constexpr std::size_t kPage = 4096, kSpreadFrom = 8 * kPage, kSpread = 25 * 64;

std::size_t next_place_in_page() {
  static std::atomic<std::size_t> tensors = 0;
  return tensors.fetch_add(1, std::memory_order_relaxed) * kSpread % kPage;
}

std::size_t byte_count(const TensorType& type) {
  return static_cast<std::size_t>(checked_mul(type.shape.numel(), size_bytes(type.dtype)));
}

}  // namespace

struct Tensor::Deferred {
  std::mutex making;
  std::atomic<const std::byte*> bytes = nullptr;
  std::function<Tensor()> make;
  Tensor tensor;
};

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", name(type.dtype), to_string(type.shape));
}

std::size_t Tensor::size_bytes() const { return byte_count(type_); }

void Tensor::check_count(const Shape& shape, std::size_t values) {
  if (static_cast<std::int64_t>(values) != shape.numel())
    throw internal_error("{} values given for shape {}", values, to_string(shape));
}

Tensor Tensor::uninitialized(DType dtype, const Shape& shape) {
  Tensor t;
  t.type_ = {dtype, shape};
  // Nothing behind it: what reads there would read behind a mapped file, too.
  const std::size_t n = std::max<std::size_t>(1, byte_count(t.type_));
  MemoryBudget::charge(n);
  const bool spread = n >= kSpreadFrom;
  const std::size_t offset = spread ? next_place_in_page() : 0;
  const std::align_val_t alignment{spread ? kPage : kAlignment};
  void* p = ::operator new(offset + n, alignment, std::nothrow);
  if (p == nullptr)
    throw bad_input("not enough memory for a tensor {} of {} bytes", to_string(t.type_), n);
  t.owner_ = std::shared_ptr<const void>(
      p, [alignment](const void* q) { ::operator delete(const_cast<void*>(q), alignment); });
  t.bytes_ = static_cast<const std::byte*>(p) + offset;
  t.writable_ = true;
  return t;
}

Tensor Tensor::zeros(DType dtype, const Shape& shape) {
  Tensor t = uninitialized(dtype, shape);
  std::memset(t.mutable_bytes().data(), 0, t.size_bytes());
  return t;
}

Tensor Tensor::view(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                    std::shared_ptr<const void> keeper) {
  Tensor t;
  t.type_ = {dtype, shape};
  if (bytes.size() != byte_count(t.type_))
    throw internal_error("a view of {} bytes cannot be a tensor {}", bytes.size(),
                         to_string(t.type_));
  static const std::byte kNothing{};
  t.bytes_ = bytes.empty() ? &kNothing : bytes.data();
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) %
          static_cast<std::size_t>(etalon::size_bytes(dtype)) !=
      0)
    throw internal_error("a view of {} is not aligned for its elements", to_string(t.type_));
  t.owner_ = std::move(keeper);
  return t;
}

Tensor Tensor::owned(DType dtype, const Shape& shape, std::byte* bytes,
                     std::shared_ptr<const void> keeper) {
  Tensor t;
  t.type_ = {dtype, shape};
  t.bytes_ = bytes;
  t.owner_ = std::move(keeper);
  t.writable_ = true;
  return t;
}

Tensor Tensor::deferred(DType dtype, const Shape& shape, std::function<Tensor()> make) {
  Tensor t;
  t.type_ = {dtype, shape};
  MemoryBudget::charge(byte_count(t.type_));
  const auto later = std::make_shared<Deferred>();
  later->make = std::move(make);
  t.deferred_ = later.get();
  t.owner_ = later;
  return t;
}

const std::byte* Tensor::made() const {
  if (const std::byte* bytes = deferred_->bytes.load(std::memory_order_acquire)) return bytes;
  const std::lock_guard lock(deferred_->making);
  if (const std::byte* bytes = deferred_->bytes.load(std::memory_order_relaxed)) return bytes;
  Tensor tensor = deferred_->make();
  // Handles may have taken other shapes of as many elements.
  if (!tensor || tensor.dtype() != dtype() || tensor.numel() != numel())
    throw internal_error("a deferred tensor {} came as {}", to_string(type_),
                         to_string(tensor.type()));
  deferred_->tensor = std::move(tensor);
  deferred_->make = nullptr;  // and what it held
  const std::byte* bytes = deferred_->tensor.start();
  deferred_->bytes.store(bytes, std::memory_order_release);
  return bytes;
}

void Tensor::forget_pages() const {
  if (bytes_ != nullptr) MappedFile::forget(bytes(), owner_);
}

Tensor Tensor::share() const {
  Tensor t;
  t.type_ = type_;
  t.owner_ = owner_;
  t.bytes_ = bytes_;
  t.deferred_ = deferred_;
  t.writable_ = writable_;
  return t;
}

Tensor Tensor::clone() const {
  Tensor t = uninitialized(dtype(), shape());
  std::memcpy(t.mutable_bytes().data(), start(), size_bytes());
  return t;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.numel() != numel())
    throw bad_input("{} elements of {} cannot take the shape {}", numel(), to_string(type_),
                    to_string(shape));
  Tensor t = share();
  t.type_.shape = shape;
  return t;
}

std::span<std::byte> Tensor::mutable_bytes() {
  if (!writable_ || owner_.use_count() != 1)
    throw internal_error("a tensor {} that others read cannot be written", to_string(type_));
  return {const_cast<std::byte*>(bytes_), size_bytes()};
}

void Tensor::check_dtype(DType wanted) const {
  if (dtype() != wanted)
    throw internal_error("a tensor {} was read as {}", to_string(type_), name(wanted));
}

std::vector<std::int64_t> to_int64_values(const Tensor& tensor) {
  std::vector<std::int64_t> values;
  if (tensor.dtype() == DType::i64) {
    values.assign(tensor.data<std::int64_t>().begin(), tensor.data<std::int64_t>().end());
  } else if (tensor.dtype() == DType::i32) {
    values.assign(tensor.data<std::int32_t>().begin(), tensor.data<std::int32_t>().end());
  } else {
    throw bad_input("expected integers (i64 or i32), got {}", to_string(tensor.type()));
  }
  return values;
}

}  // namespace etalon
