#include "bench/compare/parameter_check.h"

#include <cstring>

#include "engine/core/hash.h"
#include "engine/numerics/element.h"

namespace etalon {

using nlohmann::json;

ParameterCheck check_parameters(const Graph& graph, const TensorMap& theirs) {
  ParameterCheck check;
  std::int64_t equal = 0;
  json changed = json::array();
  for (const auto& [v, ours] : graph.initializers) {
    const std::string& n = graph.value_name(v);
    const auto at = theirs.find(n);
    if (at == theirs.end()) continue;
    const Tensor& t = at->second;
    if (t.dtype() == ours.dtype() && t.numel() == ours.numel() &&
        hash_bytes(t.bytes()) == hash_bytes(ours.bytes())) {
      ++equal;
      continue;
    }
    json entry = {{"name", n}};
    std::string cause;
    if (!(t.dtype() == ours.dtype()) || t.numel() != ours.numel()) {
      cause = fmt::format("parameter {} is {}, in the file it is {}", n, to_string(t.type()),
                          to_string(ours.type()));
    } else {
      const auto size = static_cast<std::size_t>(size_bytes(ours.dtype()));
      std::int64_t first = -1, count = 0;
      for (std::int64_t i = 0; i < ours.numel(); ++i)
        if (std::memcmp(ours.bytes().data() + static_cast<std::size_t>(i) * size,
                        t.bytes().data() + static_cast<std::size_t>(i) * size, size) != 0) {
          if (first < 0) first = i;
          ++count;
        }
      int bit = -1, bits = 0;
      for (std::size_t b = 0; b < size; ++b) {
        const std::size_t at_byte = static_cast<std::size_t>(first) * size + b;
        const auto x = static_cast<unsigned>(ours.bytes()[at_byte] ^ t.bytes()[at_byte]);
        for (int k = 0; k < 8; ++k)
          if ((x >> k & 1U) != 0) {
            if (bit < 0) bit = static_cast<int>(b) * 8 + k;
            ++bits;
          }
      }
      entry["element"] = first;
      entry["bit"] = bit;
      entry["elements_changed"] = count;
      entry["expected"] = fmt::format("{:a}", load_as_double(ours, first));
      entry["got"] = fmt::format("{:a}", load_as_double(t, first));
      cause = count == 1 && bits == 1
                  ? fmt::format("bit {} of element {} of parameter {} is flipped", bit, first, n)
                  : fmt::format(
                        "parameter {} is not the file's: {} of {} elements differ, first "
                        "element {} ({} instead of {})",
                        n, count, ours.numel(), first, entry["got"].get_ref<const std::string&>(),
                        entry["expected"].get_ref<const std::string&>());
    }
    check.cause[n] = cause;
    entry["cause"] = cause;
    changed.push_back(entry);
  }
  check.record = {{"equal", equal}, {"changed", changed}};
  return check;
}

}  // namespace etalon
