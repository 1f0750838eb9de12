#include "bench/runners/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "bench/runners/process.h"
#include "engine/core/hash.h"
#include "importers/containers/json.h"
#include "importers/formats/neutral.h"
#include "importers/importers.h"

namespace etalon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kProtocol = 1;

// The folder of one adapter's files; removed with everything in it.
class JobFolder {
 public:
  JobFolder() {
    std::string form = (fs::temp_directory_path() / "etalon-runner-XXXXXX").string();
    if (::mkdtemp(form.data()) == nullptr)
      throw missing("no temporary folder {} can be made; set TMPDIR to a writable one", form);
    path_ = form;
  }
  ~JobFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  std::string path_;
};

std::string shortened(std::string text, std::size_t limit = 120) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  if (text.size() > limit) text = text.substr(0, limit) + "...";
  return text;
}

// The line of a framework's last words that is most likely the reason: the last one that is not
// blank, without its indentation.
std::string last_words(const Process& process) {
  const std::string tail = process.error_tail();
  const auto at = tail.rfind('\n');
  std::string line = at == std::string::npos ? tail : tail.substr(at + 1);
  line.erase(0, line.find_first_not_of(" \t"));
  return line.empty() ? "" : fmt::format("; its last words: {}", shortened(line, 200));
}

std::int64_t count_nan(const Tensor& tensor) {
  return visit_dtype(tensor.dtype(), [&](auto t) -> std::int64_t {
    using T = decltype(t);
    const auto data = tensor.data<T>();
    return std::ranges::count_if(data, [](T v) {
      if constexpr (std::is_floating_point_v<T>)
        return std::isnan(v);
      else if constexpr (std::is_same_v<T, BFloat16>)
        return (v.bits & 0x7fff) > 0x7f80;
      else if constexpr (std::is_same_v<T, Float16>)
        return (v.bits & 0x7fff) > 0x7c00;
      else
        return false;
    });
  });
}

class LiveRunner final : public Runner {
 public:
  LiveRunner(RunnerFolder folder, const RunnerTarget& target, const RunnerOptions& options)
      : folder_(std::move(folder)), options_(options) {
    info_.target = target.text.empty() ? target.runner : target.text;
    info_.framework = folder_.framework;
    info_.threads = options.threads;
    if (const auto t = target.options.find("threads"); t != target.options.end())
      info_.threads = std::stoi(t->second);
    require_options(folder_, target);
    start(target);
    hello(target);
  }

  ~LiveRunner() override {
    if (!alive()) return;
    try {
      json request{{"request", "shutdown"}};
      ask(request, 5);
      process_->wait_for_end(Seconds(2));
    } catch (const std::exception&) {
      // It is ended by force below.
    }
  }

  const RunnerInfo& info() const override { return info_; }
  bool alive() const override { return ended_.empty(); }

  LoadedNetwork load_file(const std::string& path) override {
    const std::string ending = fs::path(path).extension().string();
    std::string format = ending.empty() ? "" : ending.substr(1);
    if (format == "json") format = "neutral";
    const bool native = std::ranges::find(folder_.reads, format) != folder_.reads.end();
    if (!native && format != "neutral")
      throw RunnerError(RunnerStatus::refused,
                        fmt::format("{}: {} reads {} and neutral graphs, not {}", info_.target,
                                    info_.framework, fmt::join(folder_.reads, ", "), path));
    json request{{"request", "load"}};
    request[native ? "model" : "graph"] = fs::absolute(path).string();
    return load_request(request, format);
  }

  LoadedNetwork load(const Model& model) override {
    const auto reads = [&](std::string_view format) {
      return std::ranges::find(folder_.reads, format) != folder_.reads.end();
    };
    json request{{"request", "load"}};
    if (reads(model.format) && !model.path.empty()) {
      request["model"] = fs::absolute(model.path).string();
      return load_request(request, model.format);
    }
    if (reads("onnx")) {
      request["model"] = job_.file("model.onnx");
      try {
        save_model(model, job_.file("model.onnx"));
      } catch (const Error& e) {
        throw RunnerError(
            RunnerStatus::refused,
            fmt::format("{}: the network has no ONNX form for it: {}", info_.target, e.what()));
      }
      return load_request(request, "exported onnx");
    }
    request["graph"] = job_.file("graph.json");
    save_neutral(model, job_.file("graph.json"), job_.file("graph.safetensors"));
    return load_request(request, "neutral");
  }

