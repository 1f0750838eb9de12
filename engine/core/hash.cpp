#include "engine/core/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>

#include "engine/core/cpu.h"
#include "engine/core/hash_lanes.h"

namespace etalon {
namespace {

void update_state(XXH3_state_t* state, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  constexpr std::size_t kWide = 1024;  // shorter pieces gain nothing from wide vectors
  if (bytes.size() >= kWide) {
    if (detect_isa() >= Isa::avx512) return hash_update_avx512(state, bytes.data(), bytes.size());
    if (detect_isa() >= Isa::avx2) return hash_update_avx2(state, bytes.data(), bytes.size());
  }
#endif
  XXH3_128bits_update(state, bytes.data(), bytes.size());
}

}  // namespace

static_assert(std::endian::native == std::endian::little,
              "tensor bytes are hashed and written as they lie in memory");

struct HashStream::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

HashStream::HashStream() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
HashStream::~HashStream() = default;

void HashStream::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) update_state(state_->xxh, bytes);
}

void HashStream::update(std::string_view text) {
  update(std::as_bytes(std::span(text.data(), text.size())));
}

void HashStream::update(const Tensor& tensor) {
  update(to_string(tensor.type()) + "\n");
  update(tensor.bytes());
}

Hash128 HashStream::digest() const {
  const XXH128_hash_t h = XXH3_128bits_digest(state_->xxh);
  return {h.high64, h.low64};
}

std::string to_string(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  HashStream stream;
  stream.update(bytes);
  return stream.digest();
}

Hash128 hash_tensor(const Tensor& tensor) {
  HashStream stream;
  stream.update(tensor);
  return stream.digest();
}

}  // namespace etalon
