// gemm and matmul by oneDNN's matmul primitive: f32, gemm also of bf16 and f16 in memory. Nothing
// is promised about bits.
#include "kernels/gemm/onednn.h"

#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/backends/onednn/onednn.h"

namespace etalon {
namespace {

using Pd = dnnl::matmul::primitive_desc;

// A matrix as it lies, possibly transposed.
dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                          std::int64_t column_stride, dnnl::memory::data_type type) {
  return {{rows, columns}, type, dnnl::memory::dims{row_stride, column_stride}};
}

struct Description {
  Pd pd;
  std::vector<dnnl::memory::desc> user;  // of the inputs, as they lie
};

Description describe_gemm(const Problem& problem) {
  const auto& params = problem.params->as<GemmParams>();
  const GemmGeometry g = gemm_geometry(params, problem.input(0).shape, problem.input(1).shape);
  const auto type = onednn::type_of(problem.input(0).dtype);
  dnnl::primitive_attr attr = onednn::strict_f32();
  dnnl::post_ops after;
  std::vector<dnnl::memory::desc> user{matrix(g.m, g.k, g.a_row, g.a_col, type),
                                       matrix(g.k, g.n, g.b_row, g.b_col, type)};
  if (params.alpha != 1.0F)
    after.append_eltwise(dnnl::algorithm::eltwise_linear, params.alpha, 0.0F);
  if (problem.has(2)) {
    dnnl::memory::dims c = onednn::dims_of(problem.input(2).shape);
    while (c.size() < 2) c.insert(c.begin(), 1);
    user.push_back(onednn::plain(c, type));
    after.append_binary(dnnl::algorithm::binary_add, user.back());
  }
  attr.set_post_ops(after);
  // Only a constant b may be laid out anew before the clock starts.
  const bool constant = problem.inputs[1].value != nullptr;
  return {Pd(onednn::engine(), user[0], constant ? onednn::any_layout({g.k, g.n}, type) : user[1],
             onednn::plain({g.m, g.n}, type), attr),
          user};
}

Description describe_matmul(const Problem& problem) {
  const bool constant = problem.inputs[1].value != nullptr;
  std::array<dnnl::memory::dims, 2> dims{onednn::dims_of(problem.input(0).shape),
                                         onednn::dims_of(problem.input(1).shape)};
  for (auto& d : dims)
    while (d.size() < static_cast<std::size_t>(problem.outputs[0].shape.rank()))
      d.insert(d.begin(), 1);
  std::vector<dnnl::memory::desc> user{onednn::plain(dims[0]), onednn::plain(dims[1])};
  return {Pd(onednn::engine(), user[0], constant ? onednn::any_layout(dims[1]) : user[1],
             onednn::plain(onednn::dims_of(problem.outputs[0].shape)), onednn::strict_f32()),
          user};
}

using Describe = Description (*)(const Problem&);

template <Describe describe>
std::shared_ptr<onednn::Operation> make(const Problem& problem) {
  const Description d = describe(problem);
  std::vector<onednn::Operation::Operand> inputs{
      {DNNL_ARG_SRC, d.user[0], d.pd.src_desc()},
      {DNNL_ARG_WEIGHTS, d.user[1], d.pd.weights_desc()}};
  if (d.user.size() == 3) {
    const int post = d.pd.get_primitive_attr().get_post_ops().len() - 1;
    inputs.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(post) | DNNL_ARG_SRC_1, d.user[2], d.user[2]});
  }
  auto op = std::make_shared<onednn::Operation>(
      dnnl::matmul(d.pd), inputs,
      onednn::Operation::Operand{DNNL_ARG_DST, d.pd.dst_desc(), d.pd.dst_desc()},
      d.pd.impl_info_str());
  if (const Tensor* b = problem.inputs[1].value) op->keep_constant(DNNL_ARG_WEIGHTS, *b);
  return op;
}

template <Describe describe>
onednn::Dispatched& dispatched() {
  static onednn::Dispatched d;
  return d;
}

template <Describe describe>
void run(const KernelCall& call) {
  const onednn::WithThreads scope(call.threads);
  const auto fresh = call.prepared == nullptr ? make<describe>(*call.problem) : nullptr;
  const auto& op =
      call.prepared == nullptr ? *fresh : *static_cast<const onednn::Operation*>(call.prepared);
  op.run(call);
  dispatched<describe>().set(op.implementation());
}

template <Describe describe>
Refusal refuse(const Problem& problem) {
  constexpr bool kGemm = describe == describe_gemm;
  if (Refusal r =
          onednn::refuse_cap(problem, kGemm ? onednn::Takes::halves_too : onednn::Takes::f32))
    return r;
  if constexpr (kGemm) {
    if (problem.has(2) && problem.params->as<GemmParams>().beta != 1.0F)
      return "the addition of c has no factor: beta must be 1";
  } else {
    if (problem.input(0).shape.rank() < 2 || problem.input(1).shape.rank() < 2)
      return "takes matrices";
  }
  return onednn::refuse_unless_implemented([&] { describe(problem); });
}

template <Describe describe>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .promise = Promise::vendor,
          .contracts = "none",
          .refuse = refuse<describe>,
          .run = run<describe>,
          .prepare = [](const Problem& problem, int threads) -> Prepared {
            const onednn::WithThreads scope(threads);
            return onednn::guarded("a matrix product", [&] { return make<describe>(problem); });
          },
          .version = [] { return dispatched<describe>().version(); }};
}

}  // namespace

std::span<const KernelRow> onednn_gemm_rows() {
  static const KernelRow rows[] = {row<describe_gemm>("gemm", "onednn.gemm")};
  return rows;
}

std::span<const KernelRow> onednn_matmul_rows() {
  static const KernelRow rows[] = {row<describe_matmul>("matmul", "onednn.matmul")};
  return rows;
}

}  // namespace etalon
