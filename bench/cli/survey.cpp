// etalon survey FUNCTION: a library's function on all 2^32 inputs against the correctly rounded
// one.
#include "bench/survey/survey.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/measures.h"
#include "bench/cli/terminal.h"
#include "bench/report/record.h"
#include "engine/core/error.h"
#include "engine/numerics/fp.h"

namespace etalon::cli {
namespace {

struct Args {
  std::vector<std::string> functions, of;
  std::string state;
  std::int64_t pieces = 256;
};

std::string share(std::int64_t part, std::int64_t whole) {
  if (part == 0) return "0";
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  return percent < 1e-3 ? fmt::format("{:.2e} %", percent) : fmt::format("{:.4f} %", percent);
}

void witness(nlohmann::json& j, const char* what, const char* name, std::string& text) {
  if (!j.contains(name)) return;
  const auto& w = j[name];
  text += fmt::format("  {:<9} f({}) = {}, expected {}\n", what, w.value("x", ""),
                      w.value("got", ""), w.value("expected", ""));
}

int run(const Args& args, const Globals& g) {
  std::vector<const SurveyedFunction*> functions;
  for (const std::string& word : args.functions)
    if (word == "all")
      for (const SurveyedFunction& f : surveyed_functions()) functions.push_back(&f);
    else
      functions.push_back(&surveyed_function(word));
  if (args.of.empty())
    throw usage_error("name libraries with --of: glibc, onednn, numpy, pytorch, onnxruntime");
  if (args.pieces < 1 || args.pieces > 256) throw usage_error("--pieces takes 1 to 256");

  nlohmann::json record = base_record(g.command_line, g.isa);
  nlohmann::json& rows = record["survey"]["rows"] = nlohmann::json::array();
  record["survey"]["complete"] = args.pieces == 256;
  Table table({{"function"},
               {"library"},
               {"wrong", Table::Align::right},
               {"share", Table::Align::right},
               {"max ULP", Table::Align::right},
               {"at"},
               {"special", Table::Align::right},
               {"order", Table::Align::right},
               {"symmetry", Table::Align::right},
               {"place", Table::Align::right},
               {"time", Table::Align::right}});
  std::string details;
  // A library that is missing or fails costs its own rows.
  std::string failures;
  const auto fails = [&](const std::string& library, const Error& e) {
    failures += fmt::format("{}{}", failures.empty() ? "" : "; ", e.what());
    record["survey"]["failed"].push_back({{"library", library}, {"reason", e.what()}});
  };
  for (const std::string& library : args.of) try {
      const auto peer = make_survey_peer(library, g.threads);
      for (const SurveyedFunction* f : functions) {
        if (!peer->has(*f)) {
          if (functions.size() == 1)
            throw missing("{} has no {}; 'etalon survey all' takes what it has", library, f->name);
          continue;
        }
        SurveyOptions options;
        options.threads = g.threads;
        options.isa = g.isa;
        options.pieces = static_cast<int>(args.pieces);
        options.state = args.state;
        SurveyCounts c;
        {
          Progress progress(fmt::format("{} of {}", f->name, library), args.pieces);
          options.progress = [&](int done, int) { progress.update(done); };
          c = survey(*f, *peer, options);
        }
        nlohmann::json j = to_json(c);
        j["function"] = f->name;
        j["library"] = library;
        j["version"] = peer->version();
        j["symmetric"] = f->symmetry != Symmetry::none;
        j["monotone"] = f->monotone != Monotone::no;
        const std::int64_t special = c.nan_wrong + c.infinity_wrong + c.zero_sign_wrong;
        table.row({std::string(f->name), library, fmt::to_string(c.wrong), share(c.wrong, c.inputs),
                   c.worst.given ? fmt::format("{:.6g}", c.max_ulp) : "0.5",
                   c.worst.given ? fmt::format("{:a}", float_of(c.worst.x)) : "",
                   fmt::to_string(special),
                   f->monotone == Monotone::no ? "-" : fmt::to_string(c.order_breaks),
                   f->symmetry == Symmetry::none ? "-" : fmt::to_string(c.symmetry_breaks),
                   fmt::format("{}/{}", c.place_breaks, c.place_tried), human_seconds(c.seconds)});
        std::string text;
        witness(j, "worst", "worst", text);
        witness(j, "special", "special", text);
        witness(j, "order", "order", text);
        witness(j, "symmetry", "symmetry", text);
        witness(j, "place", "place", text);
        if (!text.empty()) details += fmt::format("{} of {}\n{}", f->name, peer->version(), text);
        rows.push_back(std::move(j));
      }
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::missing) throw;
      fails(library, e);
    }
  if (rows.empty()) throw missing("{}", failures);
  table.print();
  if (!failures.empty()) fmt::print("\nNot surveyed: {}\n", failures);
  if (!details.empty()) fmt::print("\nWitnesses\n{}", details);
  if (args.pieces != 256)
    fmt::print("\n{} of 256 pieces of the range: a sample, no survey of all inputs.\n",
               args.pieces);
  if (!g.json_path.empty()) write_record(g.json_path, record);
  return 0;
}

}  // namespace

Action survey_command(Options& options) {
  auto a = std::make_shared<Args>();
  options.words("FUNCTION", a->functions, "functions, or 'all'")
      .list("--of", a->of, "LIB",
            "glibc, onednn, numpy, pytorch, onnxruntime; numpy@/path/to/python names one")
      .value("--state", a->state, "DIR", "keep finished pieces there, and go on from them")
      .value("--pieces", a->pieces, "of the range's 256: a sample, mostly about 1 (default: all)");
  return [a](const Globals& g) { return run(*a, g); };
}

}  // namespace etalon::cli
