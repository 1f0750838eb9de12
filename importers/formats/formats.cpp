// Every format, one row each, in the order in which they are asked.
#include <array>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/core/memory_budget.h"
#include "engine/core/threads.h"
#include "engine/models/models.h"
#include "importers/containers/bytes.h"
#include "importers/containers/zip.h"
#include "importers/formats/caffe.h"
#include "importers/formats/cntk.h"
#include "importers/formats/coreml.h"
#include "importers/formats/darknet.h"
#include "importers/formats/flax.h"
#include "importers/formats/gguf.h"
#include "importers/formats/keras.h"
#include "importers/formats/mxnet.h"
#include "importers/formats/ncnn.h"
#include "importers/formats/neutral.h"
#include "importers/formats/onnx.h"
#include "importers/formats/openvino.h"
#include "importers/formats/ort.h"
#include "importers/formats/pytorch.h"
#include "importers/formats/tensorflow.h"
#include "importers/formats/tensors.h"
#include "importers/formats/tfjs.h"
#include "importers/formats/tflite.h"
#include "importers/formats/torch7.h"
#include "importers/importers.h"

namespace etalon {
namespace {

const auto& table() {
  // Magic numbers first, then what is told by structure, then what only a name tells.
  static const std::array kTable{
      // First: its length field may begin as a pickle does, 80 02.
      safetensors_format(),             //
      gguf_format(),                    //
      pytorch_format_row(),             //
      caffe_format(),                   //
      keras_format_row(),               //
      theano_zip_format(),              //
      npy_format(),                     //
      npz_format(),                     //
      hdf5_format(),                    //
      pickle_format(),                  //
      flax_format(),                    //
      neutral_format(),                 //
      tflite_format(),                  //
      ort_format(),                     //
      mxnet_params_format(),            //
      mxnet_symbol_format(),            //
      tensorflow_saved_model_format(),  //
      tfjs_format(),                    //
      cntk_format(),                    //
      cntk_network_format(),            //
      coreml_format(),                  //
      openvino_format(),                //
      ncnn_format(),                    //
      torch7_format(),                  //
      darknet_format(),                 //
      caffe_blob_format(),              //
      caffe_solver_format(),            //
      tensorflow_graph_format(),        //
      tensorflow_meta_format(),         //
      tensorflow_checkpoint_format(),   //
      idx_format(),                     //
      onnx_format_row(),                //
      onnx_tensor_format(),             //
  };
  return kTable;
}

// Calls f with each ending of a row.
template <class F>
void each_ending(const FormatRow& row, F&& f) {
  for (std::string_view rest = row.endings; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    f(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

const FormatRow& format_by_ending(const std::string& path, bool tensors) {
  const FormatRow* found = nullptr;
  std::string known;
  for (const FormatRow& row : formats()) {
    if (row.store == nullptr && (tensors || row.save == nullptr)) continue;
    each_ending(row, [&](std::string_view ending) {
      if (found == nullptr && has_ending(path, ending)) found = &row;
      known.append(known.empty() ? "" : ", ").append(ending);
    });
  }
  if (found == nullptr)
    throw usage_error("{}: the ending names no format that {}; use one of {}", path,
                      tensors ? "tensors can be written in" : "can be written", known);
  return *found;
}

// The page that says what is read of a format, below docs/.
std::string_view page_of(std::string_view format) {
  static constexpr std::pair<std::string_view, std::string_view> kPages[] = {
      {"caffe", "formats/caffe.md"},
      {"cntk", "formats/cntk.md"},
      {"coreml", "formats/coreml.md"},
      {"darknet", "formats/darknet.md"},
      {"hdf5", "formats/keras.md"},
      {"keras", "formats/keras.md"},
      {"mxnet", "formats/mxnet.md"},
      {"ncnn", "formats/ncnn.md"},
      {"onnx", "importers-operators.md"},
      {"openvino", "formats/openvino.md"},
      {"ort", "formats/onnxruntime.md"},
      {"pytorch", "formats/pytorch.md"},
      {"tensorflow", "formats/tensorflow.md"},
      {"tflite", "formats/tensorflow.md"},
      {"tfjs", "formats/tfjs.md"},
      {"torch7", "formats/torch7.md"}};
  for (const auto& [name, page] : kPages)
    if (format.starts_with(name)) return page;
  return "formats/weights.md";
}

// Calls f, a reader of what `page` is about. A sentence that does not say what to do gets an end
// that does.
template <class F>
auto advised(std::string_view page, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    const std::string_view what = e.what();
    if (e.kind() != ErrorKind::bad_input || what.find("; ") != what.npos) throw;
    // The text carries the places that were open around this call, and they are open still.
    const std::string around = bad_input("{}", "").what();
    throw bad_input("{}; if the file is whole, docs/{} says what is read of its format",
                    what.substr(around.size()), page);
  }
}

// What is known but not read, with what to do; empty where it is nothing known.
std::string_view foreign(const FileView& file) {
  if (file.is_folder) {
    const std::filesystem::path folder(file.path);
    std::error_code none;
    for (const char* name : {"_CHECKPOINT_METADATA", "manifest.ocdbt"})
      if (std::filesystem::exists(folder / name, none))
        return "a checkpoint of Orbax, which is not read; restore it in JAX and save its arrays "
               "with flax.serialization.to_bytes or numpy.savez";
    return "a folder, and no model that is one (by 'saved_model.pb', or a package's "
           "'Manifest.json'); give the path of a file";
  }
  if (std::filesystem::path(file.path).filename() == "fingerprint.pb")
    return "the fingerprint of a SavedModel, which holds no model; give the folder it is in";
  if (file.text().starts_with("#loc") || file.text().find("ML\xefR") != std::string_view::npos ||
      file.text().find("stablehlo.") != std::string_view::npos)
    return "a program of MLIR (StableHLO, jax.export), which is not read; save the weights with "
           "flax.serialization.to_bytes, or the network as a SavedModel or in ONNX";
  constexpr std::size_t kTarName = 257;  // in the head of a tar archive's first member
  if (file.text().size() > kTarName && file.text().substr(kTarName).starts_with("ustar"))
    return "a tar archive, which is not read; unpack it and give the file in it";
  for (const auto& [magic, what] :
       {std::pair{"\x1f\x8b", "a file packed by gzip; unpack it with gunzip first"},
        std::pair{"BZh", "a file packed by bzip2; unpack it with bunzip2 first"},
        std::pair{"\xfd\x37zXZ", "a file packed by xz; unpack it with unxz first"},
        std::pair{"\x28\xb5\x2f\xfd", "a file packed by zstd; unpack it with unzstd first"}})
    if (file.text().starts_with(magic)) return what;
  return "";
}

TensorList weights_of(const Model& model) {
  TensorList tensors;
  for (const auto& [id, tensor] : model.graph->initializers)
    tensors.push_back({model.graph->value_name(id), tensor.share()});
  return tensors;
}

}  // namespace

std::span<const FormatRow> formats() { return table(); }

const FormatRow& format_of(const std::string& path) {
  FileView view;
  view.path = path;
  view.is_folder = std::filesystem::is_directory(path);
  Blob file;
  if (!view.is_folder) {
    file = map_file(path);
    view.prefix = file.bytes.first(std::min(file.bytes.size(), kPrefixBytes));
    if (view.prefix.empty()) throw bad_input("{}: the file is empty; fetch it again", path);
  }
  std::string known;
  for (const FormatRow& row : formats()) {
    if (row.match(view)) return row;
    known.append(known.empty() ? "" : ", ").append(row.name);
  }
  if (is_zip(view.prefix)) {
    // What keeps an archive from being read says more than that nobody knows it.
    advised("formats/weights.md", [&] {
      const ErrorScope scope(path);
      const ZipReader zip(file);
    });
  }
  if (const std::string_view what = foreign(view); !what.empty())
    throw bad_input("{}: {}", path, what);
  throw bad_input("{}: no known format; the formats are {}", path, known);
}

Model open_model(const std::string& path, std::span<const std::string> with) {
  const DefaultFpEnvironment fp;
  if (const std::string_view name = built_model_name(path); !name.empty()) {
    if (!with.empty())
      throw usage_error("--with {}: {} is no file; leave --with out", with[0], path);
    return build_model(name);
  }
  const MemoryBudget budget;
  const FormatRow& row = format_of(path);
  if (!with.empty() && !row.takes_more)
    throw usage_error("--with {}: what {} reads stands in one file; leave --with out", with[0],
                      row.name);
  if (row.open != nullptr) return advised(page_of(row.name), [&] { return row.open(path, with); });
  Model model;
  model.path = path;
  model.format = row.name;
  TensorList tensors = advised(page_of(row.name), [&] { return row.load(path); });
  const ErrorScope scope(path);
  for (NamedTensor& t : tensors)
    model.graph->initializers.emplace_hint(model.graph->initializers.end(),
                                           model.graph->add_value(std::move(t.name)),
                                           std::move(t.tensor));
  return model;
}

TensorList load_tensors(const std::string& path) {
  const DefaultFpEnvironment fp;
  if (!built_model_name(path).empty()) return weights_of(open_model(path));
  const MemoryBudget budget;
  const FormatRow& row = format_of(path);
  return advised(page_of(row.name), [&] {
    return row.load != nullptr ? row.load(path) : weights_of(row.open(path, {}));
  });
}

Saved save_model(const Model& model, const std::string& path) {
  const DefaultFpEnvironment fp;
  const FormatRow& row = format_by_ending(path, false);
  if (row.save != nullptr) return row.save(model, path);
  row.store(weights_of(model), path);
  return {.files = {path}};
}

void save_tensors(const TensorList& tensors, const std::string& path) {
  const DefaultFpEnvironment fp;
  format_by_ending(path, true).store(tensors, path);
}

void check_saving(const std::string& path, bool tensors) {
  format_by_ending(path, tensors);
  check_place(path);
}

}  // namespace etalon
