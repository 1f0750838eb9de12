// Threads over the products of a batch: whole products each where there are enough of them, else
// all threads inside one product after the other.
#pragma once

#include <cstdint>

#include "engine/core/threads.h"

namespace etalon {

// product(batch, threads) for each batch.
template <class Product>
void each_product(std::int64_t batches, int threads, const Product& product) {
  if (batches < 2L * threads) {
    for (std::int64_t i = 0; i < batches; ++i) product(i, threads);
    return;
  }
  parallel_for(batches, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) product(i, 1);
  });
}

}  // namespace etalon
