#include "kernels/backends/onednn/onednn.h"

#include <omp.h>

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

dnnl::memory::desc plain(const dnnl::memory::dims& dims) {
  dnnl::memory::dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(1, dims[i]);
  }
  return {dims, dnnl::memory::data_type::f32, strides};
}

dnnl::memory::desc any_layout(const dnnl::memory::dims& dims) {
  return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

dnnl::primitive_attr strict_f32() {
  dnnl::primitive_attr attr;
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attr;
}

Refusal refuse_cap(const Problem& problem) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    if (!problem.has(i)) continue;
    if (problem.input(i).dtype != DType::f32) return "this row takes f32";
    if (problem.input(i).shape.numel() == 0) return "an operand is empty";
  }
  if (problem.isa < detect_isa())
    return "oneDNN chooses its own instruction set, --isa caps it not";
  return std::nullopt;
}

WithThreads::WithThreads(int threads) : before_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
}
WithThreads::~WithThreads() { omp_set_num_threads(before_); }

void Operation::keep_constant(int arg, const float* data) {
  for (const Operand& o : inputs_) {
    if (o.arg != arg) continue;
    dnnl::memory from(o.user, engine(), const_cast<float*>(data));
    dnnl::memory to(o.library, engine());
    dnnl::stream stream(engine());
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    constants_.emplace(arg, std::move(to));
  }
}

void Operation::run(std::span<const float* const> data, float* y, int threads) const {
  const DefaultFpEnvironment fp;
  const WithThreads scope(threads);
  guarded("to run " + implementation_, [&] {
    dnnl::stream stream(engine());
    std::unordered_map<int, dnnl::memory> args;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Operand& o = inputs_[i];
      if (const auto kept = constants_.find(o.arg); kept != constants_.end()) {
        args.emplace(o.arg, kept->second);
        continue;
      }
      dnnl::memory from(o.user, engine(), const_cast<float*>(data[i]));
      if (o.user == o.library) {
        args.emplace(o.arg, from);
        continue;
      }
      dnnl::memory to(o.library, engine());
      dnnl::reorder(from, to).execute(stream, from, to);
      args.emplace(o.arg, to);
    }
    dnnl::memory result(output_.user, engine(), y);
    const bool same = output_.user == output_.library;
    dnnl::memory own = same ? result : dnnl::memory(output_.library, engine());
    args.emplace(output_.arg, own);
    primitive_.execute(stream, args);
    if (!same) dnnl::reorder(own, result).execute(stream, own, result);
    stream.wait();
  });
}

}  // namespace etalon::onednn
