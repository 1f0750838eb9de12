// GGUF: each block type gives the bits that ggml's own package gives (fixtures/make_gguf.py), rows
// and extents stand as they do there, and files that are cut or changed are refused or read.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/core/error.h"
#include "importers/importers.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

TEST_CASE("gguf: every block type has ggml's bits") {
  const Model model = open_model(fixture("gguf/blocks.gguf"));
  CHECK(model.format == "gguf");
  CHECK(model.version == "version 3");
  const TensorList want = load_tensors(fixture("gguf/expected.npz"));
  REQUIRE(model.graph->initializers.size() == want.size());
  int compared = 0;
  for (const auto& [id, got] : model.graph->initializers) {
    const std::string& name = model.graph->value_name(id);
    CAPTURE(name);
    const auto at = std::ranges::find(want, name, &NamedTensor::name);
    REQUIRE(at != want.end());
    CHECK(to_string(got.type()) == to_string(at->tensor.type()));
    CHECK(std::ranges::equal(got.bytes(), at->tensor.bytes()));
    ++compared;
  }
  CHECK(compared == 17);
  CHECK(model.notes.size() == 11);  // the architecture, and ten block types
}

TEST_CASE("gguf: what is cut short or claims too much is refused") {
  const test::TemporaryFolder folder;
  const std::string whole = test::read_bytes(fixture("gguf/blocks.gguf"));
  const auto refused = [&](const std::string& bytes) -> std::string {
    test::write_bytes(folder / "x.gguf", bytes);
    try {
      open_model(folder / "x.gguf");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
      return e.what();
    }
    return "";
  };
  for (std::size_t n = 4; n + 32 < whole.size(); n += 61) {
    CAPTURE(n);
    CHECK(!refused(whole.substr(0, n)).empty());
  }
  for (std::size_t at = 4; at < whole.size(); at += at < 1500 ? 1 : 97) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x81);
    refused(changed);
  }
  std::string big = whole;
  big.replace(4, 4, std::string("\0\0\0\3", 4));
  CHECK(refused(big).find("big-endian") != std::string::npos);
  std::string many = whole;
  many.replace(8, 8, std::string(8, '\x7f'));
  CHECK(refused(many).find("are claimed") != std::string::npos);
  std::string type = whole;  // the first tensor's type, behind its name, rank and extents
  const std::size_t first = whole.find("Q4_0") + 4 + 4 + 16;
  type[first] = 99;
  CHECK(refused(type).find("element type 99") != std::string::npos);
}
