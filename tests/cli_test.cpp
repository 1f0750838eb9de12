// The command line's shell: exit codes, one sentence per error, tables that line up.
#include "bench/cli/cli.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cli/terminal.h"
#include "bench/data.h"
#include "bench/report/record.h"
#include "bench/report/record_list.h"
#include "engine/core/file.h"
#include "engine/core/hash.h"
#include "importers/importers.h"
#include "tests/cli_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using namespace etalon::cli;
using etalon::test::Ran;
using etalon::test::ran;

TEST_CASE("cli: lab ask saves the outputs whose hash it prints, or the answer") {
  const test::TemporaryFolder own;
  const std::string q = R"({"do": "conv", "channels": 3, "height": 5, "width": 6, "filters": 2})";
  const Ran saved = ran({"lab", "ask", q, "-o", own / "y.npy"});
  CHECK_MESSAGE(saved.code == 0, saved.err);
  const TensorList list = load_tensors(own / "y.npy");
  REQUIRE(list.size() == 1);
  CHECK(list[0].tensor.shape() == Shape{1, 2, 5, 6});
  CHECK(saved.out.find(to_string(hash_tensor(list[0].tensor))) != std::string::npos);
  CHECK(ran({"lab", "ask", q, "-o", own / "a.json"}).code == 0);
  CHECK(nlohmann::json::parse(read_text_file(own / "a.json"))["y"].size() == 60);
  const Ran none = ran({"lab", "ask", R"({"do": "kernel"})", "-o", own / "k.npy"});
  CHECK(none.code == 2);
  CHECK(none.err.find("has outputs") != std::string::npos);
}

TEST_CASE("cli: exit codes and one sentence on stderr") {
  CHECK(ran({"--help"}).code == 0);
  CHECK(ran({}).code == 2);
  CHECK(ran({"--version"}).out.starts_with("etalon 0."));
  for (const Command& c : commands()) {
    CAPTURE(c.name);
    const Ran help = ran({std::string(c.name), "--help"});
    CHECK(help.code == 0);
    CHECK(help.out.find("--threads") != std::string::npos);
    CHECK(help.out.find(c.summary) != std::string::npos);
    CHECK(help.err.empty());
  }
  struct Row {
    std::vector<std::string> words;
    int code;
    std::string text;
  };
  const Row rows[] = {
      {{"doctr"}, 2, "etalon: there is no command 'doctr'; did you mean 'etalon doctor'?\n"},
      {{"xyzzy"}, 2, "etalon: there is no command 'xyzzy'; 'etalon --help' lists them\n"},
      {{"version", "--isa", "neon"},
       2,
       "etalon: unknown instruction set 'neon'; the names are sse2, avx2, avx512, amx\n"},
      {{"version", "--device", "tpu"}, 2, "etalon: --device tpu: the devices are cpu and cuda\n"},
      {{"version", "--threads", "-3"}, 2, "etalon: --threads -3: give a number from 1 to 4096\n"},
  };
  for (const Row& row : rows) {
    const Ran r = ran(row.words);
    CHECK(r.code == row.code);
    CHECK(r.err == row.text);
    CHECK(r.out.empty());
  }
}

TEST_CASE("cli: global options stand before or after the command") {
  const Ran before = ran({"--isa", "sse2", "doctor"});
  const Ran after = ran({"doctor", "--isa", "sse2"});
  CHECK(before.code == 0);
  CHECK(before.out == after.out);
}

TEST_CASE("cli: a record holds what was run, where, and spells numbers that JSON lacks") {
  nlohmann::json record = base_record("etalon version", Isa::sse2);
  record["values"] = {1.5, INFINITY, -INFINITY, NAN};
  const std::string path = "/tmp/etalon-cli-test-" + std::to_string(getpid()) + ".json";
  write_record(path, record);
  const auto back = nlohmann::json::parse(read_text_file(path));
  std::remove(path.c_str());
  CHECK(back["machine"]["isa"] == "sse2");
  CHECK(back["etalon"].contains("commit"));
  CHECK(back["values"] == nlohmann::json({1.5, "inf", "-inf", "nan"}));
}

