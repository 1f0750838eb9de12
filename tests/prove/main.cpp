// etalon_prove: the proof of proof.h over all 2^32 inputs, in pieces that can be taken up again.
//
//   etalon_prove [--state FILE] [--threads N] [--pieces N] FUNCTION...|all
//   etalon_prove --hash GOLDEN [--write] [--threads N] FUNCTION...|all
//
// A piece is 2^24 inputs. --state keeps one line for each finished piece and reads it back; the
// first pieces of each function only with --pieces. --hash computes each function's hash over its
// whole range and compares it with GOLDEN (--write: replaces it). Exit code 1: a value is wrong.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "engine/numerics/fp.h"
#include "tests/prove/proof.h"

using namespace etalon;

namespace {

struct Options {
  std::string state, hash;
  bool write = false;
  int threads = hardware_threads(), pieces = kRangeBlocks;
  std::vector<const SurveyedFunction*> functions;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) throw usage_error("{} wants a value", word);
      return argv[++i];
    };
    if (word == "--state")
      o.state = value();
    else if (word == "--hash")
      o.hash = value();
    else if (word == "--write")
      o.write = true;
    else if (word == "--threads")
      o.threads = std::stoi(value());
    else if (word == "--pieces")
      o.pieces = std::stoi(value());
    else if (word == "all")
      for (const auto& f : surveyed_functions()) o.functions.push_back(&f);
    else
      o.functions.push_back(&surveyed_function(word));
  }
  if (o.functions.empty()) throw usage_error("name functions, or 'all'");
  return o;
}

using Key = std::pair<std::string, int>;

std::string line_of(const Key& key, const ProofCounts& c) {
  std::string s =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {:a} {:08x}", key.first, key.second,
                  c.inputs, c.exact, c.refused, c.undecided[0], c.undecided[1], c.undecided[2],
                  c.undecided[3], c.sampled, c.wrong, c.apart, c.nearest_midpoint, c.hardest);
  for (const auto& w : c.witnesses) s += "\t" + w;
  return s + "\n";
}
std::map<Key, ProofCounts> read_state(const std::string& file) {
  std::map<Key, ProofCounts> found;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line.substr(0, line.find('\t')));
    Key key;
    ProofCounts c;
    std::string nearest, hardest;
    if (!(words >> key.first >> key.second >> c.inputs >> c.exact >> c.refused >> c.undecided[0] >>
          c.undecided[1] >> c.undecided[2] >> c.undecided[3] >> c.sampled >> c.wrong >> c.apart >>
          nearest >> hardest))
      continue;  // a line that was cut short is computed again
    c.nearest_midpoint = std::strtod(nearest.c_str(), nullptr);
    c.hardest = static_cast<std::uint32_t>(std::stoul(hardest, nullptr, 16));
    for (auto at = line.find('\t'); at != std::string::npos;) {
      const auto end = line.find('\t', at + 1);
      c.witnesses.push_back(line.substr(at + 1, end == std::string::npos ? end : end - at - 1));
      at = end;
    }
    found[key] = c;
  }
  return found;
}

int prove(const Options& o) {
  auto done = o.state.empty() ? std::map<Key, ProofCounts>{} : read_state(o.state);
  std::mutex mutex;
  bool holds = true;
  const Isa isa = detect_isa();
  fmt::print("{:<13}{:>11}{:>11}{:>8}{:>8}{:>8}{:>8}{:>9}{:>7}{:>7}  {:<27}{:>8}\n", "function",
             "inputs", "exact", "rn", "rz", "ru", "rd", "sampled", "wrong", "apart",
             "nearest to a midpoint", "s");
  for (const SurveyedFunction* f : o.functions) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(o.pieces, o.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        const Key key{std::string(f->name), static_cast<int>(piece)};
        {
          const std::scoped_lock lock(mutex);
          if (done.contains(key)) continue;
        }
        check_interrupt();
        const ProofCounts c =
            prove_block(*f, isa, static_cast<std::uint32_t>(piece * kRangeBlock), kRangeBlock);
        const std::scoped_lock lock(mutex);
        done[key] = c;
        if (!o.state.empty()) std::ofstream(o.state, std::ios::app) << line_of(key, c);
        std::size_t finished = 0;
        for (const auto& [k, unused] : done) finished += k.first == f->name;
        fmt::print(stderr, "\r{} {}/{} ", f->name, finished, o.pieces);
      }
    });
    ProofCounts all;
    for (int piece = 0; piece < o.pieces; ++piece) all.add(done.at({std::string(f->name), piece}));
    const double s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print(stderr, "\r");
    fmt::print("{:<13}{:>11}{:>11}{:>8}{:>8}{:>8}{:>8}{:>9}{:>7}{:>7}  {:<16a}{:>10.3g} {:>8.0f}\n",
               f->name, all.inputs, all.exact, all.undecided[0], all.undecided[1], all.undecided[2],
               all.undecided[3], all.sampled, all.wrong, all.apart, float_of(all.hardest),
               all.nearest_midpoint, s);
    for (const auto& w : all.witnesses) fmt::print("  {}\n", w);
    std::fflush(stdout);
    holds = holds && all.wrong == 0 && all.apart == 0;
  }
  return holds ? 0 : 1;
}

int hash(const Options& o) {
  std::map<std::string, std::string> golden;
  std::ifstream in(o.hash);
  for (std::string name, h; in >> name >> h;) golden[name] = h;
  if (golden.empty() && !o.write) throw bad_input("{}: holds no hashes", o.hash);
  bool holds = true;
  for (const SurveyedFunction* f : o.functions) {
    if (!o.write && !golden.contains(std::string(f->name))) {
      fmt::print("{:<13} no hash on record\n", f->name);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::string h = to_string(hash_of_range(*f, detect_isa(), o.threads));
    const double s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::string& expected = golden[std::string(f->name)];
    const bool same = h == expected;
    if (o.write) expected = h;
    holds = holds && (same || o.write);
    fmt::print("{:<13} {} {:>6.1f} s{}\n", f->name, h, s,
               same      ? ""
               : o.write ? "  written"
                         : "  is not " + (expected.empty() ? "known" : expected));
    std::fflush(stdout);
  }
  if (o.write) {
    std::ofstream out(o.hash);
    for (const auto& [name, h] : golden) out << name << " " << h << "\n";
  }
  return holds ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  install_interrupt_handler();
  const Options o = parse(argc, argv);
  return o.hash.empty() ? prove(o) : hash(o);
} catch (const Error& e) {
  fmt::print(stderr, "etalon_prove: {}\n", e.what());
  return e.exit_code();
}
