// gpu_evidence: what a machine with a GPU shows, stage by stage, in one JSON object.
//   gpu_evidence OUT.json COMMIT STAGE [SECONDS [WORDS]]
//   gpu_evidence OUT.json COMMIT note STAGE TEXT
// Reads OUT.json where it is there, adds the stage's results, and writes the file anew after each
// of them, so that what a time limit, a lost device or a crash leaves behind is a whole record of
// what came before; a stage that is started again goes on behind it. No stage starts anything new
// beyond SECONDS. bench/gpu_evidence.sh runs the stages, each in a process of its own.
//   rows          every defined CUDA row, every case of tests/op_cases, fourteen contracts:
//                 hashes beside the CPU's
//   functions     every function over 4 194 304 floats of all magnitudes beside the CPU's
//   sizes         the tiled products at the sizes of bench/shapes: hashes beside the CPU's kernels
//   networks      output hashes, node by node and as one graph, with the time of one launch
//   tensor_cores  10^8 hostile cases of each format, by mma and by wgmma, beside the software model
//   vendors       cuBLAS's and cuDNN's rows: largest and mean error in ULP from the exact result
//   times         ours and the vendors' kernels over bench/shapes, interleaved in one run, on the
//                 device's clock, copies left out; with WORDS of shapes whose `OP NAME` has one
//   sanitize      the few cases that compute-sanitizer is to see; no device's name is taken
// Exit code 0: all hashes equal so far; 1: one is not; 3: no device; 5: the device was lost, 75: an
// entry did not end: start the stage again, it goes on behind what cut it off.
// The cases' reader stands in a file of tests; nothing of doctest runs here.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/libraries.h"
#include "tests/gpu/stages.h"

using namespace etalon;

int main(int argc, char** argv) {
  try {
    if (argc < 4)
      throw usage_error(
          "gpu_evidence OUT.json COMMIT STAGE [SECONDS], STAGE one of rows, functions, sizes, "
          "networks, tensor_cores, vendors, times, sanitize");
    const std::string stage = argv[3];
    if (stage == "note") {  // STAGE TEXT: what the script saw of a stage
      if (argc != 6) throw usage_error("gpu_evidence OUT.json COMMIT note STAGE TEXT");
      Record record(argv[1], 0, 90);
      record.all["commit"] = argv[2];
      record.all["stages"][argv[4]]["said"] = argv[5];
      record.write();
      return 0;
    }
    const Refusal none = cuda::refuse_without_device();
    if (stage == "sanitize") {
      if (none) {
        fmt::print(stderr, "gpu_evidence: {}\n", *none);
        return 3;
      }
      return run_sanitized() ? 0 : 1;
    }
    // The largest case beside the CPU takes some seconds there; a shape's times a few.
    Record record(argv[1], argc > 4 ? std::stod(argv[4]) : 1e9, stage == "times" ? 20 : 90);
    if (none) {
      record.all["commit"] = argv[2];
      record.all["stages"][stage]["said"] = *none;
      record.write();
      fmt::print(stderr, "gpu_evidence: {}\n", *none);
      return 3;
    }
    cuda::DeviceFacts facts;
    cuda::check(cuda::api().describe(&facts), "cudaGetDeviceProperties");
    record.all["device"] = cuda::device_name();
    record.all["memory_bytes"] = facts.memory_bytes;
    record.all["commit"] = argv[2];
    record.all["cublas"] = cuda::cublas().version;
    record.all["cudnn"] = cuda::cudnn().version;
    json& account = record.all["stages"][stage];
    if (!account.is_object()) account = json::object();
    account["processes"] = account.value("processes", 0) + 1;
    account["ended"] = false;
    const double began = clock_s();
    if (stage == "rows")
      run_rows(record);
    else if (stage == "functions")
      run_functions(record);
    else if (stage == "sizes")
      run_sizes(record);
    else if (stage == "networks")
      run_networks(record);
    else if (stage == "tensor_cores")
      run_tensor_cores(record, 100'000'000);
    else if (stage == "vendors")
      run_vendors(record);
    else if (stage == "times")
      run_times(record, argc > 5 ? std::span(argv + 5, argv + argc) : std::span<char*>());
    else
      throw usage_error("no stage '{}'", stage);
    account["ended"] = true;
    account["seconds"] = clock_s() - began;
    account["left_out_for_time"] = record.left_out();
    record.all["all_equal"] = record.all_equal();
    record.write();
    return record.all_equal() ? 0 : 1;
  } catch (const Error& e) {
    fmt::print(stderr, "gpu_evidence: {}\n", e.what());
    return device_is_lost(e) ? 5 : e.kind() == ErrorKind::usage ? 2 : 70;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpu_evidence: {}\n", e.what());
    return 70;
  }
}
