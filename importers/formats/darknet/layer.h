// What translates sections: one row a type, each a function from a layer's input to its output.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/builder.h"
#include "importers/formats/darknet/file.h"

namespace etalon::darknet {

struct Layer {
  GraphBuilder& g;
  Weights& w;
  const Section& s;
  std::string name;
  ValueId x = kAbsent;               // what the layer before made
  const std::vector<ValueId>& made;  // by each layer before
  std::vector<ValueId>& detections;  // outputs of the network beside the last layer's

  ValueId op(std::string_view kind, const std::string& role, const std::vector<ValueId>& inputs,
             const Fields& fields = {}) const {
    return g.op(kind, role.empty() ? name : name + "." + role, inputs, fields);
  }
  ValueId constant(const std::string& role, Tensor t) const {
    return g.constant(name + "." + role, std::move(t));
  }
  // [N, C, H, W] of an image; an Error where the input is none.
  const Shape& image() const;
  std::int64_t elements() const { return g.shape(x).product(1, g.rank(x)); }  // of one example
  ValueId flat() const;                                                       // x as [N, elements]
  ValueId earlier(std::int64_t index) const;
  ValueId activated(ValueId v, std::string_view otherwise) const;  // by the option `activation`
};

struct SectionRow {
  std::string_view type, other;  // two spellings
  ValueId (*translate)(const Layer& layer);
};
std::span<const SectionRow> weighted_sections();   // convolutions, products, norms
std::span<const SectionRow> plain_sections();      // pools, softmax, what is left out
std::span<const SectionRow> moving_sections();     // routes, shortcuts, reorg, crops
std::span<const SectionRow> detection_sections();  // yolo, region, detection

}  // namespace etalon::darknet
