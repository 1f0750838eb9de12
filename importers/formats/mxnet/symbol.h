// An MXNet symbol: its nodes as the JSON writes them, and their translation.
//   symbol.cpp      JSON; the files that belong together
//   translator.cpp  nodes, their attributes, the shapes of inputs
//   ops.cpp         what each layer means; operators.h has the others
//   inputs.cpp      the extents of inputs
//   reshape.cpp     MXNet's words for new extents
//   recurrent.cpp   the fused operator RNN
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "importers/formats/translate.h"

namespace etalon::mxnet {

struct SymbolNode {
  std::string op, name;
  bool numpy = false;  // of the operators that follow NumPy
  std::map<std::string, std::string, std::less<>> attributes;
  std::vector<std::pair<std::size_t, std::size_t>> inputs;  // node, output
};

struct Symbol {
  std::vector<SymbolNode> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> heads;
  std::string version;
};
Symbol read_symbol(std::string_view text);

class Translator {
 public:
  Translator(const Symbol& symbol, const std::map<std::string, Tensor>& weights,
             const std::string& name)
      : g(name), symbol_(symbol), weights_(weights) {}

  GraphBuilder g;

  // `extent`: of every spatial axis that the file does not tell; `fixed`: it is declared so.
  void run(std::int64_t extent, bool fixed);
  bool free_extent() const { return free_extent_; }
  // Inputs keep the extents that the file says, their first one, too.
  void keep_extents() { keep_extents_ = true; }

  // Of the node that is translated: its operator, name, settings, inputs.
  const std::string& operator_name() const { return n_->op; }
  const std::string& name() const { return n_->name; }
  bool numpy() const { return n_->numpy; }
  std::size_t input_count() const { return in_.size(); }
  std::string attribute(std::string_view key, std::string_view otherwise = "") const {
    read_.emplace(key);
    const auto at = n_->attributes.find(key);
    return at == n_->attributes.end() ? std::string(otherwise) : at->second;
  }
  static std::vector<double> numbers_of(const std::string& text);
  static std::int64_t first_of(const std::string& text) {
    const auto all = numbers_of(text);
    return all.empty() ? 1 : whole(all[0]);
  }
  static std::int64_t whole(double v) {
    if (!(v >= -9e15 && v <= 9e15)) throw bad_input("the number {} is out of range", v);
    return static_cast<std::int64_t>(v);
  }
  Ints integers(std::string_view key) const {
    Ints out;
    for (const double v : numbers_of(attribute(key))) out.push_back(whole(v));
    return out;
  }
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const {
    const Ints v = integers(key);
    return v.empty() ? otherwise : v[0];
  }
  float number(std::string_view key, float otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  // A value with other extents, given at either size of the free ones.
  // `origins`: of each the axes of the value whose product it is, empty where it is none.
  ValueId with_extents(ValueId v, const Ints& one, const Ints& other,
                       const std::vector<Ints>& origins = {});
  // The extents of a value at either size of the free ones.
  std::pair<Ints, Ints> extents_of(ValueId v) const;
  // A setting of the operator that its translation does not compute.
  void refuse(std::string_view key) const;
  ValueId x(std::size_t i = 0) const {
    if (i >= in_.size() || in_[i] == kAbsent) throw bad_input("{} needs input {}", n_->op, i);
    return in_[i];
  }
  ValueId op(std::string_view name, const std::vector<ValueId>& in, const Fields& f = {}) {
    return g.op(name, n_->name, in, f);
  }

 private:
  // Every attribute of a node has been looked at, or changes nothing at inference.
  void check_attributes() const;
  // The extents of a value as its readers want them: -1 where any (a batch), kImage where an
  // image's extent is, kSteps where the steps of a sequence are; empty where nothing tells.
  static constexpr std::int64_t kImage = -2, kSteps = -3;
  using Readers = std::vector<std::pair<std::size_t, std::size_t>>;
  const Readers& readers_of(std::size_t index) const;
  const Ints& wanted_of(std::size_t index, int steps) const;
  bool read_by(std::string_view op) const;  // the node that is translated
  Ints wanted_by(const SymbolNode& reader, std::size_t at, std::size_t place, int steps) const;
  ValueId variable(const SymbolNode& n, std::size_t index, std::int64_t extent, bool fixed);

  std::vector<ValueId> translate();
  ValueId convolution(bool transposed);
  ValueId pooling();
  ValueId pooled_sum(bool root);
  void check_rounding() const;
  ValueId softmax_with_lengths(ValueId in);
  ValueId batch_norm();
  ValueId reshaped();
  ValueId upsampled();
  ValueId layer_norm();
  ValueId group_norm();
  // recurrent.cpp
  std::vector<ValueId> recurrent();
  ValueId parameters_of_rnn();
  std::int64_t features_of_rnn(const SymbolNode& n) const;

  const Symbol& symbol_;
  const std::map<std::string, Tensor>& weights_;
  const SymbolNode* n_ = nullptr;
  std::vector<ValueId> in_;
  bool free_extent_ = false, keep_extents_ = false;
  mutable std::set<std::string, std::less<>> read_;  // attributes of the node
  // Who reads a node, as which operand; what was found out of its extents.
  mutable std::vector<Readers> readers_;
  mutable std::map<std::size_t, Ints> wanted_;
};

}  // namespace etalon::mxnet
