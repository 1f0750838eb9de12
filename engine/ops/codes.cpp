#include "engine/ops/codes.h"

namespace etalon {
namespace {

std::vector<TensorType> infer_encode(const Params& params, const InferInputs& in) {
  if (in.dtype(0) == DType::boolean) throw bad_input("bool has no codes; cast it");
  return {{code_storage(params.as<EncodeParams>().format), in.shape(0)}};
}

std::vector<TensorType> infer_decode(const Params& params, const InferInputs& in) {
  const Code format = params.as<DecodeParams>().format;
  if (is_integer_code(format))
    throw bad_input("{} holds integers as they are; cast them", name(format));
  if (in.dtype(0) != DType::u8)
    throw bad_input("codes of {} must be u8, got {}", name(format), name(in.dtype(0)));
  return {{DType::f32, in.shape(0)}};
}

}  // namespace

std::span<const OpRow> code_ops() {
  static const OpRow rows[] = {
      {.name = "encode",
       .summary = "Numbers as codes of at most 8 bits.",
       .nature = OpNature::discrete,
       .defaults = [] { return Params(EncodeParams{}); },
       .infer = infer_encode},
      {.name = "decode",
       .summary = "The values of codes of at most 8 bits.",
       .nature = OpNature::movement,
       .defaults = [] { return Params(DecodeParams{}); },
       .infer = infer_decode},
  };
  return rows;
}

}  // namespace etalon
