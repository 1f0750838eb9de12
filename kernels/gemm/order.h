// Sums of products in every order that a contract can ask for, vectorised over outputs.
//
// An order is compiled into a program over a stack of tiles (OrderProgram): a chain walks terms
// first, first + stride, ... upwards in registers, from +0 or from the tile on top of the stack; a
// join adds the two topmost tiles. Every order is chains and joins, so one interpreter serves all:
//   seq        chain(0, 1, K)
//   lanes:N    chain(i, N), joined by halving distance
//   splitk:S   chain(i * ceil(K/S), 1), joined likewise
//   blocks     +0, then chain and join for each block in turn
//   pairwise   chains of at most B terms, joined by the recursion
//   tree       the file's steps; runs of `term +` are one chain
// Neighbouring chains of one term that a balanced tree adds up are one step, in registers. A chain
// of no term is no step; what it is joined to has +0 added, which changes a -0. A tile is up to
// kOrderRows rows by two vectors of outputs. The arithmetic (OrderTiles) is f32 or f64, or f32
// registers that hold values of f16 or bf16; fused or not; results flushed or not; rounded any way.
// Plain sums (order_reduce.h) run the same programs over runs of outputs in memory.
//
// Same bits as the definition: every output has the chains and joins of the contract's tree and
// meets no other output; lanes of a vector are different outputs. A term in the padding is masked
// out of its chain and takes part in no addition.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/core/function_ref.h"
#include "engine/numerics/contract.h"
#include "kernels/gemm/order_chain.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

struct OrderStep {
  enum class Kind : std::uint8_t { chain, extend, join } kind = Kind::chain;
  std::int64_t first = 0, stride = 1, count = 0;
  // Of a chain: 2^pairs terms, each a chain of its own, joined in pairs, those in pairs, ...
  int pairs = 0;
  // Bit i: +0 is added to each sum of 2^i chains; bit 0 of a chain, a join: to the result.
  unsigned zeros = 0;
};

struct OrderProgram {
  std::vector<OrderStep> steps;
  std::int64_t depth = 0;  // tiles on the stack at most
  bool chained = false;    // some term is added to a sum
  bool paired = false;     // some step has pairs
  bool zeros = false;      // +0 is added somewhere
};

// Why a sum of k terms has no such program; the definition says the same in its own words.
Refusal refuse_order(const Order& order, std::int64_t k);
// k terms in an order that refuse_order takes.
OrderProgram compile_order(const Order& order, std::int64_t k);

// The same sums where only some of the terms are there, packed: index[k] is term k's place among
// them, or -1. What is left of a chain keeps its sequence, and of an empty one +0.
OrderProgram of_present_terms(const OrderProgram& program, const std::vector<std::int64_t>& index);

// For an accumulator of f64, and of any other format. Only where refuse_order_contract takes it.
const OrderTiles<float>& order_tiles_f32(Isa isa, const Contract& contract);
const OrderTiles<double>& order_tiles_f64(Isa isa, const Contract& contract);

// What the rows of order.h's kind refuse of a contract and of the types of the first `operands`
// inputs.
Refusal refuse_order_contract(const Problem& problem, std::size_t operands = 3);
inline constexpr std::string_view kOrderContracts =
    "every order, walk, acc, fma, round and subnormals";

// A tensor as values of the accumulator's format: itself, or a converted copy. Subnormals are
// flushed as the contract says, those of the tensor's format and those of the accumulator's.
template <class T>
class OrderOperand {
 public:
  OrderOperand(const Tensor& t, const OrderTiles<T>& tiles, const Contract& c, int threads);
  const T* data() const { return data_; }

 private:
  AlignedBuffer own_;
  const T* data_ = nullptr;
};

// The elements of a tensor of f32, f16 or bf16 as f32; those of the latter flushed as the contract
// says, as the tables' functions flush f32 only.
class OrderSource {
 public:
  OrderSource() = default;
  OrderSource(const Tensor& t, const Contract& c, int threads);
  const float* data() const { return data_; }

 private:
  AlignedBuffer own_;
  const float* data_ = nullptr;
};

template <class T>
struct OrderTask {
  const OrderTiles<T>& tiles;
  const OrderProgram& program;
  std::int64_t groups = 1, columns = 0, rows = 0, k = 0;
  std::int64_t panels() const { return (columns + tiles.width - 1) / tiles.width; }
  const T* a = nullptr;  // [group][strip][k][height], as pack_order_rows leaves them
  // Fills packed[k][width] and, where some term does not count, mask[k]; whether it did the latter.
  FunctionRef<bool(std::int64_t group, std::int64_t panel, T* packed, std::uint32_t* mask)> pack;
  // Where this is not null, the first `b_panels` panels are not packed: f32 that lie so in memory,
  // panels `b_panel` elements apart and terms `b_step`; where T is f32, as the accumulator has
  // them, but any f32 where `b_raw`: of these only one row makes use, kOrderAcross panels at a
  // time; what is left over is packed.
  const float* b = nullptr;
  std::int64_t b_panels = 0, b_panel = 0, b_step = 0;
  bool b_raw = false;
  // The sums of rows [row, row + height) of a panel, [height][width], for the caller to use up.
  FunctionRef<void(std::int64_t group, std::int64_t panel, std::int64_t row, int height, T* tile)>
      finish;
  int threads = 1;
};

// to[k * height + r] by strips, from a[row * row_stride + term[k] * k_stride]; term may be nullptr.
template <class T>
void pack_order_rows(const T* a, std::int64_t rows, std::int64_t k, std::int64_t row_stride,
                     std::int64_t k_stride, const std::int64_t* term, T* to);

template <class T>
void run_order(const OrderTask<T>& task);

// Stores count values of a tile's row into output 0 from element `to` on, rounded as the contract
// stores, NaN canonical.
template <class T>
void store_order(const KernelCall& call, const OrderTiles<T>& tiles, std::int64_t to,
                 const T* values, std::int64_t count);
// The same into memory where output 0 is f32; false, and nothing done, where it is not or where its
// rounding has no vectors.
template <class T>
bool leave_order(const KernelCall& call, const OrderTiles<T>& tiles, const T* values, float* to,
                 std::int64_t count);

}  // namespace etalon
