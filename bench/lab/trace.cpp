#include "bench/lab/trace.h"

#include "engine/core/error.h"
#include "kernels/conv/fft_definition.h"
#include "kernels/conv/im2col_definition.h"
#include "kernels/conv/transpose_definition.h"
#include "kernels/conv/winograd_definition.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// transform=f64, drawn: the transforms run over traced f64, and to be rounded to the sum's format
// is a product by 1.
template <>
struct WideOf<ContractArithmetic<lab::TracedOps>> {
  using A = ContractArithmetic<lab::TracedOps>;
  using type = A;
  static type make(A&) {
    static const Contract f64 = Contract::parse("acc=f64");
    return A(f64);
  }
  static lab::Traced narrow(A& a, const lab::Traced& v) { return a.mul(v, a.input(1)); }
  static lab::Traced widen(const lab::Traced& v) { return v; }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon

namespace etalon::lab {
namespace {

// Keeps the value of one output.
struct Catch {
  std::int64_t wanted;
  Traced found;
  bool caught = false;
  void operator()(int, std::int64_t index, Traced value) {
    if (index != wanted) return;
    found = value;
    caught = true;
  }
  void integer(int, std::int64_t, std::int64_t) {}
};

int place_of(int operand) { return operand <= -2 ? -2 - operand : operand; }

// What the root reads, directly or not, renumbered.
TracedOutput ancestors(const std::vector<TraceNode>& all, int root) {
  std::vector<int> place(all.size(), -1);
  std::vector<char> needed(all.size(), 0);
  needed[static_cast<std::size_t>(root)] = 1;
  for (int i = root; i >= 0; --i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    const TraceNode& n = all[static_cast<std::size_t>(i)];
    for (const int from : {n.a, n.b, n.c})
      if (from != -1) needed[static_cast<std::size_t>(place_of(from))] = 1;
  }
  TracedOutput out;
  for (int i = 0; i <= root; ++i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    TraceNode n = all[static_cast<std::size_t>(i)];
    for (int* from : {&n.a, &n.b, &n.c})
      if (*from != -1) {
        const int now = place[static_cast<std::size_t>(place_of(*from))];
        *from = *from <= -2 ? -2 - now : now;
      }
    place[static_cast<std::size_t>(i)] = static_cast<int>(out.nodes.size());
    out.nodes.push_back(n);
  }
  out.root = static_cast<int>(out.nodes.size()) - 1;
  return out;
}

// Slices are computed until the wanted output is among what one of them gives.
template <class D>
TracedOutput trace(const KernelCall& call, std::int64_t index, std::int64_t first_slice) {
  const auto plan = D::plan(call);
  Recorder recorder;
  TracedOps::recorder = &recorder;
  struct Reset {
    ~Reset() { TracedOps::recorder = nullptr; }
  } reset;
  Catch out{index, {}};
  ContractArithmetic<TracedOps> a(call.contract());
  for (std::int64_t i = first_slice; i < D::slices(plan) && !out.caught; ++i) {
    recorder.clear();
    D::slice(a, plan, i, out);
    if (recorder.full)
      throw usage_error("this output is made of more than {} operations; take fewer channels",
                        Recorder::kMostNodes);
  }
  if (!out.caught) throw internal_error("conv: output {} is in no slice", index);
  // No tap of this output meets an input: it is the sum of nothing.
  if (out.found.node < 0) return {{{.value = out.found.value}}, 0};
  return ancestors(recorder.nodes, out.found.node);
}

std::int64_t first_tile(const KernelCall& call, const Algorithm& algorithm, std::int64_t filter) {
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  return conv_tiles(g, algorithm).per_image() * filter;
}

}  // namespace

TracedOutput trace_output(const KernelCall& call, std::int64_t index) {
  if (call.contract().exact())
    throw usage_error(
        "under exact an output is rounded once, and no order exists that could be "
        "drawn; choose another contract");
  // Direct forms have a slice for each output; the others start at the first tile of the filter.
  if (call.problem->op == &conv_transpose_op())
    return trace<ConvTransposeDefinition>(call, index, index);
  const Shape& y = call.problem->outputs[0].shape;
  const std::int64_t filter = index / (y[2] * y[3]);
  const Algorithm algorithm = Algorithm::parse(call.contract().algo);
  switch (algorithm.kind) {
    case Algorithm::Kind::direct:
      return trace<ConvDefinition>(call, index, index);
    case Algorithm::Kind::im2col:
      return trace<Im2colDefinition>(call, index, index);
    case Algorithm::Kind::winograd:
      return trace<WinogradDefinition>(call, index, first_tile(call, algorithm, filter));
    case Algorithm::Kind::fft:
      break;
  }
  return trace<FftDefinition>(call, index, first_tile(call, algorithm, filter));
}

}  // namespace etalon::lab
