// The rows of cuDNN's engines as far as no library is needed: their names, what a convolution is to
// the library, and which notes on an engine's numbers keep it out of a row of f32 products.
#include "kernels/conv/cudnn_graph.h"

#include <doctest/doctest.h>

#include <set>

#include "kernels/backends/cuda/libraries.h"

using namespace etalon;

namespace {

std::vector<std::int64_t> list(std::initializer_list<std::int64_t> values) { return values; }

}  // namespace

TEST_CASE("cudnn graph: each engine has two rows, found by their names") {
  std::set<std::string_view> names;
  int tensor_core = 0;
  for (const cuda::DeviceRow& d : cuda::cudnn_graph_rows()) {
    CHECK(d.row.op == "conv");
    CHECK(d.row.promise == Promise::vendor);
    CHECK(d.row.name.starts_with("cudnn.conv.graph.engine"));
    CHECK(cuda::find_device_row(d.row) == &d);
    names.insert(d.row.name);
    tensor_core += d.row.name.ends_with("_tensor_core") ? 1 : 0;
  }
  CHECK(std::ssize(names) == std::ssize(cuda::cudnn_graph_rows()));
  CHECK(2 * tensor_core == std::ssize(names));
  CHECK(names.contains("cudnn.conv.graph.engine0"));
  CHECK(names.contains("cudnn.conv.graph.engine38_tensor_core"));
}

TEST_CASE("cudnn graph: a convolution as the library's descriptors have it") {
  ConvParams p;
  p.strides = {2, 1};
  p.dilations = {1, 3};
  p.pads_begin = {0, 1};
  p.pads_end = {2, 4};
  p.groups = 2;
  const cuda::CudnnConvShape two =
      cuda::cudnn_conv_shape(conv_geometry(p, Shape{5, 8, 13, 11}, Shape{6, 4, 3, 2}));
  CHECK(two.x == list({5, 8, 13, 11}));
  CHECK(two.w == list({6, 4, 3, 2}));
  CHECK(two.y == list({5, 6, 7, 13}));
  CHECK(two.strides == list({2, 1}));
  CHECK(two.dilations == list({1, 3}));
  CHECK(two.before == list({0, 1}));
  CHECK(two.behind == list({2, 4}));
  const cuda::CudnnConvShape one =
      cuda::cudnn_conv_shape(conv_geometry(ConvParams{}, Shape{2, 3, 9}, Shape{4, 3, 5}));
  CHECK(one.x == list({2, 3, 1, 9}));
  CHECK(one.w == list({4, 3, 1, 5}));
  CHECK(one.y == list({2, 4, 1, 5}));
  CHECK(one.strides == list({1, 1}));
  CHECK(one.before == list({0, 0}));
  const cuda::CudnnConvShape three = cuda::cudnn_conv_shape(
      conv_geometry(ConvParams{}, Shape{2, 3, 4, 5, 6}, Shape{4, 3, 1, 2, 3}));
  CHECK(three.x == list({2, 3, 4, 5, 6}));
  CHECK(three.w == list({4, 3, 1, 2, 3}));
  CHECK(three.y == list({2, 4, 4, 4, 4}));
  CHECK(three.strides == list({1, 1, 1}));
  CHECK(one < three);  // they are keys
}

TEST_CASE("cudnn graph: an engine that leaves f32 says so in its notes") {
  const auto keeps = [](std::initializer_list<int> notes) {
    return cuda::keeps_f32_products(std::vector<int>(notes));
  };
  CHECK(keeps({}));
  CHECK(keeps({3, 4}));  // fft, not deterministic
  CHECK(keeps({5, 7, 9}));
  CHECK_FALSE(keeps({0}));
  CHECK_FALSE(keeps({9, 1}));
  CHECK_FALSE(keeps({2}));
  const int notes[] = {0, 1, 3, 8, 77};
  CHECK(cuda::note_text(notes) ==
        "tensor core, inputs in a narrower format, fft, winograd 13x13, note 77");
  CHECK(cuda::note_text({}) == "no notes");
}
