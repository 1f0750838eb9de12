// Models that ONNX Runtime's own tools wrote (tests/fixtures/make_onnxruntime.py), against what it
// computed from these very files.
#include <doctest/doctest.h>

#include <set>
#include <sstream>

#include "engine/numerics/element.h"
#include "tests/import_run.h"
#include "tests/importer_files.h"

using namespace etalon;
using namespace etalon::test;

namespace {

struct IndexLine {
  std::string file, agree;
  std::vector<std::string> operators;
};

std::vector<IndexLine> index_lines() {
  std::vector<IndexLine> lines;
  std::istringstream index(read_bytes(fixture("onnxruntime/index.txt")));
  for (std::string line; std::getline(index, line);) {
    std::istringstream words(line);
    IndexLine l;
    words >> l.file >> l.agree;
    for (std::string o; words >> o;) l.operators.push_back(o);
    lines.push_back(std::move(l));
  }
  return lines;
}

double element(const Tensor& t, std::int64_t i) { return load_as_double(t, i); }

// The largest difference as a share of the largest magnitude; equal bits give 0, NaN meets NaN.
double difference(const Tensor& got, const Tensor& want) {
  double scale = 1e-30, most = 0;
  for (std::int64_t i = 0; i < want.numel(); ++i)
    if (std::isfinite(element(want, i))) scale = std::max(scale, std::abs(element(want, i)));
  for (std::int64_t i = 0; i < want.numel(); ++i) {
    const double g = element(got, i), w = element(want, i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    most = std::max(most, std::isfinite(g - w) ? std::abs(g - w) / scale : 1e300);
  }
  return most;
}

}  // namespace

TEST_CASE("onnxruntime: what its tools write runs to its own outputs") {
  std::set<std::string> operators;
  int compared = 0, identical = 0;
  for (const IndexLine& line : index_lines()) {
    CAPTURE(line.file);
    const std::string path = fixture("onnxruntime/" + line.file);
    try {
      const Model model = open_model(path);
      NamedTensors inputs, want;
      for (NamedTensor& t : load_tensors(path + ".npz")) {
        const bool out = t.name.starts_with("out.");
        (out ? want : inputs).emplace(out ? t.name.substr(4) : t.name, std::move(t.tensor));
      }
      const Trace trace = run(model, inputs);
      REQUIRE(trace.outputs.size() == want.size());
      for (const auto& [name, got] : trace.outputs) {
        CAPTURE(name);
        const Tensor& expected = want.at(name);
        CHECK(to_string(got.type()) == to_string(expected.type()));
        if (got.type() != expected.type()) continue;
        const double d = difference(got, expected);
        if (line.agree == "identical" || !is_floating(got.dtype())) {
          CHECK(d == 0);
          ++identical;
        } else {
          CHECK(d <= std::stod(line.agree));
        }
        ++compared;
      }
      operators.insert(line.operators.begin(), line.operators.end());
    } catch (const Error& e) {
      FAIL_CHECK(std::string(e.what()));
    }
  }
  MESSAGE(compared << " outputs, " << identical << " of them in every bit, of " << operators.size()
                   << " operators of other domains");
  CHECK(operators.size() >= 45);
  CHECK(identical >= 50);
}

TEST_CASE("onnxruntime: a layout of the machine that saved it is refused with advice") {
  try {
    open_model(fixture("onnxruntime/cnn_nchwc.onnx"));
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    const std::string what = e.what();
    CHECK(what.find("com.microsoft.nchwc.Conv") != std::string::npos);
    CHECK(what.find("ORT_ENABLE_EXTENDED") != std::string::npos);
  }
}

TEST_CASE("onnxruntime: a setting without a meaning is refused in one sentence") {
  std::istringstream expected(read_bytes(fixture("onnxruntime/refused.txt")));
  int files = 0;
  for (std::string line; std::getline(expected, line); ++files) {
    const std::size_t tab = line.find('\t');
    const std::string path = fixture("onnxruntime/bad/" + line.substr(0, tab));
    CAPTURE(path);
    try {
      open_model(path);
      FAIL_CHECK("accepted");
    } catch (const Error& e) {
      const std::string what = e.what();
      CHECK(e.kind() == ErrorKind::bad_input);
      CHECK(what.starts_with(path + ": node "));
      CHECK_MESSAGE(what.find(line.substr(tab + 1)) != std::string::npos, what);
    }
  }
  CHECK(files >= 30);
}

TEST_CASE("onnxruntime: a damaged file opens or is refused") {
  const TemporaryFolder folder;
  const std::string path = folder / "damaged.onnx";
  std::uint32_t state = 1;
  const auto draw = [&](std::size_t below) {
    state = state * 1664525U + 1013904223U;
    return static_cast<std::size_t>(state >> 8U) % below;
  };
  int opened = 0, refused = 0;
  for (const char* name :
       {"lstm_dynamic_extended", "operators_attention", "operators_cache", "operators_float",
        "operators_integer", "operators_learning", "operators_n_bits"}) {
    const std::string good = read_bytes(fixture("onnxruntime/" + std::string(name) + ".onnx"));
    for (int i = 0; i < 150; ++i) {
      std::string bytes = good;
      for (std::size_t flips = 1 + draw(3); flips > 0; --flips)
        bytes[draw(bytes.size())] ^= static_cast<char>(1U << draw(8));
      write_bytes(path, bytes);
      CAPTURE(name);
      CAPTURE(i);
      try {
        open_model(path);
        ++opened;
      } catch (const Error& e) {
        CHECK_MESSAGE(e.kind() == ErrorKind::bad_input, std::string(e.what()));
        ++refused;
      }
    }
  }
  MESSAGE(opened << " opened, " << refused << " refused");
  CHECK(refused > 300);
  CHECK(opened > 100);
}
