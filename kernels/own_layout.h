// A vendor's kernel in the layouts that its library chooses, the memory that it takes for them, and
// which of the library's implementations it is.
//
// Our tensors are row-major; a library may want blocks of channels side by side, and its row then
// converts x and y inside the run. In a network whose neighbours all keep that layout nothing is
// converted. Both are honest figures, so who times a kernel can have the second one too.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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

// In bytes, as the library tells.
struct LibraryMemory {
  std::int64_t kept = 0;       // constants in its layouts
  std::int64_t workspace = 0;  // scratch of a run, and x and y in its layouts
};
// nullopt where the library has no word for it.
std::optional<LibraryMemory> library_memory(const KernelRow& row, const KernelCall& call);

// The library's own name of the code that runs a prepared call, empty where it has none. Rows of
// one op that name the same one run the same code: what a library chooses by itself is mostly one
// of those that can be asked for.
std::string library_implementation(const KernelRow& row, const KernelCall& call);

}  // namespace etalon
