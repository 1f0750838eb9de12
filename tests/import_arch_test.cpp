// Weights without a graph: by name, by name without a checkpoint's prefix, by the only shape left;
// two of one shape under foreign names are refused, and so is a missing or a foreign type. Layouts
// of other frameworks: the weights of a network are written as each framework holds them, by index
// arithmetic that shares nothing with the importer's, and must come back to the same bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "engine/core/error.h"
#include "engine/graph/builder.h"
#include "importers/arch.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"
#include "tests/peak_memory.h"

using namespace etalon;

namespace {

TensorList lenet() { return load_tensors("model:lenet"); }

bool same_weights(const Model& a, const Model& b) {
  if (a.graph->initializers.size() != b.graph->initializers.size()) return false;
  for (const auto& [id, tensor] : a.graph->initializers)
    if (!std::ranges::equal(tensor.bytes(), b.graph->initializers.at(id).bytes())) return false;
  return true;
}

}  // namespace

TEST_CASE("arch: weights find their places by name, prefix and shape") {
  const test::TemporaryFolder folder;
  const Model want = open_model("model:lenet");
  for (const char* prefix : {"", "module.", "state_dict.module."}) {
    CAPTURE(prefix);
    TensorList list = lenet();
    for (NamedTensor& t : list) t.name = prefix + t.name;
    save_tensors(list, folder / "w.safetensors");
    std::vector<Placement> placed;
    const Model got = open_with_arch(folder / "w.safetensors", {}, {"model:lenet"}, placed);
    CHECK(same_weights(got, want));
    CHECK(placed.size() == list.size());
    CHECK(placed[0].by == (*prefix == '\0' ? "name" : "name without " + std::string(prefix)));
  }
  TensorList list = lenet();
  list[0].name = "unheard";
  list.push_back({"extra", Tensor::of<float>({1}, {7})});
  save_tensors(list, folder / "w.safetensors");
  std::vector<Placement> placed;
  CHECK(same_weights(open_with_arch(folder / "w.safetensors", {}, {"lenet"}, placed), want));
  const auto by = [&](std::string_view tensor) {
    for (const Placement& p : placed)
      if (p.tensor == tensor) return p.by;
    return std::string("nowhere");
  };
  CHECK(by("unheard") == "shape");
  CHECK(by("extra") == "not used");
}

TEST_CASE("arch: torchvision's names place every weight of resnet50") {
  // Not from the table: the names as torchvision's modules give them, in the modules' sequence.
  TensorList resnet;
  int count = 0;
  const auto noise = [&count](const Shape& shape) {
    Tensor t = Tensor::uninitialized(DType::f32, shape);
    const auto values = t.mutable_data<float>();
    for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 64); ++i)
      values[i] = static_cast<float>(++count % 8191);
    return t;
  };
  const auto conv = [&](const std::string& name, std::int64_t out, std::int64_t in,
                        std::int64_t k) {
    resnet.push_back({name + ".weight", noise({out, in, k, k})});
  };
  const auto norm = [&](const std::string& name, std::int64_t channels) {
    for (const char* field : {".weight", ".bias", ".running_mean", ".running_var"})
      resnet.push_back({name + field, noise({channels})});
    resnet.push_back({name + ".num_batches_tracked", Tensor::of<std::int64_t>({}, {3})});
  };
  conv("conv1", 64, 3, 7);
  norm("bn1", 64);
  std::int64_t in = 64;
  for (int layer = 1; layer <= 4; ++layer)
    for (int block = 0; block < std::array{3, 4, 6, 3}[static_cast<std::size_t>(layer - 1)];
         ++block) {
      const std::string at = fmt::format("layer{}.{}.", layer, block);
      const std::int64_t width = std::int64_t{32} << layer;
      conv(at + "conv1", width, in, 1);
      norm(at + "bn1", width);
      conv(at + "conv2", width, width, 3);
      norm(at + "bn2", width);
      conv(at + "conv3", 4 * width, width, 1);
      norm(at + "bn3", 4 * width);
      if (block == 0) {
        conv(at + "downsample.0", 4 * width, in, 1);
        norm(at + "downsample.1", 4 * width);
      }
      in = 4 * width;
    }
  resnet.push_back({"fc.weight", noise({1000, 2048})});
  resnet.push_back({"fc.bias", noise({1000})});
  const test::TemporaryFolder folder;
  save_tensors(resnet, folder / "r.safetensors");
  std::vector<Placement> placed;
  const Model got = open_with_arch(folder / "r.safetensors", {}, {"resnet50"}, placed);
  const auto went = [&](std::string_view weight) {
    for (const Placement& p : placed)
      if (p.weight == weight) return p.tensor + " by " + p.by;
    return std::string("nowhere");
  };
  const std::string by = " by torchvision's name";
  CHECK(went("conv1.weight") == "conv1.weight" + by);
  CHECK(went("conv1_bn.var") == "bn1.running_var" + by);
  CHECK(went("stage3.1.shortcut.weight") == "layer2.0.downsample.0.weight" + by);
  CHECK(went("stage3.1.shortcut_bn.scale") == "layer2.0.downsample.1.weight" + by);
  CHECK(went("stage4.6.conv3_bn.mean") == "layer3.5.bn3.running_mean" + by);
  CHECK(went("logits.bias") == "fc.bias" + by);
  int used = 0;
  for (const Placement& p : placed) used += p.weight.empty() ? 0 : 1;
  CHECK(used == 267);
  CHECK(static_cast<std::size_t>(used) == got.graph->initializers.size());
  // One name less, and nothing is said by the naming.
  resnet.pop_back();
  save_tensors(resnet, folder / "r.safetensors");
  CHECK_THROWS_AS(open_with_arch(folder / "r.safetensors", {}, {"resnet50"}, placed), Error);
}

