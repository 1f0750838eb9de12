#include "bench/lab/answer.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/compare/ulp.h"
#include "bench/lab/problem.h"
#include "bench/lab/trace.h"
#include "engine/backend/registry.h"
#include "engine/core/hash.h"
#include "engine/numerics/any_order.h"
#include "kernels/conv/algorithm_cost.h"
#include "kernels/conv/fft_definition.h"
#include "kernels/conv/rows.h"
#include "kernels/conv/winograd_matrices.h"

namespace etalon::lab {
namespace {

using nlohmann::json;

const Registry& convolutions() {
  static const Registry registry = [] {
    Registry r;
    r.add(conv_rows());
    return r;
  }();
  return registry;
}

// A problem and what a kernel call needs of it.
struct Asked {
  explicit Asked(ConvProblem p) : problem_of(std::move(p)), params(problem_of.params) {
    inputs[0] = {problem_of.x.type(), nullptr, true};
    inputs[1] = {problem_of.w.type(), &problem_of.w, true};
    problem.op = problem_of.op;
    problem.params = &params;
    problem.inputs = inputs;
    problem.outputs = {&problem_of.y, 1};
    problem.contract = &problem_of.contract;
    problem.isa = Isa::sse2;  // one processor's speed is no matter here: its bits are everyone's
  }
  Asked(const Asked&) = delete;

  KernelCall call(Tensor& y) const {
    KernelCall c;
    c.problem = &problem;
    c.inputs = given;
    c.outputs = {&y, 1};
    return c;
  }

