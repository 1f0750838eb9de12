// What all oneDNN rows share: engine and stream, memory over our tensors, primitives that keep
// their weights in the library's own layout.
//
// The library is given every liberty it asks for (layout `any` for all operands, constant weights
// reordered once, the primitive, its reorders and their memory kept) but one: the arithmetic stays
// f32 (fpmath mode strict). Tensors come and go row-major, so a run includes the reorders of x and
// y that the chosen layout needs; kernels/own_layout.h cuts them off for those who time the work
// alone. oneDNN reports failures by exceptions; they become internal Errors that quote it.
#pragma once

#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "engine/backend/kernel.h"
#include "kernels/own_layout.h"

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
dnnl::memory::data_type type_of(DType type);  // f32, f16 or bf16
// Row-major.
dnnl::memory::desc plain(const dnnl::memory::dims& dims,
                         dnnl::memory::data_type type = dnnl::memory::data_type::f32);
dnnl::memory::desc any_layout(const dnnl::memory::dims& dims,
                              dnnl::memory::data_type type = dnnl::memory::data_type::f32);
dnnl::primitive_attr strict_f32();

// oneDNN decides its instruction set by itself. Tensors are of f32, or all of one type that has 16
// bits.
enum class Takes { f32, halves_too };
Refusal refuse_cap(const Problem& problem, Takes takes = Takes::f32);

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
// library wants another layout. Every row's `prepared` is one of these.
class Operation {
 public:
  struct Operand {
    int arg;
    dnnl::memory::desc user;     // as our tensor lies
    dnnl::memory::desc library;  // as the primitive wants it
  };
  // `inputs` in the order of the op's. Made under WithThreads: it makes the reorders too.
  Operation(dnnl::primitive primitive, const std::vector<Operand>& inputs, const Operand& output,
            std::string implementation);

  // Reorders a constant operand once; `data` is not kept.
  void keep_constant(int arg, const Tensor& tensor);
  // Whether a run reorders anything.
  bool converts() const;
  const std::string& implementation() const { return implementation_; }
  LibraryMemory memory() const;

  // One run. Runs of one Operation wait for each other: they share the memory of its reorders.
  void run(const KernelCall& call) const;
  // Its three parts, for one user at a time.
  void bring(const KernelCall& call) const;  // points at the tensors, reorders the inputs
  void work(int threads) const;
  void take(int threads) const;  // reorders the output

 private:
  struct Port {
    int arg;
    dnnl::memory user, library;  // the same memory where no reorder is needed
    std::optional<dnnl::reorder> convert;
    bool constant = false;
  };
  Port port(const Operand& operand, bool input) const;

  dnnl::primitive primitive_;
  std::vector<Port> inputs_;
  Port output_;
  std::string implementation_;
  std::unordered_map<int, dnnl::memory> args_;
  mutable std::mutex mutex_;
};

// Of any row of this library (kernels/own_layout.h).
std::unique_ptr<OwnLayoutRun> own_layout_run(const KernelCall& call);
std::optional<LibraryMemory> memory_of(const KernelCall& call);
std::string implementation_of(const KernelCall& call);

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
