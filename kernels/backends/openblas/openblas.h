// OpenBLAS, opened when a row of it is first asked for: nothing is linked, and a machine without it
// refuses the rows with the package's name.
//
// The library as the system has it (libopenblas.so.0), its C interface, its own threads. It picks a
// kernel for the processor by itself; `version` says which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/backend/kernel.h"

namespace etalon::openblas {

// nullopt when the library is there and the problem is f32 on the machine's own instruction set.
Refusal refuse(const Problem& problem);
// "OpenBLAS 0.3.21 ... SkylakeX"; empty where it is not installed.
std::string version();

// c[m,n] = alpha * op(a) op(b) + beta * c, row-major with leading extents, on `threads` threads.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  const float* a = nullptr;
  std::int64_t lda = 0;
  bool trans_a = false;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  bool trans_b = false;
  float* c = nullptr;
  std::int64_t ldc = 0;
};
void sgemm(const Product& p, int threads);

}  // namespace etalon::openblas