  RunAnswer run(const TensorMap& inputs, const RunRequest& wanted) override {
    json request{{"request", "run"}, {"inputs", inputs_file(inputs)}};
    if (wanted.every_layer)
      request["layers"] = "all";
    else if (!wanted.layers.empty())
      request["layers"] = wanted.layers;
    const std::string outputs = job_.file("outputs.safetensors");
    request["outputs"] = outputs;
    const json answer = ask(request, options_.request_timeout_s);
    return guarded("run", [&] {
      RunAnswer result;
      result.tensors = tensors_of(answer, outputs);
      result.perturbed = answer.value("perturbed", false);
      result.layers_from = answer.value("layers_from", "");
      result.absent = answer.value("absent", std::vector<std::string>{});
      std::vector<std::string> names = outputs_;
      if (!wanted.every_layer)
        names.insert(names.end(), wanted.layers.begin(), wanted.layers.end());
      for (const std::string& name : names)
        if (!result.tensors.contains(name) &&
            std::ranges::find(result.absent, name) == result.absent.end())
          throw garbage(fmt::format("left out the value {} that it was asked for", name));
      for (const auto& [name, type] : wanted.expect)
        if (const auto it = result.tensors.find(name);
            it != result.tensors.end() && !(it->second.type() == type))
          throw garbage(fmt::format("answered {} as {}, expected {}", name,
                                    to_string(it->second.type()), to_string(type)));
      return result;
    });
  }

  std::vector<double> time(const TensorMap& inputs, int warmup, int runs) override {
    return seconds_of(
        {{"request", "time"}, {"inputs", inputs_file(inputs)}, {"warmup", warmup}, {"runs", runs}},
        runs);
  }

  std::vector<double> time_open(const std::string& path, int runs) override {
    return seconds_of({{"request", "open"}, {"model", fs::absolute(path).string()}, {"runs", runs}},
                      runs);
  }

  std::vector<std::string> profile(const TensorMap& inputs) override {
    if (!info_.can("profile")) return {};
    json request{{"request", "profile"}, {"inputs", inputs_file(inputs)}};
    const json answer = ask(request, options_.request_timeout_s);
    return guarded("profile", [&] { return answer.at("kernels").get<std::vector<std::string>>(); });
  }

  TensorMap parameters() override {
    const std::string outputs = job_.file("parameters.safetensors");
    json request{{"request", "parameters"}, {"outputs", outputs}};
    const json answer = ask(request, options_.request_timeout_s);
    return guarded("parameters", [&] { return tensors_of(answer, outputs); });
  }

  std::optional<std::int64_t> peak_memory(bool reset) override {
    json request{{"request", "memory"}, {"reset", reset}};
    const json answer = ask(request, options_.request_timeout_s);
    return guarded("memory", [&]() -> std::optional<std::int64_t> {
      if (!answer.contains("peak_bytes") || answer["peak_bytes"].is_null()) return std::nullopt;
      return answer["peak_bytes"].get<std::int64_t>();
    });
  }

  void plant(const Fault& fault) override {
    json request{{"request", "fault"}, {"kind", fault.kind}};
    if (!fault.node.empty()) request["node"] = fault.node;
    if (fault.kind == "epsilon") request["value"] = fault.value;
    if (fault.kind == "weight_bit") {
      request["parameter"] = fault.parameter;
      request["index"] = fault.index;
      request["bit"] = fault.bit;
    }
    ask(request, options_.request_timeout_s);
  }

  void save(const std::string& format, const std::string& path) override {
    json request{{"request", "save"}, {"format", format}, {"path", fs::absolute(path).string()}};
    ask(request, options_.request_timeout_s);
  }

 private:
  std::vector<double> seconds_of(json request, int runs) {
    const json answer = ask(request, options_.request_timeout_s);
    return guarded(request["request"].get<std::string>(), [&] {
      auto seconds = answer.at("seconds").get<std::vector<double>>();
      if (seconds.size() != static_cast<std::size_t>(runs))
        throw garbage(fmt::format("answered {} times for {} runs", seconds.size(), runs));
      for (const double s : seconds)
        if (!(s >= 0)) throw garbage(fmt::format("answered a time of {} s", s));
      return seconds;
    });
  }

