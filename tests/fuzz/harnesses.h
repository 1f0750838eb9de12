// What is fuzzed: every row of formats() (importers/importers.h) under its own name, some in a
// second guise, and every container by itself. A format needs an entry only when its model is more
// than one file, or one with a name of its own; all others are "m" with the row's first ending.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace etalon::fuzz {

struct Harness {
  std::string_view name;    // of the harness
  std::string_view format;  // the row that opens it
  // The files of the model, relative, separated by blanks. An input is their bytes one after the
  // other, behind a 32-bit length for each but the last.
  std::string_view files;
  std::string_view open = {};  // what is opened; the first file where empty
};

inline constexpr std::array kGuises{
    Harness{"caffe", "caffe", "m.prototxt m.caffemodel"},
    Harness{"caffemodel", "caffe", "m.caffemodel"},
    Harness{"caffe-h5", "caffe", "m.prototxt m.caffemodel.h5"},
    Harness{"darknet", "darknet", "m.cfg m.weights"},
    Harness{"keras", "keras", "m.h5"},
    Harness{"keras-v3", "keras", "m.keras"},
    Harness{"mxnet", "mxnet", "m-symbol.json m-0000.params"},
    Harness{"ncnn", "ncnn", "m.param m.bin"},
    Harness{"neutral", "neutral", "m.json m.safetensors"},
    Harness{"openvino", "openvino", "m.xml m.bin"},
    Harness{"coreml-package", "coreml",
            "m/Manifest.json m/Data/com.apple.CoreML/model.mlmodel "
            "m/Data/com.apple.CoreML/weights/weight.bin",
            "m"},
    Harness{"pytorch", "pytorch", "m.pt"},
    Harness{"pytorch-exported", "pytorch", "m.pt2"},
    Harness{"pytorch-script", "pytorch", "m.pt"},
    Harness{"tensorflow-text", "tensorflow", "m.pbtxt"},
    Harness{"tensorflow-checkpoint", "tensorflow-checkpoint", "m.index m.data-00000-of-00001"},
    Harness{"tensorflow-checkpoint-v1", "tensorflow-checkpoint", "m.ckpt"},
    Harness{"tensorflow-meta", "tensorflow-meta", "m.meta m.index m.data-00000-of-00001"},
    Harness{"tensorflow-saved-model", "tensorflow-saved-model",
            "m/saved_model.pb m/variables/variables.index "
            "m/variables/variables.data-00000-of-00001",
            "m"},
    Harness{"tfjs", "tfjs", "m.json weights.bin"},
};

inline constexpr std::array<std::string_view, 9> kContainers{
    "container-zip",  "container-npy",     "container-pickle", "container-hdf5", "container-json",
    "container-wire", "container-sstable", "container-snappy", "container-t7"};

inline std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> out;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (end > 0) out.emplace_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return out;
}

}  // namespace etalon::fuzz
