// One graph of a file on its way to ops, and the graphs that its loops own.
//   graph.cpp      inputs, outputs, where the walk begins
//   inputs.cpp     shapes that readers want, data from elsewhere
//   training.cpp   what training leaves
//   evaluate.cpp   nodes behind what they read
//   calls.cpp      functions
//   branches.cpp   If, and the Merge of TensorFlow 1
//   loops.cpp      While, and loops over lists
//   frames.cpp     the loops of TensorFlow 1
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "importers/formats/control.h"
#include "importers/formats/tf/body.h"
#include "importers/formats/tf/graph.h"

namespace etalon::tf {

constexpr int kMaxCalls = 64, kMaxIterations = 4096;

PbMessage attribute(const PbMessage& node, std::string_view key);

// What every graph of a file shares: that of the network, and those that its loops own.
struct Library {
  GraphSource source;
  std::map<std::string, PbMessage> functions;
  std::map<std::string, std::shared_ptr<Body>> bodies;
  std::size_t nodes = 0;
};

// The outputs of nodes by name.
using Values = std::unordered_map<std::string, std::vector<ValueId>>;

struct Frame;  // frames.cpp

class Importer {
 public:
  Importer(GraphBuilder& graph, GraphSource source);
  Importer(GraphBuilder& graph, std::shared_ptr<Library> library)
      : g_(graph), lib_(std::move(library)), ops_(graph) {}
  void run();

 private:
  using Want = std::function<void(const std::string&)>;
  // The values of an iteration behind those before it, or whether it is run.
  using Step = std::function<std::vector<ValueId>(const std::vector<ValueId>&, int iteration)>;

  std::vector<Port> ends(const Body& main);
  void read_inputs(const Body& main, const std::vector<std::string>& wanted, Values& made);
  void placeholder(const Body& main, const PbMessage& n);
  std::vector<ValueId> brought(const Body& main, const PbMessage& n,
                               const std::set<std::size_t>& read);
  ValueId declared(const std::string& name, std::int64_t type, const Ints& dims, bool picture);
  // Values of `wanted`; `made` holds what is known of the body: arguments, then results.
  std::vector<ValueId> evaluate(const Body& body, Values& made,
                                const std::vector<std::string>& wanted, const std::string& prefix,
                                int depth);
  ValueId value(const Values& made, const std::string& text) const;
  std::vector<ValueId> node(const PbMessage& n, const Values& made, const std::string& prefix,
                            int depth);
  std::optional<ValueId> dropout(const Body& body, std::size_t i, const std::string& prefix);
  void count(std::size_t nodes);

  // A function, in this graph or in the body that a loop owns.
  BodyWriter called(const std::string& function, const std::string& prefix, int depth);
  std::vector<ValueId> inlined(const std::string& name, const std::vector<ValueId>& inputs,
                               const std::string& prefix, int depth);

  std::optional<ValueId> merged(const Body& body, Values& made,
                                std::map<std::size_t, Branches>& branches, std::size_t i,
                                const std::string& prefix, const Want& want);
  std::vector<ValueId> branch(const OpNode& o, const std::string& prefix, int depth);

  std::vector<ValueId> loop(const OpNode& o, const std::string& prefix, int depth);
  std::vector<bool> passed(const std::string& function, std::size_t count) const;
  bool has_lists(const std::vector<ValueId>& values) const;
  std::vector<ValueId> bounded(const std::string& name, std::vector<ValueId> now,
                               const Step& condition, const Step& step);

  void frame(const Body& body, Values& made, std::size_t exit, const std::string& prefix,
             int depth);
  static Values turned(const Body& body, const Frame& f, const Values& inside,
                       const std::vector<ValueId>& values);
  std::vector<ValueId> bounded_frame(const Body& body, const Frame& f, const Values& inside,
                                     const std::vector<ValueId>& values, const std::string& prefix,
                                     int depth);
  std::vector<ValueId> running(const Body& body, const Frame& f, const Values& inside,
                               const std::vector<ValueId>& values, const std::string& prefix,
                               int depth);

  GraphBuilder& g_;
  std::shared_ptr<Library> lib_;
  Ops ops_;
  std::map<std::string, std::string> input_names_;
  std::map<std::string, Port> ports_;
  std::map<std::string, ValueId> inputs_, variables_;
  std::map<const PbMessage*, ValueId> constants_;
};

}  // namespace etalon::tf
