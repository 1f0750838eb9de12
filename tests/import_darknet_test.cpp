// Darknet's less usual sections against what Darknet itself makes of them
// (tests/fixtures/make_darknet.py), and what of them is refused.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/core/error.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

namespace {

std::string refusal(const std::string& sections,
                    const std::string& input = "channels=3\nheight=6\nwidth=6\n") {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "n.cfg", "[net]\n" + input + sections);
  test::write_bytes(folder / "n.weights",
                    std::string("\0\0\0\0\2\0\0\0", 8) + std::string(4096, '\0'));
  try {
    open_model(folder / "n.cfg");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "it was opened";
}

std::vector<float> elements(const Tensor& t) {
  const auto all = t.data<float>();
  return {all.begin(), all.end()};
}

}  // namespace

TEST_CASE("Darknet: sections have the meaning that Darknet gives them") {
  for (const char* name :
       {"sections", "region", "region_logistic", "region_background", "cells", "binary",
        "sequences", "tree", "fork_image", "fork_tree", "fork_sequences"}) {
    CAPTURE(name);
    const Model model = open_model(fixture(fmt::format("darknet/{}.cfg", name)));
    for (const std::string& note : model.notes)
      CHECK(note.find("are not read") == std::string::npos);
    const NamedTensors arrays = test::arrays(fixture(fmt::format("darknet/{}.npz", name)));
    const Trace trace = test::run(model, arrays.at("x").share());
    test::check_near(trace.outputs.at(0).second, arrays.at("y"), 3e-6F);
  }
}

TEST_CASE("Darknet: sections that do not fit what is before them are refused by the reason") {
  const auto says = [](const std::string& sections, std::string_view words) {
    const std::string text = refusal(sections);
    CAPTURE(text);
    CHECK(text.find(words) != std::string::npos);
  };
  says("[crop]\ncrop_height=7\ncrop_width=2\n", "7 x 2 of");
  says("[region]\nclasses=3\nnum=2\n", "3 channels for 2 boxes of 8 values");
  says("[region]\nclasses=-3\n", "classes=-3");
  says("[region]\nclasses=1\ncoords=1\n", "1 places a box");
  says("[region]\nclasses=1\ncoords=3\nnum=1\ntree=data/9k.tree\n",
       "3 channels for 1 boxes of 5 values");
  says("[softmax]\ntree=../secret/9k.tree\n",
       "the tree ../secret/9k.tree: does not lie beside the .cfg; name it with --with");
  says("[detection]\nside=2\nclasses=3\nnum=1\ncoords=4\n", "108 values for 4 cells");
  says("[detection]\nside=16000000\nclasses=16000000\n", "side=16000000");
  says("[local]\nsize=9\n", "windows of 9");
  says("[local]\nsize=5\npad=1\n", "do not fit the extents");
  says("[local]\nsize=3\nfilters=16000000\n", "the weights end before");
  says("[softmax]\ngroups=7\n", "108 values in 7 groups");
  says("[maxpool]\nsize=2\nstride=2\n[upsample]\nstride=4\n[shortcut]\nfrom=-2\n", "to the larger");
  says("[maxpool]\nsize=1\n[shortcut]\nfrom=-1\nalpha=2\n", "the option alpha=2");
  says("[maxpool]\nsize=1\n[shortcut]\nfrom=-1,-1\nweights_type=per_feature\n", "weights_type");
  says("[maxpool]\nsize=2\nstride=2\n[scale_channels]\nfrom=-1\n", "does not scale");
  says("[route]\nlayers=0\n", "layer 0 does not stand before it");
  says("[maxpool]\nsize=1\n[route]\nlayers=0\ngroups=2\n", "part 0 of 2 of 3 channels");
  says("[reorg]\nextra=-1\n", "-1 further values");
  says("[reorg3d]\nstride=4\n", "in blocks of 4");
  says("[Gaussian_yolo]\nclasses=1\nnum=2\n", "3 channels for 2 boxes of 10 values");
  says("[local_avgpool]\nsize=3\nstride=0\n", "a window of 3 by 0 x 0");
  says("[convolutional]\nsize=3\ndilation=2\n", "does not fit the extents that Darknet counts");
  says("[convolutional]\nshare_index=-1\n", "shares the weights of layer -1");
  says("[maxpool]\nsize=1\n[convolutional]\nshare_index=0\n", "the weights of layer 0");
  says("[convolutional]\nfilters=2\n[convolutional]\nshare_index=0\nfilters=3\n",
       "3 filters of 1 over 2 channels share weights");
  says("[convolutional]\ndontload=1\n", "the option dontload=1");
  says("[rnn]\nhidden=-1\n", "hidden=-1");
  says("[gru]\noutput=16000000\n", "the weights end before");
  says("[crnn]\noutput=2\nsize=5\n", "do not keep the extents of the state");
  says("[conv_lstm]\nbottleneck=1\n", "the option bottleneck=1");
  says("[conv_lstm]\nlstm_activation=relu\n", "lstm_activation=relu");
  says("[conv_lstm]\npad=1\nstate_constrain=-4\n", "state_constrain=-4");
  const std::string steps = "channels=3\nheight=6\nwidth=6\ntime_steps=";
  for (const char* many : {"0", "65537"})
    CHECK(refusal("[lstm]\n", steps + many + "\n").find("expected 1 to 65536") !=
          std::string::npos);
}

