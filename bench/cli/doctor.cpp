// etalon doctor: what this machine offers, what is missing, and the command that adds it.
//
// Only looks: it asks interpreters which modules they have and installs nothing. A missing optional
// part is no failure; the exit code is 1 only if a kernel gives wrong bits here.
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/self_check.h"
#include "bench/cli/terminal.h"
#include "bench/report/record.h"
#include "bench/report/version.h"
#include "bench/runners/target.h"
#include "engine/core/threads.h"
#include "kernels/backends/cuda/api.h"
#include "kernels/backends/cuda/libraries.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

struct Finding {
  std::string what;
  bool present;
  std::string detail;
  std::string remedy;  // empty when present, or when nothing can be done
  bool wrong_bits = false;
};

// Asks the driver itself, so that a machine without one needs no CUDA library to say so.
Finding find_gpu() {
  Finding f{"NVIDIA GPU", false, "no driver (libcuda.so.1)", "only needed for --device cuda"};
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return f;
  const auto symbol = [&]<class F>(F*, const char* name) {
    return reinterpret_cast<F*>(dlsym(driver, name));
  };
  const auto init = symbol(static_cast<int (*)(unsigned)>(nullptr), "cuInit");
  const auto count_of = symbol(static_cast<int (*)(int*)>(nullptr), "cuDeviceGetCount");
  const auto name_of = symbol(static_cast<int (*)(char*, int, int)>(nullptr), "cuDeviceGetName");
  const auto version_of = symbol(static_cast<int (*)(int*)>(nullptr), "cuDriverGetVersion");
  int count = 0;
  if (init == nullptr || count_of == nullptr || name_of == nullptr || version_of == nullptr ||
      init(0) != 0 || count_of(&count) != 0 || count == 0) {
    f.detail = "the driver is there and finds no device";
    return f;
  }
  char text[128] = "";
  int driver_version = 0;
  name_of(text, sizeof text, 0);
  version_of(&driver_version);
  return {"NVIDIA GPU", true,
          fmt::format("{} x {}, driver for CUDA {}.{}", count, text, driver_version / 1000,
                      driver_version % 1000 / 10),
          ""};
}

std::vector<Finding> examine(const Globals& g) {
  std::vector<Finding> found;
  const Isa have = detect_isa();
  found.push_back({"CPU", true, cpu_model(), ""});
  found.push_back(
      {"Instruction set", have >= Isa::avx2,
       have == g.isa ? std::string(name(have))
                     : fmt::format("{}, capped to {}", name(have), name(g.isa)),
       have >= Isa::avx2 ? "" : "without AVX2 the engine runs, slowly, to the same bits"});
  const SelfCheck check = check_kernels(g.isa);
  if (check.compared == 0)
    found.push_back(
        {"Self-check", false,
         fmt::format("{} has no fast row of gemm or conv, nothing was compared", name(g.isa)),
         "a look without --isa compares those of this processor"});
  else
    found.push_back({"Self-check", check.wrong.empty(),
                     check.wrong.empty()
                         ? fmt::format("{} fast rows of gemm and conv have their definitions' bits",
                                       check.compared)
                         : fmt::format("wrong bits: {}", fmt::join(check.wrong, "; ")),
                     "this binary must not be used: build it with another compiler and report it"});
  found.back().wrong_bits = !check.wrong.empty();
  found.push_back({"Processors", true, fmt::format("{}", hardware_threads()), ""});
  found.push_back(find_gpu());
  found.push_back({"CUDA kernels", cuda::runtime_api() != nullptr,
                   cuda::runtime_api() != nullptr ? "in this build" : "not in this build",
                   "only needed for --device cuda: './etalon demo --cuda' builds with them"});
  for (const auto& [name, library] :
       {std::pair{"cuBLAS", &cuda::cublas()}, std::pair{"cuDNN", &cuda::cudnn()}})
    found.push_back({name, library->handle != nullptr,
                     library->handle != nullptr ? library->version : library->reason,
                     "only needed for a vendor's kernels on a GPU"});
  // Vendors' kernels by library, each once.
  std::map<std::string, std::string> vendors;
  for (const KernelRow* row : all_kernels().all())
    // Those of a GPU were looked at above.
    if (row->promise == Promise::vendor && row->device == Device::cpu && row->version != nullptr)
      vendors.emplace(row->name.substr(0, row->name.find('.')), row->version());
  for (const auto& [library, text] : vendors)
    found.push_back({"Library " + library, !text.empty(),
                     text.empty() ? "not on this machine" : text,
                     text.empty() ? "apt install libopenblas0-pthread" : ""});
  if (!vendors.contains("onednn"))
    found.push_back({"Library onednn", false, "not in this build",
                     "./etalon builds with it; by hand: -DCMAKE_PREFIX_PATH=.etalon/venv"});
  for (const FrameworkState& state : framework_states()) {
    std::string versions;
    for (const auto& [module, text] : state.interpreter.versions)
      versions += (versions.empty() ? "" : ", ") + module + " " + text;
    found.push_back({state.runner.framework, state.ready,
                     state.ready ? versions + " in " + state.interpreter.path : state.reason,
                     fmt::format("etalon frameworks add {}", state.runner.name)});
  }
  return found;
}

}  // namespace

Action doctor_command(Options&) {
  return [](const Globals& g) {
    fmt::print("etalon {} ({}), {} {}\n\n", version(), commit(), compiler(), build_type());
    Table table({{""}, {""}, {""}, {""}});
    nlohmann::json record = base_record(g.command_line, g.isa);
    bool wrong_bits = false;
    for (const Finding& f : examine(g)) {
      wrong_bits = wrong_bits || f.wrong_bits;
      table.row({f.present ? coloured("✓", Colour::green) : coloured("–", Colour::yellow), f.what,
                 f.detail, f.present ? "" : f.remedy});
      record["doctor"].push_back(
          {{"what", f.what}, {"present", f.present}, {"detail", f.detail}, {"remedy", f.remedy}});
    }
    table.print();
    if (!g.json_path.empty()) write_record(g.json_path, record);
    return wrong_bits ? 1 : 0;
  };
}

}  // namespace etalon::cli
