// Darknet's less usual sections against what Darknet itself makes of them
// (tests/fixtures/make_darknet.py), and what of them is refused.
#include <doctest/doctest.h>

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

}  // namespace

TEST_CASE("Darknet: sections have the meaning that Darknet gives them") {
  for (const char* name :
       {"sections", "region", "region_logistic", "region_background", "cells", "binary"}) {
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
  says("[region]\ntree=data/9k.tree\n", "the tree data/9k.tree");
  says("[detection]\nside=2\nclasses=3\nnum=1\ncoords=4\n", "108 values for 4 cells");
  says("[detection]\nside=16000000\nclasses=16000000\n", "side=16000000");
  says("[local]\nsize=9\n", "windows of 9");
  says("[local]\nsize=5\npad=1\n", "do not fit the extents");
  says("[local]\nsize=3\nfilters=16000000\n", "the weights end before");
  says("[softmax]\ngroups=7\n", "108 values in 7 groups");
  says("[softmax]\ntree=9k.tree\n", "the tree of classes 9k.tree");
  says("[maxpool]\nsize=2\nstride=2\n[upsample]\nstride=4\n[shortcut]\nfrom=-2\n", "to the larger");
  says("[maxpool]\nsize=1\n[shortcut]\nfrom=-1\nalpha=2\n", "the option alpha=2");
  says("[maxpool]\nsize=1\n[shortcut]\nfrom=-1,-1\nweights_type=per_feature\n", "weights_type");
  says("[maxpool]\nsize=2\nstride=2\n[scale_channels]\nfrom=-1\n", "does not scale");
  says("[route]\nlayers=0\n", "layer 0 does not stand before it");
  says("[maxpool]\nsize=1\n[route]\nlayers=0\ngroups=2\n", "part 0 of 2 of 3 channels");
  says("[reorg]\nextra=-1\n", "-1 further values");
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