TEST_CASE("cli: a long list of a record reads as one that was a tree of values") {
  const std::string odd = "a \"quote\", a \\, a\nbreak, \x01, \xff and \xc3\xa9";
  nlohmann::json record = {{"command", "c"}, {"inspect", {{"name", "\n  \"rows\": null"}}}};
  RecordList rows, none;
  rows.add({{"name", "plain"}, {"type", "f32[1]"}});
  rows.add({{"name", odd}});
  const std::string path = "/tmp/etalon-cli-test-" + std::to_string(getpid()) + ".json";
  write_record(path, record, "inspect", {{"none", &none}, {"rows", &rows}});
  const std::string as_list = read_text_file(path);
  record["inspect"]["rows"] = {{{"name", "plain"}, {"type", "f32[1]"}}, {{"name", odd}}};
  write_record(path, record);
  const std::string as_tree = read_text_file(path);
  std::remove(path.c_str());
  CHECK(as_list == as_tree);
  CHECK(nlohmann::json::parse(as_list)["inspect"]["rows"].size() == 2);
}

TEST_CASE("terminal: widths, tables, units") {
  CHECK(display_width("µs") == 2);
  CHECK(display_width("e\xcc\x81t") == 2);    // e, combining acute, t
  CHECK(display_width("\xe6\xbc\xa2") == 2);  // a wide character
  CHECK(display_width("\x1b[31mred\x1b[0m") == 3);
  Table t({{"op"}, {"time", Table::Align::right}});
  t.row({"µ", "1"});
  t.row({"conv"});
  std::FILE* plain = std::tmpfile();
  CHECK(t.text(plain) == "op    time\nµ        1\nconv\n");
  Table named({{"name"}, {"type"}});
  named.row({"a  f32\nb\x1b[31m", "\x1b[32mf\x1b[2J\x1b[0m"});
  CHECK(named.text(plain) ==
        "name                 type\na  f32\\x0ab\\x1b[31m  \x1b[32mf\\x1b[2J\x1b[0m\n");
  CHECK(visible("\xc2\x9b\x9b\x7f \xe2\x80\xae µ\xe6\xbc\xa2") ==
        "\\x9b\\x9b\\x7f \\u202e µ\xe6\xbc\xa2");
  std::fclose(plain);
  CHECK(human_bytes(999) == "999 B");
  CHECK(human_bytes(1'725'000) == "1.7 MB");
  CHECK(human_bytes(999'600) == "1.0 MB");
  CHECK(human_seconds(1.5e-6) == "1.5 µs");
  CHECK(human_seconds(2) == "2 s");
}

TEST_CASE("cli: judge a dumped tensor, and the recorded outputs of a network") {
  const test::TemporaryFolder own;
  TensorList x, w, y;
  x.push_back({"x", Tensor::of<float>({1, 3}, {0.1F, 0.2F, 0.3F})});
  w.push_back({"w", Tensor::of<float>({3, 1}, {1, 10, 100})});
  save_tensors(x, own / "x.npy");
  save_tensors(w, own / "w.npy");
  const auto judge = [&](float value, std::vector<std::string> more = {}) {
    y.clear();
    y.push_back({"y", Tensor::of<float>({1, 1}, {value})});
    save_tensors(y, own / "y.npy");
    std::vector<std::string> words = {
        "judge",    "gemm",       "--inputs", "a=" + (own / "x.npy"), "b=" + (own / "w.npy"),
        "--output", own / "y.npy"};
    words.insert(words.end(), more.begin(), more.end());
    return ran(words);
  };
  const Ran right = judge(0.1F + 2.0F + 30.0F);
  CHECK(right.code == 0);
  CHECK(right.out.find("y:") != std::string::npos);
  const Ran wrong = judge(33);
  CHECK(wrong.code == 1);
  CHECK(wrong.out.find("wrong") != std::string::npos);
  CHECK(judge(33, {"--save-case", own / "case"}).code == 1);
  CHECK(ran({"judge", "--case", own / "case"}).code == 1);
  CHECK(ran({"judge", "--case", own / "case", "--params", "alpha=2"}).code == 2);
  CHECK(judge(32.1F, {"--fail-on", "nonsense"}).code == 2);
  CHECK(judge(32.1F, {"--framework", "nosuch"}).code == 2);
  CHECK(judge(32.1F, {"--contract", "order=blocks:10+20"}).code == 2);
  // Nothing to judge is no success.
  CHECK(ran({"judge", "gemm", "--inputs", "a=" + (own / "x.npy"), "b=" + (own / "w.npy")}).code ==
        2);
  // Of f64 tensors f64 arithmetic is asked for.
  for (auto* list : {&x, &w}) {
    Tensor wide = Tensor::uninitialized(DType::f64, list->front().tensor.shape());
    for (std::int64_t i = 0; i < wide.numel(); ++i)
      wide.mutable_data<double>()[static_cast<std::size_t>(i)] =
          static_cast<double>(list->front().tensor.data<float>()[static_cast<std::size_t>(i)]);
    list->front().tensor = std::move(wide);
  }
  save_tensors(x, own / "x.npy");
  save_tensors(w, own / "w.npy");
  const auto of_doubles = [&](double value) {
    TensorList z;
    z.push_back({"y", Tensor::of<double>({1, 1}, {value})});
    save_tensors(z, own / "y.npy");
    return ran({"judge", "gemm", "--inputs", "a=" + (own / "x.npy"), "b=" + (own / "w.npy"),
                "--output", own / "y.npy"});
  };
  const double sum =
      static_cast<double>(0.1F) + 10 * static_cast<double>(0.2F) + 100 * static_cast<double>(0.3F);
  CHECK(of_doubles(sum).code == 0);
  CHECK(of_doubles(sum * (1 + 1e-9)).code == 1);

  const std::string lenet = std::string(ETALON_SOURCE_DIR) + "/bench/demo/lenet.onnx";
  CHECK(ran({"run", lenet, "--data", "mnist", "--samples", "2", "--contract", "order=pairwise:1",
             "--output", own / "logits.npz"})
            .code == 0);
  TensorList images;
  images.push_back({"images", std::move(load_dataset("mnist", 2).images)});
  save_tensors(images, own / "images.npy");
  const Ran network =
      ran({"judge", lenet, "--inputs", own / "images.npy", "--output", own / "logits.npz"});
  CHECK_MESSAGE(network.code == 0, network.err);
  CHECK(network.out.find("explained (carried, by ") != std::string::npos);
  CHECK(ran({"judge", lenet, "--inputs", own / "images.npy", "--output", own / "logits.npz",
             "--fail-on", "explained"})
            .code == 1);
  CHECK(ran({"judge", lenet, "--inputs", own / "images.npy"}).code == 2);
}

TEST_CASE("cli: ulp counts from the second tensor, rounded once where it is wider") {
  const test::TemporaryFolder own;
  // 1 exact; 1 + 2^-24 is a tie, to even 1; one float above 2; an infinity for the largest float.
  const auto store = [&](const std::string& file, Tensor t) {
    TensorList list;
    list.push_back({"y", std::move(t)});
    save_tensors(list, own / file);
  };
  const float inf = __builtin_inff();
  store("got.npy", Tensor::of<float>({2, 2}, {1.0F, 1.0F, 0x1.000002p1F, inf}));
  store("exact.npy", Tensor::of<double>({2, 2}, {1.0, 1 + 0x1p-24, 2.0, 0x1.fffffep127}));
  store("same.npy", Tensor::of<float>({2, 2}, {1.0F, 1.0F, 2.0F, 0x1.fffffep127F}));
  const Ran r = ran({"ulp", own / "got.npy", own / "exact.npy", "--json", own / "r.json"});
  CHECK_MESSAGE(r.code == 0, r.err);
  const auto j = nlohmann::json::parse(read_text_file(own / "r.json"))["ulp"]["tensors"][0];
  CHECK(j["max_ulp"] == 1.0);
  CHECK(j["mean_ulp"] == (0 + 0.5 + 1) / 3);
  CHECK(j["correctly_rounded"] == 0.5);
  CHECK(j["inf_mismatch"] == 1);
  CHECK(j["worst"]["place"] == "[1,1]");
  CHECK(ran({"ulp", own / "got.npy", own / "same.npy", "--fail-above", "1"}).code == 1);
  CHECK(ran({"ulp", own / "same.npy", own / "exact.npy", "--fail-above", "0.5"}).code == 0);
  for (const char* most : {"nan", "-3", "x", ""})
    CHECK((ran({"ulp", own / "got.npy", own / "same.npy", "--fail-above", most}).code == 0) ==
          (most[0] == '\0'));
  // What B alone has would not be compared.
  TensorList more;
  more.push_back({"y", Tensor::of<float>({1}, {1.0F})});
  save_tensors(more, own / "a.npz");
  more.push_back({"z", Tensor::of<float>({1}, {1.0F})});
  save_tensors(more, own / "b.npz");
  CHECK(ran({"ulp", own / "a.npz", own / "b.npz"}).code == 3);
  CHECK(ran({"ulp", own / "b.npz", own / "a.npz"}).code == 3);
  CHECK(ran({"ulp", own / "exact.npy", own / "same.npy"}).code == 3);  // B is narrower
  CHECK(ran({"ulp", own / "got.npy", own / "none.npy"}).code == 3);
  CHECK(ran({"survey", "exp"}).code == 2);
  CHECK(ran({"survey", "sine", "--of", "glibc"}).code == 2);
  CHECK(ran({"edges", "exp", "--within", "1"}).code == 2);
}

TEST_CASE("cli: inspect leaves the weights of a big file on the disk") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "big.safetensors";
  std::string header = R"({"w":{"dtype":"F32","shape":[50000000],"data_offsets":[0,200000000]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  test::write_bytes(path,
                    std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
  std::filesystem::resize_file(path, 8 + length + 200'000'000);  // of zeros that take no room
  const Ran r = ran({"inspect", path});
  CHECK(r.code == 0);
  CHECK(r.out.find("50000000 elements, 200 MB; not read") != std::string::npos);
  CHECK(r.out.find("hash of all") == std::string::npos);
}

TEST_CASE("cli: an op whose outputs hang on what a shape does not say is bad input") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"kernels", "reshape", "--shape", "f32[2,3] i64[2]"},
           {"bench", "--shape", "top_k f32[2,3] i64[1]"},
           {"kernels", "loop", "--shape", "i64[] bool[] f32[3]"}}) {
    CAPTURE(words[1]);
    const Ran r = ran(words);
    CHECK(r.code == 3);
    CHECK_MESSAGE(r.err.find("give a network") != std::string::npos, r.err);
    CHECK(std::ranges::count(r.err, '\n') == 1);
  }
}

