// Formats that do not say how large their images are: what is tried, in this sequence, against the
// inner products behind the convolutions, which fix it.
#pragma once

#include <array>
#include <cstdint>

namespace etalon {

inline constexpr std::array<std::int64_t, 24> kUsualExtents{28,  224, 32,  299, 227, 231, 64,  96,
                                                            112, 48,  128, 160, 192, 256, 331, 384,
                                                            416, 512, 16,  20,  24,  40,  56,  80};

}  // namespace etalon
