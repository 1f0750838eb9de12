// A list of a record with very many rows, each an object of texts: it becomes text as it is made,
// not a tree of values first, which for 100 000 tensors took longer than to read them.
#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace etalon {

class RecordList {
 public:
  using Member = std::pair<std::string_view, std::string_view>;
  // Names of members in the order of the alphabet, as in the rest of a record.
  void add(std::initializer_list<Member> members);
  bool empty() const { return rows_.empty(); }
  // As nlohmann::json writes it in a record's second level, brackets and all.
  std::string text() const { return "[" + rows_ + "\n  ]"; }

 private:
  std::string rows_;
};

// write_record (record.h) of a record whose record[object][name] is a list: each that is not empty
// comes where its name would stand.
void write_record(const std::string& path, nlohmann::json record, std::string_view object,
                  std::initializer_list<std::pair<std::string_view, const RecordList*>> lists);

}  // namespace etalon