// Half a gigabyte of weights is drawn, written and read.
TEST_CASE("arch: torchvision's names place every weight of vgg_a" *
          doctest::skip(test::kKeepsFreed)) {
  const test::TemporaryFolder folder;
  std::vector<Placement> placed;
  TensorList vgg;
  const Model built = open_model("model:vgg_a");
  constexpr int kPlaces[] = {0, 3, 6, 8, 11, 13, 16, 18, 0, 3, 6};
  int i = 0;
  for (const auto& [id, tensor] : built.graph->initializers) {
    vgg.push_back(
        {fmt::format("module.{}.{}.{}", i < 16 ? "features" : "classifier",
                     kPlaces[static_cast<std::size_t>(i / 2)], i % 2 == 0 ? "weight" : "bias"),
         tensor.share()});
    ++i;
  }
  std::reverse(vgg.begin(), vgg.end());
  save_tensors(vgg, folder / "v.safetensors");
  CHECK(same_weights(open_with_arch(folder / "v.safetensors", {}, {"vgg_a"}, placed), built));
}

TEST_CASE("arch: nothing is guessed") {
  const test::TemporaryFolder folder;
  std::vector<Placement> placed;
  const auto refusal = [&](const TensorList& list) -> std::string {
    save_tensors(list, folder / "w.safetensors");
    try {
      open_with_arch(folder / "w.safetensors", {}, {"model:lenet"}, placed);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
      return e.what();
    }
    return "not refused";
  };
  TensorList twice = lenet();
  twice[0].name = "a";
  twice.push_back({"b", twice[0].tensor.share()});
  CHECK(refusal(twice).find("cannot be told") != std::string::npos);
  TensorList missing = lenet();
  missing.erase(missing.begin());
  CHECK(refusal(missing).find("no tensor for the network's weight") != std::string::npos);
  TensorList other = lenet();
  other[0].tensor = Tensor::of<float>({1}, {1});
  CHECK(refusal(other).find("the network's weight") != std::string::npos);
  CHECK_THROWS_AS(open_with_arch(folder / "w.safetensors", {}, {folder / "w.safetensors"}, placed),
                  Error);
}

