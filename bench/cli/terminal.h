// What a person sees: aligned tables, sizes and times with units, a progress bar.
//
// Colours and the bar appear only on a terminal (and colours not when NO_COLOR is set); into a
// file or a pipe the same text goes plain, so that it can be read by a program.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace etalon::cli {

enum class Colour { plain, bold, dim, red, green, yellow };

bool is_terminal(std::FILE* stream);
// The text in the colour when `stream` shows colours, otherwise the text.
std::string coloured(std::string_view text, Colour colour, std::FILE* stream = stdout);

// Columns a text takes on a terminal: code points, combining marks not counted, escape sequences
// not counted, wide East Asian characters twice.
int display_width(std::string_view utf8);

// The text with what a terminal would obey rather than show (control characters, those that turn
// the direction of writing) spelled out: names come from files of strangers.
std::string visible(std::string_view utf8);

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Fewer cells than columns: the rest is empty. Cells are shown as visible() has them; a colour
  // around the whole of one stays.
  void row(std::vector<std::string> cells);
  std::size_t rows() const { return rows_.size(); }
  std::string text(std::FILE* for_stream = stdout) const;
  void print(std::FILE* stream = stdout) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string human_bytes(std::uint64_t bytes);  // "1.7 MB": powers of 1000
std::string human_seconds(double seconds);     // "1.24 ms"

// A bar on stderr for work of `total` steps; draws at most ten times a second and clears its line
// at the end.
class Progress {
 public:
  Progress(std::string label, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(std::int64_t done, std::string_view detail = {});

 private:
  std::string label_;
  std::int64_t total_;
  bool shown_;
  double last_drawn_s_ = 0, started_s_;
};

}  // namespace etalon::cli
