// Installs what a runner needs: Debian packages through apt-get, Python packages into an
// environment of the runner's own (.etalon/runners/NAME in the checkout when that can be written,
// ~/.local/share/etalon/runners/NAME otherwise), so that no framework disturbs another.
#pragma once

#include <string>

#include "bench/runners/target.h"

namespace etalon {

// "pip: onnxruntime==1.31.1, ... into PATH" or "apt-get: python3-torch".
std::string install_summary(const RunnerFolder& runner);

// Throws a missing Error with the installer's last words. A half-made environment is removed.
void install_runner(const RunnerFolder& runner);

}  // namespace etalon
