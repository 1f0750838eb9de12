#include "importers/formats/darknet/file.h"

#include <algorithm>
#include <charconv>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon::darknet {

std::string Section::text(std::string_view key, std::string_view otherwise) const {
  const auto at = options.find(key);
  read.emplace(key);
  return at == options.end() ? std::string(otherwise) : at->second;
}

std::int64_t Section::integer(std::string_view key, std::int64_t otherwise) const {
  const Ints all = integers(key);
  return all.empty() ? otherwise : all[0];
}

float Section::number(std::string_view key, float otherwise) const {
  const std::string all = text(key, "");
  float v = otherwise;
  if (all.empty()) return v;
  const auto r = std::from_chars(all.data(), all.data() + all.size(), v);
  if (r.ec != std::errc() || r.ptr != all.data() + all.size())
    throw bad_input("{} = '{}' is no number", key, printable(all));
  return v;
}

Ints Section::integers(std::string_view key) const {
  Ints out;
  const std::string all = text(key, "");
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find(',', at), all.size());
    std::int64_t v = 0;
    const auto r = std::from_chars(all.data() + at, all.data() + end, v);
    if (r.ec != std::errc() || v > 1 << 24 || v < -(1 << 24))
      throw bad_input("{} = '{}' is no whole number", key, printable(all));
    out.push_back(v);
    at = end + 1;
  }
  return out;
}

void Section::ordinary(std::string_view key, std::int64_t value) const {
  if (const float v = number(key, static_cast<float>(value)); v != static_cast<float>(value))
    throw bad_input("the option {}={} is not supported; only {} is", key, v, value);
}

std::vector<Section> sections_of(std::string_view text) {
  std::vector<Section> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line;
    for (const char c : text.substr(0, end))
      if (c != ' ' && c != '\t' && c != '\r') line.push_back(c);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      out.push_back({line.substr(1, line.find(']') - 1), {}, {}});
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || out.empty())
      throw bad_input("the line '{}' is neither a section nor an option", printable(line));
    out.back().options[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return out;
}

Weights::Weights(const Blob& file) : file_(file) {
  if (file.bytes.size() < 20)
    throw bad_input(
        "{} bytes, where Darknet's weights begin with a header of 20; the file is cut short, "
        "fetch it again",
        file.bytes.size());
  const auto major = load_le<std::int32_t>(file.bytes, 0),
             minor = load_le<std::int32_t>(file.bytes, 4);
  at_ = major * std::int64_t{10} + minor >= 2 && major < 1000 && minor < 1000 ? 20 : 16;
  transposed = major > 1000 || minor > 1000;
  const auto revision = load_le<std::int32_t>(file.bytes, 8);
  fork = revision != 0;  // 5 there, always 0 in pjreddie's
  version = fmt::format("{}.{}.{}", major, minor, revision);
}

Tensor Weights::take(const Shape& shape) {
  const TensorType type{DType::f32, shape};
  const std::size_t size = claimed_bytes(type);
  if (size > file_.bytes.size() - at_)
    throw bad_input("the weights end before its {} bytes; the files do not belong together", size);
  Tensor t = tensor_from_bytes(type, {file_.bytes.subspan(at_, size), file_.keeper});
  at_ += size;
  return t;
}

}  // namespace etalon::darknet
