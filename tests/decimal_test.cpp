// Claim: decimals in files mean the same under every locale of the process: they are read as C's,
// and no source reads or writes one by a function that asks.
#include "importers/containers/decimal.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "engine/core/file.h"

using namespace etalon;

TEST_CASE("decimal: numbers at the start of a text, and those beyond the range") {
  struct Case {
    const char* text;
    double value;
    std::size_t used;
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const auto& [text, value, used] : {Case{"0.001)", 0.001, 5},
                                          {"+1.5,2", 1.5, 4},
                                          {"-2e3", -2000, 4},
                                          {".5", 0.5, 2},
                                          {"1,5", 1, 1},
                                          {"1e400", kInf, 5},
                                          {"-1e400 ", -kInf, 6},
                                          {"1e-400", 0, 6},
                                          {"5e-324", 5e-324, 6},
                                          {"-inf", -kInf, 4},
                                          {"+-1", 0, 0},
                                          {"+", 0, 0},
                                          {"x", 0, 0},
                                          {"", 0, 0}}) {
    CAPTURE(text);
    const Decimal d = read_decimal(text);
    CHECK(d.value == value);
    CHECK(d.used == used);
  }
  CHECK(read_decimal(std::string(400, '9')).value == kInf);
  CHECK(read_decimal("0." + std::string(400, '0') + "1").value == 0);
  CHECK(read_decimal("0." + std::string(400, '0') + "1").used == 403);
}

TEST_CASE("decimal: no source asks the locale") {
  namespace fs = std::filesystem;
  int files = 0;
  for (const char* layer : {"engine", "kernels", "importers", "adversarial", "bench"})
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(ETALON_SOURCE_DIR) / layer)) {
      const auto ending = entry.path().extension();
      if (ending != ".cpp" && ending != ".h" && ending != ".cu") continue;
      ++files;
      const std::string text = read_text_file(entry.path());
      for (const char* name : {"strtod(", "strtof(", "strtold(", "stod(", "stof(", "stold(",
                               "atof(", "sscanf(", "snprintf("})
        CHECK_MESSAGE(text.find(name) == std::string::npos, entry.path().string(), ": ",
                      std::string(name));
    }
  CHECK(files > 80);
}
