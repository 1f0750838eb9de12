// What translates sections: one row a type, each a function from a layer's input to its output.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/builder.h"
#include "importers/formats/darknet/file.h"
#include "importers/formats/darknet/part.h"

namespace etalon::darknet {

struct Layer {
  GraphBuilder& g;
  Weights& w;
  const Section& s;
  std::string name;
  ValueId x = kAbsent;                 // what the layer before made
  const std::vector<ValueId>& made;    // by each layer before
  std::vector<ValueId>& detections;    // outputs of the network beside the last layer's
  std::map<std::size_t, Part>& parts;  // of convolutions before, for those that share them
  bool fork;                           // as AlexeyAB's fork of Darknet, where it differs
  std::int64_t steps;                  // of a sequence: rows are step by step, [steps * N, ...]
  const std::function<Blob(const std::string&)>& file;  // another file that the .cfg names

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
  ValueId as_image() const;                                                   // or as [N, C, 1, 1]
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
std::span<const SectionRow> recurrent_sections();  // rnn, crnn, gru, lstm, conv_lstm

// Groups of classes with one parent, by the file of a tree: the softmax of each along an axis.
ValueId tree_softmax(const Layer& l, ValueId x, int axis, const std::string& file);

}  // namespace etalon::darknet