TEST_CASE("cli: bench answers 1 where what was asked for was not timed, and the record says why") {
  const test::TemporaryFolder own;
  const std::string path = own / "r.json";
  const auto bench = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    words.insert(words.end(), {"--threads", "1", "--min-time", "0.01", "--repetitions", "1",
                               "--no-errors", "--json", path});
    std::remove(path.c_str());
    return ran(words);
  };
  const auto record = [&] { return nlohmann::json::parse(read_text_file(path))["bench"]; };
  CHECK(bench({"--shape", "relu f32[32]"}).code == 0);
  CHECK(!record().contains("skipped"));

  const std::string huge = "conv f32[1,3,1000000,1000000] f32[4,3,3,3]";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--shape", huge}, {"--shape", huge, "--shape", "relu f32[32]"}}) {
    const Ran r = bench(words);
    CHECK(r.code == 1);
    CHECK(r.out.find("not timed: typed.f32[1,3,1000000,1000000]_f32[4,3,3,3]: its tensors take") !=
          std::string::npos);
    CHECK(record()["rows"].size() == words.size() / 2 - 1);
    CHECK(record()["skipped"].size() == 1);
  }
  const Ran nothing = bench({"relu", "--kernels", "tanh"});
  CHECK(nothing.code == 1);
  CHECK(record()["rows"].empty());
  CHECK(record()["skipped"].size() > 1);
  const Ran compared = ran({"bench", "--compare", path, path});
  CHECK(compared.code == 3);
  CHECK(compared.err.find("nothing was timed in this record (") != std::string::npos);
  // Of an op or a suite, what a kernel refuses is told, and the rest is what was asked for.
  CHECK(bench({"relu", "lenet.conv1", "--kernels", "relu"}).code == 1);
  CHECK(bench({"relu", "tanh", "--kernels", "relu"}).code == 0);
  CHECK(!record()["skipped"].empty());
}

