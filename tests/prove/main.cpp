// etalon_prove: the proof of proof.h over all 2^32 inputs, in pieces that can be taken up again.
//
//   etalon_prove [--balls] [--state FILE [--hash GOLDEN [--write]]] [--threads N] [--pieces N] F...
//   etalon_prove --hash GOLDEN [--write] [--threads N] F...
//   etalon_prove --isa NAME ...        of what serves a lesser instruction set; a state of its own
// F is a function's name, or all. --balls: input by input, without laws (proof.h).
//
// A piece is 2^24 inputs. --state keeps one line for each finished piece and reads it back; the
// first pieces of each function only with --pieces. --hash computes each function's hash over its
// whole range and compares it with GOLDEN (--write: replaces it); together with --state the proof
// gives the hash too. Exit code 1: a value is wrong.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
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
  ProofMethod method = ProofMethod::laws;
  Isa isa = detect_isa();
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
    else if (word == "--balls")
      o.method = ProofMethod::balls;
    else if (word == "--isa")
      o.isa = std::min(o.isa, parse_isa(value()));
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
  std::string s = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {:a} {:08x} {:016x} {:016x}", key.first,
      key.second, c.inputs, c.exact, c.by_lemma, c.by_law, c.by_taylor, c.refused, c.undecided[0],
      c.undecided[1], c.undecided[2], c.undecided[3], c.sampled, c.wrong, c.apart,
      c.nearest_midpoint, c.hardest, c.hash.high, c.hash.low);
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
    std::string nearest, hardest, high, low;
    if (!(words >> key.first >> key.second >> c.inputs >> c.exact >> c.by_lemma >> c.by_law >>
          c.by_taylor >> c.refused >> c.undecided[0] >> c.undecided[1] >> c.undecided[2] >>
          c.undecided[3] >> c.sampled >> c.wrong >> c.apart >> nearest >> hardest >> high >> low) ||
        low.size() != 16)
      continue;  // a line that was cut short is computed again
    c.nearest_midpoint = std::strtod(nearest.c_str(), nullptr);
    c.hardest = static_cast<std::uint32_t>(std::stoul(hardest, nullptr, 16));
    c.hash = {std::stoull(high, nullptr, 16), std::stoull(low, nullptr, 16)};
    for (auto at = line.find('\t'); at != std::string::npos;) {
      const auto end = line.find('\t', at + 1);
      c.witnesses.push_back(line.substr(at + 1, end == std::string::npos ? end : end - at - 1));
      at = end;
    }
    found[key] = c;
  }
  return found;
}

// The hashes on record. A new one is kept at once, so that an interrupted run loses nothing.
class Golden {
 public:
  explicit Golden(const Options& o) : file_(o.hash), write_(o.write) {
    std::ifstream in(file_);
    for (std::string name, h; in >> name >> h;) known_[name] = h;
    if (known_.empty() && !write_) throw bad_input("{}: holds no hashes", file_);
  }
  bool has(std::string_view name) const { return known_.contains(std::string(name)); }
  // False where it is another one than that on record; prints the verdict.
  bool takes(const SurveyedFunction& f, const Hash128& hash, double seconds) {
    std::string& expected = known_[std::string(f.name)];
    const std::string h = to_string(hash), before = expected;
    const bool same = h == before;
    if (write_ && !same) {
      expected = h;
      std::ofstream out(file_);
      for (const auto& [name, k] : known_) out << name << " " << k << "\n";
    }
    fmt::print("{:<13} {} {:>6.1f} s{}\n", f.name, h, seconds,
               same     ? ""
               : write_ ? "  written"
                        : "  is not " + (before.empty() ? "known" : before));
    std::fflush(stdout);
    return same || write_;
  }

 private:
  std::string file_;
  bool write_;
  std::map<std::string, std::string> known_;
};

int prove(const Options& o) {
  auto done = o.state.empty() ? std::map<Key, ProofCounts>{} : read_state(o.state);
  std::mutex mutex;
  std::optional<Golden> golden;
  if (!o.hash.empty()) golden.emplace(o);
  bool holds = true;
  fmt::print(
      "{:<13}{:>11}{:>11}{:>11}{:>11}{:>11}{:>8}{:>8}{:>8}{:>8}{:>9}{:>7}{:>7}  {:<27}{:>8}\n",
      "function", "inputs", "exact", "lemma", "law", "taylor", "rn", "rz", "ru", "rd", "sampled",
      "wrong", "apart", "nearest to a midpoint", "s");
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
        const ProofCounts c = prove_block(
            *f, o.isa, static_cast<std::uint32_t>(piece * kRangeBlock), kRangeBlock, o.method);
        const std::scoped_lock lock(mutex);
        done[key] = c;
        if (!o.state.empty()) std::ofstream(o.state, std::ios::app) << line_of(key, c);
        std::size_t finished = 0;
        for (const auto& [k, unused] : done) finished += k.first == f->name;
        fmt::print(stderr, "\r{} {}/{} ", f->name, finished, o.pieces);
      }
    });
    ProofCounts all;
    std::vector<Hash128> hashes;
    for (int piece = 0; piece < o.pieces; ++piece) {
      const ProofCounts& c = done.at({std::string(f->name), piece});
      all.add(c);
      hashes.push_back(c.hash);
    }
    const double s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print(stderr, "\r");
    fmt::print(
        "{:<13}{:>11}{:>11}{:>11}{:>11}{:>11}{:>8}{:>8}{:>8}{:>8}{:>9}{:>7}{:>7}  {:<16a}{:>10.3g} "
        "{:>8.0f}\n",
        f->name, all.inputs, all.exact, all.by_lemma, all.by_law, all.by_taylor, all.undecided[0],
        all.undecided[1], all.undecided[2], all.undecided[3], all.sampled, all.wrong, all.apart,
        float_of(all.hardest), all.nearest_midpoint, s);
    for (const auto& w : all.witnesses) fmt::print("  {}\n", w);
    std::fflush(stdout);
    holds = holds && all.wrong == 0 && all.apart == 0;
    if (golden && o.pieces == kRangeBlocks && all.wrong == 0)
      holds = golden->takes(*f, hash_of_blocks(hashes), s) && holds;
  }
  return holds ? 0 : 1;
}

int hash(const Options& o) {
  Golden golden(o);
  bool holds = true;
  for (const SurveyedFunction* f : o.functions) {
    if (!o.write && !golden.has(f->name)) {
      fmt::print("{:<13} no hash on record\n", f->name);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const Hash128 h = hash_of_range(*f, o.isa, o.threads);
    const double s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    holds = golden.takes(*f, h, s) && holds;
  }
  return holds ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  install_interrupt_handler();
  const Options o = parse(argc, argv);
  return o.hash.empty() || !o.state.empty() ? prove(o) : hash(o);
} catch (const Error& e) {
  fmt::print(stderr, "etalon_prove: {}\n", e.what());
  return e.exit_code();
}
