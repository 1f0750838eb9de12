// Which values a change in place reaches.
//
// A call such as relu_ changes its operand; code that follows may read the old name, or a view made
// of it before, and means the changed one. A value here never changes: the operand's name stands
// for the result from then on, and a view of the same elements that is read afterwards is
// AtenUnknown, as is a change of a value whose copy was folded into itself.
#pragma once

#include <map>
#include <set>
#include <string>

#include "importers/formats/pytorch/aten.h"

namespace etalon::pytorch_format {

class Aliases {
 public:
  // What v stands for now; AtenUnknown where a change through another view reached it.
  ValueId now(ValueId v) const;
  void resolve(AtenCall& call) const;  // every tensor of its arguments
  // A call, its arguments resolved, and what it gave.
  void called(const std::string& op, const AtenCall& call, const std::vector<ValueId>& made);

 private:
  std::map<ValueId, std::set<ValueId>> views_;  // the values that share elements with one
  std::map<ValueId, ValueId> changed_;
  std::set<ValueId> stale_, copied_;
};

}  // namespace etalon::pytorch_format