TEST_CASE("cli: bench finds the command line's faults before it times anything") {
  const test::TemporaryFolder own;
  const std::string path = own / "r.json";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"lenet.conv1", "--vs", "onednn,pytorch:foo=bar"},
                                             {"model:lenet", "--vs", "pytorch:foo=bar"},
                                             {"model:lenet", "nonsense"},
                                             {"model:lenet", "--shape", "conv"},
                                             {"functions", "--cache", "hot"}}) {
    CAPTURE(words[1]);
    std::vector<std::string> all{"bench", "--threads", "1", "--json", path};
    all.insert(all.end(), words.begin(), words.end());
    const Ran r = ran(all);
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    CHECK(!std::filesystem::exists(path));
  }
  // Whatever keeps one network from being timed, the others have their rows.
  const Ran r =
      ran({"bench", "model:lenet", "model:lstm", "--data", "mnist", "--samples", "1", "--threads",
           "1", "--repetitions", "1", "--most-time", "0.01", "--json", path});
  CHECK(r.code == 1);
  const auto bench = nlohmann::json::parse(read_text_file(path))["bench"];
  CHECK(bench["rows"].size() == 1);
  REQUIRE(bench["skipped"].size() == 1);
  CHECK(bench["skipped"][0].get<std::string>().starts_with("model:lstm: --data serves"));
}