  ConvProblem problem_of;
  Params params;
  InferInput inputs[2];
  const Tensor* given[2] = {&problem_of.x, &problem_of.w};
  Problem problem;
};

struct Result {
  Tensor y, truth;
  const KernelRow* row = nullptr;
};

Result compute(const Asked& asked, bool with_truth) {
  Result r;
  r.row = &convolutions().require(asked.problem);
  r.y = Tensor::uninitialized(DType::f32, asked.problem_of.y.shape);
  KernelCall call = asked.call(r.y);
  if (with_truth) {
    r.truth = Tensor::uninitialized(DType::f64, asked.problem_of.y.shape);
    call.truth = {&r.truth, 1};
  }
  Prepared prepared;
  if (r.row->prepare != nullptr) prepared = r.row->prepare(asked.problem, 1);
  call.prepared = prepared.get();
  r.row->run(call);
  return r;
}

json number(double v) { return std::isfinite(v) ? json(v) : json(nullptr); }

json values(const Tensor& t) {
  json list = json::array();
  for (const float v : t.data<float>()) list.push_back(number(static_cast<double>(v)));
  return list;
}

json stats_json(const ErrorStats& s) {
  return {{"elements", s.elements},
          {"max_ulp", number(s.max_ulp)},
          {"mean_ulp", number(s.mean_ulp)},
          {"p999_ulp", number(s.p999_ulp)},
          {"correctly_rounded", s.correctly_rounded},
          {"non_finite", s.non_finite()},
          {"worst", s.worst},
          {"histogram", s.histogram}};
}

// The exact result of the last problem: sliders change the contract far more often than the data.
// Of the data as it was drawn, or of the factors that are left of it.
enum class Of { data, factors };

const Result& exact_of(const json& question, Of of) {
  struct Kept {
    std::string key;
    Result result;
  };
  static std::array<Kept, 2> last;
  json key = with_contract(question, "exact");
  for (const char* other : {"do", "at", "values"}) key.erase(other);
  const bool rounded = key.value("factors", "f32") != "f32";
  if (of == Of::data || !rounded) key.erase("factors");
  Kept& kept = last[of == Of::factors && rounded ? 1 : 0];
  if (std::string text = key.dump(); text != kept.key) {
    const Asked asked(read_problem(key));
    kept.key.clear();
    kept.result = compute(asked, true);
    kept.key = std::move(text);
  }
  return kept.result;
}

double largest(const Tensor& t) {
  float most = 0;
  for (const float v : t.data<float>()) most = std::max(most, std::fabs(v));
  return static_cast<double>(most);
}

// The rigorous bound of output `index`, whatever the order of its sum.
double bound_at(const Asked& asked, std::int64_t index) {
  const KernelRow& row = convolutions().require(asked.problem, asked.problem_of.transposed()
                                                                   ? "conv_transpose.definition"
                                                                   : "conv.definition");
  Tensor unused = Tensor::uninitialized(DType::f32, asked.problem_of.y.shape);
  const std::array<std::int64_t, 1> slices{index};
  std::vector<OutputBound> bounds;
  row.bound(asked.call(unused), AnyOrderModel::of(asked.problem_of.contract), slices, bounds);
  return bounds.at(0).bound;
}

// Size of the error against the size of the result, both as roots of sums of squares, in units of
// 2^-24: an output near zero, whose own unit is tiny, weighs as little as it is.
double relative_error(const Tensor& made, const Tensor& truth) {
  double error = 0, size = 0;
  const auto y = made.data<float>();
  const auto t = truth.data<double>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double e = static_cast<double>(y[i]) - t[i];
    error += e * e;
    size += t[i] * t[i];
  }
  return std::sqrt(error / size) * 0x1p24;
}

json cost_json(const AlgorithmCost& cost) {
  return {{"products", cost.products},   {"transforms", cost.transforms},
          {"weights", cost.weights},     {"multiplications", cost.multiplications},
          {"additions", cost.additions}, {"bytes", cost.spectrum_bytes + cost.weight_bytes},
          {"roundings", cost.roundings}};
}

// Of the transposed form: each tap that meets an input is a product, and all but the first of an
// output an addition. The axes are alike but in size, and meet apart.
struct Meetings {
  std::int64_t taps = 0, outputs = 0, most = 0;  // taps that meet; outputs that any meets
  explicit Meetings(const WindowAxis& axis) {
    for (std::int64_t o = 0; o < axis.out; ++o) {
      std::int64_t met = 0;
      for (std::int64_t r = 0; r < axis.kernel; ++r) met += met_input(axis, o, r) >= 0 ? 1 : 0;
      taps += met;
      outputs += met > 0 ? 1 : 0;
      most = std::max(most, met);
    }
  }
};
struct TransposedCost {
  double products = 0, additions = 0;
  std::int64_t most_terms = 0;  // of one output
};
TransposedCost transposed_cost(const Asked& asked) {
  const ConvTransposeGeometry g =
      conv_transpose_geometry(asked.params.as<ConvTransposeParams>(), asked.problem_of.x.shape(),
                              asked.problem_of.w.shape());
  const Meetings h(g.window.axes[1]), w(g.window.axes[2]);
  const auto filters = static_cast<double>(g.out_channels);
  const double products = static_cast<double>(h.taps * w.taps * g.in_channels) * filters;
  return {products, products - static_cast<double>(h.outputs * w.outputs) * filters,
          h.most * w.most * g.in_channels};
}

json cost_of(const Asked& asked) {
  if (!asked.problem_of.transposed()) return cost_json(algorithm_cost(asked.problem));
  const TransposedCost cost = transposed_cost(asked);
  return cost_json({.products = cost.products,
                    .multiplications = cost.products,
                    .additions = cost.additions,
                    .roundings = static_cast<double>(cost.most_terms)});
}

// What the algorithm does, without doing it.
json cost(const json& question) {
  const Asked asked(read_problem(question, std::numeric_limits<std::int64_t>::max()));
  convolutions().require(asked.problem);
  return {{"contract", to_string(asked.problem_of.contract)},
          {"elements", asked.problem_of.y.shape.numel()},
          {"cost", cost_of(asked)}};
}

bool wants_values(const json& question) {
  const auto at = question.find("values");
  if (at == question.end()) return true;
  if (!at->is_boolean()) throw usage_error("values: {} is neither true nor false", at->dump());
  return at->get<bool>();
}

// The output that a question is about.
std::int64_t output_index(const json& question, const Asked& asked) {
  const auto at = question.find("at");
  if (at == question.end()) return 0;
  const std::int64_t count = asked.problem_of.y.shape.numel();
  const std::int64_t index = at->is_number_integer() ? at->get<std::int64_t>() : -1;
  if (index < 0 || index >= count)
    throw usage_error("at: there is no output {}; they are 0 to {}", at->dump(), count - 1);
  return index;
}

json convolve(const json& question) {
  const Asked asked(read_problem(question));
  const Result& exact = exact_of(question, Of::data);
  const Contract& contract = asked.problem_of.contract;
  const Result made = compute(asked, false);
  const ErrorStats stats = error_stats(made.y, exact.y, exact.truth);
  json a = {{"contract", to_string(contract)},
            {"kernel", made.row->name},
            {"hash", to_string(hash_tensor(made.y))},
            {"exact_hash", to_string(hash_tensor(exact.y))},
            {"shape", Ints(made.y.shape().dims().begin(), made.y.shape().dims().end())},
            {"stats", stats_json(stats)}};
  a["stats"]["relative"] = number(relative_error(made.y, exact.truth));
  const Shape& w = asked.problem_of.w.shape();
  a["k"] = asked.problem_of.transposed() ? transposed_cost(asked).most_terms : w[1] * w[2] * w[3];
  if (wants_values(question)) {
    a["y"] = values(made.y);
    json ulp = json::array();
    const auto y = made.y.data<float>();
    const auto t = exact.truth.data<double>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double e = error_in_ulp(static_cast<double>(y[i]), t[i], DType::f32);
      ulp.push_back(number(static_cast<double>(y[i]) < t[i] ? -e : e));
    }
    a["ulp"] = std::move(ulp);
  }
  if (!contract.exact()) {
    a["cost"] = cost_of(asked);
    // No bound of f32 sums holds where factors are rounded first, or a tensor core cuts sums.
    if (stats.worst >= 0 && !contract.tensor_core() && asked.problem_of.factors == DType::f32) {
      const double exact_value = exact.truth.data<double>()[static_cast<std::size_t>(stats.worst)];
      const double bound = Algorithm::parse(contract.algo).kind == Algorithm::Kind::direct
                               ? bound_at(asked, stats.worst)
                               : algorithm_cost(asked.problem).bound * largest(asked.problem_of.x) *
                                     largest(asked.problem_of.w);
      a["bound_ulp"] = number(bound / ulp_of(exact_value, DType::f32));
    }
  }
  return a;
}

