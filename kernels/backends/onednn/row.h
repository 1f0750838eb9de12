// A vendor row from one function: what a problem is in oneDNN's words.
#pragma once

#include "kernels/backends/onednn/onednn.h"

namespace etalon::onednn {

struct Described {
  dnnl::primitive primitive;
  std::vector<Operation::Operand> inputs;  // in the sequence of the op's
  Operation::Operand output;
  std::string implementation;
};

// The primitive of a descriptor with all of its operands as they lie in our tensors, or, with
// blocks, the first and the output by blocks of 16 channels, which oneDNN's kernels prefer.
template <class Primitive>
Described described(const typename Primitive::primitive_desc& pd,
                    std::vector<Operation::Operand> inputs, const dnnl::memory::dims& y) {
  return {Primitive(pd),
          std::move(inputs),
          {DNNL_ARG_DST, plain(y), pd.dst_desc()},
          pd.impl_info_str()};
}

// Row-major, or [N, C/16, H, W, 16] where the tensor has four axes.
enum class Lies { row_major, blocked };
inline dnnl::memory::desc lie(const Shape& shape, Lies how) {
  if (how == Lies::row_major) return plain(dims_of(shape));
  return {dims_of(shape), dnnl::memory::data_type::f32, dnnl::memory::format_tag::nChw16c};
}
inline Refusal refuse_blocks(const Problem& problem) {
  const Shape& x = problem.input(0).shape;
  if (x.rank() != 4 || x[1] % 16 != 0)
    return "blocks of 16 channels are for images of a multiple of 16 channels";
  return std::nullopt;
}

// `Describe` throws dnnl::error where the library has no implementation; `Refuse` says what of the
// op the library's has not.
template <Described (*Describe)(const Problem&), Refusal (*Refuse)(const Problem&)>
KernelRow vendor_row(std::string_view op, std::string_view name) {
  static Dispatched dispatched;
  static constexpr auto make = [](const Problem& problem) {
    const Described d = Describe(problem);
    return std::make_shared<Operation>(d.primitive, d.inputs, d.output, d.implementation);
  };
  return {.op = op,
          .name = name,
          .promise = Promise::vendor,
          .contracts = "none",
          .refuse = [](const Problem& problem) -> Refusal {
            if (Refusal r = refuse_cap(problem)) return r;
            if (Refusal r = Refuse(problem)) return r;
            return refuse_unless_implemented([&] { Describe(problem); });
          },
          .run =
              [](const KernelCall& call) {
                const WithThreads scope(call.threads);
                const auto fresh = call.prepared == nullptr ? make(*call.problem) : nullptr;
                const auto& ready = call.prepared == nullptr
                                        ? *fresh
                                        : *static_cast<const Operation*>(call.prepared);
                ready.run(call);
                dispatched.set(ready.implementation());
              },
          .prepare = [](const Problem& problem, int threads) -> Prepared {
            const WithThreads scope(threads);
            return guarded(problem.op->name, [&] { return make(problem); });
          },
          .version = [] { return dispatched.version(); }};
}

inline Refusal refuse_nothing(const Problem&) { return std::nullopt; }

}  // namespace etalon::onednn
