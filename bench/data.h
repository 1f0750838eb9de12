// Input tensors for a network: from files, from the data that ships with the program, or noise
// (engine/models/inputs.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/graph/graph.h"
#include "engine/models/inputs.h"

namespace etalon {

// Images and their labels. Pixels are f32 of u8 / 255 (one division, correctly rounded).
struct Dataset {
  std::string name;    // "mnist"
  std::string source;  // one sentence: what, how many, from where
  Tensor images;       // f32 [n,1,28,28]
  std::vector<std::int64_t> labels;
};
// `count` first samples, 0: all. A usage Error lists the data sets.
Dataset load_dataset(std::string_view name, std::int64_t count = 0);

// The names of the graph's inputs, for a sentence.
std::string input_names(const Graph& graph);

// A word NAME=FILE in its parts. Names and paths may hold a '=': the first at which a file begins
// parts them, else the first of all; no name where there is none, or where a file has the whole
// word for its name.
struct NamedFile {
  std::string name, path;
};
NamedFile named_file(const std::string& word);

// --input words: FILE or NAME=FILE, npy, npz or safetensors. Names match the graph's inputs; one
// unnamed array serves a single input, and so does one array of another name when the graph has one
// input. A bad-input Error names the file, what was expected and what was there.
InputMap read_inputs(const Graph& graph, const std::vector<std::string>& words);

}  // namespace etalon
