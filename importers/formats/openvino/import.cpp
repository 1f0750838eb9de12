// The .xml holds layers with typed ports and the edges between them, the .bin the constants, which
// are read in place. Refused by name: bodies inside layers (If, Loop, TensorIterator), layers that
// have no translation, types of less than a byte. Source: the public documentation of OpenVINO's
// IR (versions 10 and 11) and of its operation sets 1 to 16.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"
#include "importers/containers/xml.h"
#include "importers/formats/companion.h"
#include "importers/formats/openvino.h"
#include "importers/formats/openvino/layer.h"

namespace etalon {
namespace openvino {
namespace {

using Port = std::pair<std::int64_t, std::int64_t>;  // layer, port

std::int64_t whole(const std::string& text) {
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size())
    throw bad_input("'{}' is no integer", printable(text));
  return v;
}

class Network {
 public:
  Network(const XmlElement& net, const std::string& path, std::string weights)
      : g(stem_of(path)), weights_(std::move(weights)) {
    const XmlElement* layers = net.child("layers");
    const XmlElement* edges = net.child("edges");
    if (layers == nullptr || edges == nullptr) throw bad_input("no layers or no edges in it");
    for (const XmlElement& e : edges->children) {
      const Port to{whole(e.attribute("to-layer")), whole(e.attribute("to-port"))};
      const Port from{whole(e.attribute("from-layer")), whole(e.attribute("from-port"))};
      if (!edges_.emplace(to, from).second)
        throw bad_input("line {}: two edges into one port", e.line);
    }
    for (const XmlElement& l : layers->children)
      if (!layers_.emplace(whole(l.attribute("id")), &l).second)
        throw bad_input("line {}: the layer {} stands twice", l.line, printable(l.attribute("id")));
    for (const auto& [id, l] : layers_)
      if (l->attribute("type") == "Parameter") parameter(id, *l);
    for (const auto& [id, l] : layers_)
      if (l->attribute("type") == "Result") result(id, *l);
  }
  GraphBuilder g;

 private:
  static std::vector<std::int64_t> ports(const XmlElement& l, const char* side) {
    std::vector<std::int64_t> out;
    if (const XmlElement* list = l.child(side))
      for (const XmlElement& p : list->children) out.push_back(whole(p.attribute("id")));
    return out;
  }
  static std::string first_name(const XmlElement& l, const std::string& otherwise) {
    if (const XmlElement* list = l.child("output"))
      for (const XmlElement& p : list->children)
        if (const std::string* names = p.find("names"); names != nullptr && !names->empty())
          return names->substr(0, names->find(','));
    return otherwise;
  }

  void parameter(std::int64_t id, const XmlElement& l) {
    const std::string name = first_name(l, l.attribute("name"));
    const ErrorScope where(fmt::format("value {}", printable(name)));
    const XmlElement* data = l.child("data");
    if (data == nullptr) throw bad_input("a parameter without a type");
    Ints dims;
    for (std::string_view rest = data->attribute("shape"); !rest.empty();) {
      const std::size_t cut = std::min(rest.find(','), rest.size());
      std::string part(rest.substr(0, cut));
      std::erase(part, ' ');
      rest.remove_prefix(std::min(cut + 1, rest.size()));
      if (part == "...") throw bad_input("an input of unknown rank");
      const bool free = part == "?" || part == "-1" || part.find("..") != std::string::npos;
      dims.push_back(free ? -1 : whole(part));
      if (dims.back() < -1) throw bad_input("an extent of {}", dims.back());
    }
    const auto out = ports(l, "output");
    if (out.size() != 1) throw bad_input("a parameter with {} outputs", out.size());
    values_[{id, out[0]}] = g.input(name, dtype_named(data->attribute("element_type")), dims);
  }

  void result(std::int64_t id, const XmlElement& l) {
    const auto in = ports(l, "input");
    if (in.size() != 1) throw bad_input("a result with {} inputs", in.size());
    const Port from = source({id, in[0]});
    make(from.first);
    std::string name = layers_.at(from.first)->attribute("name");
    if (const XmlElement* list = layers_.at(from.first)->child("output"))
      for (const XmlElement& p : list->children)
        if (whole(p.attribute("id")) == from.second)
          if (const std::string* names = p.find("names"); names != nullptr && !names->empty())
            name = names->substr(0, names->find(','));
    g.output(value(from), name);
  }

  Port source(const Port& to) const {
    const auto at = edges_.find(to);
    if (at == edges_.end()) throw bad_input("port {} of layer {} is open", to.second, to.first);
    if (!layers_.contains(at->second.first))
      throw bad_input("an edge from layer {}, which is not there", at->second.first);
    return at->second;
  }
  ValueId value(const Port& p) const {
    const auto at = values_.find(p);
    if (at == values_.end() || at->second == kAbsent)
      throw bad_input("output {} of layer {} is read, and is not made here", p.second, p.first);
    return at->second;
  }

  void make(std::int64_t wanted) {
    std::vector<std::int64_t> stack{wanted};
    std::map<std::int64_t, bool> open;
    while (!stack.empty()) {
      const std::int64_t id = stack.back();
      if (done_.contains(id)) {
        stack.pop_back();
        continue;
      }
      const XmlElement& l = *layers_.at(id);
      const ErrorScope where(fmt::format("node {}", printable(l.attribute("name"))));
      std::vector<Port> from;
      bool ready = true;
      for (const std::int64_t p : ports(l, "input")) {
        from.push_back(source({id, p}));
        if (!done_.contains(from.back().first) && !values_.contains(from.back())) ready = false;
      }
      if (!ready) {
        if (open[id]) throw bad_input("layers wait for each other in a circle");
        open[id] = true;
        for (const Port& p : from)
          if (!done_.contains(p.first)) {
            if (open[p.first]) throw bad_input("layers wait for each other in a circle");
            stack.push_back(p.first);
          }
        continue;
      }
      layer(id, l, from);
      open[id] = false;
      done_[id] = true;
      stack.pop_back();
    }
  }

