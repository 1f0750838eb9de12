// The Python that TorchScript archives hold (code/*.py), as a syntax tree. A small part of Python:
// what torch/csrc/jit/serialization/python_print.cpp writes. It is read, never run: script.h walks
// the tree and builds a graph from it.
//
// A file is classes and functions; a body is assignments (of one name, or a tuple unpacked into
// names), expressions, return, if, for over a range, while and pass. Anything else is kept as a
// statement of kind `other`, which is an error only where it is reached. Nesting is bounded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace etalon::pytorch_format {

struct Expr {
  enum class Kind {
    name,
    attribute,
    call,
    subscript,
    list,
    tuple,
    dict,  // keys and values in turn
    integer,
    number,
    text,
    negative
  };
  Kind kind = Kind::name;
  std::string text;                   // of a name, an attribute, a literal
  std::vector<Expr> items;            // object and arguments, object and index, elements
  std::vector<std::string> keywords;  // of a call: one for each argument, "" for a place
};

struct Statement {
  enum class Kind { assign, expression, give_back, branch, counted, repeated, pass, other };
  Kind kind = Kind::pass;
  std::vector<std::string> targets;
  Expr value;  // of a branch or `repeated` its condition, of `counted` its range
  std::vector<Statement> body, otherwise;
  int line = 0;
};

struct ScriptFunction {
  std::vector<std::string> parameters;
  std::vector<bool> has_default;
  std::vector<Expr> defaults;
  std::vector<std::string> types;  // as written, without the default
  std::vector<Statement> body;
};

// Functions by name, methods as "Class.method"; of a NamedTuple its fields.
struct ScriptFile {
  std::map<std::string, ScriptFunction, std::less<>> functions;
  std::map<std::string, std::vector<std::string>, std::less<>> tuples;
};

// A bad-input Error names the line.
ScriptFile parse_script(std::string_view source);

}  // namespace etalon::pytorch_format