TEST_CASE("cli: bench records functions, networks and shapes of one run side by side") {
  const test::TemporaryFolder own;
  const std::string path = own / "r.json", program = "pytorch@/no such folder/it's/python3";
  const auto bench_of = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"bench", "--threads", "1", "--repetitions", "2", "--min-time",
                                 "0.01", "--most-time", "0.01", "--json", path});
    const Ran r = ran(words);
    CHECK_MESSAGE(r.code == 0, r.err);
    return nlohmann::json::parse(read_text_file(path))["bench"];
  };
  const auto functions = bench_of({"functions", "lenet.conv1", "--vs", "onednn"});
  std::size_t against = 0, shapes = 0;
  for (const auto& row : functions["rows"]) {
    CAPTURE(row["op"]);
    for (const char* field : {"again", "repetitions", "load", "hash", "cache", "samples"})
      CHECK_MESSAGE(row.contains(field), field);
    if (row["suite"] != "functions") {
      shapes += row.contains("vs") ? 1 : 0;
      continue;
    }
    if (!row.contains("vs")) continue;
    ++against;
    const auto& peer = row["vs"]["onednn"];
    CHECK(peer["kind"] == "library");
    CHECK(peer["status"] == "ok");
    CHECK(peer["hash"].get<std::string>().size() == row["hash"].get<std::string>().size());
    CHECK(peer["repetitions"] == peer["samples"].size());
  }
  // Where this build has oneDNN.
  if (against > 0) CHECK(functions["summary"]["functions.onednn"]["shapes"] == against);
  if (shapes > 0) CHECK(functions["summary"]["onednn"]["shapes"] == shapes);

  const auto networks = bench_of({"model:lenet", "lenet.conv1", "--batch", "1,2", "--vs", program});
  REQUIRE(networks["rows"].size() == 3);
  for (const auto& row : networks["rows"]) {
    const std::string again = row["again"];
    CHECK_MESSAGE(again.find("--vs 'pytorch@/no such folder/it'\\''s/python3' --threads 1") !=
                      std::string::npos,
                  again);
    CHECK(row["vs"][program]["kind"] == "framework");
    CHECK(row.contains("load"));
  }
  CHECK(networks["rows"][1]["again"].get<std::string>().starts_with(
      "etalon bench model:lenet --batch 2 -c seq"));
}
