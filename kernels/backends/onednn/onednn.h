// What all oneDNN rows share: engine and stream, memory over our tensors, primitives that keep
// their weights in the library's own layout.
//
// The library is given every liberty it asks for (layout `any` for all operands, constant weights
// reordered once, the primitive kept) but one: the arithmetic stays f32 (fpmath mode strict).
// Tensors come and go row-major, so a run includes the reorders of x and y that the chosen layout
// needs. oneDNN reports failures by exceptions; they become internal Errors that quote it.
#pragma once

#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "engine/backend/kernel.h"

namespace etalon::onednn {

dnnl::engine& engine();
std::string library_version();  // "oneDNN 3.2.0 (cpu, OpenMP)"

// The implementation that a row's primitive dispatched to last, for the record.
class Dispatched {
 public:
  void set(std::string implementation) {
    const std::lock_guard lock(mutex_);
    implementation_ = std::move(implementation);
  }
  std::string version() const {
    const std::lock_guard lock(mutex_);
    return implementation_.empty() ? library_version() : library_version() + ", " + implementation_;
  }

 private:
  mutable std::mutex mutex_;
  std::string implementation_;
};

dnnl::memory::dims dims_of(const Shape& shape);
// Row-major f32.
dnnl::memory::desc plain(const dnnl::memory::dims& dims);
dnnl::memory::desc any_layout(const dnnl::memory::dims& dims);
dnnl::primitive_attr strict_f32();

// oneDNN decides its instruction set by itself.
Refusal refuse_cap(const Problem& problem);

// oneDNN asks OpenMP how many threads there are, once when a primitive is made and again when it
// runs: both must see the caller's number, or a run on one thread is timed against a library on
// all.
class WithThreads {
 public:
  explicit WithThreads(int threads);
  ~WithThreads();
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_;
};

// One primitive with its operands by DNNL_ARG_*, each reordered from and to row-major where the
// library wants another layout.
class Operation {
 public:
  struct Operand {
    int arg;
    dnnl::memory::desc user;     // as our tensor lies
    dnnl::memory::desc library;  // as the primitive wants it
  };
  Operation(dnnl::primitive primitive, std::vector<Operand> inputs, Operand output,
            std::string implementation)
      : primitive_(std::move(primitive)),
        inputs_(std::move(inputs)),
        output_(std::move(output)),
        implementation_(std::move(implementation)) {}

  // Reorders a constant operand once; `data` is not kept.
  void keep_constant(int arg, const float* data);
  // data[i] belongs to inputs[i]; constants may be nullptr.
  void run(std::span<const float* const> data, float* y, int threads) const;
  const std::string& implementation() const { return implementation_; }

 private:
  dnnl::primitive primitive_;
  std::vector<Operand> inputs_;
  Operand output_;
  std::string implementation_;
  std::unordered_map<int, dnnl::memory> constants_;
};

// Runs f, turning the library's exceptions into internal Errors.
template <class F>
auto guarded(std::string_view what, F f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    throw internal_error("oneDNN refused {}: {}", what, e.what());
  }
}

// A row's refusal by asking the library: nullopt when `make` finds an implementation.
template <class F>
Refusal refuse_unless_implemented(F make) {
  try {
    make();
    return std::nullopt;
  } catch (const dnnl::error& e) {
    return "oneDNN has no implementation: " + std::string(e.what());
  }
}

}  // namespace etalon::onednn
