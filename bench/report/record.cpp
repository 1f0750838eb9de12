#include "bench/report/record.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/report/version.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/core/threads.h"

namespace etalon {
namespace {

std::string os_name() {
  std::string pretty = "unknown";
  std::ifstream release("/etc/os-release");
  for (std::string line; std::getline(release, line);)
    if (line.starts_with("PRETTY_NAME=\"")) pretty = line.substr(13, line.size() - 14);
  utsname u{};
  if (uname(&u) == 0) pretty += std::string(", Linux ") + u.release;
  return pretty;
}

void spell_non_finite(nlohmann::json& value) {
  if (value.is_number_float()) {
    const double x = value.get<double>();
    if (std::isnan(x))
      value = "nan";
    else if (std::isinf(x))
      value = x > 0 ? "inf" : "-inf";
  } else if (value.is_structured()) {
    for (nlohmann::json& child : value) spell_non_finite(child);
  }
}

int g_record_fd = STDOUT_FILENO;

}  // namespace

void keep_stdout_for_record() {
  std::fflush(stdout);
  g_record_fd = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

nlohmann::json base_record(std::string_view command_line, Isa isa) {
  return {{"etalon", {{"version", version()}, {"commit", commit()}}},
          {"machine",
           {{"cpu", cpu_model()},
            {"isa", name(isa)},
            {"cores", hardware_threads()},
            {"os", os_name()},
            {"compiler", compiler()}}},
          {"command", command_line}};
}

void write_record(const std::string& path, const nlohmann::json& record) {
  nlohmann::json spelled = record;
  spell_non_finite(spelled);
  // Text from a model file may be no UTF-8; such bytes are shown as U+FFFD.
  const std::string text =
      spelled.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (path != "-") return write_file(path, text);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(g_record_fd, text.data() + done, text.size() - done);
    if (n <= 0) throw bad_input("the record could not be written to standard output");
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace etalon
