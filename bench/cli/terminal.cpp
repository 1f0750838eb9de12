#include "bench/cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

namespace etalon::cli {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool shows_colour(std::FILE* stream) {
  const char* no = std::getenv("NO_COLOR");
  return is_terminal(stream) && (no == nullptr || *no == '\0');
}

// Reads one code point; a byte that starts none counts as itself.
char32_t next_code_point(std::string_view text, std::size_t& i) {
  const auto byte = [&](std::size_t k) {
    return k < text.size() ? static_cast<unsigned char>(text[k]) : 0U;
  };
  const unsigned first = byte(i);
  const int extra = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  char32_t code = extra == 0 ? first : first & (0x3fU >> extra);
  ++i;
  for (int k = 0; k < extra && (byte(i) & 0xc0U) == 0x80; ++k, ++i)
    code = (code << 6) | (byte(i) & 0x3fU);
  return code;
}

constexpr std::array<std::string_view, 6> kColourCodes{"", "1", "2", "31", "32", "33"};

// What coloured() put around a text stays.
std::string visible_cell(std::string_view cell) {
  constexpr std::string_view kEnd = "\x1b[0m";
  for (const std::string_view code : kColourCodes) {
    const std::string begin = fmt::format("\x1b[{}m", code);
    if (code.empty() || cell.size() < begin.size() + kEnd.size() || !cell.starts_with(begin) ||
        !cell.ends_with(kEnd))
      continue;
    const std::size_t inside = cell.size() - begin.size() - kEnd.size();
    return begin + visible(cell.substr(begin.size(), inside)) + std::string(kEnd);
  }
  return visible(cell);
}

}  // namespace

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

std::string coloured(std::string_view text, Colour colour, std::FILE* stream) {
  if (colour == Colour::plain || !shows_colour(stream)) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kColourCodes[static_cast<std::size_t>(colour)], text);
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\x1b') {  // ESC [ ... letter
      while (i < text.size() && text[i] != 'm') ++i;
      ++i;
      continue;
    }
    const char32_t c = next_code_point(text, i);
    const bool combining = (c >= 0x300 && c < 0x370) || c == 0x200b || c == 0x200d;
    const bool wide = (c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) ||
                      (c >= 0xac00 && c < 0xd7a4) || (c >= 0xf900 && c < 0xfb00) ||
                      (c >= 0xff00 && c < 0xff61) || (c >= 0x1f300 && c < 0x1fb00);
    width += combining ? 0 : wide ? 2 : 1;
  }
  return width;
}

std::string visible(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const char32_t c = next_code_point(text, i);
    const bool turns =
        c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    if (c < 0x20 || (c >= 0x7f && c < 0xa0))
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else if (turns)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += text.substr(begin, i - begin);
  }
  return out;
}

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = visible_cell(cell);
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::FILE* for_stream) const {
  std::vector<int> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    int width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string gap(static_cast<std::size_t>(widths[c] - display_width(cell)), ' ');
      if (c) text += "  ";
      text += columns_[c].align == Align::right ? gap + cell : cell + gap;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  const bool titled = std::any_of(columns_.begin(), columns_.end(),
                                  [](const Column& c) { return !c.title.empty(); });
  if (titled)
    out += coloured(line([&](std::size_t c) -> const std::string& { return columns_[c].title; }),
                    Colour::bold, for_stream) +
           "\n";
  for (const auto& row : rows_)
    out += line([&](std::size_t c) -> const std::string& { return row[c]; }) + "\n";
  return out;
}

void Table::print(std::FILE* stream) const {
  const std::string out = text(stream);
  std::fwrite(out.data(), 1, out.size(), stream);
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 5> kUnits{"kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value < 99.5 ? 1 : 0, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  constexpr std::array<std::string_view, 3> kUnits{"ns", "\xc2\xb5s", "ms"};
  double value = seconds * 1e9;
  for (const std::string_view unit : kUnits) {
    if (value < 999.5) return fmt::format("{:.3g} {}", value, unit);
    value /= 1000;
  }
  return fmt::format("{:.3g} s", value);
}

Progress::Progress(std::string label, std::int64_t total)
    : label_(std::move(label)), total_(total), shown_(is_terminal(stderr)), started_s_(now_s()) {
  update(0);
}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(std::int64_t done, std::string_view detail) {
  if (!shown_) return;
  const double now = now_s();
  if (now - last_drawn_s_ < 0.1 && done < total_) return;
  last_drawn_s_ = now;
  constexpr int kWidth = 24;
  const double share =
      total_ > 0 ? static_cast<double>(std::min(done, total_)) / static_cast<double>(total_) : 0;
  const int full = static_cast<int>(share * kWidth);
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < full ? "█" : "░";
  const std::string text = fmt::format("\r\x1b[K{} {} {:3.0f} % {:.0f} s {}", label_, bar,
                                       share * 100, now - started_s_, detail);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace etalon::cli