namespace {

// A network whose layouts can be told apart: odd kernels, a grouped and a depthwise convolution, a
// square matrix, and a matrix behind a flatten of [6, 3, 2].
std::string network(const test::TemporaryFolder& folder) {
  GraphBuilder b("layouts");
  int count = 0;
  const auto weight = [&](const char* name, const Shape& shape) {
    Tensor t = Tensor::uninitialized(DType::f32, shape);
    for (float& v : t.mutable_data<float>()) v = static_cast<float>(++count);
    return b.constant(name, std::move(t));
  };
  ValueId x = b.input("x", DType::f32, {-1, 2, 6, 4});
  x = b.op("conv", "c1", {x, weight("c1.weight", {4, 2, 3, 2}), weight("c1.bias", {4})});
  x = b.op("conv", "c2", {x, weight("c2.weight", {8, 1, 1, 2})}, {{"groups", std::int64_t{4}}});
  x = b.op("conv", "c3", {x, weight("c3.weight", {6, 4, 2, 1})}, {{"groups", std::int64_t{2}}});
  x = b.op("flatten", "f", {x});
  x = b.op("gemm", "d1", {x, weight("d1.weight", {5, 36})}, {{"trans_b", true}});
  x = b.op("gemm", "d2", {x, weight("d2.weight", {5, 5})}, {{"trans_b", true}});
  b.output(b.op("matmul", "d3", {x, weight("d3.weight", {5, 7})}));
  Model model;
  *model.graph = b.finish();
  save_model(model, folder / "net.json");
  return folder / "net.json";
}

struct Foreign {
  bool flipped, kernels_last, inner_first, channels_last;
};

// The weights as a framework would hold them: written element by element from the definition.
TensorList as_held(const Model& model, const Foreign& f) {
  TensorList out;
  for (const auto& [id, t] : model.graph->initializers) {
    const std::string& name = model.graph->value_name(id);
    const auto in = t.data<float>();
    const auto& s = t.shape();
    const auto at = [&](std::int64_t i) { return in[static_cast<std::size_t>(i)]; };
    std::vector<float> v;
    if (s.rank() == 4) {
      const std::int64_t o = s[0], c = s[1], h = s[2], w = s[3];
      const auto element = [&](std::int64_t a, std::int64_t b, std::int64_t y, std::int64_t z) {
        if (f.flipped) y = h - 1 - y, z = w - 1 - z;
        return at(((a * c + b) * h + y) * w + z);
      };
      if (!f.kernels_last) {
        for (std::int64_t i = 0; i < o * c * h * w; ++i)
          v.push_back(element(i / (c * h * w), i / (h * w) % c, i / w % h, i % w));
        out.push_back({name, Tensor::of<float>(s, v)});
        continue;
      }
      const bool depthwise =
          name == "c2.weight";  // (h, w, 4, 2): out channel = in * 2 + multiplier
      for (std::int64_t y = 0; y < h; ++y)
        for (std::int64_t z = 0; z < w; ++z)
          for (std::int64_t b = 0; b < (depthwise ? 4 : c); ++b)
            for (std::int64_t a = 0; a < (depthwise ? 2 : o); ++a)
              v.push_back(depthwise ? element(b * 2 + a, 0, y, z) : element(a, b, y, z));
      out.push_back(
          {name, Tensor::of<float>(depthwise ? Shape{h, w, 4, 2} : Shape{h, w, c, o}, v)});
      continue;
    }
    if (s.rank() == 2) {
      const bool held_in_out = name == "d3.weight";
      const std::int64_t ins = held_in_out ? s[0] : s[1], outs = held_in_out ? s[1] : s[0];
      const auto element = [&](std::int64_t i, std::int64_t o) {
        if (name == "d1.weight" && f.channels_last) {  // (3, 2, 6) counted, meant as (6, 3, 2)
          const std::int64_t y = i / 12, z = i / 6 % 2, c = i % 6;
          i = (c * 3 + y) * 2 + z;
        }
        return held_in_out ? at(i * outs + o) : at(o * ins + i);
      };
      for (std::int64_t k = 0; k < ins * outs; ++k)
        v.push_back(f.inner_first ? element(k / outs, k % outs) : element(k % ins, k / ins));
      out.push_back(
          {name, Tensor::of<float>(f.inner_first ? Shape{ins, outs} : Shape{outs, ins}, v)});
      continue;
    }
    out.push_back({name, t.share()});
  }
  return out;
}

}  // namespace

TEST_CASE("arch: each framework's layout comes back to the network's bits") {
  const test::TemporaryFolder folder;
  const std::string net = network(folder);
  const Model want = open_model(net);
  const std::pair<const char*, Foreign> frameworks[] = {
      {"pytorch", {false, false, false, false}}, {"chainer", {false, false, false, false}},
      {"caffe", {false, false, false, false}},   {"theano", {true, false, true, false}},
      {"lasagne", {true, false, true, false}},   {"tensorflow", {false, true, true, true}},
      {"keras", {false, true, true, true}},      {"flax", {false, true, true, true}}};
  for (const auto& [framework, foreign] : frameworks) {
    CAPTURE(framework);
    const TensorList list = as_held(want, foreign);
    save_tensors(list, folder / "w.npz");
    std::vector<Placement> placed;
    CHECK(same_weights(
        open_with_arch(folder / "w.npz", {}, {.network = net, .weights_of = framework}, placed),
        want));
    // Under foreign names but in order: the same, and without the order it is refused.
    TensorList unnamed;
    for (std::size_t i = 0; i < list.size(); ++i)
      unnamed.push_back({fmt::format("arr_{}", i), list[i].tensor.share()});
    save_tensors(unnamed, folder / "u.npz");
    placed.clear();
    CHECK(same_weights(
        open_with_arch(folder / "u.npz", {},
                       {.network = net, .weights_of = framework, .in_order = true}, placed),
        want));
    CHECK_THROWS_AS(
        open_with_arch(folder / "u.npz", {}, {.network = net, .in_order = true}, placed), Error);
  }
  // Moving elements matters: a wrong name of the framework gives other weights, or is refused.
  save_tensors(as_held(want, {true, false, false, false}), folder / "w.npz");
  std::vector<Placement> placed;
  CHECK_FALSE(same_weights(
      open_with_arch(folder / "w.npz", {}, {.network = net, .weights_of = "pytorch"}, placed),
      want));
}

