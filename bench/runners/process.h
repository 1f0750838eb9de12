// A child process that answers lines: spawned in a process group of its own (so that Ctrl-C at the
// terminal reaches it only through us, and that its own children end with it), never waited for
// without a deadline. Its standard error is kept as a short tail, which is where a framework says
// why it ended.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace etalon {

using Seconds = std::chrono::duration<double>;

struct ProcessOptions {
  std::vector<std::string> command;                                // command[0]: path, or on PATH
  std::vector<std::pair<std::string, std::string>> environment{};  // added to this process's own
  std::size_t longest_line_bytes = std::size_t{64} << 20;
};

class Process {
 public:
  enum class Status { line, ended, timed_out, too_long };

  // Throws a missing Error when the program cannot be started.
  explicit Process(ProcessOptions options);
  ~Process();  // ends the process group, and waits for it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Writes text and a newline; `line` when all of it was taken.
  Status send_line(std::string_view text, Seconds patience);
  // Waits for the next line of standard output, without its newline.
  Status receive_line(std::string& line, Seconds patience);

  void end();                           // at once, the whole group; does nothing the second time
  bool wait_for_end(Seconds patience);  // true when it ended by itself
  bool running() const;

  // "exited with status 3", "was ended by signal 11 (Segmentation fault)"; "" while it runs.
  std::string how_it_ended() const;
  // The last lines of standard error, at most `bytes`.
  std::string error_tail(std::size_t bytes = 2000) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etalon
