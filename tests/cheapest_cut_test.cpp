// Claim: the cut found costs what the cheapest of all cuts does, and of those it has the fewest
// vertices on the near side; every cut of small random graphs is tried.
#include "engine/graph/cheapest_cut.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

using namespace etalon;

TEST_CASE("cheapest cut: no other cut of a small graph costs less") {
  std::mt19937 random(1);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  int cut_some = 0;
  for (int turn = 0; turn < 300; ++turn) {
    const auto vertices = static_cast<std::size_t>(2 + below(8));
    struct Edge {
      std::size_t from, to;
      std::int64_t cost;
    };
    std::vector<Edge> edges;
    CheapestCut cut;
    for (std::size_t v = 2; v < vertices; ++v) CHECK(cut.add_vertex() == v);
    for (std::int64_t i = below(25); i > 0; --i) {
      const Edge e{static_cast<std::size_t>(below(static_cast<unsigned>(vertices))),
                   static_cast<std::size_t>(below(static_cast<unsigned>(vertices))), below(6)};
      // The near and the far side can be parted.
      const bool never = below(4) == 0 && e.from != CheapestCut::kNear && e.to != CheapestCut::kFar;
      edges.push_back({e.from, e.to, never ? CheapestCut::kNever : e.cost});
      cut.add_edge(edges.back().from, edges.back().to, edges.back().cost);
    }
    const auto cost = [&](const auto& near) {
      std::int64_t sum = 0;
      for (const Edge& e : edges)
        if (near(e.from) && !near(e.to)) sum = std::min(sum + e.cost, CheapestCut::kNever);
      return sum;
    };
    const std::vector<bool> found = cut.near_side();
    REQUIRE(found.size() == vertices);
    const std::int64_t least = cost([&](std::size_t v) { return bool{found[v]}; });
    const auto size = std::ranges::count(found, true);
    CHECK(found[CheapestCut::kNear]);
    CHECK(!found[CheapestCut::kFar]);
    CHECK(least < CheapestCut::kNever);
    cut_some += least > 0 ? 1 : 0;
    for (unsigned set = 1; set < 1U << vertices; set += 4) {  // near in, far out
      const std::int64_t other = cost([&](std::size_t v) { return (set >> v & 1U) != 0; });
      CHECK(least <= other);
      if (least == other) CHECK(size <= std::popcount(set));
    }
  }
  CHECK(cut_some > 50);
}
