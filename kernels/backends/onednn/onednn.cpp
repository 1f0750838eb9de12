#include "kernels/backends/onednn/onednn.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "engine/core/processor.h"
#include "engine/core/threads.h"

namespace etalon::onednn {

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

std::string library_version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} ({})", v->major, v->minor, v->patch,
                     v->cpu_runtime == DNNL_RUNTIME_OMP ? "OpenMP" : "other threading");
}

dnnl::memory::dims dims_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

dnnl::memory::data_type type_of(DType type) {
  using Type = dnnl::memory::data_type;
  return type == DType::bf16 ? Type::bf16 : type == DType::f16 ? Type::f16 : Type::f32;
}

dnnl::memory::desc plain(const dnnl::memory::dims& dims, dnnl::memory::data_type type) {
  dnnl::memory::dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(1, dims[i]);
  }
  return {dims, type, strides};
}

dnnl::memory::desc any_layout(const dnnl::memory::dims& dims, dnnl::memory::data_type type) {
  return {dims, type, dnnl::memory::format_tag::any};
}

dnnl::primitive_attr strict_f32() {
  dnnl::primitive_attr attr;
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attr;
}

Refusal refuse_cap(const Problem& problem, Takes takes) {
  const DType first = problem.input(0).dtype;
  const bool half = takes == Takes::halves_too && (first == DType::bf16 || first == DType::f16);
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    if (!problem.has(i)) continue;
    if (problem.input(i).dtype != (half ? first : DType::f32))
      return takes == Takes::f32 ? "this row takes f32"
                                 : "this row takes f32, or bf16 or f16 for all inputs";
    if (problem.input(i).shape.numel() == 0) return "an operand is empty";
  }
  // Its own variable caps it, and is read once.
  if (problem.isa < detect_isa() &&
      (problem.isa != Isa::avx2 || dnnl::get_effective_cpu_isa() != dnnl::cpu_isa::avx2))
    return "oneDNN chooses its own instruction set, --isa caps it not (beside --isa avx2 "
           "ONEDNN_MAX_CPU_ISA=AVX2 does)";
  return std::nullopt;
}

namespace {

// OpenMP's threads leave the caller's processor, as those of our pool do in every loop
// (engine/core/thread_pool.h): a barrier among threads of one processor takes time slices.
void part_threads(int threads) {
  const int processor = current_processor();
  std::atomic<int> others = threads - 1;
#pragma omp parallel num_threads(threads)
  if (omp_get_thread_num() != 0) {
    if (processor >= 0 && current_processor() == processor) leave_processor(processor);
    others.fetch_sub(1, std::memory_order_relaxed);
  } else {
    // Fewer may have come than were asked for.
    for (int i = 0; i < 1000 && others.load(std::memory_order_relaxed) > 0; ++i)
      std::this_thread::yield();
  }
}

// They come onto it by being woken, seldom while they work; this costs 1 us.
constexpr std::chrono::milliseconds kPartEvery{1};

}  // namespace

WithThreads::WithThreads(int threads) : before_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
  thread_local std::chrono::steady_clock::time_point parted;
  if (threads <= 1) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - parted < kPartEvery) return;
  part_threads(threads);
  parted = now;
}
WithThreads::~WithThreads() { omp_set_num_threads(before_); }

Operation::Port Operation::port(const Operand& operand, bool input) const {
  Port p{.arg = operand.arg,
         .user = dnnl::memory(operand.user, engine(), DNNL_MEMORY_NONE),
         .library = {},
         .convert = {}};
  if (operand.user == operand.library) {
    p.library = p.user;
  } else {
    p.library = dnnl::memory(operand.library, engine());
    p.convert = input ? dnnl::reorder(p.user, p.library) : dnnl::reorder(p.library, p.user);
  }
  return p;
}

Operation::Operation(dnnl::primitive primitive, const std::vector<Operand>& inputs,
                     const Operand& output, std::string implementation)
    : primitive_(std::move(primitive)),
      output_(port(output, false)),
      implementation_(std::move(implementation)) {
  for (const Operand& o : inputs) inputs_.push_back(port(o, true));
  for (const Port& p : inputs_) args_.emplace(p.arg, p.library);
  args_.emplace(output_.arg, output_.library);
}

