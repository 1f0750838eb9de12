// Weights without a graph: by name, by name without a checkpoint's prefix, by the only shape left;
// two of one shape under foreign names are refused, and so is a missing or a foreign type.
#include <doctest/doctest.h>

#include "engine/core/error.h"
#include "importers/arch.h"
#include "tests/importer_files.h"

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
    const Model got = open_with_arch(folder / "w.safetensors", {}, "model:lenet", placed);
    CHECK(same_weights(got, want));
    CHECK(placed.size() == list.size());
    CHECK(placed[0].by == (*prefix == '\0' ? "name" : "name without " + std::string(prefix)));
  }
  TensorList list = lenet();
  list[0].name = "unheard";
  list.push_back({"extra", Tensor::of<float>({1}, {7})});
  save_tensors(list, folder / "w.safetensors");
  std::vector<Placement> placed;
  CHECK(same_weights(open_with_arch(folder / "w.safetensors", {}, "lenet", placed), want));
  const auto by = [&](std::string_view tensor) {
    for (const Placement& p : placed)
      if (p.tensor == tensor) return p.by;
    return std::string("nowhere");
  };
  CHECK(by("unheard") == "shape");
  CHECK(by("extra") == "not used");
}

TEST_CASE("arch: nothing is guessed") {
  const test::TemporaryFolder folder;
  std::vector<Placement> placed;
  const auto refusal = [&](const TensorList& list) -> std::string {
    save_tensors(list, folder / "w.safetensors");
    try {
      open_with_arch(folder / "w.safetensors", {}, "model:lenet", placed);
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
  CHECK_THROWS_AS(open_with_arch(folder / "w.safetensors", {}, folder / "w.safetensors", placed),
                  Error);
}
