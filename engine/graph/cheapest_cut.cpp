#include "engine/graph/cheapest_cut.h"

#include <algorithm>

namespace etalon {

std::size_t CheapestCut::add_vertex() {
  edges_of_.emplace_back();
  return edges_of_.size() - 1;
}

void CheapestCut::add_edge(std::size_t from, std::size_t to, std::int64_t cost) {
  edges_of_[from].push_back(edges_.size());
  edges_.push_back({to, cost});
  edges_of_[to].push_back(edges_.size());
  edges_.push_back({from, 0});
}

bool CheapestCut::find_distances() {
  distance_.assign(edges_of_.size(), -1);
  distance_[kNear] = 0;
  std::vector<std::size_t> queue{kNear};
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (const std::size_t e : edges_of_[queue[i]])
      if (edges_[e].left > 0 && distance_[edges_[e].to] < 0) {
        distance_[edges_[e].to] = distance_[queue[i]] + 1;
        queue.push_back(edges_[e].to);
      }
  return distance_[kFar] >= 0;
}

// Along one path of shortest edges; without recursion, for graphs are as deep as networks.
std::int64_t CheapestCut::send(std::int64_t most) {
  std::vector<std::size_t> path;
  std::size_t at = kNear;
  while (at != kFar) {
    std::size_t& next = tried_[at];
    for (; next < edges_of_[at].size(); ++next) {
      const Edge& edge = edges_[edges_of_[at][next]];
      if (edge.left > 0 && distance_[edge.to] == distance_[at] + 1) break;
    }
    if (next < edges_of_[at].size()) {
      path.push_back(edges_of_[at][next]);
      at = edges_[path.back()].to;
    } else if (path.empty()) {
      return 0;
    } else {
      at = edges_[path.back() ^ 1U].to;
      path.pop_back();
      ++tried_[at];
    }
  }
  for (const std::size_t e : path) most = std::min(most, edges_[e].left);
  for (const std::size_t e : path) {
    edges_[e].left -= most;
    edges_[e ^ 1U].left += most;
  }
  return most;
}

std::vector<bool> CheapestCut::near_side() {
  while (find_distances()) {
    tried_.assign(edges_of_.size(), 0);
    while (send(kNever) > 0) {
    }
  }
  std::vector<bool> near;
  for (const int d : distance_) near.push_back(d >= 0);
  return near;
}

}  // namespace etalon