  void layer(std::int64_t id, const XmlElement& l, const std::vector<Port>& from) {
    if (l.attribute("type") == "Parameter") return;
    if (l.child("body") != nullptr || l.child("then_body") != nullptr)
      throw bad_input("{}: layers with a body inside are not supported",
                      printable(l.attribute("type")));
    Layer layer{.g = g,
                .type = printable(l.attribute("type")),
                .name = l.attribute("name"),
                .version = "",
                .data = {},
                .inputs = {},
                .outputs = 1};
    if (const std::string* v = l.find("version")) layer.version = *v;
    if (const XmlElement* data = l.child("data"))
      for (const auto& [key, text] : data->attributes) layer.data.emplace(key, text);
    const auto out = ports(l, "output");
    layer.outputs = out.size();
    if (layer.type == "Const") {
      if (out.size() != 1) throw bad_input("a constant with {} outputs", out.size());
      values_[{id, out[0]}] = constant(layer);
      return;
    }
    for (const Port& p : from) layer.inputs.push_back(value(p));
    const auto made = translate(layer);
    for (std::size_t i = 0; i < out.size(); ++i)
      values_[{id, out[i]}] = i < made.size() ? made[i] : kAbsent;
  }

  ValueId constant(const Layer& l) {
    if (!file_) {
      if (weights_.empty())
        throw bad_input(
            "its weights are not there: the .bin of the same stem lies beside it, or --with names "
            "it");
      file_ = map_file(weights_);
    }
    const Ints dims = l.integers("shape");
    for (const std::int64_t d : dims)
      if (d < 0) throw bad_input("a constant with an extent of {}", d);
    const TensorType type{dtype_named(l.text("element_type", "")), Shape(std::span(dims))};
    const auto offset = static_cast<std::uint64_t>(l.integer("offset", -1)),
               size = static_cast<std::uint64_t>(l.integer("size", -1));
    if (offset > file_->bytes.size() || size > file_->bytes.size() - offset)
      throw bad_input("{} bytes at {} of the {} of {}", size, offset, file_->bytes.size(),
                      weights_);
    return g.constant(l.name,
                      tensor_from_bytes(type, {file_->bytes.subspan(offset, size), file_->keeper}));
  }

  std::string weights_;
  std::optional<Blob> file_;
  std::map<std::int64_t, const XmlElement*> layers_;
  std::map<Port, Port> edges_;
  std::map<Port, ValueId> values_;
  std::map<std::int64_t, bool> done_;
};

Model open(const std::string& path, std::span<const std::string> with) {
  const std::string xml = companion(path, with, {".xml"}), bin = companion(path, with, {".bin"});
  const std::string& main = xml.empty() ? path : xml;
  const Blob file = map_file(main);
  const ErrorScope scope(main);
  const XmlElement net = parse_xml(file.text());
  if (net.name != "net")
    throw bad_input("an element {} where net is expected", printable(net.name));
  const std::string* version = net.find("version");
  Network network(net, main, bin == main ? "" : bin);
  std::string producer = "OpenVINO";
  if (const XmlElement* info = net.child("rt_info"))
    if (const XmlElement* runtime = info->child("Runtime_version"))
      if (const std::string* v = runtime->find("value")) producer += " " + *v;
  return finish_model(network.g, path, "openvino",
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

Ints Layer::constant(std::size_t i) const {
  const Tensor* t = g.constant_of(input(i));
  if (t == nullptr || is_floating(t->dtype()) || t->numel() > 64)
    throw bad_input("input {} of {} must be constant integers", i, type);
  Ints out;
  for (std::int64_t k = 0; k < t->numel(); ++k)
    out.push_back(static_cast<std::int64_t>(load_as_double(*t, k)));
  return out;
}

float Layer::constant_number(std::size_t i) const {
  const Tensor* t = g.constant_of(input(i));
  if (t == nullptr || t->numel() != 1)
    throw bad_input("input {} of {} must be one constant number", i, type);
  return static_cast<float>(load_as_double(*t, 0));
}

std::string Layer::text(std::string_view key, std::string_view otherwise) const {
  const auto at = data.find(key);
  return at == data.end() ? std::string(otherwise) : at->second;
}

Ints Layer::integers(std::string_view key, Ints otherwise) const {
  const auto at = data.find(key);
  return at == data.end() ? otherwise : parse_integers(at->second);
}

std::int64_t Layer::integer(std::string_view key, std::int64_t otherwise) const {
  const auto at = data.find(key);
  return at == data.end() ? otherwise : whole(at->second);
}

float Layer::number(std::string_view key, float otherwise) const {
  const auto at = data.find(key);
  if (at == data.end()) return otherwise;
  float v = 0;
  const std::string& s = at->second;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size())
    throw bad_input("{}: '{}' is no number", key, printable(s));
  return v;
}

bool Layer::flag(std::string_view key, bool otherwise) const {
  const auto at = data.find(key);
  return at == data.end() ? otherwise : at->second == "true" || at->second == "1";
}

}  // namespace openvino

const FormatRow& openvino_format() {
  static const FormatRow row{.name = "openvino",
                             .endings = ".xml",
                             .summary = "OpenVINO representation, with its .bin.",
                             .match = openvino::match,
                             .open = openvino::open};
  return row;
}

}  // namespace etalon
