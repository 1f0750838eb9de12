// quantize_linear and dequantize_linear between f32 and integers of 8 and 16 bits (vector_rows.h).
//
// Same bits: under acc=f32 the quotient is f32's. Under exact it is the real one, which lies on the
// same side of each half of an odd number as its rounding does, but where that is such a half
// itself: halves are numbers of f32 and rounding keeps order. There the definition's own rounding
// decides, element by element.
#include <algorithm>
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/core/threads.h"
#include "engine/ops/quantize.h"
#include "kernels/quantize/rows.h"
#include "kernels/quantize/vector_rows.h"

namespace etalon {
namespace {

bool is_quantized(DType type) {
  return type == DType::i8 || type == DType::u8 || type == DType::i16 || type == DType::u16;
}
QuantizedType quantized_type(DType type) {
  return type == DType::i8    ? QuantizedType::i8
         : type == DType::u8  ? QuantizedType::u8
         : type == DType::i16 ? QuantizedType::i16
                              : QuantizedType::u16;
}

// Half of an odd number.
bool is_half_of_odd(float q) {
  if (!(abs_of(q) < 0x1p22F)) return false;
  return abs_of(q - ((q + 0x1.8p23F) - 0x1.8p23F)) == 0.5F;
}

// f(i, count, s, varies) for runs of [begin, end): elements from i on have scale s, or successive
// ones from s on.
template <class F>
void scale_runs(const QuantizeGeometry& g, std::int64_t begin, std::int64_t end, F&& f) {
  for (std::int64_t i = begin, n = 0; i < end; i += n) {
    bool varies = false;
    n = end - i;
    if (!g.whole) {
      const std::int64_t along = i / g.inner % g.extent;
      if (g.outer_varies && g.inner == 1) {
        n = std::min(g.block - along % g.block, g.extent - along);
      } else if (g.outer_varies || g.inner > 1) {
        varies = g.outer_varies;
        n = g.inner - i % g.inner;
      } else {
        varies = true;
        n = g.extent - along;
      }
      n = std::min(n, end - i);
    }
    f(i, n, g.scale_index(i), varies);
  }
}

// What both take of a call: zero points as f32.
struct Scales {
  QuantizeGeometry g;
  const float* scale;
  std::vector<float> zero;

