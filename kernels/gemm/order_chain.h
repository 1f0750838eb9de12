// What a chain of kernels/gemm/order.h computes, and the table of an arithmetic's chains. Apart
// because the files of one instruction set include it: nothing of the standard library may be
// compiled there.
#pragma once

#include <cstdint>

namespace etalon {

inline constexpr int kOrderRows = 8;
// Strips are of 8, 4, 2 or 1 rows: row heights are powers of two, index log2.
inline constexpr int kOrderHeights = 4;
inline int order_height(std::int64_t rows_left) {
  return rows_left >= 8 ? 3 : rows_left >= 4 ? 2 : rows_left >= 2 ? 1 : 0;
}

// Panels of b whose sums with one row are computed side by side.
inline constexpr int kOrderAcross = 4;

// Levels of a tree of single terms that one step computes.
inline constexpr int kOrderPairs = 3;

template <class T>
struct OrderChain {
  std::int64_t count = 0;
  const T* a = nullptr;  // a[k * a_step + row]
  std::int64_t a_step = 0;
  const T* b = nullptr;          // b[k * b_step + lane]
  const float* b_f32 = nullptr;  // in its place, for *_of_f32
  std::int64_t b_step = 0;
  std::int64_t b_panel = 0;  // for across: b_f32[k * b_step + row * b_panel + lane]
  // Bit lane of mask[k * mask_step]; without it the term does not count, and its b is +0. nullptr:
  // every term counts.
  const std::uint32_t* mask = nullptr;
  std::int64_t mask_step = 0;
  T* tile = nullptr;  // [row][width]
  int rows = 0;
  unsigned zeros = 0;
  bool resume = false, join = false, join_zero = false;
};

// A chain over runs of outputs in memory, as f32 that the accumulator's format holds: of x, |x|, x
// * x, or of w * x, each output with weights of its own.
// Of intermediate results, which f32 may not hold, the terms are `weights` themselves or their
// squares.
enum class OrderTerm : std::uint8_t { value, magnitude, square, product, result, result_square };
inline constexpr int kOrderTerms = 6;
inline constexpr bool sums_products(OrderTerm term) {
  return term != OrderTerm::value && term != OrderTerm::magnitude && term != OrderTerm::result;
}
template <class T>
struct OrderSum {
  std::int64_t count = 0;
  const float* from = nullptr;  // output i, term k: from[term[k * step] + i]
  const std::int64_t* term = nullptr;
  const T* weights = nullptr;  // weights[weight[k * step] + i]
  const std::int64_t* weight = nullptr;
  std::int64_t step = 0;
  T* tile = nullptr;  // [row][width]
  int rows = 0;
  unsigned zeros = 0;
  bool resume = false, join = false, join_zero = false;
};

// What both do with their tile: begin at +0, or where `resume` at the tile; leave the sum there, or
// where `join` the tile plus the sum. A bit of `zeros` adds +0 to sums (OrderStep), `join_zero` to
// what is left.

// One operation on each element of a panel [row][lane]: to = a op b, fma(a, b, c), or the larger of
// a and b, the first where they are equal, NaN where one is.
enum class OrderEach : std::uint8_t { add, sub, mul, div, fma, max };
inline constexpr int kOrderEach = 6;
template <class T>
struct OrderOperands {
  // Row r begins at `at + r * step`; `one` holds for all of its lanes.
  struct Operand {
    const T* at = nullptr;
    std::int64_t step = 0;
    bool one = false;
  };
  T* to = nullptr;
  Operand a, b, c;
  std::int64_t rows = 0, lanes = 0;  // lanes: a multiple of a vector's
};

// How the processor has to round while the functions of a table run, and whether it has to take
// subnormal operands for zeros; see rounding_scope.h.
enum class OrderRounding : std::uint8_t { nearest, down, up, zero };
struct OrderMode {
  OrderRounding rounding = OrderRounding::nearest;
  bool zeros = false;
};

template <class T>
struct OrderTiles {
  int width = 0;  // lanes of two vectors
  // chains: of chains and sums that add products to something, scale and scale_add; others: of
  // those that do not, pairs, add and add_zero.
  OrderMode chains, others;
  void (*plain[kOrderHeights])(const OrderChain<T>&) = {};
  void (*masked[kOrderHeights])(const OrderChain<T>&) = {};
  void (*sums[kOrderTerms][kOrderHeights])(const OrderSum<T>&) = {};
  // 2^(i + 1) terms as a balanced tree, of any number of rows; `count` and `resume` are not read.
  void (*pairs[kOrderPairs])(const OrderChain<T>&) = {};
  void (*masked_pairs[kOrderPairs])(const OrderChain<T>&) = {};
  // plain and pairs of terms of b that lie as f32, flushed or not; of f64, others have no need.
  void (*plain_of_f32[kOrderHeights])(const OrderChain<T>&) = {};
  void (*pairs_of_f32[kOrderPairs])(const OrderChain<T>&) = {};
  // Of one row of a, whose sums over kOrderAcross panels are the rows of the tile: chains (0) and
  // trees of 2^i terms (i). b_f32 holds values of the accumulator's format (0; not of f64), or any
  // f32 (1). A single panel's chain waits for each sum; not of f32, which waits for b.
  void (*across[2][kOrderPairs + 1])(const OrderChain<T>&) = {};
  // Chains and trees without a look at the mask, and faster, but with +0 for any zero, and right
  // only where held() says so: else some sum was too large for them. Where one is nullptr, those
  // above do. They ask for rounding to nearest.
  void (*quick[kOrderHeights])(const OrderChain<T>&) = {};
  void (*quick_pairs[kOrderPairs])(const OrderChain<T>&) = {};
  void (*quick_across[2][kOrderPairs])(const OrderChain<T>&) = {};
  // Where quick_pairs do not find out themselves (else nullptr): the bound of an operand's terms,
  // rows of `count` numbers `step` apart, and whether quick_pairs are right for two such bounds.
  T (*bound)(const T* from, std::int64_t rows, std::int64_t step, std::int64_t count) = nullptr;
  bool (*within)(T a, T b) = nullptr;
  // Whether a tile of so many rows is of finite numbers, and lane i of no row zero where bit i of
  // `nonzero` is set; nullptr where chains are masked or plain only. negative_zeros: a sum may be
  // -0. vanishing: the largest product that rounds to zero, where quick_pairs lose no other sign of
  // a zero than that of negative products that all vanish; else 0.
  bool (*held)(const T* tile, int rows, std::uint32_t nonzero) = nullptr;
  bool negative_zeros = false;
  T vanishing{};
  void (*sum_pairs[kOrderTerms][kOrderPairs])(const OrderSum<T>&) = {};
  // In the arithmetic of the contract, over n elements (a multiple of width): a += b; a *= s;
  // a = fma(s, c, a); a /= d; a = sqrt(a); a += +0.
  void (*add)(T* a, const T* b, std::int64_t n) = nullptr;
  void (*add_zero)(T* a, std::int64_t n) = nullptr;
  void (*scale)(T* a, T s, std::int64_t n) = nullptr;
  void (*scale_add)(T* a, T s, const T* c, std::int64_t n) = nullptr;
  // Where chains leave to the next operation what the contract flushes: done to n elements, in any
  // mode; else nullptr.
  void (*flush)(T* a, std::int64_t n) = nullptr;
  // fma as `chains` says, the others as `others` does.
  void (*each[kOrderEach])(const OrderOperands<T>&) = {};
  void (*divide)(T* a, const T* d, std::int64_t n) = nullptr;
  void (*root)(T* a, std::int64_t n) = nullptr;
  // Over any n: what is an f32 as a value of the accumulator's format, flushed in both; the same in
  // place, an f32 still, nullptr where every one is; and back, rounded as the processor rounds, NaN
  // canonical.
  void (*enter)(const float* from, T* to, std::int64_t n) = nullptr;
  void (*settle)(float* x, std::int64_t n) = nullptr;
  void (*leave)(const T* from, float* to, std::int64_t n) = nullptr;
  // to[lane] = from[offset[lane]] for the lanes of the mask, else 0.
  void (*gather)(const T* from, const std::int32_t* offset, std::uint32_t mask, T* to) = nullptr;
  // to[k * pitch + lane] = from[first[lane] + k], k < count, lane < block.
  int block = 0;
  void (*turn)(const float* from, const std::int64_t* first, std::int64_t count, float* to,
               std::int64_t pitch) = nullptr;
};

}  // namespace etalon
