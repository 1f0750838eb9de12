// What a failed CUDA call means, in one sentence: the call, what is the matter, what to do. Plain
// C++ over the runtime's published codes, so that every sentence is tested where there is no GPU.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "engine/core/error.h"

namespace etalon::cuda {

// `text` is the runtime's own (cudaGetErrorString), used where nothing better is known.
inline std::string failure_sentence(int code, std::string_view call, std::string_view text) {
  switch (code) {
    case 2:  // cudaErrorMemoryAllocation
      return fmt::format(
          "{}: the device is out of memory; take a smaller batch, or run with --device cpu", call);
    case 35:   // cudaErrorInsufficientDriver
    case 803:  // cudaErrorSystemDriverMismatch
      return fmt::format(
          "{}: the NVIDIA driver is older than the CUDA this program was built with; update the "
          "driver, or run with --device cpu",
          call);
    case 100:  // cudaErrorNoDevice
    case 101:  // cudaErrorInvalidDevice
      return fmt::format("{}: there is no CUDA device in this machine; run with --device cpu",
                         call);
    case 209:  // cudaErrorNoKernelImageForDevice
    case 218:  // cudaErrorInvalidPtx
    case 222:  // cudaErrorUnsupportedPtxVersion
      return fmt::format(
          "{}: this program has no code for the device's architecture (it has sm_80, sm_90a and "
          "PTX "
          "for newer ones); build with -DCMAKE_CUDA_ARCHITECTURES for it, or run with --device cpu",
          call);
    case 46:   // cudaErrorDevicesUnavailable
    case 214:  // cudaErrorECCUncorrectable
    case 220:  // cudaErrorNvlinkUncorrectable
    case 700:  // cudaErrorIllegalAddress
    case 702:  // cudaErrorLaunchTimeout
    case 709:  // cudaErrorContextIsDestroyed
    case 710:  // cudaErrorAssert
    case 714:  // cudaErrorHardwareStackError
    case 715:  // cudaErrorIllegalInstruction
    case 716:  // cudaErrorMisalignedAddress
    case 717:  // cudaErrorInvalidAddressSpace
    case 718:  // cudaErrorInvalidPc
    case 719:  // cudaErrorLaunchFailure
    case 721:  // cudaErrorContained
    case 999:  // cudaErrorUnknown
      return fmt::format(
          "{}: the device is lost ({}); nothing was copied back; start the program again, or run "
          "with "
          "--device cpu",
          call, text);
    default:
      return fmt::format("{} failed with {} ({}); run with --device cpu", call, code, text);
  }
}

// Throws a `missing` Error (exit code 4) with that sentence unless code is 0. Tensors on the host
// are as they were: results are copied back only after everything before succeeded.
inline void require_success(int code, std::string_view call, std::string_view text) {
  if (code != 0) throw missing("{}", failure_sentence(code, call, text));
}

}  // namespace etalon::cuda
