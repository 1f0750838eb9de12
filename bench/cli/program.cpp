// Finds the command, lets CLI11 read its options, and turns every failure into one sentence on
// stderr and an exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "bench/cli/cli.h"
#include "bench/cli/terminal.h"
#include "bench/report/record.h"
#include "bench/report/version.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/core/nearest.h"
#include "engine/core/threads.h"
#include "engine/models/models.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

constexpr int kUsage = 2;

void print(std::string_view text, std::FILE* stream = stdout) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

void print_overview() {
  print(
      "Etalon computes what a network's outputs are, bit for bit, under a numeric contract that "
      "you\n"
      "write down, and says how far frameworks are from it, why, and how fast.\n\n"
      "usage: etalon COMMAND [WORDS] [--threads N] [--isa NAME] [--device NAME] [--json FILE]\n\n");
  Table table({{""}, {""}});
  for (const Command& c : commands())
    table.row({"  " + std::string(c.name), std::string(c.summary)});
  table.print();
  print("\nWherever a model file is taken, model:NAME is one of the networks of the studies:\n");
  Table networks({{""}, {""}});
  for (const ModelRow& m : models())
    networks.row({"  model:" + std::string(m.name), std::string(m.summary)});
  networks.print();
  print("\n'etalon COMMAND --help' explains one command. Start with 'etalon demo'.\n");
}

// The first word that names a command; the values of global options before it are skipped.
const Command* find_command(int argc, char** argv, std::string& unknown) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--threads" || word == "--isa" || word == "--device" || word == "--json") {
      ++i;
      continue;
    }
    if (word.starts_with("-")) continue;
    for (const Command& c : commands())
      if (c.name == word) return &c;
    if (unknown.empty()) unknown = word;
    return nullptr;
  }
  return nullptr;
}

struct GlobalTexts {
  std::int64_t threads = 0;
  std::string isa, device = "cpu", json;
};

Globals resolve(const GlobalTexts& texts, int argc, char** argv) {
  Globals g;
  if (texts.threads < 0 || texts.threads > 4096)
    throw usage_error("--threads {}: give a number from 1 to 4096", texts.threads);
  g.threads = texts.threads == 0 ? hardware_threads() : static_cast<int>(texts.threads);
  g.isa = detect_isa();
  if (!texts.isa.empty()) {
    const Isa wanted = parse_isa(texts.isa);
    if (wanted > g.isa)
      throw missing("--isa {}: this machine ({}) has {} at most", texts.isa, cpu_model(),
                    name(g.isa));
    g.isa = wanted;
  }
  if (texts.device == "cuda") {
    const auto on_cuda = [](const KernelRow* row) { return row->device == Device::cuda; };
    if (std::ranges::none_of(all_kernels().all(), on_cuda))
      throw missing(
          "--device cuda: this program was built without CUDA; build with cmake --preset cuda");
    g.device = Device::cuda;
  } else if (texts.device != "cpu")
    throw usage_error("--device {}: the devices are cpu and cuda", texts.device);
  g.json_path = texts.json;
  if (g.json_path == "-")
    keep_stdout_for_record();
  else if (!g.json_path.empty())
    check_place(g.json_path);
  g.command_line = "etalon";
  for (int i = 1; i < argc; ++i) g.command_line.append(" ").append(argv[i]);
  return g;
}

int run_command_line(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "--help";
  if (argc <= 2 && (first == "--help" || first == "-h" || first == "help")) {
    print_overview();
    return argc > 1 ? 0 : kUsage;
  }
  if (first == "--version") {
    print(fmt::format("etalon {} ({})\n", version(), commit()));
    return 0;
  }
  std::string unknown;
  const Command* command = find_command(argc, argv, unknown);
  if (command == nullptr) {
    if (unknown.empty()) throw usage_error("no command given; 'etalon --help' lists them");
    std::vector<std::string_view> names;
    for (const Command& c : commands()) names.push_back(c.name);
    const std::string nearest = nearest_name(unknown, names);
    throw usage_error("there is no command '{}'; {}", unknown,
                      nearest.empty() ? "'etalon --help' lists them"
                                      : fmt::format("did you mean 'etalon {}'?", nearest));
  }

  CLI::App app{"", "etalon"};
  app.fallthrough();
  GlobalTexts texts;
  CLI::App& sub = *app.add_subcommand(std::string(command->name), std::string(command->summary));
  sub.fallthrough();
  Options options(sub);
  const Action action = command->declare(options);
  for (CLI::App* level : {&app, &sub}) {
    level->add_option("--threads", texts.threads, "Threads to use (default: all processors)")
        ->type_name("N")
        ->group("Everywhere");
    level
        ->add_option("--isa", texts.isa,
                     "Use no more than this instruction set: sse2, avx2, avx512, amx")
        ->type_name("NAME")
        ->group("Everywhere");
    level->add_option("--device", texts.device, "cpu or cuda")
        ->type_name("NAME")
        ->group("Everywhere");
    level->add_option("--json", texts.json, "Write the record of this command as JSON")
        ->type_name("FILE")
        ->group("Everywhere");
  }
  if (!command->example.empty()) sub.footer(fmt::format("Example: {}", command->example));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(sub.help("etalon", CLI::AppFormatMode::Normal));
    return 0;
  } catch (const CLI::ParseError& e) {
    throw usage_error("{}; 'etalon {} --help' explains the options", e.what(), command->name);
  }
  install_interrupt_handler();
  // A limit on file sizes then is an error of write(), with a sentence, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = action(resolve(texts, argc, argv));
  // A command that answers so has said what it kept.
  if (code != static_cast<int>(ErrorKind::interrupted)) check_interrupt();
  return code;
}

}  // namespace

int main_program(int argc, char** argv) {
  const DefaultFpEnvironment fp;
  std::string text;
  int code = static_cast<int>(ErrorKind::internal);
  try {
    code = run_command_line(argc, argv);
    if (std::fflush(stdout) == 0) return code;
    // A closed pipe ends the process by signal; what is left is a full disk.
    text = "standard output could not be written; is the disk full?";
    code = static_cast<int>(ErrorKind::bad_input);
  } catch (const Error& e) {
    text = e.what();
    code = e.exit_code();
    if (e.kind() == ErrorKind::internal) text += " (a fault of this program: please report it)";
  } catch (const std::bad_alloc&) {
    text = "not enough memory for this; use a smaller batch or model";
    code = static_cast<int>(ErrorKind::bad_input);
  } catch (const std::filesystem::filesystem_error& e) {
    text = fmt::format(
        "{}: {}; choose another place",
        e.path1().empty() ? "the folder for temporary files ($TMPDIR)" : e.path1().string(),
        e.code().message());
    code = static_cast<int>(ErrorKind::bad_input);
  } catch (const std::exception& e) {
    text = fmt::format("{} (a fault of this program: please report it)", e.what());
  }
  std::fflush(stdout);
  print(fmt::format("{} {}\n", coloured("etalon:", Colour::red, stderr), text), stderr);
  return code;
}

}  // namespace etalon::cli
