// What run, inspect and convert do with words about a model: each is used, or refused before the
// work.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "importers/importers.h"
#include "tests/cli_run.h"
#include "tests/importer_files.h"
#include "tests/onnx_bytes.h"

using namespace etalon;
using test::ran;

namespace {

constexpr int kFloat = 1, kHalf = 10;

// y = -NAME, NAME f32[N,3] or of `type`.
void write_neg(const std::string& path, const std::string& name, int type = kFloat) {
  test::write_bytes(path, test::onnx_bytes({.nodes = {test::onnx_node("Neg", {name}, "y")},
                                            .inputs = {test::onnx_value(name, type, {-1, 3})},
                                            .outputs = {test::onnx_value("y", type, {-1, 3})}}));
}

void write_array(const std::string& path, const Shape& shape, float value = 1) {
  TensorList list;
  Tensor t = Tensor::zeros(DType::f32, shape);
  for (float& x : t.mutable_data<float>()) x = value;
  list.push_back({"", std::move(t)});
  save_tensors(list, path);
}

// The command ends so, and says these words.
void says(const std::vector<std::string>& words, int code, std::string_view text) {
  const test::Ran r = ran(words);
  CAPTURE(r.out);
  CAPTURE(r.err);
  CHECK(r.code == code);
  CHECK((r.out + r.err).find(text) != std::string::npos);
}

}  // namespace

TEST_CASE("cli: a name that is no input is told so, and names may hold a '='") {
  const test::TemporaryFolder own;
  const std::string model = own / "m.onnx", odd = own / "odd.onnx", x = own / "x.npy";
  write_neg(model, "a");
  write_neg(odd, "a=b");
  write_array(x, {2, 3});
  says({"run", model, "--input", "zz=" + x}, 2, "no input 'zz'; its inputs are a");
  says({"run", model, "--input", "a=" + x}, 0, "f32[2,3]");
  says({"run", odd, "--input", "a=b=" + x}, 0, "f32[2,3]");
  says({"run", odd, "--input-shape", "a=b=f32[5,3]", "--random", "1"}, 0, "f32[5,3]");
}

TEST_CASE("cli: --input-shape is used or refused, and so is every other word") {
  const test::TemporaryFolder own;
  const std::string model = own / "m.onnx", x = own / "x.npy";
  write_neg(model, "a");
  write_array(x, {2, 3});
  says({"run", model, "--input-shape", "a=f32[4,3]", "--random", "1"}, 0, "f32[4,3]");
  says({"inspect", model, "--input-shape", "f32[4,3]"}, 0, "f32[4,3]");
  says({"run", model, "--input-shape", "zz=f32[4,3]", "--random", "1"}, 2, "inputs are a");
  says({"run", model, "--input-shape", "a=f32[4,2]", "--random", "1"}, 2, "the file says f32[N,3]");
  says({"run", model, "--input-shape", "a=i64[4,3]", "--random", "1"}, 2, "the file says f32[N,3]");
  says({"inspect", model, "--with", own / "none"}, 2, "no such file");
  says({"inspect", model, "--with", x}, 2, "leave --with out");
  says({"run", model, "--random", "1", "--batch", "7"}, 0, "f32[7,3]");
  says({"run", model, "-i", x, "--batch", "7"}, 2, "belongs to --random");
  says({"run", model, "--random", "1", "--samples", "-7"}, 2, "belongs to --data");
  says({"run", model, "--random", "-5"}, 2, "a seed is a whole number");
  says({"run", model, "--random", "99999999999999999999"}, 2, "a seed is a whole number");
  says({"run", model, "--random", "1", "--batch", "99999999999999999999"}, 2, "beyond 64 bits");
}

// One free extent of a name fixes it in every input.
TEST_CASE("cli: --input-shape of one input says the extents of the same name") {
  const std::string model = test::fixture("onnxruntime/bert_extended.onnx");
  says({"inspect", model, "--input-shape", "input_ids=i64[1,8]"}, 0,
       "input   segment_ids  i64[1,8]");
  says({"run", model, "--input-shape", "input_ids=i64[1,8]", "--random", "1"}, 0, "v137");
}

TEST_CASE("cli: where outputs cannot be saved is said before they are computed") {
  const test::TemporaryFolder own;
  write_neg(own / "m.onnx", "a");
  for (const char* name : {"y.txt", "y.json", "y.onnx"}) {
    const test::Ran r = ran({"run", own / "m.onnx", "--random", "1", "-o", own / name});
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    CHECK(r.err.find(".safetensors") != std::string::npos);
    CHECK(r.err.find(".json,") == std::string::npos);
  }
  const test::Ran r = ran({"run", own / "m.onnx", "--random", "1", "-o", own / "none/y.npy"});
  CHECK(r.code == 3);
  CHECK(r.out.empty());
}

