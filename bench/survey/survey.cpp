#include "bench/survey/survey.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/survey/worst.h"
#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "engine/numerics/fp.h"
#include "importers/containers/json.h"

namespace etalon {
namespace {

constexpr int kPieces = 256;
constexpr std::int64_t kHalf = std::int64_t{1} << 23;  // inputs of one sign in a piece

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

// The least of all inputs that show it, whichever thread ends first.
void keep(SurveyWitness& w, const SurveyWitness& other) {
  if (other.given && (!w.given || other.x < w.x)) w = other;
}

// One piece: x, the correct values, the library's.
struct Piece {
  std::vector<float> x, right, got;
};

// What lanes give in f64 for inputs of a block, by runs of them: few wrong results come so near the
// worst that anybody asks. All of a piece are 128 MiB; of glibc's exp and log it saves no time.
class NearValues {
 public:
  NearValues(const SurveyedFunction& f, Isa isa, const float* x, std::int64_t count)
      : f_(f),
        lanes_(f.lane < LaneFunction::leaky_relu ? lane_values(isa) : nullptr),
        x_(x),
        run_of_(static_cast<std::size_t>(count / kRun), -1) {}

  // NaN where there are no lanes.
  double at(std::int64_t i) {
    if (lanes_ == nullptr) return kNan;
    std::int32_t& run = run_of_[static_cast<std::size_t>(i / kRun)];
    if (run < 0) {
      run = static_cast<std::int32_t>(values_.size() / kRun);
      values_.resize(values_.size() + kRun);
      lanes_(f_.lane, f_.params, x_ + i / kRun * kRun, &values_[at_run(run)], kRun);
    }
    return values_[at_run(run) + static_cast<std::size_t>(i % kRun)];
  }

 private:
  static constexpr std::int64_t kRun = 64;
  static std::size_t at_run(std::int32_t run) {
    return static_cast<std::size_t>(run) * static_cast<std::size_t>(kRun);
  }
  const SurveyedFunction& f_;
  LaneValues lanes_;
  const float* x_;
  std::vector<std::int32_t> run_of_;
  std::vector<double> values_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Everything but symmetry and place for indices [begin, end), which lie in one half.
class Judge {
 public:
  Judge(const SurveyedFunction& f, Isa isa, const Piece& p, std::int64_t begin, std::int64_t end,
        SurveyCounts& c)
      : f_(f),
        p_(p),
        c_(c),
        worst_(f),
        near_(f, isa, &p.x[static_cast<std::size_t>(begin)], end - begin),
        begin_(begin),
        end_(end) {}

  void run() {
    const std::int64_t begin = begin_, end = end_;
    for (std::int64_t k = begin; k < end; ++k) {
      const auto i = static_cast<std::size_t>(k);
      const std::uint32_t r = bits(p_.right[i]), g = bits(p_.got[i]);
      const std::uint32_t exponent = r & 0x7fffffffU;
      c_.regular += exponent - 1 < 0x7f7fffffU;
      if (r != g) wrong(i, r, g);
    }
    if (f_.monotone != Monotone::no) order(begin, end);
    const WorstError::Found worst = worst_.largest(c_.max_ulp);
    if (worst.ulp == 0) return;
    c_.max_ulp = worst.ulp;
    c_.worst = {bits(worst.x), bits(worst.got), bits(worst.right), true};
  }

 private:
  void wrong(std::size_t i, std::uint32_t r, std::uint32_t g) {
    const float a = p_.right[i], b = p_.got[i];
    const bool nan_a = a != a, nan_b = b != b;
    if (nan_a && nan_b) return;
    ++c_.wrong;
    const SurveyWitness w{bits(p_.x[i]), g, r, true};
    if (nan_a || nan_b) {
      ++c_.nan_wrong;
      keep(c_.special, w);
      return;
    }
    if (a == 0 && b == 0) {
      ++c_.zero_sign_wrong;
      keep(c_.special, w);
      return;
    }
    if (std::isinf(a) || std::isinf(b)) {
      ++c_.infinity_wrong;
      keep(c_.special, w);
    }
    if (b == 0 && std::fabs(a) < 0x1p-126F) ++c_.flushed;
    const std::uint64_t distance = ulp_distance(a, b);
    const int bucket = std::min(23, static_cast<int>(std::bit_width(distance - 1)));
    ++c_.histogram[static_cast<std::size_t>(bucket)];
    if (std::isinf(a) || std::isinf(b) || worst_.is_less(distance, b, a)) return;
    worst_.add(p_.x[i], b, a, near_.at(static_cast<std::int64_t>(i) - begin_));
  }
  void order(std::int64_t begin, std::int64_t end) {
    const bool rising = (f_.monotone == Monotone::rising) == (begin < kHalf);
    const bool first = begin == 0 || begin == kHalf;  // the one before is of another piece
    for (std::int64_t k = begin + (first ? 1 : 0); k < end; ++k) {
      const auto i = static_cast<std::size_t>(k);
      const float a = p_.got[i - 1], b = p_.got[i];
      if (!(rising ? b < a : b > a)) continue;  // NaN breaks nothing
      ++c_.order_breaks;
      keep(c_.order, {bits(p_.x[i]), bits(b), bits(a), true});
    }
  }

