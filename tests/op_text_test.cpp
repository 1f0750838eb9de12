// Types and parameters in words, as `kernels`, `judge` and the shape files take them.
#include "bench/op_text.h"

#include <doctest/doctest.h>

#include "engine/ops/conv.h"

using namespace etalon;

namespace {

std::string refusal(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::usage);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("op_text: tensor types") {
  CHECK(to_string(parse_tensor_type("f32[1,20,24,24]")) == "f32[1,20,24,24]");
  CHECK(to_string(parse_tensor_type("i64[]")) == "i64[]");
  CHECK(to_string(parse_tensor_type("[2x3]")) == "f32[2,3]");
  CHECK(to_string(parse_tensor_type("7")) == "f32[7]");
  for (const char* bad : {"f31[1]", "f32[1", "f32[-1]", "f32[1,,2]", "f32[99999999999999999999]",
                          "f32[1,1,1,1,1,1,1,1,1]", "x"})
    CHECK_MESSAGE(refusal([&] { parse_tensor_type(bad); }) != "accepted", bad);
}

TEST_CASE("op_text: parameters change the op's defaults and nothing else") {
  const OpRow& conv = get_op("conv");
  const Params p = parse_params(conv, {"strides=2x1", "pads_begin=[3,1]", "groups=4"});
  CHECK(p.as<ConvParams>().strides == Ints{2, 1});
  CHECK(p.as<ConvParams>().pads_begin == Ints{3, 1});
  CHECK(p.as<ConvParams>().groups == 4);
  CHECK(to_string(parse_params(conv, {})) == to_string(conv.defaults()));
  CHECK(to_string(parse_params(conv, {"auto_pad=valid"})) != to_string(conv.defaults()));
  CHECK(refusal([&] { parse_params(conv, {"stride=2"}); }).find("dilations") != std::string::npos);
  for (const char* bad : {"groups", "groups=", "groups=1.5", "=3", "strides=[1,]"})
    CHECK_MESSAGE(refusal([&] { parse_params(conv, {bad}); }) != "accepted", bad);
  CHECK(refusal([&] { parse_params(conv, {"groups=1", "groups=2"}); }) != "accepted");
}
