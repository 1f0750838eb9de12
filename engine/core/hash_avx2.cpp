#include "engine/core/hash_lanes.h"

// All of xxHash is static to this file: no copy of it can be merged with another file's.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace etalon {

void hash_update_avx2(void* state, const void* bytes, std::size_t count) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), bytes, count);
}

}  // namespace etalon
