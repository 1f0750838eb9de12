// Declares the options of one command. A thin face of CLI11, so that one file compiles it.
//
// Targets are kept by reference until the command has run: an action owns them through a
// shared_ptr.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace etalon::cli {

class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}

  // A word without dashes; `name` is how the help shows it: "MODEL".
  Options& word(const std::string& name, std::string& value, const std::string& help,
                bool required = true);
  Options& words(const std::string& name, std::vector<std::string>& values, const std::string& help,
                 bool required = true);
  // "--input" or "-o,--output"; `type` is how the help shows the value: "FILE".
  Options& value(const std::string& flags, std::string& value, const std::string& type,
                 const std::string& help, bool required = false);
  Options& value(const std::string& flags, std::int64_t& value, const std::string& help);
  Options& value(const std::string& flags, double& value, const std::string& help);
  // May be given again, and splits at commas: --against onnxruntime,pytorch.
  Options& list(const std::string& flags, std::vector<std::string>& values, const std::string& type,
                const std::string& help);
  // As list, but a value may hold commas: --input a=x.npy --input b=y.npy. Takes up to `most` words
  // each time.
  Options& repeated(const std::string& flags, std::vector<std::string>& values,
                    const std::string& type, const std::string& help, int most = 1);
  Options& flag(const std::string& flags, bool& value, const std::string& help);
  // Whether "--name" stood on the command line; an action may ask, too.
  bool given(const std::string& name) const;

 private:
  CLI::App& app_;
};

}  // namespace etalon::cli
