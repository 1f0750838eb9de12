// The lines of 'etalon kernels OP': neighbours that say the same of kernels whose names differ in a
// number alone (a library's engines) are one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace etalon::cli {

struct KernelLine {
  std::string mark, first, needs, promises, here;
  std::string last = {};  // of several
};

// "engine#_tf#" of "engine12_tf32".
inline std::string without_numbers(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c < '0' || c > '9')
      text += c;
    else if (text.empty() || text.back() != '#')
      text += '#';
  return text;
}

inline void add_line(std::vector<KernelLine>& lines, KernelLine line) {
  if (!lines.empty()) {
    KernelLine& before = lines.back();
    if (before.mark == line.mark && before.needs == line.needs &&
        before.promises == line.promises && before.here == line.here &&
        before.promises.starts_with("nothing") &&
        without_numbers(before.first) == without_numbers(line.first)) {
      before.last = std::move(line.first);
      return;
    }
  }
  lines.push_back(std::move(line));
}

}  // namespace etalon::cli
