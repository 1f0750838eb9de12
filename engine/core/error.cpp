#include "engine/core/error.h"

#include <vector>

namespace etalon {
namespace {

std::vector<std::string>& scopes() {
  thread_local std::vector<std::string> stack;
  return stack;
}

std::string with_scopes(std::string_view what) {
  // Of functions that call one another without end the first and the last places say enough.
  constexpr std::size_t kFirst = 4, kLast = 2;
  const std::vector<std::string>& all = scopes();
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == kFirst && all.size() > kFirst + kLast + 1) {
      text += fmt::format("({} more): ", all.size() - kFirst - kLast);
      i = all.size() - kLast;
    }
    const std::string where = all[i] + ": ";
    // A function below that knows its file says so itself: one path is enough.
    if (i + 1 == all.size() && what.starts_with(where)) break;
    text += where;
  }
  return text.append(what);
}

// Names and values of a hostile file stand in the text: no control byte of theirs reaches a
// terminal or a log, and the text stays one line of bounded length.
std::string one_line(std::string_view text) {
  constexpr std::size_t kMost = 4000;
  std::string out;
  for (const char c : text.substr(0, kMost)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f)
      out += fmt::format("\\x{:02x}", u);
    else
      out += c;
  }
  if (text.size() > kMost) out += "...";
  return out;
}

}  // namespace

Error::Error(ErrorKind kind, std::string_view what)
    : std::runtime_error(kind == ErrorKind::bad_input ? one_line(with_scopes(what))
                                                      : with_scopes(what)),
      kind_(kind) {}

ErrorScope::ErrorScope(std::string where) { scopes().push_back(std::move(where)); }
ErrorScope::~ErrorScope() { scopes().pop_back(); }

}  // namespace etalon
