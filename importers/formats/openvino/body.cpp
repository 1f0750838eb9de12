// Layers that hold a body: TensorIterator, Loop, If.
//
// Iterations are written one behind the other, so their count must be known: that of the slices of
// a sequence, or a constant trip count with a condition that stays true. Slice i of an input is the
// part [start + i*stride, part_size) of its axis, from the end where the stride is below zero (a
// negative start or end counts from extent + 1); an output with an axis joins its parts in the same
// sequence, one without is that of the last iteration. Both branches of an If are computed and
// `where` takes one: they have no effects, so only the outputs of the one chosen are seen.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/formats/openvino/network.h"

namespace etalon::openvino {
namespace {

constexpr std::int64_t kMaxIterations = 4096;

// One entry of a port map.
struct Mapped {
  std::int64_t outside = -1, inside = -1, start = 0, end = -1, stride = 1, part = 1, axis = 0;
  bool sliced = false;
  std::string purpose;
};

std::vector<Mapped> mapped(const XmlElement* map, const char* side) {
  std::vector<Mapped> out;
  if (map == nullptr) return out;
  for (const XmlElement& e : map->children) {
    if (e.name != side) continue;
    Mapped m;
    const auto number = [&](const char* key, std::int64_t& to) {
      if (const std::string* v = e.find(key); v != nullptr) to = whole(*v);
    };
    number("external_port_id", m.outside);
    number("internal_layer_id", m.inside);
    number("start", m.start);
    number("end", m.end);
    number("stride", m.stride);
    number("part_size", m.part);
    if (e.find("axis") != nullptr) {
      number("axis", m.axis);
      m.sliced = true;
    }
    if (const std::string* p = e.find("purpose")) m.purpose = *p;
    out.push_back(std::move(m));
  }
  return out;
}

struct Range {
  std::int64_t begin, count;
};

Range range_of(const Mapped& m, std::int64_t extent) {
  const auto place = [&](std::int64_t v) { return v < 0 ? v + extent + 1 : v; };
  const std::int64_t begin = place(m.start), end = place(m.end);
  if (m.part < 1 || m.stride == 0 || m.stride == INT64_MIN || begin < 0 || begin > extent ||
      end < 0 || end > extent)
    throw bad_input("slices from {} to {} of an extent of {}", m.start, m.end, extent);
  const std::int64_t step = m.stride < 0 ? -m.stride : m.stride;
  const std::int64_t way = m.stride < 0 ? begin - end : end - begin;
  if (way < 0 || step != m.part) throw bad_input("slices of {} by {}", m.part, m.stride);
  return {begin, way / step};
}

ValueId at(const std::map<std::int64_t, ValueId>& values, std::int64_t id, const char* what) {
  const auto found = values.find(id);
  if (found == values.end() || found->second == kAbsent)
    throw bad_input("its port map names {} {}, which is not there", what, id);
  return found->second;
}

}  // namespace

std::map<std::int64_t, ValueId> Network::iterate(const XmlElement& l, const Layer& layer,
                                                 const std::map<std::int64_t, ValueId>& inputs) {
  const auto in = mapped(l.child("port_map"), "input"), out = mapped(l.child("port_map"), "output");
  std::int64_t count = -1;
  for (const Mapped& m : in) {
    if (!m.sliced) continue;
    const ValueId x = at(inputs, m.outside, "port");
    const auto axis = static_cast<std::size_t>(normalize_axis(m.axis, g_.rank(x)));
    const std::int64_t extent = g_.dims(x)[axis];
    if (extent < 0) throw bad_input("{} over an axis whose extent is free", layer.type);
    const std::int64_t n = range_of(m, extent).count;
    if (count >= 0 && count != n) throw bad_input("slices of {} and {} parts", count, n);
    count = n;
  }
  if (layer.type == "Loop") {
    const Tensor* trips = g_.constant_of(layer.input(0));
    const Tensor* condition = g_.constant_of(layer.input(1));
    if (condition == nullptr || condition->numel() != 1 || load_as_double(*condition, 0) == 0)
      throw bad_input("a Loop whose first condition hangs on data is not supported");
    const std::int64_t limit = trips == nullptr || trips->numel() != 1
                                   ? -1
                                   : static_cast<std::int64_t>(load_as_double(*trips, 0));
    if (limit >= 0) count = count < 0 ? limit : std::min(count, limit);
  }
  if (count < 0)
    throw bad_input("{} whose count of iterations hangs on data is not supported", layer.type);
  if (count == 0 || count > kMaxIterations)
    throw bad_input("{} of {} iterations, 1 to {} are supported", layer.type, count,
                    kMaxIterations);
  g_.note(fmt::format("{}: its {} iterations are written one behind the other", layer.type, count));
  std::map<std::int64_t, std::int64_t> back;  // parameter, result of the iteration before
  if (const XmlElement* edges = l.child("back_edges"))
    for (const XmlElement& e : edges->children)
      back[whole(e.attribute("to-layer"))] = whole(e.attribute("from-layer"));
  Network body(*l.child("body"), g_, constants_, layer.name + "/", depth_ + 1);
  std::map<std::int64_t, ValueId> parameters, results;
  std::vector<std::vector<ValueId>> joined(out.size());
  for (std::int64_t i = 0; i < count; ++i) {
    constants_.count_step();
    for (const Mapped& m : in) {
      if (m.purpose == "current_iteration") {
        parameters[m.inside] =
            g_.constant(layer.name + ".iteration", Tensor::of<std::int64_t>({}, {i}));
        continue;
      }
      const ValueId x = at(inputs, m.outside, "port");
      if (m.sliced) {
        const int axis = normalize_axis(m.axis, g_.rank(x));
        const Range r = range_of(m, g_.dims(x)[static_cast<std::size_t>(axis)]);
        const std::int64_t from = r.begin + (m.stride < 0 ? i + 1 : i) * m.stride;
        parameters[m.inside] =
            g_.op("slice", layer.name + ".part", {x},
                  {{"starts", Ints{from}}, {"ends", Ints{from + m.part}}, {"axes", Ints{axis}}});
      } else if (i == 0 || !back.contains(m.inside)) {
        parameters[m.inside] = x;
      } else {
        parameters[m.inside] = at(results, back.at(m.inside), "result");
      }
    }
    results = body.evaluate(parameters);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const ValueId v = at(results, out[k].inside, "result");
      if (out[k].purpose == "execution_condition" && i + 1 < count) {
        const Tensor* t = g_.constant_of(v);
        if (t == nullptr || t->numel() != 1 || load_as_double(*t, 0) == 0)
          throw bad_input("a Loop whose condition hangs on data is not supported");
      }
      if (out[k].sliced) joined[k].push_back(v);
    }
  }
  std::map<std::int64_t, ValueId> made;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (out[k].outside < 0) continue;
    if (!out[k].sliced) {
      made[out[k].outside] = at(results, out[k].inside, "result");
      continue;
    }
    if (out[k].stride < 0) std::ranges::reverse(joined[k]);
    made[out[k].outside] = joined[k].size() == 1 ? joined[k][0]
                                                 : g_.op("concat", layer.name + ".parts", joined[k],
                                                         {{"axis", out[k].axis}});
  }
  return made;
}

