// Tensor files: what NumPy wrote comes back value by value; what we write comes back bit by bit; a
// file that lies is refused in one sentence.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "engine/core/hash.h"
#include "importers/importers.h"
#include "tests/importer_files.h"

using namespace etalon;
using test::fixture;

namespace {

void refuses(const std::string& path, const char* what) {
  CAPTURE(path);
  try {
    load_tensors(path);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    CHECK(std::string(e.what()).starts_with(path + ": "));
    CHECK_MESSAGE(std::string(e.what()).find(what) != std::string::npos, std::string(e.what()));
  }
}

void refuses_bytes(const std::string& name, const std::string& bytes, const char* what) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / name, bytes);
  refuses(folder / name, what);
}

std::string safetensors_bytes(const std::string& header, std::size_t data) {
  std::string out(8, '\0');
  const std::uint64_t n = header.size();
  std::memcpy(out.data(), &n, 8);
  return out + header + std::string(data, '\1');
}

TensorList one_of_each() {
  TensorList t;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto d = static_cast<DType>(i);
    Tensor x = Tensor::uninitialized(d, {2, 3});
    for (std::size_t b = 0; b < x.size_bytes(); ++b)
      x.mutable_bytes()[b] = std::byte(d == DType::boolean ? b % 2 : 17 * b + 3);
    t.push_back({std::string(name(d)), std::move(x)});
  }
  t.push_back({"scalar", Tensor::of<float>({}, {-0.0F})});
  t.push_back({"none", Tensor::zeros(DType::f32, {0, 4})});
  t.push_back({"odd", Tensor::of<std::int8_t>({3}, {1, 2, 3})});
  t.push_back({"after odd", Tensor::of<double>({1}, {2.5})});
  return t;
}

void comes_back(const TensorList& given, const std::string& path) {
  save_tensors(given, path);
  const TensorList got = load_tensors(path);
  REQUIRE(got.size() == given.size());
  for (const NamedTensor& g : given) {
    CAPTURE(g.name);
    const auto at = std::find_if(got.begin(), got.end(),
                                 [&](const NamedTensor& t) { return t.name == g.name; });
    REQUIRE(at != got.end());
    CHECK(at->tensor.type() == g.tensor.type());
    CHECK(hash_tensor(at->tensor) == hash_tensor(g.tensor));
  }
}

}  // namespace

TEST_CASE("safetensors: a header as long as a pickle's first two bytes is no pickle") {
  const test::TemporaryFolder folder;
  std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.resize(0x0280, ' ');  // the file begins 80 02, as a pickle of protocol 2 does
  test::write_bytes(folder / "x.safetensors", safetensors_bytes(header, 8));
  CHECK(format_of(folder / "x.safetensors").name == "safetensors");
  test::write_bytes(folder / "y", safetensors_bytes(header, 8));
  CHECK(format_of(folder / "y").name == "safetensors");
  CHECK(load_tensors(folder / "x.safetensors").size() == 1);
}

TEST_CASE("npy: every type, byte order and layout that NumPy writes") {
  int arrays = 0;
  for (const std::string kind :
       {"f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1"}) {
    const TensorList plain = load_tensors(fixture("numpy/" + kind + "_le_C.npy"));
    REQUIRE(plain.size() == 1);
    CHECK(plain[0].tensor.shape() == Shape{2, 3, 4});
    for (const char* form : {"_le_F", "_be_C", "_be_F"}) {
      CAPTURE(kind + form);
      const TensorList other = load_tensors(fixture("numpy/" + kind + form + ".npy"));
      CHECK(hash_tensor(other.at(0).tensor) == hash_tensor(plain[0].tensor));
      ++arrays;
    }
  }
  CHECK(arrays == 36);
  const TensorList f4 = load_tensors(fixture("numpy/f4_le_C.npy"));
  const auto v = f4[0].tensor.data<float>();
  for (int i = 0; i < 20; ++i) CHECK(v[static_cast<std::size_t>(i)] == static_cast<float>(i));
  CHECK(std::signbit(v[20]));
  CHECK(std::isinf(v[21]));
  CHECK(std::isnan(v[22]));
  CHECK(v[23] == 0x1p-149F);
  CHECK(load_tensors(fixture("numpy/scalar.npy"))[0].tensor.data<float>()[0] == 2.5F);
  CHECK(load_tensors(fixture("numpy/empty.npy"))[0].tensor.shape() == Shape{0, 3});
  for (const char* v23 : {"numpy/version2.npy", "numpy/version3.npy"})
    CHECK(load_tensors(fixture(v23))[0].tensor.data<std::int32_t>()[5] == 5);
}

