// Ops whose settings ONNX's operator of that name has not are written as several: written and read
// again, they give what the op itself gives.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/core/philox.h"
#include "engine/graph/builder.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

struct Form {
  const char* op;
  Fields fields;
  std::vector<Ints> inputs;  // f32, drawn
  std::size_t nodes;         // at least, of what is written
};

Tensor drawn(const Ints& dims, std::uint64_t seed) {
  const Shape shape(dims);
  std::vector<float> values;
  const Philox random{seed, 0};
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(static_cast<float>(random.block(static_cast<std::uint64_t>(i))[0] % 4001) /
                         2000.0F -
                     0.95F);
  return Tensor::of<float>(shape, std::span<const float>(values));
}

Model written_and_read(const Model& model, const test::TemporaryFolder& folder) {
  save_model(model, folder / "form.onnx");
  return open_model(folder / "form.onnx");
}

}  // namespace

TEST_CASE("onnx: settings that its operators lack are written as several, with the same meaning") {
  const Ints image{2, 3, 4, 5};
  const Form forms[] = {
      {"lp_norm", {{"axes", Ints{1, 2}}}, {image}, 4},
      {"lp_norm",
       {{"axes", Ints{1}}, {"eps", 0.5F}, {"eps_in", std::string("sum_add")}},
       {image},
       4},
      {"lp_norm",
       {{"axes", Ints{1}}, {"eps", 2.0F}, {"eps_in", std::string("norm_max")}},
       {image},
       4},
      {"lp_norm",
       {{"axes", Ints{1}}, {"eps", 3.0F}, {"eps_in", std::string("sum_max")}, {"p", 1.0F}},
       {image},
       4},
      {"batch_norm", {{"axis", std::int64_t{2}}}, {image, {4}, {4}, {4}, {4}}, 6},
      {"batch_norm", {{"spatial", false}}, {image, {3, 4, 5}, {3, 4, 5}, {3, 4, 5}, {3, 4, 5}}, 6},
      {"mean_variance_normalization", {{"axes", Ints{1, 3}}, {"eps", 0.25F}}, {image}, 5},
      {"mean_variance_normalization",
       {{"axes", Ints{1, 3}}, {"normalize_variance", false}},
       {image},
       2},
      {"instance_norm", {}, {image}, 1},
      {"layer_norm", {{"axis", std::int64_t{2}}}, {image}, 1},
      {"lrn", {{"size", std::int64_t{2}}, {"alpha", 0.5F}, {"longer_below", true}}, {image}, 3},
      {"avg_pool",
       {{"kernel", Ints{2, 3}},
        {"divisor_override", std::int64_t{5}},
        {"pads_begin", Ints{0, 1}},
        {"pads_end", Ints{1, 0}}},
       {image},
       2},
      {"lstm",
       {{"hidden_size", std::int64_t{3}},
        {"cell_clip", 0.2F},
        {"direction", std::string("bidirectional")}},
       {{4, 2, 5}, {2, 12, 5}, {2, 12, 3}, {2, 24}},
       8},
      {"lstm",
       {{"hidden_size", std::int64_t{3}},
        {"cell_clip", 0.2F},
        {"batch_first", true},
        {"direction", std::string("reverse")}},
       {{2, 4, 5}, {1, 12, 5}, {1, 12, 3}, {1, 24}},
       8},
      {"gru",
       {{"hidden_size", std::int64_t{3}}, {"batch_first", true}},
       {{2, 4, 5}, {1, 9, 5}, {1, 9, 3}, {1, 18}},
       3},
  };
  std::uint64_t seed = 1;
  for (const Form& form : forms) {
    CAPTURE(form.op);
    CAPTURE(seed);
    GraphBuilder b("form");
    std::vector<ValueId> in;
    NamedTensors data;
    for (std::size_t i = 0; i < form.inputs.size(); ++i) {
      Tensor t = drawn(form.inputs[i], seed++);
      // What a norm divides by is above zero.
      if (std::string_view(form.op) == "batch_norm" && i == 4)
        for (float& v : t.mutable_data<float>()) v = 0.5F + v * v;
      if (i == 0) {
        in.push_back(b.input("x", DType::f32, form.inputs[0]));
        data.emplace("x", std::move(t));
      } else {
        in.push_back(b.constant("weight", std::move(t)));
      }
    }
    b.output(b.op(form.op, "node", in, form.fields));
    Model model;
    *model.graph = b.finish();
    const test::TemporaryFolder folder;
    const Model back = written_and_read(model, folder);
    CHECK(back.graph->nodes.size() >= form.nodes);
    const Trace want = test::run(model, data), got = test::run(back, data);
    test::check_near(got.outputs.at(0).second, want.outputs.at(0).second, 2e-6F);
  }
}

TEST_CASE("onnx: signed numbers are shifted as unsigned ones, the sign moves in") {
  for (const char* direction : {"LEFT", "RIGHT"}) {
    CAPTURE(direction);
    GraphBuilder b("shift");
    const ValueId x = b.input("x", DType::i32, {6});
    const ValueId by = b.constant("by", Tensor::of<std::int32_t>({6}, {1, 3, 31, 0, 4, 2}));
    b.output(b.op("bit_shift", "node", {x, by}, {{"direction", std::string(direction)}}));
    Model model;
    *model.graph = b.finish();
    const test::TemporaryFolder folder;
    const Model back = written_and_read(model, folder);
    const Tensor in = Tensor::of<std::int32_t>({6}, {-7, -1000, -1, 5, 1 << 30, -2147483647});
    const Trace want = test::run(model, in.share()), got = test::run(back, in.share());
    CHECK(std::ranges::equal(want.outputs.at(0).second.bytes(), got.outputs.at(0).second.bytes()));
  }
}

TEST_CASE("onnx: sequences along other axes than the first two are turned there and back") {
  GraphBuilder b("reverse");
  const ValueId x = b.input("x", DType::f32, {3, 2, 4});
  const ValueId lengths = b.constant("lengths", Tensor::of<std::int64_t>({3}, {4, 2, 3}));
  b.output(b.op("reverse_sequence", "node", {x, lengths},
                {{"batch_axis", std::int64_t{0}}, {"time_axis", std::int64_t{2}}}));
  Model model;
  *model.graph = b.finish();
  const test::TemporaryFolder folder;
  const Model back = written_and_read(model, folder);
  CHECK(back.graph->nodes.size() == 3);
  const Tensor in = drawn({3, 2, 4}, 99);
  const Trace want = test::run(model, in.share()), got = test::run(back, in.share());
  CHECK(std::ranges::equal(want.outputs.at(0).second.bytes(), got.outputs.at(0).second.bytes()));
}