  LoadedNetwork load_request(json& request, const std::string& given) {
    const json answer = ask(request, options_.request_timeout_s);
    return guarded("load", [&] {
      LoadedNetwork network;
      network.given = given;
      network.outputs = answer.at("outputs").get<std::vector<std::string>>();
      network.values = answer.at("values").get<std::vector<std::string>>();
      for (const json& r : answer.at("refused"))
        network.refused.push_back({r.at("node").get<std::string>(), r.at("op").get<std::string>(),
                                   r.at("reason").get<std::string>()});
      network.lost = answer.value("lost", std::vector<std::string>{});
      outputs_ = network.outputs;
      for (const std::string& value : network.lost) std::erase(outputs_, value);
      return network;
    });
  }

  void start(const RunnerTarget& target) {
    const FrameworkState state = framework_state(folder_, target.interpreter);
    if (!state.ready)
      throw RunnerError(RunnerStatus::unavailable,
                        fmt::format("{}: {}", info_.target, state.reason));
    info_.interpreter = state.interpreter.path;
    const std::string threads = fmt::to_string(info_.threads);
    try {
      process_ = std::make_unique<Process>(
          ProcessOptions{.command = {info_.interpreter, "-u", folder_.adapter},
                         // Some libraries read their thread count once, when they are loaded.
                         .environment = {{"OMP_NUM_THREADS", threads},
                                         {"MKL_NUM_THREADS", threads},
                                         {"OPENBLAS_NUM_THREADS", threads},
                                         {"PYTHONDONTWRITEBYTECODE", "1"}}});
    } catch (const Error& e) {
      throw RunnerError(RunnerStatus::unavailable, fmt::format("{}: {}", info_.target, e.what()));
    }
  }

  void hello(const RunnerTarget& target) {
    json options = json::object();
    for (const auto& [key, value] : target.options)
      if (key != "threads") options[key] = value;
    json request{{"request", "hello"},
                 {"protocol", kProtocol},
                 {"threads", info_.threads},
                 {"options", options},
                 {"folder", job_.path()}};
    const json answer = ask(request, options_.start_timeout_s);
    guarded("hello", [&] {
      info_.framework = answer.at("framework").get<std::string>();
      info_.version = answer.at("version").get<std::string>();
      info_.python = answer.value("python", "");
      info_.build = answer.value("build", "");
      info_.versions = answer.value("versions", std::map<std::string, std::string>{});
      info_.options = answer.value("options", std::map<std::string, std::string>{});
      info_.capabilities = answer.at("capabilities").get<std::vector<std::string>>();
      info_.threads = answer.value("threads", info_.threads);
    });
  }

  // The process is of no further use: ends it, and gives the Error that this and every later call
  // throws.
  RunnerError give_up(const std::string& what) {
    ended_ = fmt::format("{}: {}", info_.target, what);
    process_->end();
    return {RunnerStatus::failed, ended_};
  }
  RunnerError garbage(const std::string& what) {
    return give_up(fmt::format("the adapter {}{}", what, last_words(*process_)));
  }

  // Runs f over an answer; a field that is missing or of another kind is garbage.
  template <class F>
  std::invoke_result_t<F> guarded(std::string_view request, F&& f) {
    try {
      return f();
    } catch (const json::exception& e) {
      throw garbage(fmt::format("answered '{}' without a field that it needs ({})", request,
                                shortened(e.what(), 200)));
    }
  }