TEST_CASE("npy: what has no numbers is refused by name") {
  refuses(fixture("numpy/refused_object.npy"), "none of which is an array of numbers");
  refuses(fixture("numpy/refused_struct.npy"), "structured");
  refuses(fixture("numpy/refused_text.npy"), "texts");
  refuses(fixture("numpy/refused_complex.npy"), "complex");
}

TEST_CASE("npy: arrays of objects give the arrays in them, and run nothing") {
  const auto named = [](const TensorList& list, std::string_view name) -> const Tensor& {
    for (const NamedTensor& t : list)
      if (t.name == name) return t.tensor;
    throw bad_input("no {}", name);
  };
  const TensorList ragged = load_tensors(fixture("numpy/objects.npy"));
  REQUIRE(ragged.size() == 2);
  CHECK(named(ragged, "0").shape() == Shape{2, 3});
  CHECK(named(ragged, "0").data<float>()[5] == 5);
  CHECK(named(ragged, "2").data<std::int16_t>()[3] == 3);
  const TensorList zip = load_tensors(fixture("numpy/objects.npz"));
  REQUIRE(zip.size() == 5);  // a member of None gives nothing
  CHECK(named(zip, "plain").data<float>()[1] == 1);
  CHECK(named(zip, "one.W").data<double>()[2] == 2);
  CHECK(named(zip, "one.deep.0").shape() == Shape{1, 2});
  CHECK(named(zip, "list.0").data<float>()[5] == 5);
  CHECK(named(zip, "list.2").data<std::int16_t>()[3] == 3);

  const std::string header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
  const std::string head =
      std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0';
  refuses_bytes("call.npy", head + header + "cos\nsystem\n(S'echo'\ntR.", "os.system");
  refuses_bytes("cut.npy", head + header + "(lp0", "");
  refuses_bytes("none.npy", head + header, "not numbers");
}

TEST_CASE("npy: a file that lies") {
  const std::string good = test::read_bytes(fixture("numpy/f4_le_C.npy"));
  for (std::size_t n = 0; n < good.size(); ++n) {
    const test::TemporaryFolder folder;
    test::write_bytes(folder / "cut.npy", good.substr(0, n));
    CHECK_THROWS_AS(load_tensors(folder / "cut.npy"), Error);
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string s = good;
    const std::size_t at = s.find(from);
    REQUIRE(at != std::string::npos);
    return s.replace(at, from.size(), to);
  };
  refuses_bytes("x.npy", with("(2, 3, 4)", "(9, 3, 4)"), "cut short");
  refuses_bytes("x.npy", with("(2, 3, 4), }            ", "(9999999999, 9999999999), }"),
                "64 bits");
  refuses_bytes("x.npy", with("(2, 3, 4)", "(2, 3, 1)"), "72 bytes follow");
  refuses_bytes("x.npy", with("(2, 3, 4)", "(2, -3, 4"), "extent");
  refuses_bytes("x.npy", good + "x", "1 bytes follow");
  refuses_bytes("x.npy", "", "empty");
  refuses_bytes("x.npy", "abc", "magic");
  std::string bad_bool = test::read_bytes(fixture("numpy/b1_le_C.npy"));
  bad_bool.back() = '\2';
  refuses_bytes("x.npy", bad_bool, "a bool is 0 or 1");
}

