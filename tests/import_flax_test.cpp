// Flax's parameters (fixtures/make_flax.py): their tensors, whole and from chunks; given to a
// network of ours, which counts channels first, they give Flax's output. Damaged files are refused.
#include <doctest/doctest.h>

#include "engine/core/error.h"
#include "engine/graph/builder.h"
#include "importers/arch.h"
#include "importers/containers/msgpack.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

namespace {

NamedTensors tensors(const std::string& name) { return test::arrays(fixture("flax/" + name)); }

}  // namespace

TEST_CASE("flax: parameters run in a network that counts channels first") {
  const test::TemporaryFolder folder;
  GraphBuilder b("net");
  const auto zeros = [&](const char* name, const Shape& shape) {
    return b.constant(name, Tensor::zeros(DType::f32, shape));
  };
  ValueId x = b.input("x", DType::f32, {-1, 3, 6, 4});
  x = b.op("conv", "c", {x, zeros("c.weight", {4, 3, 3, 2}), zeros("c.bias", {4})});
  x = b.op("flatten", "f", {b.op("relu", "r", {x})});
  b.output(b.op("gemm", "d", {x, zeros("d.weight", {5, 48}), zeros("d.bias", {5})},
                {{"trans_b", true}}));
  Model net;
  *net.graph = b.finish();
  save_model(net, folder / "net.json");
  const auto want = tensors("expected.npz");
  for (const char* file : {"flax/net.msgpack", "flax/chunks.msgpack"}) {
    CAPTURE(file);
    std::vector<Placement> placed;
    const Model model = open_with_arch(fixture(file), {}, {.network = folder / "net.json"}, placed);
    const Trace trace = test::run(model, want.at("x").share());
    test::check_near(trace.outputs.at(0).second, want.at("y"), 1e-5F);
  }
}

TEST_CASE("flax: arrays keep their element types; numbers and texts are passed over") {
  const auto all = tensors("kinds.msgpack");
  const std::pair<const char*, DType> kinds[] = {
      {"float16", DType::f16},   {"float64", DType::f64}, {"int8", DType::i8},
      {"int32", DType::i32},     {"int64", DType::i64},   {"uint8", DType::u8},
      {"uint16", DType::u16},    {"uint32", DType::u32},  {"bool", DType::boolean},
      {"bfloat16", DType::bf16}, {"scalar", DType::f32},  {"list.0", DType::i16}};
  CHECK(all.size() == std::size(kinds));
  for (const auto& [name, dtype] : kinds) {
    CAPTURE(name);
    REQUIRE(all.contains(name));
    CHECK(all.at(name).dtype() == dtype);
  }
  CHECK(all.at("scalar").data<float>()[0] == 2.5F);
  CHECK(all.at("int64").data<std::int64_t>()[2] == 2);
  CHECK(open_model(fixture("flax/net.msgpack")).format == "flax");
}

TEST_CASE("flax: damaged files are refused or read") {
  const test::TemporaryFolder folder;
  for (const char* file : {"flax/kinds.msgpack", "flax/chunks.msgpack"}) {
    const std::string whole = test::read_bytes(fixture(file));
    for (std::size_t n = 1; n < whole.size() + 200; ++n) {
      std::string bytes = whole;
      if (n < whole.size())
        bytes[n] = static_cast<char>(bytes[n] ^ (1 << n % 8));
      else
        bytes.resize((n - whole.size()) * whole.size() / 200);
      test::write_bytes(folder / "x.msgpack", bytes);
      try {
        open_model(folder / "x.msgpack");
        CHECK(n < whole.size());  // what is cut short is never read
      } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::bad_input);
      }
    }
  }
  const auto refused = [](const std::string& bytes) {
    CHECK_THROWS_AS(read_msgpack(std::as_bytes(std::span(bytes))), Error);
  };
  refused(std::string(100'000, '\x91'));  // nesting
  refused("\xdd\xff\xff\xff\xff");        // 2^32 - 1 elements
  refused("\xc6\x7f\xff\xff\xff");        // 2 GB of bytes
  refused("\xc1");                        // no value
  refused(std::string("\x01\x02", 2));    // more behind the value
  refused("");
}

TEST_CASE("formats: what JAX and packers write is told by name, with what to do") {
  const test::TemporaryFolder folder;
  const auto told = [&](const std::string& path) -> std::string {
    try {
      format_of(path);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  test::write_bytes(folder / "_CHECKPOINT_METADATA", "{}");
  CHECK(told(folder / "").find("a checkpoint of Orbax") != std::string::npos);
  for (const char* bytes : {"ML\xefR\rStableHLO_v1.18.0", "#loc = loc(unknown)\nmodule",
                            "module { %0 = stablehlo.add %a, %b }"}) {
    test::write_bytes(folder / "program", bytes);
    CHECK(told(folder / "program").find("a program of MLIR") != std::string::npos);
  }
  const std::pair<std::string, const char*> packed[] = {
      {"\x1f\x8b\x08", "gunzip"},
      {"BZh9", "bunzip2"},
      {"\xfd\x37zXZ", "unxz"},
      {"\x28\xb5\x2f\xfd", "unzstd"},
      {std::string(257, ' ') + "ustar", "a tar archive"}};
  for (const auto& [bytes, word] : packed) {
    test::write_bytes(folder / "program", bytes);
    CHECK(told(folder / "program").find(word) != std::string::npos);
  }
  test::write_bytes(folder / "program", "module of something else");
  CHECK(told(folder / "program").find("no known format") != std::string::npos);
}
