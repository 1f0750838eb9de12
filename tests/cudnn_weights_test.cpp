// cuDNN's recurrent rows as far as no library is needed: every element of w, r and b lies where the
// library looks for it, tensors of two directions are turned as they should be, and what the
// library's cells cannot compute is refused in a sentence. That the library computes what its cells
// are called, only hardware shows.
#include "kernels/recurrent/cudnn_weights.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/libraries.h"
#include "kernels/backends/cuda/move.h"
#include "kernels/recurrent/cudnn.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

// Numbers that follow one another, by [direction][row][column].
struct Numbered {
  std::int64_t rows, cols;
  std::vector<std::uint32_t> all;
  Numbered(std::int64_t directions, std::int64_t r, std::int64_t c, std::uint32_t& next)
      : rows(r), cols(c) {
    for (std::int64_t i = 0; i < directions * r * c; ++i) all.push_back(next++);
  }
  std::uint32_t at(std::int64_t d, std::int64_t row, std::int64_t col) const {
    return all[static_cast<std::size_t>((d * rows + row) * cols + col)];
  }
};

RecurrentGeometry geometry(CellKind kind, std::string gates, std::int64_t directions) {
  constexpr std::int64_t kInputs = 5, kHidden = 3;
  RecurrentParams p;
  p.gates = std::move(gates);
  p.direction = directions == 2 ? Direction::bidirectional : Direction::forward;
  const auto rows = static_cast<std::int64_t>(p.gates.size()) * kHidden;
  const InferInput inputs[] = {
      {.type = {DType::f32, Shape{4, 2, kInputs}}, .given = true},
      {.type = {DType::f32, Shape{directions, rows, kInputs}}, .given = true},
      {.type = {DType::f32, Shape{directions, rows, kHidden}}, .given = true}};
  return recurrent_geometry(kind, p, InferInputs(inputs));
}

// Why the row takes no case; its own reasons come before the library's and the device's.
std::string refusal(const char* line, std::string_view row_name) {
  const OpCase c = parse_op_case(line);
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  std::vector<InferInput> types(p.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] != nullptr) types[i] = {p[i]->type(), p[i], true};
  const std::vector<TensorType> outputs = infer(*c.op, c.params, InferInputs(types));
  const Contract contract = Contract::seq();
  const Problem problem{.op = c.op,
                        .params = &c.params,
                        .inputs = types,
                        .outputs = outputs,
                        .contract = &contract,
                        .device = Device::cuda};
  for (const cuda::DeviceRow& d : cuda::cudnn_recurrent_rows())
    if (d.row.name == row_name) return d.row.refuse(problem).value_or("");
  return "no such row";
}

}  // namespace

