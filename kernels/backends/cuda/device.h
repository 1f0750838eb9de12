// What the rest of the build knows of CUDA: whether a device is here. No CUDA header is needed.
#pragma once

#include <string>

#include "engine/backend/kernel.h"

namespace etalon::cuda {

// nullopt when a device can be used; otherwise one sentence (no driver, no device, too old). Never
// crashes on a machine without a GPU: the runtime is linked statically and opens the driver when
// first called.
Refusal refuse_without_device();
// "NVIDIA H200, sm_90, driver 13.0"; empty without a device.
std::string device_name();

}  // namespace etalon::cuda
