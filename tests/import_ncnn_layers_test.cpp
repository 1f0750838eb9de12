// ncnn's plain layers: a network of a branch for each (tests/fixtures/make_ncnn_layers.py), against
// what ncnn itself gave; and layers that cannot be, by what is wrong with them.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;

namespace {

// Every output of runtimes/NAME.param as the arrays of the same names say; how many there are.
std::size_t check_recorded(const std::string& name, float tolerance) {
  const NamedTensors known = test::arrays(test::fixture("runtimes/" + name + ".npz"));
  const Model m = open_model(test::fixture("runtimes/" + name + ".param"));
  const Trace trace = test::run(m, test::recorded_inputs(m, known));
  CHECK(trace.outputs.size() + m.graph->inputs.size() == known.size());
  return test::check_outputs(trace, known, tolerance);
}

void refused(const std::string& layers, const char* words,
             const std::string& weights = std::string(64, '\0')) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "n.param", "7767517\n9 9\n" + layers);
  test::write_bytes(folder / "n.bin", weights);
  try {
    open_model(folder / "n.param");
    FAIL_CHECK(std::string(words));
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK_MESSAGE(std::string(e.what()).find(words) != std::string::npos, std::string(e.what()));
  }
}

constexpr const char* kImage = "Input x 0 1 x 0=6 1=6 2=4\n";
constexpr const char* kRows = "Input x 0 1 x 0=8 1=5\n";

}  // namespace

TEST_CASE("ncnn: plain layers give what ncnn recorded") {
  CHECK(check_recorded("layers", 2e-6F) == 80);
}

TEST_CASE("ncnn: convolutions of one and three axes, and of 8 bits, give what ncnn recorded") {
  CHECK(check_recorded("convolutions", 2e-6F) == 18);
}

TEST_CASE("ncnn: boxes of SSD and YOLO are those that ncnn recorded") {
  CHECK(check_recorded("detectors", 2e-6F) == 6);
}

TEST_CASE("ncnn: samples, regions, spectrograms and sums of products give what ncnn recorded") {
  CHECK(check_recorded("samplers", 2e-6F) == 55);
}

TEST_CASE("ncnn: samples and regions that cannot be are refused by what is wrong") {
  const std::string grid = "Input g 0 1 g 0=2 1=5 2=3\n", region = "Input r 0 1 r 0=4\n",
                    moves = "Input o 0 1 o 0=4 1=4 2=18\n";
  const std::pair<std::string, const char*> cases[] = {
      {grid + "GridSample y 2 1 x g y 0=4\n", "samples of kind 4"},
      {grid + "GridSample y 2 1 x g y 3=1\n", "a grid [1,3,5,2] for an image [1,4,6,6]"},
      {"Input g 0 1 g\nGridSample y 2 1 x g y\n", "for an image"},
      {moves + "DeformableConv2D y 2 1 x o y 0=2 1=3 6=71\n", "71 weights for 2 filters"},
      {moves + "DeformableConv2D y 2 1 x o y 0=2 1=9 6=648\n", "windows of 9 x 9"},
      {moves + "DeformableConv2D y 2 1 x o y 0=2 1=2 6=32\n", "offsets [1,18,4,4]"},
      {moves + "DeformableConv2D y 2 1 x o y 0=1000000000 1=3 6=1\n", "1 weights for 1000000000"},
      {region + "ROIPooling y 2 1 x r y 0=2\n", "a region in 0 x 2 cells"},
      {region + "ROIAlign y 2 1 x r y 0=2 1=2 5=1\n", "depends on the region"},
      {region + "ROIAlign y 2 1 x r y 0=2 1=999999\n", "a region in 999999 x 2 cells"},
      {region + "PSROIPooling y 2 1 x r y 3=2\n", "4 channels for 2 of 7 x 7 cells"},
      {grid + "ROIPooling y 2 1 x g y 0=2 1=2\n", "a region [1,3,5,2], expected 4 numbers"},
      {region + "Spectrogram y 1 1 r y 0=99999\n", "a transform of 99999 points"},
      {region + "Spectrogram y 1 1 r y 0=4 3=5\n", "windows of 5 of 4 points"},
      {region + "Spectrogram y 1 1 r y 0=4 2=-1\n", "-1 apart"},
      {"Spectrogram y 1 1 x y 0=4\n", "a signal of rank 3"},
      {grid + "InverseSpectrogram y 1 1 g y 0=16\n", "a spectrogram [1,3,5,2] for 16 points"},
      {grid + "InverseSpectrogram y 1 1 g y 0=4 1=3\n", "a result of kind 3"},
      {"Einsum y 1 1 x y -23300=5,105,106,45,62,106\n", "reads as i, ij"},
      {"Einsum y 1 1 x y -23300=5,105,97,45,62,105\n", "the letter a"},
      {"Einsum y 1 1 x y -23300=5,105,105,45,62,105\n", "an operand [1,4,6,6]"},
      {"RotaryEmbed y 1 1 x y\n", "no input 1"},
      {region + "CopyTo y 2 1 x r y\n", "over a part of [1,4,6,6]"},
      {grid + "CopyTo y 2 1 x g y 0=5\n", "2 elements at 5 of 6"},
      {"Diag y 1 1 x y\n", "a diagonal of [1,4,6,6]"},
      {region + "Diag y 1 1 r y 0=99999999\n", "the diagonal 99999999"},
      {"Pooling y 1 1 x y 7=1 8=999\n", "adaptive pooling of 6 elements into 999"},
  };
  for (const auto& [layers, words] : cases) refused(std::string(kImage) + layers, words);
}