  explicit Scales(const KernelCall& call) {
    const std::vector<InferInput> known = known_inputs(call);
    g = quantize_geometry(call.params<QuantizeParams>(), InferInputs(known));
    scale = call.input(1).data<float>().data();
    if (!call.has(2)) return;
    zero.resize(static_cast<std::size_t>(call.input(2).numel()));
    for (std::size_t i = 0; i < zero.size(); ++i)
      zero[i] = static_cast<float>(load_as_double(call.input(2), static_cast<std::int64_t>(i)));
  }
  QuantizedRow row(QuantizedType type, std::int64_t s, bool varies) const {
    return {type, scale + s, zero.empty() ? nullptr : zero.data() + s, varies};
  }
};

constexpr std::int64_t kGrain = 16384;

template <QuantizeRow Row>
void run_quantize(const KernelCall& call) {
  if (!call.truth.empty()) return run_quantize_definition(call);
  const Scales scales(call);
  const float* x = call.input(0).data<float>().data();
  const DType type = call.output(0).dtype();
  const QuantizedType quantized = quantized_type(type);
  const std::int64_t size = size_bytes(type);
  std::byte* y = output_bytes(call, 0);
  const bool exact = call.contract().exact();
  parallel_for(
      call.output(0).numel(), call.threads, kGrain, [&](std::int64_t begin, std::int64_t end) {
        scale_runs(scales.g, begin, end,
                   [&](std::int64_t i, std::int64_t n, std::int64_t s, bool varies) {
                     const QuantizedRow row = scales.row(quantized, s, varies);
                     if (!Row(row, x + i, y + i * size, n) || !exact) return;
                     for (std::int64_t k = 0; k < n; ++k) {
                       const std::int64_t of = varies ? k : 0;
                       const float quotient = x[i + k] / row.scale[of];
                       if (!is_half_of_odd(quotient)) continue;
                       const double whole = round_quotient(static_cast<double>(x[i + k]),
                                                           static_cast<double>(row.scale[of]));
                       store_from_double(
                           type, y, i + k,
                           whole + (row.zero == nullptr ? 0 : static_cast<double>(row.zero[of])));
                     }
                   });
      });
}

template <DequantizeRow Row>
void run_dequantize(const KernelCall& call) {
  if (!call.truth.empty()) return run_dequantize_definition(call);
  const Scales scales(call);
  const DType type = call.input(0).dtype();
  const QuantizedType quantized = quantized_type(type);
  const std::int64_t size = size_bytes(type);
  const std::byte* x = call.input(0).bytes().data();
  float* y = call.output(0).mutable_data<float>().data();
  parallel_for(call.output(0).numel(), call.threads, kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 scale_runs(scales.g, begin, end,
                            [&](std::int64_t i, std::int64_t n, std::int64_t s, bool varies) {
                              Row(scales.row(quantized, s, varies), x + i * size, y + i, n);
                            });
               });
}

Refusal refuse_types(const Problem& problem, DType integers) {
  if (!is_quantized(integers)) return "takes integers of 8 and 16 bits";
  if (problem.input(1).dtype != DType::f32) return "takes scales in f32";
  if (problem.contract->subnormals != Subnormals::keep) return "promises subnormals=keep";
  return std::nullopt;
}
Refusal refuse_quantize(const Problem& problem) {
  const Contract& c = *problem.contract;
  if (problem.input(0).dtype != DType::f32) return "computes on f32";
  if (!c.exact() && (c.acc != DType::f32 || c.round != Round::nearest_even))
    return "promises exact, or acc=f32 and round=rn";
  return refuse_types(problem, problem.outputs[0].dtype);
}
Refusal refuse_dequantize(const Problem& problem) {
  const Contract& c = *problem.contract;
  if (c.round != Round::nearest_even || info(c.store).precision_bits < 24)
    return "promises round=rn and store=f32";
  return refuse_types(problem, problem.input(0).dtype);
}

// No contract has a say in what an integer is cut to.
template <CutRow Row>
void run_cast(const KernelCall& call) {
  const float* x = call.input(0).data<float>().data();
  const DType type = call.output(0).dtype();
  const std::int64_t size = size_bytes(type);
  std::byte* y = output_bytes(call, 0);
  parallel_for(call.output(0).numel(), call.threads, kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 Row(quantized_type(type), x + begin, y + begin * size, end - begin);
               });
  fill_truth_from_input(call);
}
Refusal refuse_cast(const Problem& problem) {
  if (problem.input(0).dtype != DType::f32 || !is_quantized(problem.outputs[0].dtype))
    return "converts f32 to integers of 8 and 16 bits";
  return std::nullopt;
}

template <QuantizeRow Quantize, DequantizeRow Dequantize>
void add_rows(std::vector<KernelRow>& to, Isa isa, std::string_view quantize,
              std::string_view dequantize) {
  to.push_back({.op = "quantize_linear",
                .name = quantize,
                .isa = isa,
                .contracts = "exact, and any with acc=f32, round=rn, subnormals=keep",
                .refuse = refuse_quantize,
                .run = run_quantize<Quantize>});
  to.push_back({.op = "dequantize_linear",
                .name = dequantize,
                .isa = isa,
                .contracts = "any with round=rn, subnormals=keep, store=f32",
                .refuse = refuse_dequantize,
                .run = run_dequantize<Dequantize>});
}

template <CutRow Row>
KernelRow cast_row(std::string_view name, Isa isa) {
  return {.op = "cast",
          .name = name,
          .isa = isa,
          .contracts = "all, from f32 to integers of 8 and 16 bits",
          .refuse = refuse_cast,
          .run = run_cast<Row>};
}

}  // namespace

std::span<const KernelRow> narrow_cast_rows() {
  static const KernelRow rows[] = {
#if defined(__x86_64__)
      cast_row<cut_row_avx512>("cast.integers.avx512", Isa::avx512),
      cast_row<cut_row_avx2>("cast.integers.avx2", Isa::avx2),
#endif
      cast_row<cut_row_base>("cast.integers.sse2", Isa::sse2),
  };
  return rows;
}

std::span<const KernelRow> quantize_vector_rows() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
#if defined(__x86_64__)
    add_rows<quantize_row_avx512, dequantize_row_avx512>(
        all, Isa::avx512, "quantize_linear.f32.avx512", "dequantize_linear.f32.avx512");
    add_rows<quantize_row_avx2, dequantize_row_avx2>(all, Isa::avx2, "quantize_linear.f32.avx2",
                                                     "dequantize_linear.f32.avx2");
#endif
    add_rows<quantize_row_base, dequantize_row_base>(all, Isa::sse2, "quantize_linear.f32.sse2",
                                                     "dequantize_linear.f32.sse2");
    return all;
  }();
  return rows;
}

}  // namespace etalon
