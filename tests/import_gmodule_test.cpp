// nngraph's gModule, on files written here in Torch7's ascii form: y = (W a + bias) + b of two
// inputs, the same network of one input nested in a Sequential, and graphs that are damaged.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

// A writer of the ascii form. A key or value is the text of a whole value.
class Writer {
 public:
  static std::string number(double v) { return fmt::format("1\n{}\n", v); }
  static std::string text(std::string_view v) { return fmt::format("2\n{}\n{}\n", v.size(), v); }
  using Entries = std::vector<std::pair<std::string, std::string>>;
  std::string table(const Entries& entries, int index = 0) {
    std::string out = fmt::format("3\n{}\n{}\n", index == 0 ? fresh() : index, entries.size());
    for (const auto& [key, value] : entries) out += key + value;
    return out;
  }
  // What stood before under this index.
  static std::string again(int index) { return fmt::format("3\n{}\n", index); }
  std::string object(std::string_view type, const std::string& content) {
    const int index = fresh();
    return fmt::format("4\n{}\n3\nV 1\n{}\n{}\n", index, type.size(), type) + content;
  }
  std::string module(std::string_view type, const Entries& entries) {
    return object(type, table(entries));
  }
  std::string tensor(const Ints& dims, const std::vector<float>& values) {
    std::string out = fmt::format("{}\n{}\n", dims.size(), fmt::join(dims, " "));
    Ints strides(dims.size(), 1);
    for (std::size_t a = dims.size() - 1; a-- > 0;) strides[a] = strides[a + 1] * dims[a + 1];
    out += fmt::format("{}\n1\n", fmt::join(strides, " "));
    return object("torch.FloatTensor",
                  out + object("torch.FloatStorage",
                               fmt::format("{}\n{}\n", values.size(), fmt::join(values, " "))));
  }
  int fresh() { return ++index_; }

 private:
  int index_ = 0;
};

// data tables by index: 101 the input, 102 and 103 its parts, 104 Linear, 105 the sum.
std::string gmodule(Writer& w, bool two, bool cyclic = false, double select = 2) {
  using W = Writer;
  const auto list = [&](const std::vector<std::string>& items) {
    W::Entries entries;
    for (std::size_t i = 0; i < items.size(); ++i)
      entries.emplace_back(W::number(static_cast<double>(i) + 1), items[i]);
    return w.table(entries);
  };
  const std::string source = w.table({{W::text("mapindex"), list({})}}, 101);
  const std::string linear = w.module("nn.Linear", {{W::text("weight"), w.tensor({2, 1}, {2, -3})},
                                                    {W::text("bias"), w.tensor({2}, {0.5, 1})}});
  const std::string a =
      two ? w.table({{W::text("mapindex"), list({source})}, {W::text("selectindex"), W::number(1)}},
                    102)
          : w.table({{W::text("mapindex"), list({source})}}, 102);
  const std::string fc = w.table({{W::text("mapindex"), list({cyclic ? W::again(105) : a})},
                                  {W::text("module"), linear},
                                  {W::text("forwardNodeId"), W::number(4)}},
                                 104);
  const std::string b =
      two ? w.table({{W::text("mapindex"), list({cyclic ? source : W::again(101)})},
                     {W::text("selectindex"), W::number(select)}},
                    103)
          : w.table({{W::text("mapindex"), list({W::again(104)})},
                     {W::text("module"), w.module("nn.Tanh", {})}},
                    103);
  // In a table that is written, the sum reads Linear first.
  const std::string sum = w.table({{W::text("mapindex"), list({fc, b})},
                                   {W::text("module"), w.module("nn.CAddTable", {})},
                                   {W::text("forwardNodeId"), W::number(5)}},
                                  105);
  const std::string out = w.table({{W::text("mapindex"), list({sum})}}, 106);
  return w.module("nn.gModule",
                  {{W::text("nInputs"), W::number(two ? 2 : 1)},
                   {W::text("outnode"), w.module("nngraph.Node", {{W::text("data"), out}})},
                   {W::text("modules"), list({linear.substr(0, linear.find('\n', 2) + 1)})}});
}

}  // namespace

TEST_CASE("gModule: nodes read one another; several inputs are told apart") {
  const test::TemporaryFolder folder;
  Writer w;
  test::write_bytes(folder / "two.t7", gmodule(w, true));
  const Model two = open_model(folder / "two.t7");
  for (const std::string& n : two.notes) CAPTURE(n);
  REQUIRE(two.graph->nodes.size() == 2);
  REQUIRE(two.graph->inputs.size() == 2);
  NamedTensors in;
  in.emplace("input0", Tensor::of<float>({2, 1}, {1, 10}));
  in.emplace("input1", Tensor::of<float>({2, 2}, {100, 200, 300, 400}));
  CHECK(test::values(test::run(two, in)) == std::vector<float>{102.5F, 198, 320.5F, 371});

  Writer v;
  test::write_bytes(
      folder / "one.t7",
      v.module("nn.Sequential", {{Writer::text("modules"),
                                  v.table({{Writer::number(1), gmodule(v, false)},
                                           {Writer::number(2), v.module("nn.ReLU", {})}})}}));
  const Model one = open_model(folder / "one.t7");
  for (const std::string& n : one.notes) CAPTURE(n);
  REQUIRE(one.graph->nodes.size() == 4);
  in.clear();
  in.emplace("input", Tensor::of<float>({1, 1}, {-0.25F}));
  // Linear gives 0 and 1.75; each adds its tanh.
  const auto y = test::values(test::run(one, in));
  CHECK(y[0] == 0);
  CHECK(y[1] == 1.75F + 0.94137555F);
}

TEST_CASE("gModule: damaged graphs give their tensors and say why") {
  const test::TemporaryFolder folder;
  for (const bool cyclic : {true, false}) {
    Writer w;
    test::write_bytes(folder / "bad.t7", gmodule(w, true, cyclic, cyclic ? 2 : 7));
    const Model model = open_model(folder / "bad.t7");
    CHECK(model.graph->nodes.empty());
    CHECK(model.graph->initializers.size() == 2);
    REQUIRE(model.notes.size() == 1);
    CAPTURE(model.notes[0]);
    CHECK(model.notes[0].find(cyclic ? "" : "input 7 of 2") != std::string::npos);
  }
  Writer w;
  const std::string whole = gmodule(w, true);
  for (std::size_t n = 0; n < whole.size(); n += 7) {
    test::write_bytes(folder / "cut.t7", whole.substr(0, n));
    try {
      open_model(folder / "cut.t7");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
    }
  }
}