json tree(const json& question) {
  const Asked asked(read_problem(question));
  const std::int64_t index = output_index(question, asked);
  convolutions().require(asked.problem);
  Tensor y = Tensor::uninitialized(DType::f32, asked.problem_of.y.shape);
  const TracedOutput traced = trace_output(asked.call(y), index);
  const Result& exact = exact_of(question, Of::factors);
  json nodes = json::array();
  for (const TraceNode& n : traced.nodes)
    nodes.push_back({static_cast<int>(n.kind), n.a, n.b, n.c, number(n.value), number(n.born)});
  return {{"contract", to_string(asked.problem_of.contract)},
          {"at", index},
          {"root", traced.root},
          {"nodes", std::move(nodes)},
          {"exact", exact.truth.data<double>()[static_cast<std::size_t>(index)]}};
}

json which_kernel(const json& question) {
  const Asked asked(read_problem(question));
  const Selection s = convolutions().select(asked.problem);
  json refusals = json::array();
  for (const KernelRefusal& r : s.refused)
    if (r.row->isa == Isa::sse2)
      refusals.push_back({{"kernel", r.row->name}, {"reason", r.reason}});
  return {{"kernel", s.row != nullptr ? json(s.row->name) : json(nullptr)},
          {"refused", std::move(refusals)}};
}

json matrix_json(const FractionMatrix& m) {
  json rows = json::array();
  for (std::int64_t i = 0; i < m.rows; ++i) {
    json row = json::array();
    for (std::int64_t j = 0; j < m.cols; ++j) row.push_back(to_string(m(i, j)));
    rows.push_back(std::move(row));
  }
  return rows;
}

json transform_matrices(const json& question) {
  const Asked asked(read_problem(question));
  convolutions().require(asked.problem);
  const Algorithm a = Algorithm::parse(asked.problem_of.contract.algo);
  if (a.kind != Algorithm::Kind::winograd)
    throw usage_error("contract: {} has no transform matrices; take algo=winograd:4/3",
                      name(a.kind));
  const WinogradMatrices m = winograd_matrices(a);
  return {{"a_t", matrix_json(m.a_t)}, {"g", matrix_json(m.g)}, {"b_t", matrix_json(m.b_t)}};
}

