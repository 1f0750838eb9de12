#include "bench/report/record.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/report/record_list.h"
#include "bench/report/version.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/core/threads.h"

namespace etalon {
namespace {

std::string os_name() {
  std::string pretty = "unknown";
  std::ifstream release("/etc/os-release");
  for (std::string line; std::getline(release, line);)
    if (line.starts_with("PRETTY_NAME=\"")) pretty = line.substr(13, line.size() - 14);
  utsname u{};
  if (uname(&u) == 0) pretty += std::string(", Linux ") + u.release;
  return pretty;
}

bool is_non_finite(const nlohmann::json& value) {
  if (value.is_number_float()) return !std::isfinite(value.get<double>());
  return value.is_structured() && std::ranges::any_of(value, is_non_finite);
}

int g_record_fd = STDOUT_FILENO;

}  // namespace

void spell_non_finite(nlohmann::json& value) {
  if (value.is_number_float()) {
    const double x = value.get<double>();
    if (std::isnan(x))
      value = "nan";
    else if (std::isinf(x))
      value = x > 0 ? "inf" : "-inf";
  } else if (value.is_structured()) {
    for (nlohmann::json& child : value) spell_non_finite(child);
  }
}

void keep_stdout_for_record() {
  std::fflush(stdout);
  g_record_fd = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

nlohmann::json base_record(std::string_view command_line, Isa isa) {
  return {{"etalon", {{"version", version()}, {"commit", commit()}}},
          {"machine",
           {{"cpu", cpu_model()},
            {"isa", name(isa)},
            {"cores", hardware_threads()},
            {"os", os_name()},
            {"compiler", compiler()}}},
          {"command", command_line}};
}

namespace {

// The members of an object stand on lines of their own, and a text has no line break in it.
std::string dumped(const nlohmann::json& record) {
  if (is_non_finite(record)) {
    nlohmann::json spelled = record;
    spell_non_finite(spelled);
    return dumped(spelled);
  }
  // Text from a model file may be no UTF-8; such bytes are shown as U+FFFD.
  return record.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_text(const std::string& path, std::string_view text) {
  // Where the path leads to standard output, what was printed stands before the record.
  std::fflush(stdout);
  if (path != "-") return write_file(path, text);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(g_record_fd, text.data() + done, text.size() - done);
    if (n <= 0) throw bad_input("the record could not be written to standard output");
    done += static_cast<std::size_t>(n);
  }
}

void append_quoted(std::string& to, std::string_view text) {
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, plain))
    to.append("\"").append(text).append("\"");
  else
    to += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void write_record(const std::string& path, const nlohmann::json& record) {
  write_text(path, dumped(record));
}

void RecordList::add(std::initializer_list<Member> members) {
  rows_ += rows_.empty() ? "\n   {" : ",\n   {";
  bool first = true;
  for (const auto& [name, text] : members) {
    rows_ += first ? "\n    " : ",\n    ";
    append_quoted(rows_, name);
    rows_ += ": ";
    append_quoted(rows_, text);
    first = false;
  }
  rows_ += "\n   }";
}

void write_record(const std::string& path, nlohmann::json record, std::string_view object,
                  std::initializer_list<std::pair<std::string_view, const RecordList*>> lists) {
  nlohmann::json& holder = record[std::string(object)];
  for (const auto& [name, list] : lists)
    if (!list->empty()) holder[std::string(name)] = nullptr;
  std::string text = dumped(record);
  for (const auto& [name, list] : lists) {
    if (list->empty()) continue;
    const std::size_t begin = text.find(fmt::format("\n \"{}\": {{\n", object));
    const std::string line = fmt::format("\n  \"{}\": null", name);
    const std::size_t at = text.find(line, begin);
    if (begin == text.npos || at == text.npos)
      throw internal_error("a record has no place for its list '{}'", name);
    text.replace(at + line.size() - 4, 4, list->text());
  }
  write_text(path, text);
}

}  // namespace etalon
