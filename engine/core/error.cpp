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
// terminal or a log, and the text stays one line of bounded length. Only what is said of words of
// the command line may have lines.
std::string shown(std::string_view text, bool lines) {
  const std::size_t most = lines ? text.size() : 4000;
  std::string out;
  for (const char c : text.substr(0, most)) {
    const auto u = static_cast<unsigned char>(c);
    if ((u < 0x20 && !(lines && c == '\n')) || u == 0x7f)
      out += fmt::format("\\x{:02x}", u);
    else
      out += c;
  }
  if (text.size() > most) out += "...";
  return out;
}

}  // namespace

Error::Error(ErrorKind kind, std::string_view what)
    : std::runtime_error(shown(with_scopes(what), kind != ErrorKind::bad_input)), kind_(kind) {}

ErrorScope::ErrorScope(std::string where) { scopes().push_back(std::move(where)); }
ErrorScope::~ErrorScope() { scopes().pop_back(); }

}  // namespace etalon