// get_all_param_values of a convolution and a BatchNormLayer: beta, gamma, mean and the inverse
// deviation, in f64 as Theano computes by default, in a dict beside other arrays.
TEST_CASE("arch: Lasagne's batch norm, of layers that flip and of those that do not") {
  const test::TemporaryFolder folder;
  // The network's order is here that of the names.
  GraphBuilder b("net");
  const auto zeros = [&](const char* name, const Shape& shape) {
    return b.constant(name, Tensor::zeros(DType::f32, shape));
  };
  ValueId x = b.input("x", DType::f32, {-1, 1, 4, 4});
  x = b.op("conv", "c", {x, zeros("c.1_weight", {2, 1, 1, 2}), zeros("c.2_bias", {2})});
  b.output(b.op("batch_norm", "n",
                {x, zeros("n.1_gamma", {2}), zeros("n.2_beta", {2}), zeros("n.3_mean", {2}),
                 zeros("n.4_var", {2})},
                {{"eps", 0.25F}}));
  Model net;
  *net.graph = b.finish();
  save_model(net, folder / "net.json");
  TensorList held;
  held.push_back({"mean image", Tensor::zeros(DType::f64, {1, 4, 4})});
  const auto add = [&](const Shape& shape, const std::vector<double>& v) {
    held.push_back({fmt::format("param values.{}", held.size() - 1), Tensor::of<double>(shape, v)});
  };
  add({2, 1, 1, 2}, {1, 2, 3, 4});
  add({2}, {0.5, -0.5});
  add({2}, {10, 20});    // beta
  add({2}, {-1, 3});     // gamma
  add({2}, {5, 6});      // mean
  add({2}, {0.5, 1.0});  // 1 / sqrt(variance + 0.25)
  save_tensors(held, folder / "w.npz");
  for (const bool flipped : {true, false}) {
    std::vector<Placement> placed;
    const Model m = open_with_arch(folder / "w.npz", {},
                                   {.network = folder / "net.json",
                                    .weights_of = flipped ? "lasagne" : "lasagne-unflipped",
                                    .in_order = true},
                                   placed);
    const auto values = [&](const char* name) {
      const auto v = m.graph->initializers.at(m.graph->find_value(name)).data<float>();
      return std::vector<float>(v.begin(), v.end());
    };
    CHECK(values("c.1_weight") ==
          (flipped ? std::vector<float>{2, 1, 4, 3} : std::vector<float>{1, 2, 3, 4}));
    CHECK(values("c.2_bias") == std::vector<float>{0.5F, -0.5F});
    CHECK(values("n.1_gamma") == std::vector<float>{-1, 3});
    CHECK(values("n.2_beta") == std::vector<float>{10, 20});
    CHECK(values("n.3_mean") == std::vector<float>{5, 6});
    CHECK(values("n.4_var") == std::vector<float>{3.75F, 0.75F});
    CHECK(test::notes(m, "Weights of f64 are f32 here"));
    CHECK(test::notes(m, "1/v^2 - eps"));
  }
}

TEST_CASE("arch: what is ambiguous is settled by the user's word alone") {
  const test::TemporaryFolder folder;
  const Model want = open_model("model:lenet");
  TensorList twice = lenet();
  const std::string weight = twice[0].name;
  twice[0].name = "a";
  twice.push_back({"b", Tensor::zeros(DType::f32, twice[0].tensor.shape())});
  save_tensors(twice, folder / "w.safetensors");
  std::vector<Placement> placed;
  CHECK(same_weights(open_with_arch(folder / "w.safetensors", {},
                                    {.network = "lenet", .places = {weight + "=a"}}, placed),
                     want));
  for (const char* place : {"a", "nothing=a", "conv1.weight=nothing", "conv1.weight=fc1.bias"}) {
    CAPTURE(place);
    CHECK_THROWS_AS(open_with_arch(folder / "w.safetensors", {},
                                   {.network = "lenet", .places = {place}}, placed),
                    Error);
  }
  CHECK_THROWS_AS(open_with_arch(folder / "w.safetensors", {},
                                 {.network = "lenet", .weights_of = "nobody"}, placed),
                  Error);
}
