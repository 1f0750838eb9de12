// A network of OpenVINO's representation, or the body of a layer of one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "importers/containers/bytes.h"
#include "importers/containers/xml.h"
#include "importers/formats/openvino/layer.h"

namespace etalon::openvino {

// The .bin; it is mapped when the first constant is read. Also counts layers and iterations, which
// bodies inside bodies multiply: a bad-input Error beyond 2^18.
class Constants {
 public:
  explicit Constants(std::string path) : path_(std::move(path)) {}
  Tensor read(const Layer& layer);
  void count_step();

 private:
  std::size_t steps_ = 0;
  std::string path_;
  std::optional<Blob> file_;
};

class Network {
 public:
  // `prefix` stands before the names of its nodes; `depth` counts the bodies around it.
  Network(const XmlElement& net, GraphBuilder& graph, Constants& constants, std::string prefix,
          int depth);
  // As a graph of its own: inputs, layers, outputs.
  void translate_all();
  // As a body: the value of each parameter, by layer; the value of each result, by layer.
  std::map<std::int64_t, ValueId> evaluate(const std::map<std::int64_t, ValueId>& parameters);

 private:
  using Port = std::pair<std::int64_t, std::int64_t>;  // layer, port

  void parameter(std::int64_t id, const XmlElement& l);
  void result(std::int64_t id, const XmlElement& l);
  Port source(const Port& to) const;
  ValueId value(const Port& p) const;
  void make(std::int64_t wanted);
  void layer(std::int64_t id, const XmlElement& l, const std::vector<Port>& from);
  // body.cpp: outputs by port
  std::map<std::int64_t, ValueId> iterate(const XmlElement& l, const Layer& layer,
                                          const std::map<std::int64_t, ValueId>& inputs);
  std::map<std::int64_t, ValueId> choose(const XmlElement& l, const Layer& layer,
                                         const std::map<std::int64_t, ValueId>& inputs);

  GraphBuilder& g_;
  std::size_t parameters_ = 0;  // that were met
  Constants& constants_;
  std::string prefix_;
  int depth_ = 0;
  std::map<std::int64_t, const XmlElement*> layers_;
  std::map<Port, Port> edges_;
  std::map<Port, ValueId> values_;
  std::map<std::int64_t, bool> done_;
  std::map<std::int64_t, ValueId> kept_;  // constants, which every iteration reads
};

std::int64_t whole(const std::string& text);
std::vector<std::int64_t> port_ids(const XmlElement& layer, const char* side);

}  // namespace etalon::openvino
