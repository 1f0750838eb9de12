// The .xml holds layers with typed ports and the edges between them, the .bin the constants, which
// are read in place. Layers with bodies (body.cpp): the iterations of TensorIterator and of a Loop
// whose count is known are written one behind the other, an If computes both branches and takes the
// outputs of one. Refused by name: a Loop whose count hangs on data, layers that have no
// translation, versions before 10. Source: the public documentation of OpenVINO's IR
// (versions 10 and 11) and of its operation sets 1 to 16.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"
#include "importers/containers/xml.h"
#include "importers/formats/companion.h"
#include "importers/formats/openvino.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/openvino/network.h"

namespace etalon {
namespace openvino {
namespace {

Model open(const std::string& path, std::span<const std::string> with) {
  const std::string xml = companion(path, with, {".xml"}), bin = companion(path, with, {".bin"});
  const std::string& main = xml.empty() ? path : xml;
  const Blob file = map_file(main);
  const ErrorScope scope(main);
  const XmlElement net = parse_xml(file.text());
  if (net.name != "net")
    throw bad_input("an element {} where net is expected", printable(net.name));
  const std::string* version = net.find("version");
  if (version != nullptr && version->size() == 1)
    throw bad_input(
        "it is of IR version {}, which OpenVINO itself reads no more; convert the model again by "
        "its Model Optimizer of 2020.2 or later",
        printable(*version));
  GraphBuilder g(stem_of(main));
  Constants constants(bin == main ? "" : bin);
  Network network(net, g, constants, "", 0);
  network.translate_all();
  std::string producer = "OpenVINO";
  if (const XmlElement* info = net.child("rt_info"))
    if (const XmlElement* runtime = info->child("Runtime_version"))
      if (const std::string* v = runtime->find("value")) producer += " " + *v;
  return finish_model(g, path, "openvino",
                      "IR " + (version == nullptr ? std::string("?") : *version), producer);
}

bool match(const FileView& file) {
  if (file.is_folder) return false;
  const std::string_view text = file.text();
  const std::size_t net = text.find("<net ");
  return net != std::string_view::npos && net < 400 && text.find("<layers>") != text.npos &&
         text.substr(0, net).find_first_not_of(" \t\r\n\xef\xbb\xbf") ==
             std::min(text.find('<'), net);
}

}  // namespace

std::int64_t whole(const std::string& text) {
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size())
    throw bad_input("'{}' is no integer", printable(text));
  return v;
}

DType dtype_named(const std::string& name) {
  std::string lower;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "boolean") return DType::boolean;
  if (const auto d = find_dtype(lower)) return *d;
  throw bad_input("the type {} is not supported", printable(name));
}

std::vector<std::int64_t> parse_integers(std::string_view text) {
  std::vector<std::int64_t> out;
  while (!text.empty()) {
    const std::size_t cut = std::min(text.find(','), text.size());
    std::string part(text.substr(0, cut));
    std::erase(part, ' ');
    text.remove_prefix(std::min(cut + 1, text.size()));
    if (!part.empty()) out.push_back(whole(part));
    if (out.size() > 64) throw bad_input("a list of more than 64 integers");
  }
  return out;
}

ValueId Layer::input(std::size_t i) const {
  if (!has(i)) throw bad_input("{} has no input {}", type, i);
  return inputs[i];
}

DType Layer::dtype(std::size_t i) const {
  const ValueId v = input(i);
  if (!g.known(v) && i < said.size()) {
    const auto& told = said[i].dtype;
    if (told) return *told;
  }
  return g.dtype(v);
}

Ints Layer::dims(std::size_t i) const {
  const ValueId v = input(i);
  const bool says = i < said.size() && !said[i].dims.empty();  // none: a number, or any rank
  return g.known(v) || !says ? g.dims(v) : said[i].dims;
}

int Layer::rank(std::size_t i) const { return static_cast<int>(dims(i).size()); }

std::int64_t Layer::extent(std::size_t i, int axis) const {
  const Ints all = dims(i);
  const auto a = static_cast<std::size_t>(normalize_axis(axis, static_cast<int>(all.size())));
  if (all[a] < 0) throw bad_input("axis {} of input {} of {} has a free extent", axis, i, type);
  return all[a];
}

ValueId Layer::integers_of(std::size_t i) const {
  const ValueId v = input(i);
  if (dtype(i) == DType::i64) return v;
  return g.op("cast", fmt::format("{}.i64.{}", name, i), {v}, {{"to", std::string("i64")}});
}

const Tensor* Layer::elements(std::size_t i) const {
  if (const Tensor* t = g.constant_of(input(i))) return t;
  const auto [one, other] = g.known_elements(input(i));
  return one != nullptr && other != nullptr && std::ranges::equal(one->bytes(), other->bytes())
             ? one
             : nullptr;
}

bool Layer::known(std::size_t i) const { return elements(i) != nullptr; }

Ints Layer::constant(std::size_t i) const {
  const Tensor* t = elements(i);
  if (t == nullptr || is_floating(t->dtype()) || t->numel() > 64)
    throw bad_input("input {} of {} must be constant integers", i, type);
  Ints out;
  for (std::int64_t k = 0; k < t->numel(); ++k)
    out.push_back(t->dtype() == DType::i64 ? t->data<std::int64_t>()[static_cast<std::size_t>(k)]
                                           : static_cast<std::int64_t>(load_as_double(*t, k)));
  return out;
}

float Layer::constant_number(std::size_t i) const {
  const Tensor* t = g.constant_of(input(i));
  if (t == nullptr || t->numel() != 1)
    throw bad_input("input {} of {} must be one constant number", i, type);
  return static_cast<float>(load_as_double(*t, 0));
}

const std::string* Layer::find(std::string_view key) const {
  read->emplace(key);
  const auto at = data.find(key);
  return at == data.end() ? nullptr : &at->second;
}

std::string Layer::text(std::string_view key, std::string_view otherwise) const {
  const std::string* v = find(key);
  return v == nullptr ? std::string(otherwise) : *v;
}

Ints Layer::integers(std::string_view key, Ints otherwise) const {
  const std::string* v = find(key);
  return v == nullptr ? std::move(otherwise) : parse_integers(*v);
}

std::int64_t Layer::integer(std::string_view key, std::int64_t otherwise) const {
  const std::string* v = find(key);
  return v == nullptr ? otherwise : whole(*v);
}

float Layer::number(std::string_view key, float otherwise) const {
  const std::string* s = find(key);
  if (s == nullptr) return otherwise;
  double v = 0;  // an open end of Clamp is the largest f64
  const auto [end, error] = std::from_chars(s->data(), s->data() + s->size(), v);
  if (error != std::errc() || end != s->data() + s->size())
    throw bad_input("{}: '{}' is no number", key, printable(*s));
  if (std::abs(v) <= static_cast<double>(std::numeric_limits<float>::max()) || std::isnan(v))
    return static_cast<float>(v);
  return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(v > 0 ? 1 : -1));
}

bool Layer::flag(std::string_view key, bool otherwise) const {
  const std::string* v = find(key);
  return v == nullptr ? otherwise : *v == "true" || *v == "1";
}

}  // namespace openvino

const FormatRow& openvino_format() {
  static const FormatRow row{.name = "openvino",
                             .endings = ".xml",
                             .summary = "OpenVINO representation, with its .bin.",
                             .match = openvino::match,
                             .open = openvino::open,
                             .takes_more = true};
  return row;
}

}  // namespace etalon
