#include "bench/runners/install.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "bench/report/version.h"
#include "bench/runners/process.h"
#include "engine/core/error.h"

namespace etalon {
namespace {

namespace fs = std::filesystem;
constexpr Seconds kInstallPatience{3600};

std::string environment_of(const RunnerFolder& runner) {
  const std::string checkout(source_dir());
  if (::access(checkout.c_str(), W_OK) == 0)
    return fmt::format("{}/.etalon/runners/{}", checkout, runner.name);
  const char* home = std::getenv("HOME");
  return fmt::format("{}/.local/share/etalon/runners/{}", home == nullptr ? "" : home, runner.name);
}

void run(const std::vector<std::string>& command, std::string_view what) {
  Process process({.command = command, .environment = {{"DEBIAN_FRONTEND", "noninteractive"}}});
  std::string line;
  Process::Status status{};
  while ((status = process.receive_line(line, kInstallPatience)) == Process::Status::line) {
  }
  const bool ended = status == Process::Status::ended && process.wait_for_end(Seconds(60));
  if (ended && process.how_it_ended() == "exited with status 0") return;
  const std::string tail = process.error_tail(400);
  throw missing("{} did not work: {} {}{}{}", what, fmt::join(command, " "),
                ended ? process.how_it_ended() : "did not end", tail.empty() ? "" : "; ", tail);
}

}  // namespace

std::string install_summary(const RunnerFolder& runner) {
  if (!runner.debian.empty()) return fmt::format("apt-get: {}", fmt::join(runner.debian, ", "));
  return fmt::format("pip: {} into {}", fmt::join(runner.packages, ", "), environment_of(runner));
}

void install_runner(const RunnerFolder& runner) {
  if (!runner.debian.empty()) {
    std::vector<std::string> command{"apt-get", "install", "-y", "--no-install-recommends"};
    if (::geteuid() != 0) command.insert(command.begin(), "sudo");
    command.insert(command.end(), runner.debian.begin(), runner.debian.end());
    run(command, "installing Debian packages");
    return;
  }
  const std::string environment = environment_of(runner);
  try {
    run({"python3", "-m", "venv", environment}, "making a Python environment");
    std::vector<std::string> command{
        environment + "/bin/python",  "-m", "pip", "install", "--quiet",
        "--disable-pip-version-check"};
    command.insert(command.end(), runner.packages.begin(), runner.packages.end());
    run(command, "installing Python packages");
  } catch (...) {
    std::error_code error;
    fs::remove_all(environment, error);
    throw;
  }
}

}  // namespace etalon
