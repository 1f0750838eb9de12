// The program run inside a test's process.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "bench/cli/cli.h"

namespace etalon::test {

struct Ran {
  int code;
  std::string out, err;
};

// Runs the program inside this process with stdout and stderr caught in files.
inline Ran ran(std::vector<std::string> words) {
  std::vector<char*> argv;
  words.insert(words.begin(), "etalon");
  for (std::string& w : words) argv.push_back(w.data());
  std::fflush(stdout);
  std::FILE* files[2] = {std::tmpfile(), std::tmpfile()};
  const int saved[2] = {dup(1), dup(2)};
  dup2(fileno(files[0]), 1);
  dup2(fileno(files[1]), 2);
  const int code = cli::main_program(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  std::fflush(stderr);
  dup2(saved[0], 1);
  dup2(saved[1], 2);
  std::string texts[2];
  for (int i = 0; i < 2; ++i) {
    close(saved[i]);
    std::rewind(files[i]);
    char buffer[4096];
    for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, files[i])) > 0;)
      texts[i].append(buffer, n);
    std::fclose(files[i]);
  }
  return {code, texts[0], texts[1]};
}

}  // namespace etalon::test
