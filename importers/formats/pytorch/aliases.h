// Which values a change in place reaches.
//
// A call such as relu_ changes its operand; code that follows may read the old name, a view made of
// it before, or what it was a view of, and means the changed one. A value here never changes: the
// operand's name stands for the result from then on; what it is a view of is written anew with the
// result in its place; other views of that are cut anew where they are read. AtenUnknown is a
// change that reaches what may be a view or a copy (reshape, contiguous), and one of a value whose
// copy was folded into itself.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "importers/formats/pytorch/aten.h"

namespace etalon::pytorch_format {

class Aliases {
 public:
  explicit Aliases(GraphBuilder& graph) : b_(graph) {}

  // What v stands for now.
  ValueId now(ValueId v);
  void resolve(AtenCall& call);  // every tensor of its arguments
  // A call, its arguments resolved, and what it gave.
  void called(const std::string& op, const AtenCall& call, const std::vector<ValueId>& made);

 private:
  // How a value was cut out of another: the call, and which of its outputs from which element on.
  struct View {
    ValueId base = kAbsent;
    std::string op;
    std::shared_ptr<const AtenCall> call;  // one for all that it gave
    std::size_t output = 0;
    std::int64_t begin = 0;
  };
  bool comes_of(ValueId x, ValueId v) const;  // x is a view of v, or a view of such
  void link(ValueId view, View how);
  void replace(ValueId x, ValueId by);
  void mark_stale(ValueId x, int depth);
  void lose(ValueId x);
  ValueId put_back(const View& view, ValueId part);
  void move_parts(ValueId from, ValueId to);
  void change(ValueId from, ValueId to);

  GraphBuilder& b_;
  std::map<ValueId, View> views_;
  std::map<ValueId, std::set<ValueId>> parts_;  // the views of a value
  std::map<ValueId, ValueId> changed_;
  std::set<ValueId> stale_, copied_, lost_;
  std::size_t moves_ = 0;  // of views from one base to another
};

}  // namespace etalon::pytorch_format
