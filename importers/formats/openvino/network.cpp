#include "importers/formats/openvino/network.h"

#include <algorithm>
#include <charconv>

#include "engine/core/error.h"
#include "importers/input_hints.h"

namespace etalon::openvino {
namespace {

constexpr int kMaxDepth = 16;

// The names of an output's tensor: "12,input.1,image".
std::vector<std::string> names_of(const XmlElement& port) {
  std::vector<std::string> out;
  const std::string* list = port.find("names");
  if (list == nullptr) return out;
  for (std::string_view rest = *list; !rest.empty();) {
    const std::size_t cut = std::min(rest.find(','), rest.size());
    out.emplace_back(rest.substr(0, cut));
    rest.remove_prefix(std::min(cut + 1, rest.size()));
  }
  return out;
}

// Of several names that of its layer, else one that is more than a number.
std::string best_name(const std::vector<std::string>& names, const std::string& layer) {
  if (names.empty() || std::ranges::find(names, layer) != names.end()) return layer;
  const auto word = std::ranges::find_if(names, [](const std::string& n) {
    return n.find_first_not_of("0123456789") != std::string::npos;
  });
  return word == names.end() ? names[0] : *word;
}

std::optional<DType> precision_named(std::string_view name) {
  if (name == "BOOL") return DType::boolean;
  if (name == "FP64") return DType::f64;
  if (name == "FP32") return DType::f32;
  if (name == "FP16") return DType::f16;
  std::string lower;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return find_dtype(lower);
}

// precision="FP32", and a dim for each extent.
Said said_of(const XmlElement& port) {
  Said said;
  if (const std::string* p = port.find("precision")) said.dtype = precision_named(*p);
  for (const XmlElement& d : port.children) {
    std::int64_t extent = -1;
    std::from_chars(d.text.data(), d.text.data() + d.text.size(), extent);
    said.dims.push_back(std::max<std::int64_t>(extent, -1));
  }
  return said;
}

}  // namespace

std::vector<std::int64_t> port_ids(const XmlElement& l, const char* side) {
  std::vector<std::int64_t> out;
  if (const XmlElement* list = l.child(side))
    for (const XmlElement& p : list->children) out.push_back(whole(p.attribute("id")));
  return out;
}

Network::Network(const XmlElement& net, GraphBuilder& graph, Constants& constants,
                 std::string prefix, int depth)
    : g_(graph), constants_(constants), prefix_(std::move(prefix)), depth_(depth) {
  if (depth > kMaxDepth) throw bad_input("bodies nested deeper than {}", kMaxDepth);
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
}

void Network::translate_all() {
  for (const auto& [id, l] : layers_)
    if (l->attribute("type") == "Parameter") parameter(id, *l);
  for (const auto& [id, l] : layers_)
    if (l->attribute("type") == "Result") result(id, *l);
}

std::map<std::int64_t, ValueId> Network::evaluate(
    const std::map<std::int64_t, ValueId>& parameters) {
  values_.clear();
  done_.clear();
  for (const auto& [id, v] : kept_) {
    values_[{id, port_ids(*layers_.at(id), "output").at(0)}] = v;
    done_[id] = true;
  }
  for (const auto& [id, v] : parameters) {
    const auto at = layers_.find(id);
    if (at == layers_.end()) throw bad_input("its body has no layer {}", id);
    const auto out = port_ids(*at->second, "output");
    if (out.size() != 1) throw bad_input("a parameter with {} outputs", out.size());
    values_[{id, out[0]}] = v;
    done_[id] = true;
  }
  std::map<std::int64_t, ValueId> results;
  for (const auto& [id, l] : layers_) {
    if (l->attribute("type") != "Result") continue;
    const auto in = port_ids(*l, "input");
    if (in.size() != 1) throw bad_input("a result with {} inputs", in.size());
    const Port from = source({id, in[0]});
    make(from.first);
    results[id] = value(from);
  }
  return results;
}

void Network::parameter(std::int64_t id, const XmlElement& l) {
  std::vector<std::string> names;
  if (const XmlElement* list = l.child("output"); list != nullptr && !list->children.empty())
    names = names_of(list->children[0]);
  const std::string name = best_name(names, l.attribute("name"));
  names.push_back(l.attribute("name"));
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
  const auto out = port_ids(l, "output");
  if (out.size() != 1) throw bad_input("a parameter with {} outputs", out.size());
  // Sizes that free extents are inferred with: as the caller says, or those of a usual image.
  Ints nominal(dims.size(), 1);
  if (dims.size() == 4) nominal = {1, 3, 224, 224};
  const auto hints = InputHints::given();
  for (std::size_t i = 0; i < hints.size(); ++i)
    if (std::ranges::find(names, hints[i].name) != names.end() ||
        (hints[i].name.empty() && i == parameters_))
      if (const auto told = hints[i].type.shape.dims(); told.size() == dims.size()) {
        nominal.assign(told.begin(), told.end());
        InputHints::took(hints[i].name);
      }
  ++parameters_;
  values_[{id, out[0]}] =
      g_.input(name, dtype_named(data->attribute("element_type")), dims, nominal);
}

void Network::result(std::int64_t id, const XmlElement& l) {
  const auto in = port_ids(l, "input");
  if (in.size() != 1) throw bad_input("a result with {} inputs", in.size());
  const Port from = source({id, in[0]});
  make(from.first);
  std::string name = layers_.at(from.first)->attribute("name");
  if (const XmlElement* list = layers_.at(from.first)->child("output"))
    for (const XmlElement& p : list->children)
      if (whole(p.attribute("id")) == from.second) name = best_name(names_of(p), name);
  g_.output(value(from), name);
}

Network::Port Network::source(const Port& to) const {
  const auto at = edges_.find(to);
  if (at == edges_.end()) throw bad_input("port {} of layer {} is open", to.second, to.first);
  if (!layers_.contains(at->second.first))
    throw bad_input("an edge from layer {}, which is not there", at->second.first);
  return at->second;
}

ValueId Network::value(const Port& p) const {
  const auto at = values_.find(p);
  if (at == values_.end() || at->second == kAbsent)
    throw bad_input("output {} of layer {} is read, and is not made here", p.second, p.first);
  return at->second;
}

void Network::make(std::int64_t wanted) {
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
    for (const std::int64_t p : port_ids(l, "input")) {
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

void Network::layer(std::int64_t id, const XmlElement& l, const std::vector<Port>& from) {
  constants_.count_step();
  if (l.attribute("type") == "Parameter") {
    if (depth_ > 0) throw bad_input("a parameter of the body that nothing feeds");
    return;
  }
  Layer layer{.g = g_,
              .type = printable(l.attribute("type")),
              .name = prefix_ + l.attribute("name"),
              .version = "",
              .data = {},
              .inputs = {},
              .outputs = 1};
  if (const std::string* v = l.find("version")) layer.version = *v;
  if (const XmlElement* data = l.child("data"))
    for (const auto& [key, text] : data->attributes) layer.data.emplace(key, text);
  const auto out = port_ids(l, "output");
  layer.outputs = out.size();
  if (layer.type == "Const") {
    if (out.size() != 1) throw bad_input("a constant with {} outputs", out.size());
    const ValueId v = g_.constant(layer.name, constants_.read(layer));
    values_[{id, out[0]}] = v;
    if (depth_ > 0) kept_[id] = v;
    return;
  }
  for (const Port& p : from) layer.inputs.push_back(value(p));
  if (const XmlElement* list = l.child("input"))
    for (const XmlElement& p : list->children) layer.said.push_back(said_of(p));
  if (l.child("body") != nullptr || l.child("then_body") != nullptr) {
    std::map<std::int64_t, ValueId> inputs;
    const auto in = port_ids(l, "input");
    for (std::size_t i = 0; i < in.size(); ++i) inputs[in[i]] = layer.inputs[i];
    const auto made =
        l.child("body") != nullptr ? iterate(l, layer, inputs) : choose(l, layer, inputs);
    for (const std::int64_t port : out) {
      const auto at = made.find(port);
      values_[{id, port}] = at == made.end() ? kAbsent : at->second;
    }
    return;
  }
  const auto made = translate(layer);
  for (std::size_t i = 0; i < out.size(); ++i)
    values_[{id, out[i]}] = i < made.size() ? made[i] : kAbsent;
}

}  // namespace etalon::openvino
