// The teaching site: static files, the engine as WebAssembly, and what was measured here. It opens
// from a folder, without a server and without a network.
#pragma once

#include <string>

namespace etalon::lab {

struct SiteOptions {
  std::string folder;
  bool times = true;  // take native times of the algorithms (some seconds)
  int threads = 1;
  std::string command;  // what the page says it was written by
};

// Path of lab.wasm; a missing Error says how it is built.
std::string wasm_path();
// Writes index.html and what it loads; returns the path of index.html.
std::string write_site(const SiteOptions& options);

}  // namespace etalon::lab
