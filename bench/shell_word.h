// Words of a command that a person may paste into a shell.
#pragma once

#include <string>

namespace etalon {

// What a shell reads as this one word.
std::string shell_word(const std::string& word);

}  // namespace etalon
