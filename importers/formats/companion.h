// Models of several files: the one that was named, and those that belong to it.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace etalon {

// The file with one of these endings that belongs to `path`: `path` itself, the first of `with`
// that has one, else the file of the same stem in the same folder; "" when there is none. A model
// may so be named by any of its files.
std::string companion(const std::string& path, std::span<const std::string> with,
                      std::initializer_list<std::string_view> endings);

}  // namespace etalon
