// Names that were mistyped: the nearest is told, and none where nothing is near.
#include "engine/core/nearest.h"

#include <doctest/doctest.h>

#include <array>

using namespace etalon;

TEST_CASE("nearest: a slip of the hand is one edit, and short words have room for no more") {
  CHECK(edits_between("", "abc") == 3);
  CHECK(edits_between("lennet", "lenet") == 1);
  CHECK(edits_between("sqe", "seq") == 1);  // neighbours changed places
  CHECK(edits_between("conv", "gemm") == 4);
  constexpr std::array<std::string_view, 4> kNames{"conv", "seq", "lenet", "resnet50"};
  CHECK(nearest_name("conw", kNames) == "conv");
  CHECK(nearest_name("resent51", kNames) == "resnet50");
  CHECK(nearest_name("se", kNames) == "seq");
  CHECK(nearest_name("sum", kNames).empty());
  CHECK(did_you_mean("lennet", kNames, "; no") == "; did you mean 'lenet'?");
  CHECK(did_you_mean("bogus", kNames, "; no") == "; no");
}
