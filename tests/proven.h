// What a golden test proved, as a line that tests/proven.sh gathers from every build into one
// table.
#pragma once

#include <fmt/format.h>

#include <iostream>
#include <string_view>
#include <vector>

#include "engine/core/cpu.h"

namespace etalon {

struct Proven {
  int runs = 0, equal = 0;
  // Returns `same`, for the CHECK.
  bool count(bool same) {
    ++runs;
    equal += same ? 1 : 0;
    return same;
  }
  void print(std::string_view what) const {
    std::cout << fmt::format("proven: {} {} of {}\n", what, equal, runs);
  }
};

// The instruction sets that this machine has, the widest last.
inline std::vector<Isa> instruction_sets() {
  std::vector<Isa> list;
  for (const Isa isa : {Isa::sse2, Isa::avx2, Isa::avx512, Isa::amx})
    if (isa <= detect_isa()) list.push_back(isa);
  return list;
}

}  // namespace etalon