std::map<std::int64_t, ValueId> Network::choose(const XmlElement& l, const Layer& layer,
                                                const std::map<std::int64_t, ValueId>& inputs) {
  const auto branch = [&](const char* body, const char* map) {
    const XmlElement* net = l.child(body);
    if (net == nullptr) throw bad_input("an If without {}", body);
    Network inner(*net, g_, constants_, layer.name + "/", depth_ + 1);
    std::map<std::int64_t, ValueId> parameters, made;
    for (const Mapped& m : mapped(l.child(map), "input"))
      parameters[m.inside] = at(inputs, m.outside, "port");
    const auto results = inner.evaluate(parameters);
    for (const Mapped& m : mapped(l.child(map), "output"))
      made[m.outside] = at(results, m.inside, "result");
    return made;
  };
  const Tensor* known = g_.constant_of(layer.input(0));
  if (known != nullptr && known->numel() == 1)
    return load_as_double(*known, 0) != 0 ? branch("then_body", "then_port_map")
                                          : branch("else_body", "else_port_map");
  const auto yes = branch("then_body", "then_port_map"), no = branch("else_body", "else_port_map");
  g_.note("If: both branches are computed, the outputs of one are taken");
  std::map<std::int64_t, ValueId> made;
  for (const auto& [port, v] : yes) {
    const ValueId other = at(no, port, "output");
    if (g_.dims(v) != g_.dims(other) || g_.dtype(v) != g_.dtype(other))
      throw bad_input("an If whose branches differ in shape is not supported");
    made[port] = g_.op("where", layer.name, {layer.input(0), v, other});
  }
  return made;
}

}  // namespace etalon::openvino