TEST_CASE("npz: stored and deflated, by NumPy") {
  const TensorList s = load_tensors(fixture("numpy/stored.npz"));
  REQUIRE(s.size() == 2);
  CHECK(s[0].name == "b");  // the order of the file
  CHECK(s[0].tensor.data<float>()[4] == 4.0F);
  CHECK(s[1].tensor.data<std::int16_t>()[5] == 5);
  const TensorList d = load_tensors(fixture("numpy/deflated.npz"));
  CHECK(d[1].tensor.shape() == Shape{50, 50});
  CHECK(d[1].tensor.data<double>()[2499] == 0.0);
}

TEST_CASE("npz: a zip that lies") {
  for (const char* file : {"numpy/stored.npz", "numpy/deflated.npz"}) {
    const std::string good = test::read_bytes(fixture(file));
    for (std::size_t n = 0; n < good.size(); n += 7) {
      const test::TemporaryFolder folder;
      test::write_bytes(folder / "cut.npz", good.substr(0, n));
      CHECK_THROWS_AS(load_tensors(folder / "cut.npz"), Error);
    }
    // One flipped bit of the data fails the CRC.
    std::string flipped = good;
    flipped[200] = static_cast<char>(flipped[200] ^ 1);
    CHECK_THROWS_AS(([&] {
                      const test::TemporaryFolder folder;
                      test::write_bytes(folder / "x.npz", flipped);
                      load_tensors(folder / "x.npz");
                    }()),
                    Error);
  }
  const std::string good = test::read_bytes(fixture("numpy/deflated.npz"));
  std::string twice = good;
  twice.replace(twice.rfind("a.npy"), 5, "b.npy");
  refuses_bytes("x.npz", twice, "stands twice");
  std::string climbs = good;
  climbs.replace(climbs.rfind("a.npy"), 5, "../ab");
  refuses_bytes("x.npz", climbs, "leads elsewhere");
  // Nor is such a name written: PyTorch's exporter to ONNX calls constants so.
  const test::TemporaryFolder unwritten;
  TensorList absolute;
  absolute.push_back({"/Constant_output_0", Tensor::of<float>({1}, {1.0F})});
  CHECK_THROWS_WITH_AS(save_tensors(absolute, unwritten / "x.npz"),
                       doctest::Contains("save as safetensors"), Error);
  save_tensors(absolute, unwritten / "x.safetensors");
  CHECK(load_tensors(unwritten / "x.safetensors")[0].name == "/Constant_output_0");
  std::string breaks = good;
  breaks.replace(breaks.rfind("a.npy"), 5, "\na.np");
  refuses_bytes("x.npz", breaks, "control characters");
  std::string huge = good;
  const std::size_t entry = huge.rfind("a.npy") - 46;
  huge.replace(entry + 24, 4, "\xfe\xff\xff\x7f");
  refuses_bytes("x.npz", huge, "which cannot be");
}

TEST_CASE("idx: every type, its lies, and back") {
  const test::TemporaryFolder folder;
  for (const std::string kind : {"u1", "i1", "i2", "i4", "f4", "f8"}) {
    CAPTURE(kind);
    const TensorList got = load_tensors(fixture("idx/" + kind + ".idx"));
    const TensorList numpy = load_tensors(fixture("numpy/" + kind + "_le_C.npy"));
    REQUIRE(got.size() == 1);
    CHECK(got[0].tensor.shape() == Shape{2, 3, 4});
    CHECK(got[0].tensor.dtype() == numpy[0].tensor.dtype());
    if (kind[0] != 'f')  // NumPy's fixtures of floats end in special values
      CHECK(hash_tensor(got[0].tensor) == hash_tensor(numpy[0].tensor));
    comes_back(got, folder / "back.idx");
    comes_back(numpy, folder / "special.idx");
  }
  CHECK(load_tensors(fixture("idx/f4.idx"))[0].tensor.data<float>()[23] == 23.0F);
  const std::string good = test::read_bytes(fixture("idx/i2.idx"));
  for (std::size_t n = 0; n < good.size(); ++n) {
    test::write_bytes(folder / "cut.idx", good.substr(0, n));
    CHECK_THROWS_AS(load_tensors(folder / "cut.idx"), Error);
  }
  refuses_bytes("x.idx", good + "x", "needs 48 bytes, 49 follow");
  std::string huge = good;
  huge.replace(4, 8, 8, '\xff');
  refuses_bytes("x.idx", huge, "64 bits");
}

