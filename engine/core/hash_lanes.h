// XXH3's inner loop in wider vectors than the baseline's: the same hash, as its authors define it
// for every vector width (tests/core_test.cpp holds the three to one another).
#pragma once

#include <cstddef>

namespace etalon {

// `state`: an XXH3_state_t.
void hash_update_avx2(void* state, const void* bytes, std::size_t count);
void hash_update_avx512(void* state, const void* bytes, std::size_t count);

}  // namespace etalon
