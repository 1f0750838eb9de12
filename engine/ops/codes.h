// Numbers in formats of at most 8 bits (engine/numerics/codes.h): one byte holds one number, and no
// op computes with such bytes but these two.
//
//   encode   x floating or integer: the code of each element. Floating formats: rounded once from
//            the element's value, as `saturate` and `round_mode` say; NaN is -0 in f4e2m1, which
//            has none. Integer formats (i4, u4, i2, u2): a float is cut toward zero, and of it, as
//            of an integer, the low bits stay; NaN and what is beyond 64 bits is 0. The result is
//            u8; for i4 and i2 it is i8, so that the byte is the number
//   decode   x u8, codes of a floating format: their values as f32, which holds every one exactly;
//            NaN is canonical. Integer formats need none: their bytes are their numbers
//
// Sources: as engine/numerics/codes.h.
#pragma once

#include "engine/numerics/codes.h"
#include "engine/ops/op.h"

namespace etalon {

struct EncodeParams {
  Code format = Code::f8e4m3fn;
  bool saturate = true;                  // of floating formats of 8 bits
  CodeRound round_mode = CodeRound::up;  // of f8e8m0
  template <class V>
  void visit(V& v) {
    v("format", format,
      {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4", "u4", "i2",
       "u2"});
    v("saturate", saturate);
    v("round_mode", round_mode, {"up", "down", "nearest"});
  }
};

struct DecodeParams {
  Code format = Code::f8e4m3fn;
  template <class V>
  void visit(V& v) {
    v("format", format,
      {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4", "u4", "i2",
       "u2"});
  }
};

std::span<const OpRow> code_ops();

}  // namespace etalon