TEST_CASE("safetensors and npz: what was written comes back, bit by bit") {
  const test::TemporaryFolder folder;
  TensorList all = one_of_each();
  comes_back(all, folder / "all.safetensors");
  std::erase_if(all, [](const NamedTensor& t) { return t.tensor.dtype() == DType::bf16; });
  comes_back(all, folder / "all.npz");
  TensorList one;
  one.push_back({"", Tensor::of<float>({3}, {1.0F, -0.0F, 3.0F})});
  comes_back(one, folder / "one.npy");
  CHECK_THROWS_WITH_AS(save_tensors(all, folder / "x.npy"), doctest::Contains("one array"), Error);
  CHECK_THROWS_WITH_AS(save_tensors(all, folder / "x.xyz"), doctest::Contains(".safetensors"),
                       Error);
  CHECK_THROWS_WITH_AS(save_tensors(one_of_each(), folder / "x.npz"), doctest::Contains("bf16"),
                       Error);
  CHECK_FALSE(std::filesystem::exists(folder / "x.npz"));  // nothing half written remains
}

TEST_CASE("safetensors: what is not aligned is copied when it is read") {
  // 100 000 numbers that begin one byte late. The file changes after it was opened: whoever sees
  // the change has not copied before.
  const std::size_t count = 100'000;
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[100000],"data_offsets":[1,400001]}})";
  const test::TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  std::string bytes = safetensors_bytes(header, 1 + count * 4);
  const std::size_t start = bytes.size() - count * 4;
  test::write_bytes(path, bytes);
  const TensorList tensors = load_tensors(path);
  REQUIRE(tensors.size() == 2);
  const float value = 2.5F;
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(start + (count - 1) * 4));
    file.write(reinterpret_cast<const char*>(&value), 4);
  }
  const Tensor& b = tensors[1].tensor;
  CHECK(b.shape() == Shape{100'000});
  CHECK(b.data<float>()[count - 1] == value);
  CHECK(reinterpret_cast<std::uintptr_t>(b.bytes().data()) % 64 == 0);
  CHECK(b.share().data<float>().data() == b.data<float>().data());
}

TEST_CASE("safetensors: a header that lies") {
  const auto refuse = [](const std::string& header, std::size_t data, const char* what) {
    refuses_bytes("x.safetensors", safetensors_bytes(header, data), what);
  };
  refuse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8, "no valid JSON");
  refuse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}})", 8, "cut short");
  refuse(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "needs 12 bytes");
  refuse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "claims");
  refuse(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "negative");
  refuse(R"({"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,8]}})", 8,
         "64 bits");
  refuse(R"({"a":{"dtype":"F8_E5M2","shape":[8],"data_offsets":[0,8]}})", 8, "F8_E5M2");
  refuse(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 2, "belong to none");
  refuse(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
         R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
         7, "overlap");
  refuse(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
         R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
         3, "between belong to none");
  refuse(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
         R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
         1, "twice");
  refuse(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, "lacks 'dtype'");
  refuse(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1, "whole number");
  refuse(R"({"a":{"dtype":"U8","shape":[1e999],"data_offsets":[0,1]}})", 1, "number");
  refuse("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", 0, "nests deeper");
  refuses_bytes("x.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), "claims");
  refuses_bytes("x.safetensors", "abc", "3 bytes, where safetensors begins with 8");
  CHECK_THROWS_WITH_AS(load_tensors("/nowhere/x.safetensors"), doctest::Contains("/nowhere/x"),
                       Error);
}
