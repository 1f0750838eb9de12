// Two sides for the vertices of a graph, at the least sum of the capacities of the edges that lead
// from one to the other (Dinic's algorithm: a largest flow, in rounds of shortest paths).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace etalon {

class CheapestCut {
 public:
  // More than any sum of costs; an edge of it is never cut.
  static constexpr std::int64_t kNever = std::int64_t{1} << 60;

  // Vertices 0, which is on the near side, 1, which is on the far one, and those added.
  CheapestCut() : edges_of_(2) {}
  static constexpr std::size_t kNear = 0, kFar = 1;

  std::size_t add_vertex();
  // `cost` where `from` is near and `to` is far.
  void add_edge(std::size_t from, std::size_t to, std::int64_t cost);

  // By vertex, whether it is on the near side. Of cuts that cost the same, the one with the fewest.
  std::vector<bool> near_side();

 private:
  struct Edge {
    std::size_t to = 0;
    std::int64_t left = 0;  // of its capacity; edge i ^ 1 is its reverse
  };
  bool find_distances();
  std::int64_t send(std::int64_t most);

  std::vector<Edge> edges_;
  std::vector<std::vector<std::size_t>> edges_of_;
  std::vector<int> distance_;       // from kNear over edges with some capacity left; -1: none
  std::vector<std::size_t> tried_;  // by vertex: edges that lead nowhere in this round
};

}  // namespace etalon