TEST_CASE("ncnn: an image that the file does not measure has the extents that its layers fit") {
  const test::TemporaryFolder folder;
  const auto extent = [&](const std::string& layers) {
    test::write_bytes(folder / "n.param", "7767517\n9 9\nInput x 0 1 x\n" + layers);
    test::write_bytes(folder / "n.bin", std::string(std::size_t{3} * 384 * 384 * 4 + 4, '\0'));
    return open_model(folder / "n.param").graph->inputs.at(0).dims;
  };
  CHECK(extent("InnerProduct y 1 1 x y 0=1 2=442368\n") == Ints{-1, 3, 384, 384});
  refused("Input x 0 1 x\nInnerProduct y 1 1 x y 0=1 2=7\n", "150528 elements");
}

TEST_CASE("ncnn: plain layers that cannot be are refused by what is wrong") {
  const std::pair<const char*, const char*> images[] = {
      {"ShuffleChannel y 1 1 x y 0=3\n", "4 channels in 3 groups"},
      {"ShuffleChannel y 1 1 x y 0=0\n", "4 channels in 0 groups"},
      {"Reduction y 1 1 x y 0=11\n", "the operation 11"},
      {"Reduction y 1 1 x y 1=0 -23303=1,1\n", "axes of an old file"},
      {"Reduction y 1 1 x y 1=0 -23303=1,3 5=1\n", "axis 3"},
      {"Normalize y 1 1 x y 0=0 4=0 3=1\n", "over no axis"},
      {"Normalize y 1 1 x y 3=3\n", "3 weights for [1,4,6,6]"},
      {"Normalize y 1 1 x y 3=4 9=3\n", "epsilon of mode 3"},
      {"LayerNorm y 1 1 x y 0=5\n", "5 weights for [1,4,6,6]"},
      {"LayerNorm y 1 1 x y 0=0\n", "0 weights"},
      {"ExpandDims y 1 1 x y -23303=2,0,1\n", "a sample of rank 5"},
      {"Tile y 1 1 x y 0=0 1=0\n", "0 tiles"},
      {"Tile y 1 1 x y -23302=1,99999999\n", "99999999 tiles"},
      {"Flip y 1 1 x y -23300=1,3\n", "axis 3"},
      {"Unfold y 1 1 x y 1=0\n", "a window of 0"},
      {"Unfold y 1 1 x y 1=200 11=200\n", "a window of 200 x 200"},
      {"Unfold y 1 1 x y 1=2 4=-5\n", "a pad of -5"},
      {"Fold y 1 1 x y 1=2\n", "an image of 0 x 0"},
      {"Slice y 1 2 x a b -23302=1,7 1=1\n", "a cut at 7 of 6"},
      {"Slice y 1 2 x a b -23302=2,1,2 1=1\n", "2 cuts, 2 outputs"},
      {"Pooling1D y 1 1 x y 1=2\n", "pooling of a sample of rank 3"},
      {"GLU y 1 1 x y 0=3\n", "axis 3"},
      {"UnaryOp y 1 1 x y 0=28\n", "the operation 28"},
      {"BinaryOp y 1 1 x y 0=10 1=1\n", "the operation 10"},
      {"Log y 1 1 x y 0=1\n", "a logarithm of base 1"},
      {"Gemm y 1 1 x y 5=1 8=3 9=6\n", "a factor of [1,4,6,6]"},
      {"Embed y 1 1 x y 0=4 1=3 3=11\n", "11 weights for 3 rows of 4"},
  };
  for (const auto& [layer, words] : images) refused(std::string(kImage) + layer, words);
  const std::pair<const char*, const char*> rows[] = {
      {"Gemm y 1 1 x y 5=1 8=-1 9=8\n", "an extent of -1"},
      {"Gemm y 1 1 x y 5=1 8=3 9=8\n", "bytes"},  // more than the file holds
      {"Gemm y 1 1 x y 18=1\n", "int8 products"},
      {"Gemm y 1 1 x y 5=1 6=1 8=1 9=8 10=5\n", "a summand of kind 5"},
      {"MultiHeadAttention y 1 1 x y 0=8 1=3 2=64\n", "64 weights for 8 elements in 3 heads"},
      {"MultiHeadAttention y 1 1 x y 0=8 1=0 2=64\n", "an extent of 0"},
      {"MultiHeadAttention y 1 1 x y 0=8 1=2 2=64 7=1\n", "kv_cache"},
      {"MultiHeadAttention y 1 1 x y 0=8 1=2 2=64 5=1\n", "1 inputs"},
  };
  for (const auto& [layer, words] : rows) refused(std::string(kRows) + layer, words);
}

