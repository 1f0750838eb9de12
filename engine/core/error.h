// Errors that a person can act on: one sentence with where, what, and what to do.
//
// Every error that reaches a user is an etalon::Error. Its kind decides the exit code of the
// command line. ErrorScope adds the "where" (a file, a node) to every Error built while it lives,
// so that the code that finds a fault need not know which file it is reading.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace etalon {

// The numeric value is the process's exit code.
enum class ErrorKind {
  verdict = 1,       // a check ran and does not hold
  usage = 2,         // wrong arguments, a contract nobody can honour
  bad_input = 3,     // a file or tensor that is not what it claims
  missing = 4,       // a device, library or framework that is not here
  internal = 70,     // a fault of this program
  interrupted = 130  // Ctrl-C
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string_view what);
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// While it lives, prefixes "where: " to the text of every Error built on this thread. Scopes nest,
// the outermost comes first: "lenet.onnx: node conv1: ...".
class ErrorScope {
 public:
  explicit ErrorScope(std::string where);
  ~ErrorScope();
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;
};

template <class... Args>
[[nodiscard]] Error usage_error(fmt::format_string<Args...> text, Args&&... args) {
  return {ErrorKind::usage, fmt::format(text, std::forward<Args>(args)...)};
}
template <class... Args>
[[nodiscard]] Error bad_input(fmt::format_string<Args...> text, Args&&... args) {
  return {ErrorKind::bad_input, fmt::format(text, std::forward<Args>(args)...)};
}
template <class... Args>
[[nodiscard]] Error missing(fmt::format_string<Args...> text, Args&&... args) {
  return {ErrorKind::missing, fmt::format(text, std::forward<Args>(args)...)};
}
template <class... Args>
[[nodiscard]] Error internal_error(fmt::format_string<Args...> text, Args&&... args) {
  return {ErrorKind::internal, fmt::format(text, std::forward<Args>(args)...)};
}

}  // namespace etalon
