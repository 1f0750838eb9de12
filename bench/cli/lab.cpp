// etalon lab: the teaching site, and its questions answered here.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/lab/answer.h"
#include "bench/lab/problem.h"
#include "bench/lab/site.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "importers/importers.h"

namespace etalon::cli {
namespace {

struct Arguments {
  std::string what, question, output;
  bool serve = false, no_times = false;
  std::int64_t port = 8000;
};

void write_text(const std::string& path, const std::string& text) {
  FileWriter out(path);
  out.write(text);
  out.commit();
}

int ask(const Arguments& a, const Globals& g) {
  if (a.question.empty())
    throw usage_error(
        "lab ask needs a question, as the page shows it: etalon lab ask '{{\"do\": "
        "\"conv\"}}'");
  const std::string reply = lab::answer(a.question);
  const auto json = nlohmann::json::parse(reply);
  if (json.contains("error")) throw usage_error("{}", json["error"].get<std::string>());
  // A file of tensors by its ending (.npy, .npz, .safetensors) gets the outputs, another the
  // answer.
  if (!a.output.empty() && !a.output.ends_with(".json")) {
    if (!json.contains("hash"))
      throw usage_error("-o {}: only the question 'conv' has outputs; name a .json for the answer",
                        a.output);
    TensorList list;
    list.push_back({"y", lab::outputs(a.question)});
    save_tensors(list, a.output);
  }
  if (a.output.ends_with(".json")) write_text(a.output, reply);
  if (!g.json_path.empty()) write_text(g.json_path, reply);
  if (json.contains("hash")) {
    fmt::print("contract  {}\nkernel    {}\nhash      {}\n", json["contract"].get<std::string>(),
               json["kernel"].get<std::string>(), json["hash"].get<std::string>());
    const auto& s = json["stats"];
    fmt::print("error     at most {} ULP, {} in the mean; {} of {} outputs correctly rounded\n",
               s["max_ulp"].dump(), s["mean_ulp"].dump(), s["correctly_rounded"].dump(),
               s["elements"].dump());
  } else {
    fmt::print("{}\n", reply);
  }
  return 0;
}

int write(const Arguments& a, const Globals& g) {
  lab::SiteOptions options;
  options.folder = a.output.empty() ? "etalon-lab" : a.output;
  options.times = !a.no_times;
  options.threads = g.threads;
  options.command = g.command_line;
  const std::string page = lab::write_site(options);
  fmt::print("{}\n", page);
  if (!a.serve) return 0;
  fmt::print("http://127.0.0.1:{}/ until Ctrl-C\n", a.port);
  std::fflush(stdout);
  const std::string port = std::to_string(a.port);
  execlp("python3", "python3", "-m", "http.server", port.c_str(), "--bind", "127.0.0.1",
         "--directory", options.folder.c_str(), static_cast<char*>(nullptr));
  throw missing("python3 is not there to serve the folder; open {} in a browser instead", page);
}

}  // namespace

Action lab_command(Options& options) {
  auto a = std::make_shared<Arguments>();
  options.word("WHAT", a->what, "conv writes the site; ask answers one question of it here")
      .word("QUESTION", a->question, "for ask: a JSON object, as the page shows it", false)
      .value(
          "-o,--output", a->output, "PATH",
          "the folder of the site (etalon-lab when not given); for ask, the outputs (.npy, .npz, "
          ".safetensors) or the whole answer (.json)")
      .flag("--no-times", a->no_times, "leave out the native times, which take some seconds")
      .flag("--serve", a->serve, "serve the folder on 127.0.0.1 until Ctrl-C")
      .value("--port", a->port, "port of --serve");
  return [a](const Globals& g) {
    if (a->what == "ask") return ask(*a, g);
    if (a->what != "conv")
      throw usage_error("there is no lab '{}'; ask for conv, or 'ask' one of its questions",
                        a->what);
    return write(*a, g);
  };
}

}  // namespace etalon::cli
