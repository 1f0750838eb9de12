// Constants of the .bin. Elements of less than a byte stand with the first in the lowest bits (u1:
// in the highest) and become a byte each; numbers of 8 bits and fewer that are no integers become
// the f32 that they stand for, which is exact.
#include <array>
#include <bit>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "engine/numerics/codes.h"
#include "importers/containers/bytes.h"
#include "importers/formats/openvino/network.h"

namespace etalon::openvino {
namespace {

// NormalFloat of 4 bits: Dettmers et al., arXiv:2305.14314, appendix E.
constexpr std::array<float, 16> kNormalFloats{-1.0F,
                                              -0.6961928009986877F,
                                              -0.5250730514526367F,
                                              -0.39491748809814453F,
                                              -0.28444138169288635F,
                                              -0.18477343022823334F,
                                              -0.09105003625154495F,
                                              0.0F,
                                              0.07958029955625534F,
                                              0.16093020141124725F,
                                              0.24611230194568634F,
                                              0.33791524171829224F,
                                              0.44070982933044434F,
                                              0.5626170039176941F,
                                              0.7229568362236023F,
                                              1.0F};

struct Packed {
  std::string_view name;
  int bits;
  DType held;
  Code code;  // where it is no number of unsigned bits
};
constexpr Packed kPacked[] = {{"u1", 1, DType::u8, Code::u2},
                              {"u2", 2, DType::u8, Code::u2},
                              {"u4", 4, DType::u8, Code::u4},
                              {"i4", 4, DType::i8, Code::i4},
                              {"nf4", 4, DType::f32, Code::u4},
                              {"f4e2m1", 4, DType::f32, Code::f4e2m1},
                              {"f8e4m3", 8, DType::f32, Code::f8e4m3fn},
                              {"f8e5m2", 8, DType::f32, Code::f8e5m2},
                              {"f8e8m0", 8, DType::f32, Code::f8e8m0}};

const Packed* find_packed(std::string_view type) {
  for (const Packed& p : kPacked)
    if (p.name == type) return &p;
  return nullptr;
}

Tensor unpacked(const Packed& p, const Shape& shape, std::span<const std::byte> bytes) {
  const auto n = static_cast<std::size_t>(shape.numel());
  const std::size_t each = 8U / static_cast<unsigned>(p.bits);
  if (bytes.size() != (n + each - 1) / each)
    throw bad_input("{} bytes of {} numbers of {}", bytes.size(), n, p.name);
  Tensor t = Tensor::uninitialized(p.held, shape);
  MemoryBudget::charge(n * static_cast<std::size_t>(size_bytes(p.held)));
  const unsigned mask = (1U << static_cast<unsigned>(p.bits)) - 1U;
  for (std::size_t i = 0; i < n; ++i) {
    const auto byte = std::to_integer<unsigned>(bytes[i / each]);
    const auto at = static_cast<unsigned>(i % each) * static_cast<unsigned>(p.bits);
    const auto code = static_cast<std::uint8_t>(byte >> (p.bits == 1 ? 7U - at : at) & mask);
    if (p.held == DType::u8)
      t.mutable_data<std::uint8_t>()[i] = code;
    else if (p.held == DType::i8)
      t.mutable_data<std::int8_t>()[i] = static_cast<std::int8_t>(code_value(p.code, code));
    else
      t.mutable_data<float>()[i] =
          p.name == "nf4" ? kNormalFloats[code] : static_cast<float>(code_value(p.code, code));
  }
  return t;
}

}  // namespace

void Constants::count_step() {
  constexpr std::size_t kMost = 1 << 18;
  if (++steps_ > kMost) throw bad_input("its loops unfold to more than {} layers", kMost);
}

Tensor Constants::read(const Layer& l) {
  if (!file_) {
    if (path_.empty())
      throw bad_input(
          "its weights are not there: the .bin of the same stem lies beside it, or --with names "
          "it");
    file_ = map_file(path_);
  }
  const Ints dims = l.integers("shape");
  for (const std::int64_t d : dims)
    if (d < 0) throw bad_input("a constant with an extent of {}", d);
  const Shape shape{std::span(dims)};
  const auto offset = static_cast<std::uint64_t>(l.integer("offset", -1)),
             size = static_cast<std::uint64_t>(l.integer("size", -1));
  if (offset > file_->bytes.size() || size > file_->bytes.size() - offset)
    throw bad_input("{} bytes at {} of the {} of {}", size, offset, file_->bytes.size(), path_);
  const auto bytes = file_->bytes.subspan(offset, size);
  const std::string type = l.text("element_type", "");
  if (const Packed* p = find_packed(type)) return unpacked(*p, shape, bytes);
  return tensor_from_bytes({dtype_named(type), shape}, {bytes, file_->keeper});
}

}  // namespace etalon::openvino
