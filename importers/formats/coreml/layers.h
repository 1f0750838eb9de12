// Layers of Core ML's neural networks beyond those of its first version.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "importers/containers/pbtree.h"
#include "importers/formats/translate.h"

namespace etalon::coreml {

struct NetworkLayer {
  GraphBuilder& g;
  const PbMessage& message;
  const std::string& name;
  const std::vector<ValueId>& inputs;
  std::size_t outputs = 1;
  // A WeightParams message as a constant of this shape.
  std::function<ValueId(const PbMessage&, const char*, const Shape&)> weights;

  ValueId input(std::size_t i) const;  // a bad-input Error where it has fewer
  ValueId number(float v) const { return g.constant(name + ".number", scalar_f32(v)); }
  // Every value of a network is f32: what other ops count or compare comes back as f32.
  ValueId f32(ValueId v) const {
    return g.op("cast", name + ".f32", {v}, {{"to", std::string("f32")}});
  }
  ValueId integers(std::size_t i) const {
    return g.op("cast", name + ".integers", {input(i)}, {{"to", std::string("i64")}});
  }
};

// Its values; none where its kind is not one of these.
std::vector<ValueId> translate_layer(const NetworkLayer& layer);

// The families that translate_layer asks, each by the kinds at the head of its file.
std::vector<ValueId> translate_recurrent(const NetworkLayer& layer);
std::vector<ValueId> translate_selection(const NetworkLayer& layer);
ValueId translate_extents(const NetworkLayer& layer);   // kAbsent
ValueId translate_features(const NetworkLayer& layer);  // where it is none of them

bool is_recurrent(const PbMessage& layer);

}  // namespace etalon::coreml