TEST_CASE("cli: a weight that is an input too is that input's default") {
  const test::TemporaryFolder own;
  const std::string model = own / "m.onnx", a = own / "a.npy", w = own / "w.npy";
  test::write_bytes(
      model,
      test::onnx_bytes(
          {.nodes = {test::onnx_node("Mul", {"a", "w"}, "t"),
                     test::onnx_node("Mul", {"t", "fixed"}, "y")},
           .weights = {test::onnx_floats("w", {1, 1}), test::onnx_floats("fixed", {1, 1})},
           .inputs = {test::onnx_value("a", kFloat, {2}), test::onnx_value("w", kFloat, {2})},
           .outputs = {test::onnx_value("y", kFloat, {2})}}));
  write_array(a, {2}, 3);
  write_array(w, {2}, 5);
  const auto first = [&](const std::vector<std::string>& inputs) {
    std::vector<std::string> words{"run", model, "-o", own / "y.npy"};
    for (const std::string& i : inputs) words.insert(words.end(), {"-i", i});
    const test::Ran r = ran(words);
    CHECK_MESSAGE(r.code == 0, r.err);
    return r.code == 0 ? load_tensors(own / "y.npy")[0].tensor.data<float>()[0] : 0;
  };
  CHECK(first({"a=" + a}) == 3);
  CHECK(first({"a=" + a, "w=" + w}) == 15);
  says({"run", model, "-i", "a=" + a, "-i", "fixed=" + w}, 2, "'fixed' is a weight");
}

TEST_CASE("cli: noise of narrow floats, and a folder that is no model") {
  const test::TemporaryFolder own;
  write_neg(own / "half.onnx", "a", kHalf);
  says({"run", own / "half.onnx", "--random", "1"}, 0, "f16[1,3]");
  std::filesystem::create_directory(own / "folder");
  says({"inspect", own / "folder"}, 3, "a folder, and no model that is one");
  test::write_bytes(own / "fingerprint.pb", test::onnx_number(1, 5) + test::onnx_number(2, 6));
  says({"inspect", own / "fingerprint.pb"}, 3, "the fingerprint of a SavedModel");
}

TEST_CASE("cli: convert leaves the files of others alone and names those it writes") {
  const test::TemporaryFolder own;
  TensorList list;
  list.push_back({"t", Tensor::of<float>({1}, {1})});
  save_tensors(list, own / "x.safetensors");
  const std::string before = test::read_bytes(own / "x.safetensors");
  says({"convert", own / "x.safetensors", "-o", own / "x.json"}, 2, "belongs to no graph");
  CHECK(test::read_bytes(own / "x.safetensors") == before);
  CHECK_FALSE(std::filesystem::exists(own / "x.json"));
  says({"convert", own / "x.safetensors", "-o", own / "y.json"}, 0, "y.safetensors");
  says({"convert", own / "x.safetensors", "-o", own / "y.json"}, 0, "y.json and ");
}

TEST_CASE("cli: convert says what it does not keep") {
  const test::TemporaryFolder own;
  const auto bytes = [](std::int64_t opset) {
    return test::onnx_bytes(
        {.opset = opset,
         .nodes = {test::onnx_node("Swish", {"a"}, "y")},
         .inputs = {test::onnx_value("a", kFloat, {2})},
         .outputs = {test::onnx_value("y", kFloat, {2})},
         .more = test::onnx_text(14, test::onnx_text(1, "author") + test::onnx_text(2, "me"))});
  };
  test::write_bytes(own / "m.onnx", bytes(24));
  says({"convert", own / "m.onnx", "-o", own / "n.onnx"}, 0, "metadata (author) is not read");
  CHECK(open_model(own / "n.onnx").version.starts_with("opset 24"));
  CHECK(open_model(own / "n.onnx").graph->nodes.at(0).op->name == "silu");
  says({"convert", own / "m.onnx", "-o", own / "n.npz"}, 0, "n.npz: 0 tensors");
  // For a model that came of no such opset it becomes its steps, which is said.
  Model other = open_model(own / "m.onnx");
  other.version = "opset 21, ir 10";
  const Saved saved = save_model(other, own / "k.onnx");
  REQUIRE(saved.notes.size() == 1);
  CHECK(saved.notes[0].find("silu is written as its steps (Sigmoid, Mul)") != std::string::npos);
  says({"convert", test::fixture("tflite_ops/hybrid_products.tflite"), "-o", own / "h.onnx"}, 0,
       "run the file under --contract exact");
  const std::string header = R"({"__metadata__":{"format":"pt"}})";
  std::string tensors(8, '\0');
  tensors[0] = static_cast<char>(header.size());
  test::write_bytes(own / "t.safetensors", tensors + header);
  says({"convert", own / "t.safetensors", "-o", own / "t.npz"}, 0, "metadata (format)");
}

TEST_CASE("onnx: Resize of opset 10 that is not nearest asks nothing about growing") {
  const test::TemporaryFolder own;
  const auto parts = [](const char* mode) {
    return test::onnx_bytes({.opset = 10,
                             .nodes = {test::onnx_node("Resize", {"a", "s"}, "y",
                                                       test::onnx_string_attribute("mode", mode))},
                             .weights = {test::onnx_floats("s", {1, 1, 0.5F, 2})},
                             .inputs = {test::onnx_value("a", kFloat, {1, 1, 4, 4})},
                             .outputs = {test::onnx_value("y", kFloat, {1, 1, 2, 8})}});
  };
  test::write_bytes(own / "linear.onnx", parts("linear"));
  test::write_bytes(own / "nearest.onnx", parts("nearest"));
  says({"run", own / "linear.onnx", "--random", "1"}, 0, "f32[1,1,2,8]");
  says({"run", own / "nearest.onnx", "--random", "1"}, 3, "not define for nearest");
}
