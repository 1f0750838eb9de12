// Pickles are data: what is read has the right bits, what asks for a call is refused by its name,
// what is damaged, endless or nested ends in one sentence.
#include <doctest/doctest.h>

#include <map>

#include "engine/core/error.h"
#include "importers/containers/pickle.h"
#include "importers/importers.h"
#include "tests/importer_files.h"
#include "tests/same_bits.h"

using namespace etalon;
using test::equal_bits;
using test::fixture;

namespace {

std::map<std::string, Tensor> by_name(TensorList list) {
  std::map<std::string, Tensor> out;
  for (NamedTensor& t : list) out.emplace(t.name, std::move(t.tensor));
  return out;
}

Error refusal(const std::string& bytes) {
  try {
    const Pickle p({std::as_bytes(std::span(bytes)), nullptr});
  } catch (const Error& e) {
    return e;
  }
  return {ErrorKind::internal, "nothing was refused"};
}

}  // namespace

TEST_CASE("pickle: a call of anything but a known constructor is refused by its name") {
  // Each of them runs `echo` where Python's own reader is used.
  const std::string plain = "cos\nsystem\n(S'echo'\ntR.";
  const std::string instance = "(S'echo'\nios\nsystem\n.";
  const std::string object = "(cos\nsystem\nS'echo'\no.";
  const std::string stacked =
      "\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04"
      "echo\x85R.";
  for (const std::string& bytes : {plain, instance, object, stacked}) {
    const Error e = refusal(bytes);
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(e.exit_code() == 3);
    CHECK(std::string(e.what()).find("wants to call os.system,") != std::string::npos);
  }
  for (const char* name : {"posix\nsystem", "builtins\neval", "__builtin__\ngetattr",
                           "subprocess\nPopen", "torch.hub\nload"}) {
    const Error e = refusal("c" + std::string(name) + "\n(S'1'\ntR.");
    std::string dotted = name;
    dotted[dotted.find('\n')] = '.';
    CHECK(std::string(e.what()).find(dotted) != std::string::npos);
  }
  // The same through a whole file.
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "evil.pkl", plain);
  CHECK_THROWS_WITH_AS(load_tensors(folder / "evil.pkl"), doctest::Contains("os.system"), Error);
}

TEST_CASE("pickle: damage, circles and repetition end in one sentence") {
  for (const std::string bytes : {"",
                                  "\x80",
                                  "\x80\x09.",
                                  "I12",
                                  "(",
                                  ".",
                                  "q\x01.",
                                  "h\x05.",
                                  "U\xff"
                                  "abc",
                                  "R.",
                                  "b.",
                                  "s.",
                                  "X\xff\xff\xff\xff.",
                                  "\x8b\xff\xff\xff\xff.",
                                  "\x8e\xff\xff\xff\xff\xff\xff\xff\xff.",
                                  "]r\xff\xff\xff\xff.",
                                  "S'x\n.",
                                  "Vx",
                                  "\x97.",
                                  "\x82\x01.",
                                  "((((.",
                                  "}I1\ns."}) {
    CAPTURE(bytes);
    const Error e = refusal(bytes);
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
  }
  const test::TemporaryFolder folder;
  // A list that holds itself; and lists that double what they hold, fifty times over.
  test::write_bytes(folder / "self.pkl",
                    "]q\x01h\x01"
                    "a.");
  CHECK_THROWS_AS(load_tensors(folder / "self.pkl"), Error);
  std::string doubled = "]q\x01";
  for (int i = 0; i < 50; ++i)
    doubled += "](h" + std::string(1, static_cast<char>(i + 1)) + "h" +
               std::string(1, static_cast<char>(i + 1)) + "eq" +
               std::string(1, static_cast<char>(i + 2));
  test::write_bytes(folder / "doubled.pkl", doubled + ".");
  CHECK_THROWS_AS(load_tensors(folder / "doubled.pkl"), Error);
}

TEST_CASE("pickle: arrays of every protocol have NumPy's bits") {
  const auto want = by_name(load_tensors(fixture("pickles/expected.npz")));
  for (int protocol = 0; protocol <= 5; ++protocol) {
    const auto got =
        by_name(load_tensors(fixture("pickles/values_" + std::to_string(protocol) + ".pkl")));
    CAPTURE(protocol);
    REQUIRE(got.size() == 4);
    for (const auto& [name, tensor] : got) {
      CAPTURE(name);
      CHECK(equal_bits(tensor, want.at("values." + name)));
    }
  }
}

