// The table of all kernels, and selection with reasons.
#pragma once

#include <string>
#include <vector>

#include "engine/backend/kernel.h"

namespace etalon {

struct KernelRefusal {
  const KernelRow* row;
  std::string reason;
};

struct Selection {
  const KernelRow* row = nullptr;      // nullptr: nobody can
  std::vector<KernelRefusal> refused;  // those asked before it, in order
};

class Registry {
 public:
  // Rows of one op are asked in the order they were added: fastest first, the definition last.
  void add(std::span<const KernelRow> rows);
  std::vector<const KernelRow*> rows_of(std::string_view op) const;
  std::vector<const KernelRow*> all() const;

  // The first defined row that does not refuse. With `wanted` (a row's name or a prefix of it, up
  // to a dot: "onednn"), only matching rows are asked, vendor rows among them. Never falls back in
  // silence.
  Selection select(const Problem& problem, std::string_view wanted = {}) const;
  // As select, but throws a usage Error that names op, contract and the first refusals.
  const KernelRow& require(const Problem& problem, std::string_view wanted = {}) const;

 private:
  std::vector<const KernelRow*> rows_;
};

}  // namespace etalon
