// Tables of values within tables. What a module gives is a list of values, one or several; where a
// list itself is an element of another, an id from kFirstTable stands for it, and no op may read
// it.
#pragma once

#include <vector>

#include "engine/core/error.h"
#include "engine/graph/graph.h"

namespace etalon::torch7 {

class Tables {
 public:
  using Values = std::vector<ValueId>;

  static bool is_table(ValueId v) { return v >= kFirstTable; }
  // One element for a list: the value itself where it is alone.
  ValueId pack(const Values& values) {
    if (values.size() == 1) return values[0];
    held_.push_back(values);
    return kFirstTable + static_cast<ValueId>(held_.size()) - 1;
  }
  Values open(ValueId v) const {
    return is_table(v) ? held_[static_cast<std::size_t>(v - kFirstTable)] : Values{v};
  }
  // All values, depth first. Tables may share their tables: what unfolds is bounded.
  Values flatten(const Values& values) const {
    Values out;
    int left = kMostElements;
    flatten(values, out, left, 0);
    return out;
  }

 private:
  static constexpr ValueId kFirstTable = 1 << 30;
  static constexpr int kMostElements = 1 << 16, kMostLevels = 1000;
  void flatten(const Values& values, Values& out, int& left, int level) const {
    if (level > kMostLevels) throw bad_input("tables nest deeper than {} levels", kMostLevels);
    for (const ValueId v : values) {
      if (--left < 0) throw bad_input("tables of more than {} elements", kMostElements);
      if (is_table(v))
        flatten(held_[static_cast<std::size_t>(v - kFirstTable)], out, left, level + 1);
      else
        out.push_back(v);
    }
  }
  std::vector<Values> held_;
};

}  // namespace etalon::torch7
