// Where the program's data files lie: runner folders, shapes, the report's parts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace etalon {

// Folders that may hold `path` ("bench/runners"), best first: PREFIX/share/etalon beside an
// installed binary, then the source tree that the binary was built from.
std::vector<std::string> resource_roots();

// The first that exists; missing Error naming the places that were tried.
std::string resource_path(std::string_view path);

}  // namespace etalon
