// A network of one loop or scan: five steps of a recurrent cell, with an if inside the loop.
#pragma once

#include "engine/graph/executor.h"
#include "engine/ops/control.h"
#include "tests/small_graph.h"
#include "tests/verdict_data.h"

namespace etalon::test {

inline std::shared_ptr<Graph> branch(float factor) {
  auto g = std::make_shared<Graph>();
  g->initializers.emplace(g->add_value("factor"), Tensor::of<float>({}, {factor}));
  node(*g, "mul", {"u", "factor"}, {"z"});
  g->outputs = {declared(*g, "z")};
  g->finish();
  return g;
}

inline constexpr std::int64_t kControlRows = 3, kControlUnits = 40, kControlSteps = 5;

// u = tanh(s w + slice), w from around it. scan: s' = u u. loop: u by half or by a quarter in turn,
// which an if inside says, and the same slice each time.
inline std::shared_ptr<Graph> step_body(bool loop) {
  auto g = std::make_shared<Graph>();
  if (loop) g->inputs = {declared(*g, "i", DType::i64), declared(*g, "go", DType::boolean)};
  g->inputs.push_back(declared(*g, "s"));
  if (!loop) {
    g->inputs.push_back(declared(*g, "slice"));
    // ONNX Runtime wants to know the shapes inside a scan.
    for (Declaration& d : g->inputs) {
      d.ranked = true;
      d.dims = {kControlRows, kControlUnits};
      d.dim_names = {"", ""};
    }
  }
  node(*g, "matmul", {"s", "w"}, {"product"});
  node(*g, "add", {"product", loop ? "first" : "slice"}, {"sum"});
  node(*g, "tanh", {"sum"}, {"u"});
  if (loop) {
    g->initializers.emplace(g->add_value("two"), Tensor::of<std::int64_t>({}, {2}));
    g->initializers.emplace(g->add_value("zero"), Tensor::of<std::int64_t>({}, {0}));
    node(*g, "mod", {"i", "two"}, {"odd"});
    node(*g, "equal", {"odd", "zero"}, {"even"});
    node(*g, "if", {"even"}, {"next"}, {}, {branch(0.5F), branch(0.25F)});
    node(*g, "identity", {"go"}, {"again"});
    g->outputs = {declared(*g, "again", DType::boolean)};
  } else {
    node(*g, "mul", {"u", "u"}, {"next"});
  }
  node(*g, "identity", {"next"}, {"seen"});
  g->outputs.push_back(declared(*g, "next"));
  g->outputs.push_back(declared(*g, "seen"));
  g->finish();
  return g;
}

// Small enough that bounds do not grow from step to step.
inline Tensor weights() {
  Tensor w = verdict_data::noise({kControlUnits, kControlUnits}, 3);
  for (float& x : w.mutable_data<float>()) x *= 1.0F / kControlUnits;
  return w;
}

inline Model control_network(bool loop) {
  Model m;
  Graph& g = *m.graph;
  g.inputs = {declared(g, "s0"), declared(g, "x")};
  g.initializers.emplace(g.add_value("w"), weights());
  if (loop) {
    g.initializers.emplace(g.add_value("count"), Tensor::of<std::int64_t>({}, {kControlSteps}));
    node(g, "tanh", {"x"}, {"first"});  // a bound from around the body
    node(g, "loop", {"count", "", "s0"}, {"last", "all"}, {}, {step_body(true)});
  } else {
    ScanParams p;
    p.scan_inputs = 1;
    p.input_axes = {1};
    p.output_axes = {1};
    p.input_directions = p.output_directions = {1};
    node(g, "tanh", {"x"}, {"turned"});
    node(g, "scan", {"s0", "turned"}, {"last", "all"}, p, {step_body(false)});
  }
  g.outputs = {declared(g, "last"), declared(g, "all")};
  g.finish();
  return m;
}

inline NamedTensors control_inputs(bool loop) {
  NamedTensors in;
  in.emplace("s0", verdict_data::noise({kControlRows, kControlUnits}, 1));
  in.emplace("x", verdict_data::noise(loop ? Shape{kControlRows, kControlUnits}
                                           : Shape{kControlRows, kControlSteps, kControlUnits},
                                      2));
  return in;
}

}  // namespace etalon::test