  const SurveyedFunction& f_;
  const Piece& p_;
  SurveyCounts& c_;
  WorstError worst_;
  NearValues near_;
  std::int64_t begin_, end_;
};

bool same(float a, float b) { return bits(a) == bits(b) || (a != a && b != b); }

void judge_symmetry(const SurveyedFunction& f, const Piece& p, SurveyCounts& c) {
  if (f.symmetry == Symmetry::none) return;
  const std::uint32_t flip = f.symmetry == Symmetry::odd ? 0x80000000U : 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kHalf); ++i) {
    const float a = p.got[i], b = p.got[i + static_cast<std::size_t>(kHalf)];
    if (bits(a) == (bits(b) ^ flip) || (a != a && b != b)) continue;
    ++c.symmetry_breaks;
    keep(c.symmetry,
         {bits(p.x[i + static_cast<std::size_t>(kHalf)]), bits(b), bits(a) ^ flip, true});
  }
}

// The same inputs in arrays of every length from 1 to 22, and all of those in one that starts
// elsewhere: is each result what it was in the large block?
void judge_place(const SurveyedFunction& f, SurveyPeer& peer, int piece, const Piece& p,
                 SurveyCounts& c) {
  constexpr std::size_t kWindow = 22 * 23 / 2;
  const std::size_t start = static_cast<std::size_t>(kHalf) / 2 +
                            37 * static_cast<std::size_t>(piece) +
                            (piece % 2 == 0 ? 0 : static_cast<std::size_t>(kHalf));
  float y[kWindow];
  const auto compare = [&](std::size_t from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ++c.place_tried;
      if (same(y[i], p.got[from + i])) continue;
      ++c.place_breaks;
      keep(c.place, {bits(p.x[from + i]), bits(y[i]), bits(p.got[from + i]), true});
    }
  };
  const auto part = [&](std::size_t from, std::size_t count) {
    peer.compute(f, std::span(p.x).subspan(from, count), std::span(y).first(count));
    compare(from, count);
  };
  std::size_t at = start;
  for (std::size_t length = 1; length <= 22; at += length, ++length) part(at, length);
  part(start, kWindow);
}

// All pieces, or a sample: zeros and subnormals, then infinities and NaN, then binades about 1.
std::vector<int> chosen_pieces(int count) {
  std::vector<int> pieces = {0};
  const int about_1 = std::clamp(count, 1, kPieces) - 2;
  for (int i = 0; i < about_1; ++i) pieces.push_back(127 - (about_1 - 1) / 2 + i);
  if (about_1 >= 0) pieces.push_back(kPieces - 1);
  return pieces;
}

