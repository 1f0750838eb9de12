// The LSTM classifier of Bahrampour et al. (arXiv 1511.06435): sentences of 12 to 99 words out of a
// vocabulary of 10000, embedded in 128 dimensions, one LSTM of 128 units, the mean of its outputs
// over the words of the sentence, two classes. ids [batch,99], lengths [batch]; what stands behind
// a sentence's end does not matter, because the cell's output is +0 there.
//
// The paper gives no distribution of lengths but their mean, 71. Here a length is the larger of two
// uniform draws from 12 to 99, whose mean is 70.2.
#include <cmath>

#include "engine/core/philox.h"
#include "engine/models/builder.h"
#include "engine/models/networks.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/indexing.h"
#include "engine/ops/layout.h"
#include "engine/ops/recurrent.h"
#include "engine/ops/reduce.h"

namespace etalon {
namespace {

constexpr std::int64_t kWords = 10000, kSteps = 99, kShortest = 12, kHidden = 128;

Graph build() {
  NetworkBuilder net("lstm");
  const ValueId ids = net.input("ids", DType::i64, {kSteps});
  const ValueId lengths = net.input("lengths", DType::i32, {});
  const ValueId table = net.weight("embedding.weight", {kWords, kHidden}, 1);
  ValueId x = net.op("gather", "embedding", {table, ids}, Params(GatherParams{}));
  x = net.op("transpose", "time_first", {x}, Params(TransposeParams{.perm = {1, 0, 2}}));

  const double bound = 1 / std::sqrt(static_cast<double>(kHidden));
  LstmParams cell;
  cell.hidden_size = kHidden;
  x = net.op("lstm", "lstm",
             {x, net.weight("lstm.w", {1, 4 * kHidden, kHidden}, bound),
              net.weight("lstm.r", {1, 4 * kHidden, kHidden}, bound),
              net.weight("lstm.b", {1, 8 * kHidden}, bound), lengths},
             Params(cell));
  ReduceParams over_time;
  over_time.axes = {0, 1};  // steps, and the one direction
  over_time.keepdims = false;
  x = net.op("reduce_sum", "sum", {x}, Params(over_time));
  ValueId count = net.op("cast", "count", {lengths}, Params(CastParams{}));
  count = net.op("unsqueeze", "count_column", {count}, Params(AxesParams{.axes = {1}}));
  x = net.op("div", "mean", {x, count});
  return net.finish(net.fully_connected("logits", x, 2));
}

std::map<std::string, Tensor, std::less<>> inputs(std::int64_t batch, std::uint64_t seed) {
  Tensor ids = Tensor::uninitialized(DType::i64, {batch, kSteps});
  Tensor lengths = Tensor::uninitialized(DType::i32, {batch});
  const Philox words{seed, 0}, draws{seed, 1};
  std::uint64_t i = 0;
  for (std::int64_t& id : ids.mutable_data<std::int64_t>()) id = words.word(i++) % kWords;
  i = 0;
  for (std::int32_t& length : lengths.mutable_data<std::int32_t>()) {
    constexpr std::int64_t kChoices = kSteps - kShortest + 1;
    const std::int64_t a = draws.word(i++) % kChoices, b = draws.word(i++) % kChoices;
    length = static_cast<std::int32_t>(kShortest + std::max(a, b));
  }
  std::map<std::string, Tensor, std::less<>> in;
  in.emplace("ids", std::move(ids));
  in.emplace("lengths", std::move(lengths));
  return in;
}

}  // namespace

ModelRow lstm_model() {
  return {.name = "lstm",
          .summary = "embedding, one LSTM of 128 units over 12 to 99 words, mean, two classes",
          .source = "arXiv 1511.06435",
          .build = build,
          .inputs = inputs};
}

}  // namespace etalon
