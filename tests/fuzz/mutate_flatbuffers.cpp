// Without a schema: from the root on, a field that points at something that can be a table is taken
// for one, at something that can be a vector for such. Then a scalar, a length, an offset or a slot
// of a vtable is changed in its place.
#include <algorithm>
#include <cstring>
#include <set>

#include "tests/fuzz/mutate.h"

namespace etalon::fuzz {
namespace {

struct Places {
  std::vector<std::size_t> tables, slots, fields, offsets, lengths;
};

class Walk {
 public:
  explicit Walk(const Bytes& file) : file_(file) {}
  Places places;

  bool table(std::size_t at, int depth) {
    if (depth > 24 || places.tables.size() > 5000 || at + 4 > file_.size()) return false;
    const auto back = static_cast<std::int32_t>(get(at, 4));
    const auto vtable = static_cast<std::int64_t>(at) - back;
    if (vtable < 4 || vtable + 4 > static_cast<std::int64_t>(file_.size())) return false;
    const auto v = static_cast<std::size_t>(vtable);
    const std::size_t bytes = get(v, 2), inline_bytes = get(v + 2, 2);
    if (bytes < 4 || bytes % 2 != 0 || bytes > 256 || v + bytes > file_.size() ||
        at + inline_bytes > file_.size() || inline_bytes < 4)
      return false;
    for (std::size_t s = 4; s < bytes; s += 2)
      if (get(v + s, 2) >= inline_bytes) return false;
    if (!seen_.insert(at).second) return true;
    places.tables.push_back(at);
    for (std::size_t s = 4; s < bytes; s += 2) {
      const std::size_t field = get(v + s, 2);
      if (field == 0) continue;
      places.slots.push_back(v + s);
      places.fields.push_back(at + field);
      follow(at + field, depth);
    }
    return true;
  }

 private:
  std::uint32_t get(std::size_t at, std::size_t width) const {
    std::uint32_t v = 0;
    std::memcpy(&v, file_.data() + at, width);
    return v;
  }
  void follow(std::size_t at, int depth) {
    if (at + 4 > file_.size()) return;
    const std::size_t to = at + get(at, 4);
    if (to <= at || to + 4 > file_.size() || to % 4 != 0) return;
    if (table(to, depth + 1)) {
      places.offsets.push_back(at);
      return;
    }
    const std::size_t n = get(to, 4);
    if (n == 0 || n > file_.size() - to - 4) return;
    places.offsets.push_back(at);
    places.lengths.push_back(to);
    if (n * 4 > file_.size() - to - 4 || n > 4096) return;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t element = to + 4 + 4 * i, target = element + get(element, 4);
      if (target > element && target + 4 <= file_.size() && table(target, depth + 1))
        places.offsets.push_back(element);
    }
  }

  const Bytes& file_;
  std::set<std::size_t> seen_;
};

}  // namespace

bool mutate_flatbuffers(Bytes& file, Draw& draw) {
  if (file.size() < 16) return false;
  // The file's identifier: four letters or digits behind the root's offset.
  for (std::size_t i = 4; i < 8; ++i)
    if (file[i] < '0' || file[i] > 'Z') return false;
  std::uint32_t root = 0;
  std::memcpy(&root, file.data(), 4);
  Walk walk(file);
  if (root % 2 != 0 || !walk.table(root, 0) || walk.places.fields.empty()) return false;
  const Places& p = walk.places;
  const auto some = [&](const std::vector<std::size_t>& from) {
    return from[draw.below(from.size())];
  };
  const auto write = [&](std::size_t at, std::uint64_t value, std::size_t width) {
    std::memcpy(file.data() + at, &value, std::min(width, file.size() - at));
  };
  switch (draw.below(8)) {
    case 0:
      write(some(p.slots), draw.one_in(2) ? 0 : 4 + draw.below(40), 2);
      break;
    case 1:
      if (!p.offsets.empty()) {
        const std::size_t at = some(p.offsets), to = some(p.tables);
        write(at, draw.one_in(3) ? draw.number() : to - at, 4);
      }
      break;
    case 2:
      if (!p.lengths.empty()) write(some(p.lengths), draw.number(), 4);
      break;
    case 3:
      if (!p.lengths.empty()) {  // an element of a vector
        const std::size_t at = some(p.lengths);
        std::uint32_t n = 0;
        std::memcpy(&n, file.data() + at, 4);
        const std::size_t width = std::size_t{1} << draw.below(3);
        write(std::min(at + 4 + draw.below(n) / width * width, file.size() - 1), draw.number(),
              width);
      }
      break;
    case 4: {
      const std::size_t a = some(p.fields), b = some(p.fields);
      std::uint32_t from = 0;
      std::memcpy(&from, file.data() + a, std::min<std::size_t>(4, file.size() - a));
      write(b, from, 1 + draw.below(4));
      break;
    }
    default:
      write(some(p.fields), draw.number(), std::size_t{1} << draw.below(4));
  }
  return true;
}

}  // namespace etalon::fuzz