TEST_CASE("pytorch: zip and legacy files, modules and checkpoints have torch's bits") {
  const auto want = by_name(load_tensors(fixture("pickles/expected.npz")));
  int compared = 0;
  for (const char* file : {"pickles/state.pt", "pickles/state_legacy.pt"}) {
    const auto got = by_name(load_tensors(fixture(file)));
    CAPTURE(file);
    CHECK(got.size() == 13);
    for (const auto& [name, tensor] : got) {
      if (name == "bfloat") {
        CHECK(to_string(tensor.type()) == "bf16[3]");
        continue;
      }
      CAPTURE(name);
      CHECK(equal_bits(tensor, want.at("state." + name)));
      ++compared;
    }
  }
  for (const auto& [file, prefix] :
       {std::pair{"pickles/module.pt", ""}, std::pair{"pickles/checkpoint.pt", "model."}}) {
    CAPTURE(file);
    for (const auto& [name, tensor] : by_name(load_tensors(fixture(file)))) {
      CAPTURE(name);
      CHECK(equal_bits(tensor, want.at("module." + name.substr(std::string(prefix).size()))));
      ++compared;
    }
  }
  CHECK(compared == 32);
  CHECK(open_model(fixture("pickles/module.pt")).graph->nodes.size() == 4);
}

namespace {

// numpy.core.multiarray._reconstruct with its arguments and, for an array of two f32, its state.
const std::string kReconstruct = "cnumpy.core.multiarray\n_reconstruct\n";
const std::string kArguments = "(cnumpy\nndarray\n(I0\ntS'b'\nt";
std::string state(const std::string& dtype, const std::string& bytes) {
  return "(I1\n(I2\nt" + dtype + "I00\nS'" + bytes + "'\nt";
}
const std::string kFloat = "cnumpy\ndtype\n(S'f4'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb";
const std::string kTwo = "\\x00\\x00\\x80?\\x00\\x00\\x00@";  // 1 and 2

std::map<std::string, Tensor> arrays_of(const std::string& bytes) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "a.pkl", bytes + ".");
  return by_name(load_tensors(folder / "a.pkl"));
}

}  // namespace

TEST_CASE("pickle: arrays of JAX and of Theano's back ends, generators, Python 2's ordered dicts") {
  const std::string array = kReconstruct + kArguments + "R" + state(kFloat, kTwo) + "b";
  const Tensor want = Tensor::of<float>({2}, {1, 2});
  REQUIRE(equal_bits(arrays_of(array).at("arr_0"), want));
  const std::string jax = "cjax._src.array\n_reconstruct_array\n(" + kReconstruct + kArguments +
                          state(kFloat, kTwo) + "(dtR";
  CHECK(equal_bits(arrays_of(jax).at("arr_0"), want));
  for (const char* type : {"theano.sandbox.cuda.type\nCudaNdarray_unpickler",
                           "theano.gpuarray.type\nGpuArray_unpickler",
                           "theano.sandbox.gpuarray.type\nGpuArray_unpickler"})
    CHECK(equal_bits(arrays_of("c" + std::string(type) + "\n(" + array + "S'gpu'\ntR").at("arr_0"),
                     want));
  CHECK_THROWS_WITH_AS(
      arrays_of("ctheano.gpuarray.type\nGpuArray_unpickler\n(ctheano.gpuarray.type\n"
                "GpuArray_unpickler\n(" +
                array + "S'gpu'\ntRS'gpu'\ntR"),
      doctest::Contains("an array on a GPU made of another"), Error);

  const std::string brain = "cnumpy\ndtype\n(cml_dtypes\nbfloat16\nI0\nI1\ntR";
  const auto halves =
      arrays_of(kReconstruct + kArguments + "R" + state(brain, "\\x80?\\x00@") + "b");
  REQUIRE(halves.at("arr_0").dtype() == DType::bf16);
  CHECK(halves.at("arr_0").bytes()[0] == std::byte{0x80});
  CHECK_THROWS_WITH_AS(arrays_of(kReconstruct + kArguments + "R" + state(brain, "\\x80?") + "b"),
                       doctest::Contains("has 2 bytes"), Error);

  // Names are kept, and a generator's state is no weight.
  const std::string ordered = "ccollections\nOrderedDict\n(((S'W'\n" + array + "l(S'rng'\n" +
                              "cnumpy.random\n__RandomState_ctor\n(tR(S'MT19937'\n" + array +
                              "tbll" + "tR";
  const auto named = arrays_of(ordered);
  CHECK(named.size() == 1);
  REQUIRE(named.contains("W"));
  CHECK(equal_bits(named.at("W"), want));
}
