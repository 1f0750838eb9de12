// The words by which a command takes a model: its file, further files, and for weights without a
// graph the network they belong to. One implementation for convert, inspect, run and validate.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/cli/options.h"
#include "importers/arch.h"

namespace etalon::cli {

struct ModelArgs {
  std::string path;
  std::vector<std::string> with;
  std::vector<std::string> shapes;  // of inputs that the file does not say
  ArchOptions arch;
  std::vector<Placement> placed;  // filled by open_model_args
};

// `word`: how the help shows the file; `help`: what it may be.
Options& model_options(Options& options, const std::string& word, const std::string& help,
                       ModelArgs& args);
// Opens the model; where --arch was given, prints what went where. `inputs` are the files that the
// caller is going to give as its inputs: what they hold tells the shapes where no --input-shape
// does.
Model open_model_args(ModelArgs& args, const std::vector<std::string>& inputs = {});
// The seed of --random; a usage Error where it is none.
std::uint64_t seed_of(const std::string& text);
// The same table for a record; null without --arch.
nlohmann::json placement_json(const ModelArgs& args);

}  // namespace etalon::cli
