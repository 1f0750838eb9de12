#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace etalon {

// n copies of one element: by copies of a page of them, for which the C library has the processor's
// widest stores; std::fill of anything but bytes stores them one by one at -O2.
template <class U>
void fill_run(U* to, std::int64_t n, U value) {
  constexpr std::int64_t kFirst = 64, kPage = 4096 / static_cast<std::int64_t>(sizeof(U));
  std::fill_n(to, std::min(n, kFirst), value);
  for (std::int64_t done = kFirst; done < n;) {
    const std::int64_t more = std::min({done, n - done, kPage});
    std::memcpy(to + done, to, static_cast<std::size_t>(more) * sizeof(U));
    done += more;
  }
}

}  // namespace etalon
