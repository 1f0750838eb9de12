// The numeric contract: the written rule that, with model and input, decides every output bit.
//
// A contract is a value. Its canonical string names every field and carries a version prefix:
//   etalon1:store=f32,acc=f32,order=seq,walk=crs,fma=on,round=rn,subnormals=keep,math=cr,algo=direct
// Presets: "seq" is the line above; "exact" stands for order=exact, under which every output is the
// correctly rounded value of its real-number definition, so that acc, walk, fma, math and algo have
// no meaning and are left out. parse() takes a preset, a list of fields that change `seq`, or both:
// "seq", "order=lanes:8", "exact,store=f16".
//
// Meaning of the fields (docs/contract.md has a worked example of each):
//   store       format that f32 tensors of a graph are rounded to when an op stores them
//   acc         format of every intermediate result inside an op
//   order       which binary tree a sum over k is evaluated as; see Order
//   walk        for convolutions: in what sequence channel c, row r, column s make up k
//   fma         whether a product and its addition are rounded once (on) or twice (off)
//   round       rn (nearest, ties to even), rz (to zero), ru (up), rd (down)
//   subnormals  keep, or flush: inputs and results below the smallest normal (judged after
//   rounding)
//               become zeros of the same sign
//   math        cr: elementary functions are correctly rounded to `acc`
//   algo        the algorithm; each has its own order, written down on its page
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"

namespace etalon {

enum class Round : std::uint8_t { nearest_even, toward_zero, upward, downward };
enum class Subnormals : std::uint8_t { keep, flush };

// A sum starts at +0. Terms outside the input (padding) are not terms.
enum class OrderKind : std::uint8_t {
  seq,       // k ascending
  lanes,     // lane k mod N, each from +0 with k ascending, then lanes joined by halving distance
  pairwise,  // split at the largest power of two below the count, down to runs of B summed by seq
  blocks,    // consecutive blocks of k, each summed from +0 by seq, block sums added in order
  splitk,  // S parts of ceil(K/S), each by seq, then joined as a balanced tree by halving distance
  tree,    // any binary tree, from a file, named by its hash
  tensorcore,  // blocks of exact products in a fixed-point adder: engine/numerics/tensor_core.h
  exact        // one rounding per output; no order exists
};

enum class TensorCoreArch : std::uint8_t { volta, ampere, ada, hopper };
// What is multiplied. of_input: f16 and bf16 tensors as they are, f32 as tf32.
enum class TensorCoreFormat : std::uint8_t { of_input, f16, bf16, tf32, f8e4m3, f8e5m2 };

struct SumTree;  // engine/numerics/sum_tree.h

struct Order {
  OrderKind kind = OrderKind::seq;
  std::vector<std::int64_t>
      sizes;              // lanes:N, pairwise:B, splitk:S: one number; blocks: one or a list
  std::string tree_hash;  // tree: 32 hexadecimal digits
  std::shared_ptr<const SumTree> tree;
  TensorCoreArch arch = TensorCoreArch::volta;  // tensorcore
  TensorCoreFormat format = TensorCoreFormat::of_input;
  bool operator==(const Order& other) const {
    return kind == other.kind && sizes == other.sizes && tree_hash == other.tree_hash &&
           arch == other.arch && format == other.format;
  }
};

// crs: channels outermost, columns innermost. rsc: channels innermost. cNrs: blocks of N channels
// outermost, then rows, columns, and the channels of the block innermost.
struct Walk {
  enum class Kind : std::uint8_t { crs, rsc, blocked } kind = Kind::crs;
  std::int64_t channels = 0;  // N of cNrs
  friend bool operator==(const Walk&, const Walk&) = default;
};

struct Contract {
  DType store = DType::f32;
  DType acc = DType::f32;
  Order order;
  Walk walk;
  bool fma = true;
  Round round = Round::nearest_even;
  Subnormals subnormals = Subnormals::keep;
  std::string algo = "direct";  // the algorithm and all its parameters, canonical
  bool operator==(const Contract&) const = default;

  bool exact() const { return order.kind == OrderKind::exact; }
  bool tensor_core() const { return order.kind == OrderKind::tensorcore; }
  // f32 throughout, nearest even, fused, subnormals kept: what `seq` is, but for the order.
  bool native_f32() const;
  bool is_seq() const;

  static Contract seq();
  static Contract exact_preset();
  // Throws a usage Error that names the field, the value and what is allowed.
  static Contract parse(std::string_view text);
};

std::string to_string(const Contract& contract);  // canonical, with the version prefix
std::string short_name(
    const Contract& contract);  // "seq", "exact", or the fields that differ from seq
std::string to_string(Round round);
std::string_view name(TensorCoreArch arch);      // "hopper"
std::string_view name(TensorCoreFormat format);  // "f8e4m3"

}  // namespace etalon