TEST_CASE("Darknet: layers are scaled by channels or places, and added from several") {
  const test::TemporaryFolder folder;
  const auto run = [&](const std::string& sections) {
    test::write_bytes(folder / "n.cfg",
                      "[net]\nchannels=2\nheight=1\nwidth=2\n[dropout]\n" + sections);
    test::write_bytes(folder / "n.weights",
                      std::string("\0\0\0\0\2\0\0\0", 8) + std::string(12, '\0'));
    Tensor x = Tensor::uninitialized(DType::f32, {1, 2, 1, 2});
    float next = 1;
    for (float& v : x.mutable_data<float>()) v = next++;
    return test::values(test::run(open_model(folder / "n.cfg"), std::move(x)));
  };
  CHECK(run("[avgpool]\n[scale_channels]\nfrom=0\n") == std::vector<float>{1.5F, 3, 10.5F, 14});
  CHECK(run("[sam]\nfrom=0\n") == std::vector<float>{1, 4, 9, 16});
  CHECK(run("[shortcut]\nfrom=0,0\n") == std::vector<float>{3, 6, 9, 12});
  // One channel of two: the other stays.
  CHECK(run("[route]\nlayers=0\ngroups=2\ngroup_id=1\n[route]\nlayers=0\n[shortcut]\nfrom=1\n") ==
        std::vector<float>{4, 6, 3, 4});
}

TEST_CASE("Darknet: steps are rows of one sequence, and one step is where each sequence begins") {
  const test::TemporaryFolder folder;
  for (const std::string name : {"sequences", "fork_sequences"}) {
    std::string cfg = test::read_bytes(fixture(fmt::format("darknet/{}.cfg", name)));
    const std::size_t at = cfg.find("time_steps=3");
    REQUIRE(at != std::string::npos);
    cfg[at + 11] = '1';
    // The bound of a cell's state is 32 times the steps where the file does not say it.
    test::write_bytes(folder / "n.cfg", cfg);
    const std::string weights = fixture(fmt::format("darknet/{}.weights", name));
    const Model model = open_model(folder / "n.cfg", std::vector<std::string>{weights});
    const NamedTensors arrays = test::arrays(fixture(fmt::format("darknet/{}.npz", name)));
    const std::vector<float> x = elements(arrays.at("x")), y = elements(arrays.at("y"));
    Tensor first = Tensor::uninitialized(DType::f32, {2, 2, 3, 3});
    std::copy_n(x.begin(), 36, first.mutable_data<float>().begin());
    const std::vector<float> out = test::values(test::run(model, std::move(first)));
    REQUIRE(out.size() == 8);
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::abs(out[i] - y[i]) < 3e-7F);
  }
}

TEST_CASE("Darknet: a tree's file is held to its classes") {
  const test::TemporaryFolder folder;
  const auto opens = [&](const std::string& tree) -> std::string {
    test::write_bytes(folder / "n.cfg",
                      "[net]\nchannels=3\nheight=1\nwidth=1\n[softmax]\ntree=data/c.tree\n");
    test::write_bytes(folder / "n.weights",
                      std::string("\0\0\0\0\2\0\0\0", 8) + std::string(12, '\0'));
    test::write_bytes(folder / "c.tree", tree);
    try {
      open_model(folder / "n.cfg");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(opens("a\nb 0\nc 0\r\n").empty());
  const std::pair<std::string, std::string_view> refused[] = {
      {"a\nb\n", "2 lines for 3 classes"},
      {"a\nb 2\nc\n", "line 2 has the parent 2"},
      {"a -2\n", "line 1 has the parent -2"},
      {"a\nb 0x\nc\n", "line 2 is 'b 0x'"},
      {"", "0 lines for 3 classes"}};
  for (const auto& [tree, words] : refused) {
    CAPTURE(tree);
    CHECK(opens(tree).find(words) != std::string::npos);
  }
}
