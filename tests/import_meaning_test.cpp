// What an importer could read wrongly without a word: quotients of negative integers, factors that
// stand beside a call, changes in place, loops, operands of different rank. Each file's outputs are
// its framework's (fixtures/make_torch_meaning.py, make_tf_graphs.py); what is not computed is
// refused by its name.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "engine/core/error.h"
#include "engine/graph/builder.h"
#include "engine/graph/executor.h"
#include "importers/formats/einsum.h"
#include "importers/formats/integer_quotient.h"
#include "importers/formats/pytorch/aliases.h"
#include "importers/importers.h"
#include "kernels/kernels.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

namespace {

using Tensors = std::map<std::string, Tensor, std::less<>>;

Tensor recorded(const std::string& file, const std::string& name) {
  for (NamedTensor& t : load_tensors(fixture(file)))
    if (t.name == name) return std::move(t.tensor);
  throw bad_input("no {}", name);
}

Tensors run(std::shared_ptr<Graph> graph, const Tensors& inputs) {
  RunOptions options;
  options.contract = Contract::parse("seq");
  options.threads = 1;
  const Trace trace = Executor(std::move(graph), all_kernels(), options).run(inputs);
  Tensors out;
  for (const auto& [name, value] : trace.outputs) out.emplace(name, value.share());
  return out;
}

void near(const Tensor& got, const Tensor& want) {
  REQUIRE(to_string(got.shape()) == to_string(want.shape()));
  const auto a = got.data<float>(), b = want.data<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(a[i] - b[i]) <= 2e-5F * std::max(1.0F, std::fabs(b[i])));
  }
}

void gives(const std::string& file, const std::string& expected, const std::string& name) {
  CAPTURE(file);
  const Model model = open_model(fixture(file));
  for (const std::string& n : model.notes) CAPTURE(n);
  REQUIRE(model.graph->outputs.size() == 1);
  Tensors in;
  for (std::size_t i = 0; i < model.graph->inputs.size(); ++i)
    in.emplace(model.graph->value_name(model.graph->inputs[i].value),
               recorded(expected, model.graph->inputs.size() == 1 && !file.ends_with(".keras")
                                      ? name + ".x"
                                      : name + ".x" + std::to_string(i)));
  const Tensors got = run(model.graph, in);
  REQUIRE(got.size() == 1);
  near(got.begin()->second, recorded(expected, name + ".y"));
}