TEST_CASE("cudnn weights: each element lies where the library's gate has it") {
  // The library's sequences: of lstm i, f, c, o; of gru r, z, h.
  const struct {
    CellKind kind;
    const char *library, *gates;
  } wanted[] = {{CellKind::rnn, "h", "h"},        {CellKind::gru, "rzh", "zrh"},
                {CellKind::gru, "rzh", "rzh"},    {CellKind::gru, "rzh", "hzr"},
                {CellKind::lstm, "ifco", "iofc"}, {CellKind::lstm, "ifco", "ifco"},
                {CellKind::lstm, "ifco", "cfio"}};
  for (const auto& w : wanted)
    for (const std::int64_t directions : {1, 2})
      for (const bool biases : {true, false}) {
        CAPTURE(std::string(w.gates));
        CAPTURE(directions);
        CAPTURE(biases);
        const RecurrentGeometry g = geometry(w.kind, w.gates, directions);
        const std::string library = w.library, gates = w.gates;
        const auto count = static_cast<std::int64_t>(gates.size()), rows = count * g.hidden;
        std::uint32_t next = 1000;
        const Numbered wx(directions, rows, g.inputs, next), rh(directions, rows, g.hidden, next),
            b(directions, 2 * rows, 1, next);
        const std::vector<cuda::CudnnWeight> list = cuda::cudnn_weights(g, biases);
        REQUIRE(std::ssize(list) == directions * 2 * count * (biases ? 2 : 1));
        // From the back to the front, with gaps.
        std::vector<std::int64_t> at(list.size());
        std::int64_t size = 7;
        for (std::size_t i = list.size(); i-- > 0; size += 3) {
          at[i] = size;
          size += list[i].count();
        }
        const std::vector<std::uint32_t> map = cuda::cudnn_weight_map(list, at, size);
        std::vector<std::uint32_t> space(map.size(), 77);
        cuda::MoveTask task;
        task.y = reinterpret_cast<std::byte*>(space.data());
        task.count = size;
        task.map = map.data();
        std::uint32_t name = 1;
        for (const Numbered* source : {&wx, &rh, &b}) {
          if (source == &b && !biases) continue;
          const auto s = static_cast<std::size_t>(task.sources++);
          task.from[s] = reinterpret_cast<const std::byte*>(source->all.data());
          task.first[s] = name;
          name += static_cast<std::uint32_t>(source->all.size());
        }
        for (std::int64_t i = 0; i < size; ++i) move_element<std::uint32_t>(task, i);

        std::map<std::uint32_t, int> seen;
        int wrong = 0;
        for (std::size_t i = 0; i < list.size(); ++i) {
          const cuda::CudnnWeight& part = list[i];
          const bool state = part.linear >= count;
          const auto block = static_cast<std::int64_t>(
              gates.find(library[static_cast<std::size_t>(part.linear % count)]));
          CHECK(part.rows == g.hidden);
          CHECK(part.cols == (part.bias ? 1 : state ? g.hidden : g.inputs));
          for (std::int64_t row = 0; row < part.rows; ++row)
            for (std::int64_t col = 0; col < part.cols; ++col) {
              const std::uint32_t got =
                  space[static_cast<std::size_t>(at[i] + row * part.cols + col)];
              const std::int64_t line = block * g.hidden + row;
              const std::uint32_t want = part.bias
                                             ? b.at(part.direction, (state ? rows : 0) + line, 0)
                                             : (state ? rh : wx).at(part.direction, line, col);
              wrong += got != want ? 1 : 0;
              seen[got] += 1;
            }
        }
        CHECK(wrong == 0);
        // All of them, once each; zeros in the gaps.
        CHECK(std::ssize(seen) ==
              std::ssize(wx.all) + std::ssize(rh.all) + (biases ? std::ssize(b.all) : 0));
        std::int64_t zeros = 0;
        for (const std::uint32_t v : space) zeros += v == 0 ? 1 : 0;
        CHECK(zeros == size - std::ssize(seen));
      }
}

TEST_CASE("cudnn weights: a place outside the library's space is an error") {
  const std::vector<cuda::CudnnWeight> list =
      cuda::cudnn_weights(geometry(CellKind::rnn, "h", 1), false);
  const std::int64_t at[] = {0, 100};
  CHECK_THROWS_WITH_AS(cuda::cudnn_weight_map(list, at, 105), doctest::Contains("outside 105"),
                       Error);
}

TEST_CASE("cudnn weights: directions and rows change places") {
  constexpr std::int64_t kSteps = 3, kBatch = 4, kInner = 2;
  const std::vector<std::uint32_t> map = cuda::exchange_map(kSteps, kBatch, 2, kInner);
  REQUIRE(map.size() == kSteps * kBatch * 2 * kInner);
  std::size_t i = 0;
  for (std::uint32_t t = 0; t < kSteps; ++t)
    for (std::uint32_t d = 0; d < 2; ++d)
      for (std::uint32_t row = 0; row < kBatch; ++row)
        for (std::uint32_t k = 0; k < kInner; ++k)
          CHECK(map[i++] - 1 == t * 16 + row * 4 + d * 2 + k);
  // There and back.
  const std::vector<std::uint32_t> back = cuda::exchange_map(kSteps, 2, kBatch, kInner);
  for (std::size_t j = 0; j < map.size(); ++j) CHECK(map[back[j] - 1] == j + 1);
}

