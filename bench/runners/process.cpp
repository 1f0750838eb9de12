#include "bench/runners/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "engine/core/error.h"

extern char** environ;

namespace etalon {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kTailBytes = 16384;

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

// A connected pair, closed on exec. Sockets, because a write to a reader that is gone can then
// answer an error (MSG_NOSIGNAL) and not raise SIGPIPE in this process.
std::pair<Descriptor, Descriptor> make_pair() {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0)
    throw internal_error("no socket pair for a child process: {}", std::strerror(errno));
  return {Descriptor(fds[0]), Descriptor(fds[1])};
}

void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

int remaining_ms(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left + 1, 0, 1'000'000'000));
}

Clock::time_point deadline_after(Seconds patience) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
}

struct Spawn {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  Spawn() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~Spawn() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
};

}  // namespace

struct Process::State {
  ProcessOptions options;
  Descriptor input, output, error;
  std::string buffered;  // read and not yet handed out
  std::string tail;
  pid_t pid = -1;
  int wait_status = 0;
  bool reaped = false;

  void start() {
    auto [in_parent, in_child] = make_pair();
    auto [out_parent, out_child] = make_pair();
    auto [err_parent, err_child] = make_pair();
    Spawn spawn;
    ::posix_spawn_file_actions_adddup2(&spawn.actions, in_child.get(), 0);
    ::posix_spawn_file_actions_adddup2(&spawn.actions, out_child.get(), 1);
    ::posix_spawn_file_actions_adddup2(&spawn.actions, err_child.get(), 2);
    // A group of its own, and no blocked or ignored signal inherited from us.
    sigset_t none, defaults;
    ::sigemptyset(&none);
    ::sigemptyset(&defaults);
    for (const int s : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) ::sigaddset(&defaults, s);
    ::posix_spawnattr_setsigmask(&spawn.attributes, &none);
    ::posix_spawnattr_setsigdefault(&spawn.attributes, &defaults);
    ::posix_spawnattr_setpgroup(&spawn.attributes, 0);
    ::posix_spawnattr_setflags(
        &spawn.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::vector<std::string> settings;
    for (char** e = environ; *e != nullptr; ++e) {
      const std::string_view entry = *e;
      const std::string_view key = entry.substr(0, entry.find('='));
      if (std::ranges::none_of(options.environment, [&](auto& p) { return p.first == key; }))
        settings.emplace_back(entry);
    }
    for (const auto& [key, value] : options.environment) settings.push_back(key + "=" + value);
    std::vector<char*> argv, envp;
    for (std::string& a : options.command) argv.push_back(a.data());
    for (std::string& s : settings) envp.push_back(s.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    const int failed =
        ::posix_spawnp(&pid, argv[0], &spawn.actions, &spawn.attributes, argv.data(), envp.data());
    if (failed != 0) {
      pid = -1;
      throw missing("{} cannot be started: {}", options.command[0], std::strerror(failed));
    }
    input = std::move(in_parent);
    output = std::move(out_parent);
    error = std::move(err_parent);
    for (const Descriptor* d : {&input, &output, &error}) set_nonblocking(d->get());
  }

  // True once the child has ended. What it started itself ends with it: the group is ended before
  // its leader is reaped, as long as the group's number can belong to nobody else.
  bool reap(bool wait) {
    if (reaped || pid < 0) return true;
    siginfo_t info{};
    int failed = 0;
    do
      failed =
          ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | (wait ? 0 : WNOHANG));
    while (failed != 0 && errno == EINTR);
    if (failed == 0 && info.si_pid == 0) return false;
    ::kill(-pid, SIGKILL);
    pid_t got = 0;
    do got = ::waitpid(pid, &wait_status, 0);
    while (got < 0 && errno == EINTR);
    reaped = true;
    return true;
  }

  // Moves what standard error holds into the tail.
  void drain_error() {
    std::array<char, 4096> chunk;
    while (error.get() >= 0) {
      const ssize_t n = ::read(error.get(), chunk.data(), chunk.size());
      if (n > 0) {
        tail.append(chunk.data(), static_cast<std::size_t>(n));
        if (tail.size() > 2 * kTailBytes) tail.erase(0, tail.size() - kTailBytes);
      } else if (n < 0 && errno == EINTR) {
        continue;
      } else {
        if (n == 0) error.close();
        return;
      }
    }
  }

  // Waits until `events` hold on fd, reading standard error meanwhile; false at the deadline.
  bool wait(int fd, short events, Clock::time_point deadline) {
    for (;;) {
      std::array<pollfd, 2> polled{pollfd{fd, events, 0}, pollfd{error.get(), POLLIN, 0}};
      const int n = ::poll(polled.data(), polled.size(), remaining_ms(deadline));
      if (n < 0 && errno != EINTR)
        throw internal_error("poll on a child process: {}", std::strerror(errno));
      if (n > 0 && polled[1].revents != 0) drain_error();
      if (n > 0 && polled[0].revents != 0) return true;
      if (Clock::now() >= deadline) return false;
    }
  }
};

Process::Process(ProcessOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->start();
}

Process::~Process() { end(); }

Process::Status Process::send_line(std::string_view text, Seconds patience) {
  const auto deadline = deadline_after(patience);
  std::string line(text);
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = ::send(state_->input.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n > 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!state_->wait(state_->input.get(), POLLOUT, deadline)) return Status::timed_out;
    } else if (errno != EINTR) {
      return Status::ended;
    }
  }
  return Status::line;
}

Process::Status Process::receive_line(std::string& line, Seconds patience) {
  const auto deadline = deadline_after(patience);
  std::string& buffered = state_->buffered;
  std::size_t searched = 0;
  for (;;) {
    if (const auto at = buffered.find('\n', searched); at != std::string::npos) {
      line = buffered.substr(0, at);
      buffered.erase(0, at + 1);
      return Status::line;
    }
    searched = buffered.size();
    if (buffered.size() > state_->options.longest_line_bytes) return Status::too_long;
    if (state_->output.get() < 0) return Status::ended;
    if (!state_->wait(state_->output.get(), POLLIN, deadline)) return Status::timed_out;
    std::array<char, 65536> chunk;
    const ssize_t n = ::read(state_->output.get(), chunk.data(), chunk.size());
    if (n > 0) {
      buffered.append(chunk.data(), static_cast<std::size_t>(n));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      state_->output.close();
      // Its last words may still be under way: it is ending, so this is short.
      wait_for_end(Seconds(2.0));
      state_->drain_error();
      return Status::ended;
    }
  }
}

bool Process::running() const { return !state_->reap(false); }

bool Process::wait_for_end(Seconds patience) {
  const auto deadline = deadline_after(patience);
  while (!state_->reap(false)) {
    if (Clock::now() >= deadline) return false;
    state_->drain_error();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  state_->drain_error();
  return true;
}

void Process::end() {
  if (state_->pid < 0) return;
  if (!state_->reaped) {
    ::kill(-state_->pid, SIGKILL);
    state_->reap(true);
  }
  state_->drain_error();
}

std::string Process::how_it_ended() const {
  if (!state_->reap(false) || state_->pid < 0) return "";
  const int status = state_->wait_status;
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

std::string Process::error_tail(std::size_t bytes) const {
  state_->drain_error();
  std::string text = state_->tail;
  if (text.size() > bytes) {
    text.erase(0, text.size() - bytes);
    if (const auto line = text.find('\n'); line != std::string::npos) text.erase(0, line + 1);
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace etalon
