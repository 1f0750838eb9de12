#include "bench/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace etalon::cli {

Options& Options::word(const std::string& name, std::string& value, const std::string& help,
                       bool required) {
  app_.add_option(name, value, help)->required(required)->type_name("");
  return *this;
}

Options& Options::words(const std::string& name, std::vector<std::string>& values,
                        const std::string& help, bool required) {
  app_.add_option(name, values, help)->required(required)->type_name("");
  return *this;
}

Options& Options::value(const std::string& flags, std::string& value, const std::string& type,
                        const std::string& help, bool required) {
  app_.add_option(flags, value, help)->required(required)->type_name(type)->capture_default_str();
  return *this;
}

Options& Options::value(const std::string& flags, std::int64_t& value, const std::string& help) {
  // The parser takes what is beyond 64 bits for the nearest that is not.
  const auto fits = [](const std::string& text) {
    errno = 0;
    std::strtoll(text.c_str(), nullptr, 10);
    return errno == ERANGE ? fmt::format("{} is beyond 64 bits", text) : std::string();
  };
  app_.add_option(flags, value, help)->type_name("N")->capture_default_str()->check(fits);
  return *this;
}

Options& Options::value(const std::string& flags, double& value, const std::string& help) {
  app_.add_option(flags, value, help)->type_name("X")->capture_default_str();
  return *this;
}

Options& Options::list(const std::string& flags, std::vector<std::string>& values,
                       const std::string& type, const std::string& help) {
  // One word with commas: a list that takes several words would swallow the positional ones.
  app_.add_option_function<std::string>(
          flags,
          [&values](const std::string& text) {
            for (std::size_t at = 0; at <= text.size();) {
              const std::size_t comma = std::min(text.find(',', at), text.size());
              if (comma > at) values.push_back(text.substr(at, comma - at));
              at = comma + 1;
            }
          },
          help)
      ->type_name(type);
  return *this;
}

Options& Options::repeated(const std::string& flags, std::vector<std::string>& values,
                           const std::string& type, const std::string& help, int most) {
  app_.add_option(flags, values, help)
      ->type_name(type)
      ->expected(1, most)
      ->allow_extra_args(most > 1)  // a word behind its one value is a word of the command
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Options& Options::flag(const std::string& flags, bool& value, const std::string& help) {
  app_.add_flag(flags, value, help);
  return *this;
}

bool Options::given(const std::string& name) const { return app_.count(name) > 0; }

}  // namespace etalon::cli
