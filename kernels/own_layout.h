// A vendor's kernel in the layouts that its library chooses.
//
// Our tensors are row-major; a library may want blocks of channels side by side, and its row then
// converts x and y inside the run. In a network whose neighbours all keep that layout nothing is
// converted. Both are honest figures, so who times a kernel can have the second one too.
#pragma once

#include <memory>

#include "engine/backend/kernel.h"

namespace etalon {

// The same run, cut at its conversions: those of the inputs are done.
class OwnLayoutRun {
 public:
  virtual ~OwnLayoutRun() = default;
  virtual void work() = 0;    // as often as one likes
  virtual void finish() = 0;  // the outputs, row-major, into the call's tensors
};

// nullptr where the row's run converts nothing. `call` is prepared, and it and its tensors outlive
// what is returned.
std::unique_ptr<OwnLayoutRun> run_in_own_layout(const KernelRow& row, const KernelCall& call);

}  // namespace etalon