TEST_CASE("cudnn's cells refuse what they cannot compute, each in a sentence") {
  const struct {
    const char *row, *line, *says;
  } wanted[] = {
      {"cudnn.lstm.standard", "r | lstm | direction=reverse | f32[2,1,3] f32[1,8,3] f32[1,8,2]",
       "not backward alone"},
      {"cudnn.lstm.standard", "r | lstm | clip=1 | f32[2,1,3] f32[1,8,3] f32[1,8,2]", "clips no"},
      {"cudnn.lstm.standard",
       "r | lstm | activations=[sigmoid,tanh,relu] | f32[2,1,3] f32[1,8,3] f32[1,8,2]",
       "takes Sigmoid"},
      {"cudnn.lstm.standard", "r | lstm | input_forget=true | f32[2,1,3] f32[1,8,3] f32[1,8,2]",
       "forget gate"},
      {"cudnn.lstm.standard",
       "r | lstm | | f32[2,1,3] f32[1,8,3] f32[1,8,2] f32[1,16] i32[1]=2 f32[1,1,2] f32[1,1,2] "
       "f32[1,6]",
       "no peepholes"},
      {"cudnn.gru.standard", "r | gru | | f32[2,1,3] f32[1,6,3] f32[1,6,2]", "linear_before_reset"},
      {"cudnn.gru.standard",
       "r | gru | linear_before_reset=true activations=[hardsigmoid,tanh] | f32[2,1,3] f32[1,6,3] "
       "f32[1,6,2]",
       "takes Sigmoid"},
      {"cudnn.rnn.standard", "r | rnn | activations=[softsign] | f32[2,1,3] f32[1,2,3] f32[1,2,2]",
       "Tanh or Relu"},
      {"cudnn.rnn.standard",
       "r | rnn | direction=bidirectional activations=[relu,tanh] | f32[2,1,3] f32[2,2,3] "
       "f32[2,2,2]",
       "one activation"},
      {"cudnn.rnn.standard", "r | rnn | | f16[2,1,3] f16[1,2,3] f16[1,2,2]", "not f32"},
      {"cudnn.rnn.standard", "r | rnn | | f32[0,1,3] f32[1,2,3] f32[1,2,2]", "no empty tensor"}};
  for (const auto& w : wanted) {
    CAPTURE(std::string(w.line));
    CHECK(refusal(w.line, w.row).find(w.says) != std::string::npos);
  }
  // What they take, they refuse for want of the library or of a device alone.
  for (const auto& [row, line] : std::map<std::string, const char*>{
           {"cudnn.lstm.standard",
            "r | lstm | cell_clip=2 direction=bidirectional batch_first=true gates=ifco | "
            "f32[2,1,3] f32[2,8,3] f32[2,8,2] f32[2,16] i64[2]=1,1 f32[2,2,2] f32[2,2,2]"},
           {"cudnn.lstm.persist_static", "r | lstm | | f32[2,1,3] f32[1,8,3] f32[1,8,2]"},
           {"cudnn.gru.standard_tf32",
            "r | gru | linear_before_reset=true | f32[2,1,3] f32[1,6,3] f32[1,6,2]"},
           {"cudnn.rnn.persist_static_small_h",
            "r | rnn | activations=[relu] | f32[2,1,3] f32[1,2,3] f32[1,2,2] f32[1,4]"}}) {
    CAPTURE(row);
    const std::string none = cuda::refuse_without_device().value_or("");
    const std::string want = cuda::cudnn().handle == nullptr ? cuda::cudnn().reason : none;
    CHECK(refusal(line, row) == want);
  }
}