bool notes(const Model& model, std::string_view words) {
  for (const std::string& n : model.notes)
    if (n.find(words) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("meaning: calls of ATen with signs, factors and changes in place") {
  const std::string expected = "torch_graphs/meaning.npz";
  for (const char* name : {"meaning_quotients", "meaning_factors", "meaning_inplace"})
    for (const char* ending : {".pt", ".pt2"})
      gives("torch_graphs/" + std::string(name) + ending, expected, name);
  gives("torch_graphs/meaning_decomposed.pt2", expected, "meaning_decomposed");
  gives("torch_graphs/meaning_inplace_scripted.pt", expected, "meaning_inplace_scripted");
}

TEST_CASE("meaning: what may be a view of what is changed in place is refused") {
  const Model viewed = open_model(fixture("torch_graphs/meaning_viewed_scripted.pt"));
  CHECK(viewed.graph->nodes.empty());
  CHECK(notes(viewed, "may be a view of it"));
}

TEST_CASE("meaning: loops, Einsum, Conv1D and integers of TensorFlow") {
  for (const char* name : {"loops", "loops_v1", "free", "mixed", "whole"})
    gives("tf_graphs/" + std::string(name) + ".pb", "tf_graphs/expected.npz", name);
}

TEST_CASE("meaning: Keras' merging layers, and settings that change a layer") {
  for (const char* name : {"merged", "linear", "scaled"})
    gives("tf_graphs/" + std::string(name) + ".keras", "tf_graphs/expected.npz", name);
  const std::pair<const char*, const char*> refused[] = {
      {"two_cells", "Bidirectional whose layers differ in activation"},
      {"slopes", "a recurrent activation that is a layer of its own"}};
  for (const auto& [name, sentence] : refused) {
    CAPTURE(name);
    const Model model = open_model(fixture("tf_graphs/" + std::string(name) + ".keras"));
    CHECK(model.graph->nodes.empty());
    CHECK(notes(model, sentence));
  }
}

TEST_CASE("meaning: a floored quotient of integers at every sign and at the ends") {
  GraphBuilder b("quotient");
  const ValueId x = b.input("x", DType::i32, {7}), y = b.input("y", DType::i32, {7});
  b.output(floor_quotient(b, "q", x, y), "q");
  auto graph = std::make_shared<Graph>(b.finish());
  Tensors in;
  in.emplace("x", Tensor::of<std::int32_t>({7}, {7, -7, 7, -7, INT32_MIN, INT32_MAX, INT32_MIN}));
  in.emplace("y", Tensor::of<std::int32_t>({7}, {2, 2, -2, -2, 3, -2, 2}));
  const Tensors got = run(graph, in);
  const auto q = got.at("q").data<std::int32_t>();
  const std::int32_t want[] = {3, -4, -4, 3, -715827883, -1073741824, -1073741824};
  for (std::size_t i = 0; i < q.size(); ++i) CHECK(q[i] == want[i]);
}

TEST_CASE("meaning: einsum of two operands, and what it leaves alone") {
  GraphBuilder b("einsum");
  const ValueId x = b.input("x", DType::f32, {2, 3, 4}), y = b.input("y", DType::f32, {4, 2, 5});
  const auto z = einsum_of_two(b, "z", "abc,cdf -> abdf", x, y);
  REQUIRE(z.has_value());
  CHECK(b.dims(*z) == Ints{2, 3, 2, 5});
  // "..." are the axes that have no letter, the last of two operands together.
  const ValueId w = b.input("w", DType::f32, {3, 4, 6});
  for (const auto& [dots, letters, dims] :
       {std::tuple{"...a,abc->...bc", "xya,abc->xybc", Ints{2, 3, 2, 5}},
        std::tuple{"...c,cdf->d...f", "xyc,cdf->dxyf", Ints{2, 2, 3, 5}}}) {
    const auto some = einsum_of_two(b, "some", dots, x, y),
               all = einsum_of_two(b, "all", letters, x, y);
    REQUIRE((some.has_value() && all.has_value()));
    CHECK(b.dims(*some) == dims);
    CHECK(b.dims(*all) == dims);
  }
  const auto batched = einsum_of_two(b, "batched", "b...c,...cd->b...d", x, w);
  REQUIRE(batched.has_value());
  CHECK(b.dims(*batched) == Ints{2, 3, 6});
  CHECK_FALSE(einsum_of_two(b, "z", "...a,abc->bc", x, y).has_value());
  for (const char* equation : {"abc,cde", "..a,abc->..bc", "aab,bcd->acd", "abc,cde->abd",
                               "abc,cde->abdez", "abc,cde,e->abd"})
    CHECK_FALSE(einsum_of_two(b, "z", equation, x, y).has_value());
  CHECK_THROWS_AS(einsum_of_two(b, "z", "ab,bc->ac", x, y), Error);
}

TEST_CASE("meaning: a change in place reaches its operand, what it is a view of, and other views") {
  using namespace etalon::pytorch_format;
  GraphBuilder b("aliases");
  Aliases aliases(b);
  const auto call = [&](const std::string& op, ValueId x,
                        const std::vector<std::pair<std::string, AtenValue>>& settings = {}) {
    AtenCall c;
    c.args.emplace("self", AtenValue::of(x));
    for (const auto& [key, value] : settings) c.args.emplace(key, value);
    aliases.resolve(c);
    const auto made = translate_aten(b, op, op, c);
    aliases.called(op, c, made);
    return made.at(0);
  };
  const auto integer = [](std::int64_t v) { return AtenValue::of_integer(v); };
  const ValueId x = b.input("x", DType::f32, {2, 3});
  const ValueId y = call("exp", x);
  const ValueId row = call("select", y, {{"dim", integer(0)}, {"index", integer(1)}}),
                turned = call("t", y);
  CHECK(aliases.now(y) == y);
  const ValueId filled = call("fill_", row, {{"value", integer(7)}});
  CHECK(aliases.now(row) == filled);
  CHECK(aliases.now(x) == x);
  // The whole with the row in its place, and the other view of it anew.
  const ValueId whole = aliases.now(y), fresh = aliases.now(turned);
  CHECK(whole != y);
  CHECK(fresh != turned);
  CHECK(b.dims(whole) == Ints{2, 3});
  CHECK(b.dims(fresh) == Ints{3, 2});
  const ValueId sum = call("add_", y, {{"other", integer(1)}});  // by its old name
  CHECK(aliases.now(y) == sum);
  CHECK(aliases.now(whole) == sum);
  CHECK(aliases.now(row) != filled);
  // What may be a view or a copy is not known behind a change.
  const ValueId flat =
      call("reshape", x, {{"size", {.kind = AtenValue::Kind::list, .items = {integer(6)}}}});
  call("neg_", x);
  CHECK_THROWS_AS((void)aliases.now(flat), AtenUnknown);
  const ValueId same = call("contiguous", sum);
  CHECK(same == sum);  // a copy that was folded: which of the two is changed?
  CHECK_THROWS_AS(call("neg_", sum), AtenUnknown);
  const ValueId z = call("sqrt", sum);
  CHECK(call("dropout_", z) == z);
  CHECK(aliases.now(z) == z);
}

namespace {

std::string refusal(const std::string& path) {
  try {
    open_model(path);
  } catch (const Error& e) {
    CHECK(e.exit_code() == 3);
    return e.what();
  }
  return "accepted";
}

}  // namespace

// A setting that an importer would pass over is one that it could read wrongly.
TEST_CASE("meaning: a setting that no translation reads is refused by its name") {
  const test::TemporaryFolder folder;
  const auto says = [&](const std::string& path, const char* words) {
    const std::string what = refusal(path);
    CHECK_MESSAGE(what.find(words) != std::string::npos, what);
  };
  const auto caffe = [&](const std::string& settings) {
    const std::string path = folder / "m.prototxt";
    test::write_bytes(path,
                      "input: \"x\" input_shape { dim: 1 dim: 2 dim: 5 dim: 5 }\n"
                      "layer { name: \"p\" type: \"Pooling\" bottom: \"x\" top: \"y\"\n"
                      "pooling_param { kernel_size: 2 stride: 2 " +
                          settings + " } }\n");
    return path;
  };
  says(caffe("shape_rule: 3"), "line 3: the settings PoolingParameter have a field 'shape_rule'");
  CHECK(open_model(caffe("")).graph->nodes.at(0).op->name == "max_pool");
  const auto extent = [](const Model& m) {
    return test::run(m, Tensor::zeros(DType::f32, {1, 2, 5, 5})).outputs.at(0).second.shape()[2];
  };
  CHECK(extent(open_model(caffe(""))) == 3);
  CHECK(extent(open_model(caffe("ceil_mode: false"))) == 2);
  CHECK(extent(open_model(caffe("round_mode: FLOOR"))) == 2);

  const auto darknet = [&](const std::string& sections, std::size_t weights) {
    test::write_bytes(folder / "d.cfg", "[net]\nchannels=2\nheight=4\nwidth=4\n" + sections);
    const std::string head("\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
    test::write_bytes(folder / "d.weights", head + std::string(4 * weights, '\0'));
    return folder / "d.cfg";
  };
  says(darknet("[convolutional]\nfilters=1\nsize=1\nantialiasing=1\n", 3),
       "the option antialiasing=1");
  says(darknet("[convolutional]\nfilters=1\nsize=1\nrotated=1\n", 3), "the option rotated=1");
  says(darknet("[softmax]\nspatial=1\n", 0), "the option spatial=1");

  const auto openvino = [&](const std::string& settings) {
    test::write_bytes(
        folder / "o.xml",
        "<?xml version=\"1.0\"?><net name=\"m\" version=\"11\"><layers>"
        "<layer id=\"0\" name=\"x\" type=\"Parameter\" version=\"opset1\"><data shape=\"1,2\" "
        "element_type=\"f32\"/><output><port id=\"0\"><dim>1</dim><dim>2</dim></port></output>"
        "</layer><layer id=\"1\" name=\"e\" type=\"Elu\" version=\"opset1\"><data alpha=\"1\" " +
            settings +
            "/><input><port id=\"0\"><dim>1</dim><dim>2</dim></port></input><output><port id=\"1\">"
            "<dim>1</dim><dim>2</dim></port></output></layer><layer id=\"2\" name=\"y\" "
            "type=\"Result\" version=\"opset1\"><input><port id=\"0\"><dim>1</dim><dim>2</dim>"
            "</port></input></layer></layers><edges><edge from-layer=\"0\" from-port=\"0\" "
            "to-layer=\"1\" to-port=\"0\"/><edge from-layer=\"1\" from-port=\"1\" to-layer=\"2\" "
            "to-port=\"0\"/></edges></net>");
    return folder / "o.xml";
  };
  CHECK(open_model(openvino("")).graph->nodes.size() == 1);
  says(openvino("slope=\"0.5\""), "Elu with slope=0.5 has no translation");

  const auto mxnet = [&](const std::string& attribute) {
    test::write_bytes(
        folder / "s-symbol.json",
        R"j({"nodes":[{"op":"null","name":"data","inputs":[],"attrs":{"__shape__":"(1, 2)"}},)j"
        R"j({"op":"softmax","name":"s","inputs":[[0,0,0]],"attrs":{)j" +
            attribute + R"j(}}],"arg_nodes":[0],"heads":[[1,0,0]]})j");
    test::write_bytes(folder / "s-0000.params",
                      std::string("\x12\1\0\0\0\0\0\0", 8) + std::string(24, '\0'));
    return folder / "s-symbol.json";
  };
  CHECK(open_model(mxnet("")).graph->nodes.size() == 1);
  says(mxnet(R"j("sharpness":"3")j"), "softmax with sharpness=3 has no translation");
}

// Places of YOLO 4 are stretched around the middle of their cell, and its later forms have taken
// the logistic before the section.
TEST_CASE("meaning: Darknet's scale_x_y and new_coords") {
  const test::TemporaryFolder folder;
  const auto of = [&](const std::string& options) {
    test::write_bytes(
        folder / "y.cfg",
        "[net]\nchannels=6\nheight=1\nwidth=1\n[yolo]\nmask=0\nclasses=1\n" + options);
    test::write_bytes(folder / "y.weights",
                      std::string("\0\0\0\0\2\0\0\0", 8) + std::string(12, '\0'));
    const Tensor x = Tensor::of<float>({1, 6, 1, 1}, {1, -2, 0.5F, 0.25F, 3, -1});
    return test::values(test::run(open_model(folder / "y.cfg"), x.share()));
  };
  const auto plain = of(""), stretched = of("scale_x_y=1.5\n"), late = of("new_coords=1\n");
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(std::fabs(plain[i] - 1 / (1 + std::exp(i == 0 ? -1.0F : 2.0F))) < 1e-6F);
    CHECK(std::fabs(stretched[i] - (1.5F * plain[i] - 0.25F)) < 1e-6F);
  }
  CHECK(plain[2] == 0.5F);
  CHECK(late == std::vector<float>{1, -2, 0.5F, 0.25F, 3, -1});
}
