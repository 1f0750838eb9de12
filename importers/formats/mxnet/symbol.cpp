#include "importers/formats/mxnet/symbol.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/containers/json.h"
#include "importers/formats/mxnet.h"
#include "importers/formats/mxnet/operators.h"
#include "importers/formats/mxnet/params.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace mxnet {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
std::pair<std::size_t, std::size_t> entry(const json& e, std::size_t below) {
  if (!e.is_array() || e.empty()) throw bad_input("an input must be [node, output, version]");
  const std::int64_t node = json_integer(e[0], "a node"),
                     output = e.size() > 1 ? json_integer(e[1], "an output") : 0;
  if (node < 0 || static_cast<std::size_t>(node) >= below || output < 0)
    throw bad_input("reads node {} of {} before it", node, below);
  return {static_cast<std::size_t>(node), static_cast<std::size_t>(output)};
}

}  // namespace

Symbol read_symbol(std::string_view text) {
  const json in = parse_json(text);
  Symbol out;
  for (const json& e : json_array(in, "nodes")) {
    SymbolNode n;
    n.op = json_string(e, "op");
    n.name = json_string(e, "name");
    const ErrorScope where(fmt::format("node {}", printable(n.name)));
    // 0.x: "param" is the op's, "attr" the user's, in whatever words; 1.x: "attrs" is both.
    for (const char* key : {"attr", "param", "attrs"})
      if (e.contains(key) && e[key].is_object())
        for (const auto& [k, v] : e[key].items())
          if (key != std::string_view("attr") || !e.contains("param") || k.starts_with("__"))
            n.attributes[k] = v.is_string() ? v.get<std::string>() : v.dump();
    if (const std::string_view plain = name_of_numpy(n.op); !plain.empty()) {
      n.op = plain;
      n.numpy = true;
    }
    for (const json& i : json_array(e, "inputs")) n.inputs.push_back(entry(i, out.nodes.size()));
    out.nodes.push_back(std::move(n));
  }
  for (const json& h : json_array(in, "heads")) out.heads.push_back(entry(h, out.nodes.size()));
  if (in.contains("attrs") && in["attrs"].is_object() && in["attrs"].contains("mxnet_version")) {
    const json& v = in["attrs"]["mxnet_version"];
    if (v.is_array() && v.size() == 2 && v[1].is_number_integer()) {
      const auto number = v[1].get<std::int64_t>();
      out.version = fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
    }
  }
  return out;
}

namespace {

// PREFIX-symbol.json and the newest PREFIX-nnnn.params.
std::string params_of(const std::string& symbol, std::span<const std::string> with) {
  if (!with.empty()) return with[0];
  const std::string name = fs::path(symbol).filename().string();
  const std::string prefix = name.substr(0, name.size() - std::string("-symbol.json").size()) + "-";
  std::string best;
  std::error_code failed;
  for (const auto& e : fs::directory_iterator(fs::absolute(symbol).parent_path(), failed)) {
    const std::string file = e.path().filename().string();
    if (file.starts_with(prefix) && file.ends_with(".params") &&
        (best.empty() || file > fs::path(best).filename().string()))
      best = (fs::path(symbol).parent_path() / file).string();
  }
  return best;
}

std::string symbol_of(const std::string& params) {
  const std::string name = stem_of(params);
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos) return "";
  const fs::path beside = fs::path(params).parent_path() / (name.substr(0, dash) + "-symbol.json");
  return fs::is_regular_file(beside) ? beside.string() : "";
}

Model open_pair(const std::string& path, const std::string& symbol_path,
                const std::string& params) {
  std::map<std::string, Tensor> weights;
  if (params.empty())
    throw bad_input("{}: no .params lie beside it; name them with --with", symbol_path);
  for (NamedTensor& t : read_params(params)) {
    std::string name = t.name;
    if (name.starts_with("arg:") || name.starts_with("aux:")) name = name.substr(4);
    if (!weights.emplace(name, as_f32(t.tensor)).second)
      throw bad_input("{}: tensor {}: stands twice", params, printable(name));
  }
  const Blob file = map_file(symbol_path);
  const ErrorScope scope(symbol_path);
  const Symbol symbol = read_symbol(file.text());
  const auto model_of = [&](Translator& t) {
    Model m = finish_model(t.g, path, "mxnet", "",
                           symbol.version.empty() ? "mxnet" : "mxnet " + symbol.version);
    return m;
  };
  std::string first_error;
  // Inner products fix the extent of the images before them: the usual extents are tried.
  {
    Translator t(symbol, weights, stem_of(symbol_path));
    try {
      t.run(224, false);
      return model_of(t);
    } catch (const Error& e) {
      first_error = e.what();
    }
    // Extents may be written into the network, that of the batch, too.
    if (!t.free_extent()) {
      Translator as_written(symbol, weights, stem_of(symbol_path));
      as_written.keep_extents();
      try {
        as_written.run(224, false);
        return model_of(as_written);
      } catch (const Error&) {
        throw Error(ErrorKind::bad_input, first_error);
      }
    }
  }
  for (const std::int64_t extent : {28,  224, 32,  299, 227, 64, 96, 112, 48, 128, 160, 192,
                                    256, 331, 384, 416, 512, 16, 20, 24,  40, 56,  80}) {
    Translator t(symbol, weights, stem_of(symbol_path));
    try {
      t.run(extent, true);
      return model_of(t);
    } catch (const Error&) {
      // The next extent; the first error is what the person is told.
    }
  }
  throw Error(ErrorKind::bad_input, first_error);
}

}  // namespace
}  // namespace mxnet

const FormatRow& mxnet_symbol_format() {
  static const FormatRow row{
      .name = "mxnet",
      .endings = "-symbol.json",
      .summary = "MXNet symbol JSON, parameters beside it.",
      .match =
          [](const FileView& f) {
            if (f.is_folder || !f.text().starts_with('{')) return false;
            // As MXNet writes it, and without the blank where a tool packed the JSON.
            const auto has = [&](std::string_view words) {
              return f.text().find(words) != std::string_view::npos;
            };
            return has("\"nodes\"") && (has("\"op\": \"null\"") || has("\"op\":\"null\""));
          },
      .open =
          [](const std::string& path, std::span<const std::string> with) {
            return mxnet::open_pair(path, path, mxnet::params_of(path, with));
          },
      .takes_more = true};
  return row;
}

const FormatRow& mxnet_params_format() {
  static const FormatRow row{
      .name = "mxnet-params",
      .endings = ".params",
      .summary = "MXNet parameters, V0 to V3; with -symbol.json beside them the network.",
      .match =
          [](const FileView& f) {
            return f.prefix.size() >= 24 &&
                   load_le<std::uint64_t>(f.prefix, 0) == mxnet::kListMagic;
          },
      .open =
          [](const std::string& path, std::span<const std::string> with) {
            const std::string symbol = with.empty() ? mxnet::symbol_of(path) : with[0];
            if (!symbol.empty()) return mxnet::open_pair(path, symbol, path);
            Model model;
            model.path = path;
            model.format = "mxnet-params";
            TensorList tensors = mxnet::read_params(path);
            const ErrorScope scope(path);
            for (NamedTensor& t : tensors)
              model.graph->initializers.emplace(model.graph->add_value(t.name),
                                                std::move(t.tensor));
            return model;
          },
      .takes_more = true,
      .load = mxnet::read_params};
  return row;
}

}  // namespace etalon