  json ask(json& request, double patience_s) {
    if (!ended_.empty()) throw RunnerError(RunnerStatus::failed, ended_);
    const std::string kind = request["request"].get<std::string>();
    request["id"] = ++last_id_;
    std::string line;
    Process::Status status = process_->send_line(request.dump(), Seconds(patience_s));
    if (status == Process::Status::line) status = process_->receive_line(line, Seconds(patience_s));
    if (status == Process::Status::ended) {
      process_->wait_for_end(Seconds(2));
      const std::string how = process_->how_it_ended();
      const std::string words = last_words(*process_);
      throw give_up(fmt::format("the adapter {} during '{}'{}",
                                how.empty() ? "closed its output" : how, kind, words));
    }
    if (status == Process::Status::timed_out)
      throw give_up(fmt::format("the adapter did not answer '{}' within {:g} s and was ended{}",
                                kind, patience_s, last_words(*process_)));
    if (status == Process::Status::too_long)
      throw give_up(fmt::format("the adapter answered '{}' with a line without end", kind));
    json answer = parse_json_or_null(line);
    if (!answer.is_object())
      throw garbage(fmt::format("answered '{}' with a line that is no JSON object: {}", kind,
                                shortened(line)));
    if (answer.value("id", json()) != json(last_id_))
      throw garbage(fmt::format("answered '{}' under id {}, expected {}", kind,
                                answer.value("id", json()).dump(), last_id_));
    return guarded(kind, [&] {
      if (answer.at("ok").get<bool>()) return answer;
      const auto why = answer.at("kind").get<std::string>();
      std::string reason =
          fmt::format("{}: {}", info_.target, answer.at("reason").get<std::string>());
      if (answer.contains("node"))
        reason =
            fmt::format("{}: node {} ({}): {}", info_.target, answer["node"].get<std::string>(),
                        answer.value("op", "?"), answer.at("reason").get<std::string>());
      throw RunnerError(why == "unavailable" ? RunnerStatus::unavailable
                        : why == "refused"   ? RunnerStatus::refused
                                             : RunnerStatus::failed,
                        reason);
    });
  }

  // Inputs are written once for as long as they stay the same: timing asks again and again.
  std::string inputs_file(const TensorMap& inputs) {
    HashStream stream;
    for (const auto& [name, tensor] : inputs) {
      stream.update(name);
      stream.update(tensor);
    }
    const std::string hash = to_string(stream.digest());
    const std::string path = job_.file("inputs.safetensors");
    if (hash != inputs_hash_) {
      TensorList named;
      for (const auto& [name, tensor] : inputs) named.push_back({name, tensor.share()});
      save_tensors(named, path);
      inputs_hash_ = hash;
    }
    return path;
  }

  // Reads the file that the answer describes, and holds it to the description.
  TensorMap tensors_of(const json& answer, const std::string& path) {
    TensorMap tensors;
    try {
      for (NamedTensor& t : load_tensors(path)) tensors.emplace(t.name, std::move(t.tensor));
    } catch (const RunnerError&) {
      throw;
    } catch (const Error& e) {
      throw garbage(fmt::format("left no readable tensors: {}", e.what()));
    }
    const json& described = answer.at("tensors");
    if (described.size() != tensors.size())
      throw garbage(
          fmt::format("described {} tensors and wrote {}", described.size(), tensors.size()));
    for (const auto& [name, tensor] : tensors) {
      const json& said = described.at(name);
      const auto dims = said.at("shape").get<std::vector<std::int64_t>>();
      const auto text =
          fmt::format("{}[{}]", said.at("dtype").get<std::string>(), fmt::join(dims, ","));
      if (text != to_string(tensor.type()))
        throw garbage(
            fmt::format("described {} as {} and wrote {}", name, text, to_string(tensor.type())));
      if (const std::int64_t nan = count_nan(tensor); nan != said.at("nan").get<std::int64_t>())
        throw garbage(fmt::format("counted {} NaN in {}, its file holds {}",
                                  said.at("nan").get<std::int64_t>(), name, nan));
    }
    return tensors;
  }

  RunnerFolder folder_;
  RunnerOptions options_;
  RunnerInfo info_;
  JobFolder job_;
  std::unique_ptr<Process> process_;  // ends before its folder goes
  std::int64_t last_id_ = 0;
  std::string ended_;  // why the process is of no further use
  std::string inputs_hash_;
  std::vector<std::string> outputs_;
};

}  // namespace

std::string_view name(RunnerStatus status) {
  switch (status) {
    case RunnerStatus::unavailable:
      return "unavailable";
    case RunnerStatus::refused:
      return "refused";
    case RunnerStatus::failed:
      break;
  }
  return "failed";
}

bool RunnerInfo::can(std::string_view capability) const {
  return std::ranges::find(capabilities, capability) != capabilities.end();
}

std::unique_ptr<Runner> start_runner(const RunnerTarget& target, const RunnerOptions& options) {
  return start_runner(find_runner(target.runner), target, options);
}

std::unique_ptr<Runner> start_runner(const RunnerFolder& folder, const RunnerTarget& target,
                                     const RunnerOptions& options) {
  return std::make_unique<LiveRunner>(folder, target, options);
}

}  // namespace etalon
