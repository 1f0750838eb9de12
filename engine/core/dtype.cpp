#include "engine/core/dtype.h"

#include <array>
#include <string>

#include "engine/core/error.h"

namespace etalon {
namespace {

using enum DTypeClass;
constexpr std::array<DTypeInfo, kDTypeCount> kTable{{
    {"f64", 8, floating, 53, -1022, 1023},
    {"f32", 4, floating, 24, -126, 127},
    {"bf16", 2, floating, 8, -126, 127},
    {"f16", 2, floating, 11, -14, 15},
    {"i64", 8, signed_integer, 0, 0, 0},
    {"i32", 4, signed_integer, 0, 0, 0},
    {"i16", 2, signed_integer, 0, 0, 0},
    {"i8", 1, signed_integer, 0, 0, 0},
    {"u64", 8, unsigned_integer, 0, 0, 0},
    {"u32", 4, unsigned_integer, 0, 0, 0},
    {"u16", 2, unsigned_integer, 0, 0, 0},
    {"u8", 1, unsigned_integer, 0, 0, 0},
    {"bool", 1, boolean, 0, 0, 0},
}};

}  // namespace

const DTypeInfo& info(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

DType parse_dtype(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].name == name) return static_cast<DType>(i);
    known.append(i ? ", " : "").append(kTable[i].name);
  }
  throw usage_error("unknown element type '{}'; the types are {}", name, known);
}

}  // namespace etalon
