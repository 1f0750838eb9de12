// The last step of every importer of networks.
#pragma once

#include "engine/graph/graph.h"

namespace etalon {

// Sorts and checks the graph (Graph::finish), and refuses a value that is read or given out and
// that nothing makes.
void finish_graph(Graph& graph);

}  // namespace etalon
