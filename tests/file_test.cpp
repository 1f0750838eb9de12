// Writing files: what stands under the name stays what it is.
#include "engine/core/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "engine/core/error.h"
#include "tests/importer_files.h"

using namespace etalon;
namespace fs = std::filesystem;

TEST_CASE("file: a symlink is followed, a chain of them too, and one that leads to nothing yet") {
  const test::TemporaryFolder own;
  fs::create_directory(own / "deep");
  test::write_bytes(own / "deep/target", "old");
  fs::create_symlink("deep/target", own / "link");
  fs::create_symlink(own / "link", own / "second");
  fs::create_symlink("deep/new", own / "dangling");
  write_file(own / "second", "text");
  write_file(own / "dangling", "new");
  CHECK(fs::is_symlink(own / "link"));
  CHECK(fs::is_symlink(own / "second"));
  CHECK(fs::is_symlink(own / "dangling"));
  CHECK(test::read_bytes(own / "deep/target") == "text");
  CHECK(test::read_bytes(own / "deep/new") == "new");
}

TEST_CASE("file: a file that is replaced keeps its mode") {
  const test::TemporaryFolder own;
  test::write_bytes(own / "secret", "old");
  fs::permissions(own / "secret", fs::perms::owner_read | fs::perms::owner_write);
  write_file(own / "secret", "text");
  CHECK(fs::status(own / "secret").permissions() ==
        (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(test::read_bytes(own / "secret") == "text");
}

TEST_CASE("file: a pipe is written into, by its name and by that of a descriptor") {
  const test::TemporaryFolder own;
  const std::string pipe = own / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  char got[8] = {};
  check_place(pipe);
  write_file(pipe, "text");
  CHECK(fs::is_fifo(pipe));
  CHECK(::read(reader, got, sizeof got) == 4);
  const int writer = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
  write_file(fmt::format("/dev/fd/{}", writer), "again");
  CHECK(::read(reader, got, sizeof got) == 5);
  CHECK(std::string(got, 5) == "again");
  ::close(writer);
  ::close(reader);
  // What a descriptor leads to is not replaced, and is written where the descriptor stands.
  const int file = ::open((own / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  write_file(fmt::format("/proc/self/fd/{}", file), "one");
  write_file(fmt::format("/dev/fd/{}", file), "two");
  ::close(file);
  CHECK(test::read_bytes(own / "file") == "onetwo");
}

TEST_CASE("file: a place where nothing can be written is told beforehand") {
  const test::TemporaryFolder own;
  CHECK_THROWS_AS(check_place(own / "none/x.json"), Error);
  CHECK_THROWS_AS(check_place(own / ""), Error);
  check_place(own / "x.json");
  CHECK(fs::is_empty(own / ""));
}