TEST_CASE("ncnn: 8-bit weights that cannot be are refused by what is wrong") {
  const std::string image = kImage, tag("\x38\x4b\x0d\x00", 4), codes(4, '\1'), zero(4, '\0'),
                    infinite("\x00\x00\x80\x7f", 4);
  const std::string one = image + "Convolution y 1 1 x y 0=1 1=1 6=4 8=2\n";
  refused(one, "a scale of inf", tag + codes + infinite + zero);
  refused(one, "a scale of inf", tag + codes + zero + infinite);
  refused(one, "bytes", tag + codes + zero);
  refused(one, "bytes", tag + std::string(3, '\1'));
  refused(image + "Convolution y 1 1 x y 0=1 1=1 6=4\n", "without their scales", tag + codes);
  refused(image + "ConvolutionDepthWise y 1 1 x y 0=4 1=1 6=4 7=4 8=3\n", "an int8 term of 3");
  refused(image + "Deconvolution y 1 1 x y 0=1 1=1 6=4 8=1\n", "Deconvolution of int8");
  refused(image + "Convolution y 1 1 x y 0=1 1=70000 6=4\n", "a kernel of 70000");
  refused(image + "Convolution3D y 1 1 x y 0=1 1=60000 6=4\n", "taps");
  refused(image + "Quantize y 1 1 x y 0=3\n", "3 scales for [1,4,6,6]");
}

TEST_CASE("ncnn: boxes that cannot be are refused by what is wrong") {
  const std::string image = kImage, three = "Split s 1 3 x a b c\n";
  const std::pair<const char*, const char*> cases[] = {
      {"PriorBox y 1 1 x y\n", "0 least and 0 largest sizes"},
      {"PriorBox y 1 1 x y -23300=1,2 9=0\n", "an image of 0 x 0"},
      {"PriorBox y 1 1 x y -23300=1,2 9=-233 10=-233\n", "no ratio"},
      {"PriorBox y 1 1 x y -23300=1,2 -23301=2,2,3\n", "1 least and 2 largest sizes"},
      {"Pooling p 1 1 x p 0=1 4=1\nPriorBox y 1 1 p y -23300=1,2\n", "rank 1"},
      {"YoloDetectionOutput y 1 1 x y 0=3 1=2\n", "anchor 0 of 0"},
      {"YoloDetectionOutput y 1 1 x y 0=3 1=1 -23304=2,1,1\n", "4 channels for 1 boxes of 8"},
      {"YoloDetectionOutput y 1 1 x y 0=0\n", "0 classes"},
      {"Yolov3DetectionOutput y 1 1 x y 1=1 -23304=2,1,1 -23305=1,0\n", "0 scales"},
      {"Yolov3DetectionOutput y 1 1 x y 1=1 -23304=2,1,1 -23306=1,8\n", "0 anchors named"},
      {"Yolov3DetectionOutput y 1 1 x y 1=1 -23304=2,1,1 -23305=1,-1 -23306=1,8\n", "out of range"},
      {"Yolov3DetectionOutput y 1 1 x y 1=1 -23304=2,1,1 -23305=1,1073741824 -23306=1,8\n",
       "anchor 2 of 1"},
  };
  for (const auto& [layer, words] : cases) refused(image + layer, words);
  refused("Input x 0 1 x\nPriorBox y 1 1 x y -23300=1,2\n", "does not say");
  refused(image + "PriorBox y 1 1 x y -23300=1,2 9=8,8\n", "2 values where one stands");
  refused("Input x 0 1 x 0=6 2=4 1=6 11=2\nPriorBox y 1 1 x y -23300=1,2\n", "rank 4");
  refused(image + three + "DetectionOutput y 3 1 a b c y 0=3\n", "priors of [1,4,6,6]");
  refused(image + three + "DetectionOutput y 3 1 a b c y 0=3 2=0\n", "0 candidates");
}
