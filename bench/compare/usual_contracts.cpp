#include <fmt/format.h>

#include <algorithm>

#include "bench/compare/judge.h"

namespace etalon {

// Looks for a contract with the same bits: first in the small sample, then in every output.
void Judge::find_contract() {
  const std::vector<std::int64_t> probe(
      hypothesis_sample_.begin(),
      hypothesis_sample_.begin() +
          static_cast<std::ptrdiff_t>(std::min<std::size_t>(4, hypothesis_sample_.size())));
  std::vector<Contract> contracts = {options_.contract};
  for (const Contract& c : usual_contracts(layer_, terms_))
    if (!(c == options_.contract)) contracts.push_back(c);
  for (const Contract& c : contracts) {
    try {
      const bool main = c == options_.contract;
      if (!main && (!fits(c, probe) || !fits(c, hypothesis_sample_))) continue;
      const bool all = eval_.is_fast(layer_, c) || !sampled_;
      const std::vector<Tensor> many = all ? eval_.bits(layer_, c) : eval_.bits(layer_, c, sample_);
      bool equal = true;
      for (const std::size_t o : open_) {
        std::int64_t same = 0, count = got_[o].numel();
        if (all) {
          same = bits_equal(got_[o], many[o]);
        } else {
          count = 0;
          for (const OutputBound& b : likely_)
            if (b.output == static_cast<int>(o)) {
              ++count;
              if (same_bits(got_[o], many[o], b.index)) ++same;
            }
        }
        if (main) results_[o].bits_equal = share(same, count);
        equal = equal && same == count;
      }
      if (equal) {
        contract_ = c;
        return;
      }
    } catch (const Error&) {
      if (c == options_.contract) throw;
      // The contract does not fit this layer (a block list of another length): not its bits.
    }
  }
}

// Whether the outputs of these slices have the contract's bits.
bool Judge::fits(const Contract& c, const std::vector<std::int64_t>& slices) const {
  const std::vector<Tensor> ours = eval_.bits(layer_, c, slices);
  for (const OutputBound& b : eval_.bounds(layer_, c, model_, slices)) {
    const auto o = static_cast<std::size_t>(b.output);
    if (std::ranges::find(open_, o) != open_.end() && !same_bits(got_[o], ours[o], b.index))
      return false;
  }
  return true;
}

std::vector<Contract> usual_contracts(const Layer& layer, std::int64_t terms) {
  std::vector<Contract> list;
  const auto add = [&](const std::string& text) { list.push_back(Contract::parse(text)); };
  add("seq");
  add("exact");
  if (layer.op->nature != OpNature::sum && layer.op->nature != OpNature::composite) return list;
  if (terms < 2) return list;
  std::vector<std::string> walks = {""};
  std::int64_t taps = 1;
  if (layer.op->name == "conv" && layer.inputs.size() > 1 && layer.inputs[1]) {
    const Shape& w = layer.inputs[1].shape();
    taps = w.product(2, w.rank());
    if (taps > 1 && w[1] > 1) {
      walks.emplace_back("walk=rsc,");
      for (const int c : {4, 8, 16, 32})
        if (c < w[1]) walks.push_back(fmt::format("walk=c{}rs,", c));
    }
  }
  for (const std::string& walk : walks) {
    std::vector<std::string> orders = {"seq"};
    for (const std::int64_t b : {64, 96, 128, 144, 192, 240, 256, 320, 384, 448, 512, 768, 1024})
      if (b < terms) orders.push_back(fmt::format("blocks:{}", b));
    for (const std::int64_t c : {4, 8, 16, 32})
      if (walk.find(fmt::format("c{}rs", c)) != std::string::npos && c * taps < terms)
        orders.push_back(fmt::format("blocks:{}", c * taps));
    // Packed products: full panels, and the rest in two halves (MKL, OpenBLAS).
    for (const std::int64_t panel : {256, 384, 448}) {
      std::vector<std::int64_t> blocks;
      std::int64_t rest = terms;
      for (; rest >= 2 * panel; rest -= panel) blocks.push_back(panel);
      if (rest <= panel) continue;
      blocks.push_back(rest - rest / 2);
      blocks.push_back(rest / 2);
      orders.push_back(fmt::format("blocks:{}", fmt::join(blocks, "+")));
    }
    for (const int n : {4, 8, 16, 32, 64})
      if (n < terms) orders.push_back(fmt::format("lanes:{}", n));
    for (const int n : {1, 8, 128})
      if (n < terms) orders.push_back(fmt::format("pairwise:{}", n));
    for (const int n : {2, 4})
      if (n < terms) orders.push_back(fmt::format("splitk:{}", n));
    for (const std::string& order : orders)
      for (const char* fma : {"on", "off"}) add(fmt::format("{}order={},fma={}", walk, order, fma));
  }
  return list;
}

}  // namespace etalon