std::string state_file(const std::string& folder, const SurveyedFunction& f,
                       const SurveyPeer& peer) {
  std::string name = fmt::format("{}-{}.jsonl", f.name, peer.version());
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace

void SurveyCounts::add(const SurveyCounts& o) {
  inputs += o.inputs;
  wrong += o.wrong;
  for (std::size_t i = 0; i < histogram.size(); ++i) histogram[i] += o.histogram[i];
  nan_wrong += o.nan_wrong;
  infinity_wrong += o.infinity_wrong;
  zero_sign_wrong += o.zero_sign_wrong;
  flushed += o.flushed;
  regular += o.regular;
  // Of equal ones the same, whichever thread ends first.
  if (o.max_ulp > max_ulp || (o.max_ulp == max_ulp && o.worst.given && o.worst.x < worst.x)) {
    max_ulp = o.max_ulp;
    worst = o.worst;
  }
  order_breaks += o.order_breaks;
  symmetry_breaks += o.symmetry_breaks;
  place_breaks += o.place_breaks;
  place_tried += o.place_tried;
  seconds += o.seconds;
  library_seconds += o.library_seconds;
  keep(special, o.special);
  keep(order, o.order);
  keep(symmetry, o.symmetry);
  keep(place, o.place);
}

nlohmann::json to_json(const SurveyCounts& c) {
  nlohmann::json j = {{"inputs", c.inputs},
                      {"wrong", c.wrong},
                      {"regular", c.regular},
                      {"histogram", c.histogram},
                      {"nan_wrong", c.nan_wrong},
                      {"infinity_wrong", c.infinity_wrong},
                      {"zero_sign_wrong", c.zero_sign_wrong},
                      {"flushed", c.flushed},
                      {"max_ulp", c.max_ulp},
                      {"order_breaks", c.order_breaks},
                      {"symmetry_breaks", c.symmetry_breaks},
                      {"place_breaks", c.place_breaks},
                      {"place_tried", c.place_tried},
                      {"seconds", c.seconds},
                      {"library_seconds", c.library_seconds}};
  const auto put = [&](const char* name, const SurveyWitness& w) {
    if (w.given)
      j[name] = {{"x", fmt::format("{:a}", float_of(w.x))},
                 {"bits", {w.x, w.got, w.expected}},
                 {"got", fmt::format("{:a}", float_of(w.got))},
                 {"expected", fmt::format("{:a}", float_of(w.expected))}};
  };
  put("worst", c.worst);
  put("special", c.special);
  put("order", c.order);
  put("symmetry", c.symmetry);
  put("place", c.place);
  return j;
}

SurveyCounts survey_counts_from_json(const nlohmann::json& j) {
  SurveyCounts c;
  c.inputs = j.at("inputs");
  c.wrong = j.at("wrong");
  c.regular = j.at("regular");
  c.histogram = j.at("histogram");
  c.nan_wrong = j.at("nan_wrong");
  c.infinity_wrong = j.at("infinity_wrong");
  c.zero_sign_wrong = j.at("zero_sign_wrong");
  c.flushed = j.at("flushed");
  c.max_ulp = j.at("max_ulp");
  c.order_breaks = j.at("order_breaks");
  c.symmetry_breaks = j.at("symmetry_breaks");
  c.place_breaks = j.at("place_breaks");
  c.place_tried = j.at("place_tried");
  c.seconds = j.at("seconds");
  c.library_seconds = j.at("library_seconds");
  const auto get = [&](const char* name, SurveyWitness& w) {
    if (!j.contains(name)) return;
    const auto& b = j.at(name).at("bits");
    w = {b.at(0), b.at(1), b.at(2), true};
  };
  get("worst", c.worst);
  get("special", c.special);
  get("order", c.order);
  get("symmetry", c.symmetry);
  get("place", c.place);
  return c;
}

SurveyCounts survey(const SurveyedFunction& f, SurveyPeer& peer, const SurveyOptions& options) {
  std::map<int, SurveyCounts> done;
  std::string state;
  if (!options.state.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(options.state, failed);
    if (failed)
      throw bad_input("{}: cannot make the folder ({}); name another", options.state,
                      failed.message());
    state = state_file(options.state, f, peer);
    std::ifstream in(state);
    for (std::string line; std::getline(in, line);) {
      // A line that was cut short or damaged, or is of a version without times: again.
      try {
        const nlohmann::json j = parse_json_or_null(line);
        if (j.is_object() && j.contains("piece") && j.contains("library_seconds"))
          done[j.at("piece").get<int>()] = survey_counts_from_json(j);
      } catch (const nlohmann::json::exception&) {
        continue;
      }
    }
  }
  const auto whole = static_cast<std::size_t>(2 * kHalf);
  Piece p;
  p.x.resize(whole);
  p.right.resize(whole);
  p.got.resize(whole);
  SurveyCounts all;
  int surveyed = 0;
  const std::vector<int> pieces = chosen_pieces(options.pieces);
  for (const int piece : pieces) {
    check_interrupt();
    if (!done.contains(piece)) {
      const auto start = std::chrono::steady_clock::now();
      const auto first = static_cast<std::uint32_t>(piece * kHalf);
      // Blocks that no count of threads changes: what stands for the worst is found in each.
      constexpr std::int64_t kBlock = 1 << 17;
      parallel_for(2 * kHalf / kBlock, options.threads, 1, [&](std::int64_t b0, std::int64_t b1) {
        for (std::int64_t begin = b0 * kBlock; begin < b1 * kBlock; begin += kBlock) {
          const std::int64_t in_half = begin % kHalf;
          fill_inputs(
              (first | (begin < kHalf ? 0 : 0x80000000U)) + static_cast<std::uint32_t>(in_half),
              std::span(p.x).subspan(static_cast<std::size_t>(begin), kBlock));
        }
      });
      const auto asked = std::chrono::steady_clock::now();
      peer.compute(f, p.x, p.got);
      SurveyCounts c;
      c.library_seconds = seconds_since(asked);
      std::mutex mutex;
      parallel_for(2 * kHalf / kBlock, options.threads, 1, [&](std::int64_t b0, std::int64_t b1) {
        for (std::int64_t begin = b0 * kBlock; begin < b1 * kBlock; begin += kBlock) {
          const auto at = static_cast<std::size_t>(begin);
          correctly_rounded_block(f, options.isa, &p.x[at], &p.right[at], kBlock);
          SurveyCounts part;
          Judge(f, options.isa, p, begin, begin + kBlock, part).run();
          const std::scoped_lock lock(mutex);
          c.add(part);
        }
      });
      c.inputs = 2 * kHalf;
      judge_symmetry(f, p, c);
      judge_place(f, peer, piece, p, c);
      c.seconds = seconds_since(start);
      if (!state.empty()) {
        nlohmann::json j = to_json(c);
        j["piece"] = piece;
        std::ofstream(state, std::ios::app) << j.dump() << "\n";
      }
      done[piece] = c;
    }
    all.add(done[piece]);
    if (options.progress) options.progress(++surveyed, static_cast<int>(pieces.size()));
  }
  return all;
}

}  // namespace etalon