void Operation::keep_constant(int arg, const Tensor& tensor) {
  for (Port& p : inputs_) {
    if (p.arg != arg || !p.convert) continue;
    dnnl::stream stream(engine());
    p.user.set_data_handle(const_cast<std::byte*>(tensor.bytes().data()));
    p.convert->execute(stream, p.user, p.library);
    stream.wait();
    p.constant = true;
  }
}

namespace {

// The scratch that the library allocates for a primitive.
std::int64_t scratch_of(const dnnl::primitive& primitive) {
  std::int64_t bytes = 0;
  dnnl::error::wrap_c_api(dnnl_primitive_desc_query(primitive.get_primitive_desc(),
                                                    dnnl_query_memory_consumption_s64, 0, &bytes),
                          "the memory of a primitive");
  return bytes;
}

}  // namespace

LibraryMemory Operation::memory() const {
  LibraryMemory m{.workspace = scratch_of(primitive_)};
  const auto add = [&](const Port& p) {
    if (!p.convert) return;
    const auto bytes = static_cast<std::int64_t>(p.library.get_desc().get_size());
    if (p.constant)
      m.kept += bytes;
    else
      m.workspace += bytes + scratch_of(*p.convert);
  };
  for (const Port& p : inputs_) add(p);
  add(output_);
  return m;
}

bool Operation::converts() const {
  return output_.convert.has_value() || std::ranges::any_of(inputs_, [](const Port& p) {
           return p.convert.has_value() && !p.constant;
         });
}

void Operation::bring(const KernelCall& call) const {
  const WithThreads scope(call.threads);
  dnnl::stream stream(engine());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Port& p = inputs_[i];
    if (p.constant) continue;
    p.user.set_data_handle(const_cast<std::byte*>(call.input(i).bytes().data()));
    if (!p.convert) continue;
    dnnl::memory from = p.user, to = p.library;
    p.convert->execute(stream, from, to);
  }
  output_.user.set_data_handle(const_cast<std::byte*>(call.output(0).bytes().data()));
  stream.wait();
}

void Operation::work(int threads) const {
  const WithThreads scope(threads);
  dnnl::stream stream(engine());
  primitive_.execute(stream, args_);
  stream.wait();
}

void Operation::take(int threads) const {
  if (!output_.convert) return;
  const WithThreads scope(threads);
  dnnl::stream stream(engine());
  dnnl::memory from = output_.library, to = output_.user;
  output_.convert->execute(stream, from, to);
  stream.wait();
}

void Operation::run(const KernelCall& call) const {
  const DefaultFpEnvironment fp;
  const std::lock_guard lock(mutex_);
  guarded("to run " + implementation_, [&] {
    bring(call);
    work(call.threads);
    take(call.threads);
  });
}

namespace {

class OwnLayout final : public OwnLayoutRun {
 public:
  OwnLayout(const Operation& operation, const KernelCall& call)
      : operation_(operation), threads_(call.threads) {
    guarded("a reorder", [&] { operation_.bring(call); });
  }
  void work() override {
    const DefaultFpEnvironment fp;
    guarded("to run " + operation_.implementation(), [&] { operation_.work(threads_); });
  }
  void finish() override {
    guarded("a reorder", [&] { operation_.take(threads_); });
  }

 private:
  const Operation& operation_;
  int threads_;
};

}  // namespace

std::unique_ptr<OwnLayoutRun> own_layout_run(const KernelCall& call) {
  if (call.prepared == nullptr) return nullptr;
  const auto& operation = *static_cast<const Operation*>(call.prepared);
  if (!operation.converts()) return nullptr;
  return std::make_unique<OwnLayout>(operation, call);
}

std::optional<LibraryMemory> memory_of(const KernelCall& call) {
  if (call.prepared == nullptr) return std::nullopt;
  return guarded("to tell its memory",
                 [&] { return static_cast<const Operation*>(call.prepared)->memory(); });
}

std::string implementation_of(const KernelCall& call) {
  return call.prepared == nullptr ? ""
                                  : static_cast<const Operation*>(call.prepared)->implementation();
}

}  // namespace etalon::onednn