// What the FFT multiplies, of channel 0 and filter 0: logarithms of the sizes of both spectra.
json spectra(const json& question) {
  using A = ContractArithmetic<NativeF32Ops>;
  const Asked asked(read_problem(question));
  convolutions().require(asked.problem);
  const Contract& contract = asked.problem_of.contract;
  if (Algorithm::parse(contract.algo).kind != Algorithm::Kind::fft)
    throw usage_error("contract: only algo=fft:N has spectra");
  Tensor y = Tensor::uninitialized(DType::f32, asked.problem_of.y.shape);
  const auto p = FftDefinition::plan(asked.call(y));
  const std::int64_t index = output_index(question, asked);
  const WindowAxis &ay = p.t.axis_y(), &ax = p.t.axis_x();
  const std::int64_t oy = index / ax.out % ay.out, ox = index % ax.out;
  const std::int64_t ny = p.t.y.size, nx = p.t.x.size;
  A a(contract);
  const Roots roots{p.rounded->cosine.data(), p.rounded->sine.data(), p.rounded->n, true};
  const Fourier<A> f(a, roots);
  std::vector<float> data(static_cast<std::size_t>(ny * nx));
  std::vector<ComplexOf<A>> spectrum(static_cast<std::size_t>(p.spectrum())),
      work(static_cast<std::size_t>(Fourier<A>::room(ny, nx)));
  const auto sizes = [&] {
    json list = json::array();
    for (std::int64_t i = 0; i < ny; ++i)
      for (std::int64_t j = 0; j < nx / 2 + 1; ++j) {
        const auto& c = spectrum[static_cast<std::size_t>((i + ny / 2) % ny * (nx / 2 + 1) + j)];
        list.push_back(std::log2(std::hypot(c.re, c.im) + 1e-9F));
      }
    return list;
  };
  FftDefinition::weights(a, f, p, 0, 0, data.data(), spectrum.data(), work.data());
  json w = sizes();
  for (std::int64_t i = 0; i < ny; ++i)
    for (std::int64_t j = 0; j < nx; ++j) {
      const std::int64_t iy = ay.at(oy / p.t.y.step * p.t.y.step, i),
                         ix = ax.at(ox / p.t.x.step * p.t.x.step, j);
      const bool inside = iy >= 0 && iy < ay.in && ix >= 0 && ix < ax.in;
      data[static_cast<std::size_t>(i * nx + j)] =
          inside ? static_cast<float>(p.x[iy * ax.in + ix]) : 0.0F;
    }
  f.forward(ny, nx, data.data(), spectrum.data(), work.data());
  return {{"width", nx / 2 + 1}, {"height", ny}, {"x", sizes()}, {"w", std::move(w)}};
}

using Answer = json (*)(const json&);

const std::map<std::string, Answer, std::less<>>& questions() {
  static const std::map<std::string, Answer, std::less<>> table = {
      {"conv", convolve},
      {"cost", cost},
      {"tree", tree},
      {"kernel", which_kernel},
      {"transform", transform_matrices},
      {"spectrum", spectra}};
  return table;
}

// Bounded in depth while it is read: who walks a value calls himself for each level. (parse_json of
// the importers is not in the browser's build.)
json read_question(std::string_view text) {
  static constexpr int kMostDepth = 8;  // a pixel lies at 3
  const auto shallow = [](int depth, json::parse_event_t, const json&) {
    if (depth > kMostDepth)
      throw usage_error("a question nests {} levels at most, and no field of it needs more than 3",
                        kMostDepth);
    return true;
  };
  json q = json::parse(text, shallow, false);
  if (q.is_discarded() || !q.is_object()) throw usage_error("a question is one JSON object");
  return q;
}

}  // namespace

Tensor outputs(std::string_view question) {
  const Asked asked(read_problem(read_question(question)));
  return compute(asked, false).y;
}

std::string answer(std::string_view question) {
  json reply;
  try {
    const json q = read_question(question);
    const auto what = q.find("do");
    const std::string name =
        what != q.end() && what->is_string() ? what->get<std::string>() : std::string();
    const auto found = questions().find(name);
    if (found == questions().end())
      throw usage_error(
          "do: '{}' is no question; ask for conv, cost, tree, kernel, transform or spectrum", name);
    reply = found->second(q);
  } catch (const std::bad_alloc&) {
    reply = {{"error", "there is not enough memory for this shape; take fewer channels or pixels"}};
  } catch (const std::exception& e) {
    reply = {{"error", e.what()}};
  }
  return reply.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace etalon::lab
