#include "engine/numerics/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/core/nearest.h"
#include "engine/numerics/algorithm.h"
#include "engine/numerics/sum_tree.h"
#include "engine/numerics/tensor_core.h"

namespace etalon {
namespace {

constexpr std::string_view kPrefix = "etalon1:";
constexpr std::array<std::string_view, 4> kRounds{"rn", "rz", "ru", "rd"};
constexpr std::array<std::string_view, 4> kArchs{"volta", "ampere", "ada", "hopper"};
constexpr std::array<std::string_view, 6> kFormats{"", "f16", "bf16", "tf32", "f8e4m3", "f8e5m2"};

std::int64_t positive(std::string_view field, std::string_view text) {
  std::int64_t n = 0;
  const auto r = std::from_chars(text.begin(), text.end(), n);
  if (r.ec != std::errc{} || r.ptr != text.end() || n <= 0)
    throw usage_error("contract field {}: '{}' is not a positive whole number", field, text);
  return n;
}

DType floating(std::string_view field, std::string_view text) {
  for (const DType d : {DType::f64, DType::f32, DType::bf16, DType::f16})
    if (name(d) == text) return d;
  throw usage_error("contract field {}: '{}' is not one of f64, f32, bf16, f16", field, text);
}

// ARCH or ARCH:FORMAT.
Order parse_tensor_core(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto arch = std::find(kArchs.begin(), kArchs.end(), text.substr(0, colon));
  if (arch == kArchs.end())
    throw usage_error("contract field order: '{}' is not one of tensorcore:{}", text,
                      fmt::join(kArchs, ", tensorcore:"));
  Order order;
  order.kind = OrderKind::tensorcore;
  order.arch = static_cast<TensorCoreArch>(arch - kArchs.begin());
  if (colon == std::string_view::npos) return order;
  const auto format = std::find(kFormats.begin() + 1, kFormats.end(), text.substr(colon + 1));
  if (format == kFormats.end())
    throw usage_error(
        "contract field order: a tensor core multiplies f16, bf16, tf32, f8e4m3 or f8e5m2, not "
        "'{}'",
        text.substr(colon + 1));
  order.format = static_cast<TensorCoreFormat>(format - kFormats.begin());
  return order;
}

Order parse_order(std::string_view text) {
  Order order;
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const auto bare = [&](OrderKind k) {
    if (colon != std::string_view::npos)
      throw usage_error("contract field order: '{}' takes no number, got '{}'", kind, text);
    order.kind = k;
  };
  if (kind == "seq") {
    bare(OrderKind::seq);
  } else if (kind == "exact") {
    bare(OrderKind::exact);
  } else if (kind == "lanes" || kind == "pairwise" || kind == "splitk") {
    order.kind = kind == "lanes"      ? OrderKind::lanes
                 : kind == "pairwise" ? OrderKind::pairwise
                                      : OrderKind::splitk;
    order.sizes = {positive("order", rest)};
  } else if (kind == "blocks") {
    order.kind = OrderKind::blocks;
    for (std::size_t at = 0; at <= rest.size();) {
      const std::size_t plus = std::min(rest.find('+', at), rest.size());
      order.sizes.push_back(positive("order", rest.substr(at, plus - at)));
      at = plus + 1;
    }
  } else if (kind == "tensorcore") {
    order = parse_tensor_core(rest);
  } else if (kind == "tree") {
    order.kind = OrderKind::tree;
    const std::string path(rest);
    const ErrorScope where(path);
    auto tree = std::make_shared<SumTree>(SumTree::parse(read_text_file(path)));
    order.tree_hash = tree->hash();
    order.tree = std::move(tree);
  } else {
    throw usage_error(
        "contract field order: '{}' is not one of seq, lanes:N, pairwise:B, blocks:B, "
        "blocks:B1+B2+..., splitk:S, tree:FILE, tensorcore:ARCH, exact",
        text);
  }
  return order;
}

Walk parse_walk(std::string_view text) {
  if (text == "crs") return {};
  if (text == "rsc") return {Walk::Kind::rsc, 0};
  if (text.size() > 3 && text.front() == 'c' && text.ends_with("rs"))
    return {Walk::Kind::blocked, positive("walk", text.substr(1, text.size() - 3))};
  throw usage_error("contract field walk: '{}' is not one of crs, rsc, cNrs (N channels a block)",
                    text);
}

std::string order_text(const Order& order) {
  switch (order.kind) {
    case OrderKind::seq:
      return "seq";
    case OrderKind::exact:
      return "exact";
    case OrderKind::lanes:
      return fmt::format("lanes:{}", order.sizes[0]);
    case OrderKind::pairwise:
      return fmt::format("pairwise:{}", order.sizes[0]);
    case OrderKind::splitk:
      return fmt::format("splitk:{}", order.sizes[0]);
    case OrderKind::blocks:
      return fmt::format("blocks:{}", fmt::join(order.sizes, "+"));
    case OrderKind::tensorcore:
      return fmt::format("tensorcore:{}{}{}", name(order.arch),
                         order.format == TensorCoreFormat::of_input ? "" : ":", name(order.format));
    case OrderKind::tree:
      break;
  }
  return "tree:" + order.tree_hash;
}

std::string walk_text(const Walk& walk) {
  switch (walk.kind) {
    case Walk::Kind::crs:
      return "crs";
    case Walk::Kind::rsc:
      return "rsc";
    case Walk::Kind::blocked:
      break;
  }
  return fmt::format("c{}rs", walk.channels);
}

// The fields in canonical order, each as name=value.
std::vector<std::string> fields(const Contract& c) {
  std::vector<std::string> out{fmt::format("store={}", name(c.store))};
  if (!c.exact()) out.push_back(fmt::format("acc={}", name(c.acc)));
  out.push_back("order=" + order_text(c.order));
  if (!c.exact()) {
    out.push_back("walk=" + walk_text(c.walk));
    out.push_back(c.fma ? "fma=on" : "fma=off");
  }
  out.push_back("round=" + to_string(c.round));
  out.push_back(c.subnormals == Subnormals::keep ? "subnormals=keep" : "subnormals=flush");
  if (!c.exact()) {
    out.emplace_back("math=cr");
    out.push_back("algo=" + c.algo);
  }
  return out;
}

// The unit has one way to round and one walk through its adder: fields that would change them are
// refused rather than ignored.
void check_tensor_core(const Contract& c, std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    throw usage_error("contract '{}': {}", text, why);
  };
  if (!c.fma || c.round != Round::nearest_even || c.subnormals != Subnormals::keep)
    refuse(
        "a tensor core's products are exact, its sums cut and its subnormals kept; leave out fma, "
        "round and subnormals");
  if (c.algo != "direct") refuse("tensorcore is the order of algo=direct");
  if (c.acc != DType::f32 && c.acc != DType::f16)
    refuse(
        "a tensor core accumulates in f32 or f16 (its f64 form is a chain: order=seq,acc=f64,"
        "store=f64)");
  if (c.order.format != TensorCoreFormat::of_input &&
      TensorCoreModel::of(c.order.arch, c.order.format, c.acc).block == 0)
    throw usage_error("contract '{}': {}'s tensor cores do not multiply {} with acc={}", text,
                      name(c.order.arch), name(c.order.format), name(c.acc));
}

}  // namespace

bool Contract::native_f32() const {
  return store == DType::f32 && acc == DType::f32 && fma && round == Round::nearest_even &&
         subnormals == Subnormals::keep && !exact();
}
bool Contract::is_seq() const {
  Contract c = *this;
  c.algo = "direct";
  return c == seq();
}
Contract Contract::seq() { return {}; }
Contract Contract::exact_preset() {
  Contract c;
  c.order.kind = OrderKind::exact;
  return c;
}

Contract Contract::parse(std::string_view text) {
  if (text.starts_with(kPrefix)) {
    text.remove_prefix(kPrefix.size());
  } else if (text.starts_with("etalon") && text.find(':') != std::string_view::npos) {
    throw usage_error("contract '{}': this version reads contracts that begin with '{}'", text,
                      kPrefix);
  }
  Contract c;
  std::string algo, algo_options;  // points, transform, channels and radix belong to algo
  std::vector<std::string_view> seen;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, comma - at);
    const bool first = at == 0;
    at = comma + 1;
    if (first && item == "seq") continue;
    if (first && item == "exact") {
      c = exact_preset();
      continue;
    }
    const std::size_t eq = item.find('=');
    if (eq == std::string_view::npos)
      throw usage_error("contract '{}': '{}' is neither a preset (seq, exact) nor field=value{}",
                        text, item, did_you_mean(item, std::array{"seq", "exact"}));
    const std::string_view field = item.substr(0, eq), value = item.substr(eq + 1);
    for (const std::string_view s : seen)
      if (s == field) throw usage_error("contract '{}': field {} is given twice", text, field);
    seen.push_back(field);
    const auto pick = [&](std::string_view a, std::string_view b) {
      if (value != a && value != b)
        throw usage_error("contract field {}: '{}' is neither {} nor {}", field, value, a, b);
      return value == a;
    };
    if (field == "store") {
      c.store = floating(field, value);
    } else if (field == "acc") {
      c.acc = floating(field, value);
    } else if (field == "order") {
      c.order = parse_order(value);
    } else if (field == "walk") {
      c.walk = parse_walk(value);
    } else if (field == "fma") {
      c.fma = pick("on", "off");
    } else if (field == "round") {
      std::size_t i = 0;
      while (i < kRounds.size() && kRounds[i] != value) ++i;
      if (i == kRounds.size())
        throw usage_error("contract field round: '{}' is not one of rn, rz, ru, rd", value);
      c.round = static_cast<Round>(i);
    } else if (field == "subnormals") {
      c.subnormals = pick("keep", "flush") ? Subnormals::keep : Subnormals::flush;
    } else if (field == "math") {
      if (value != "cr")
        throw usage_error("contract field math: '{}' is not known; cr is (correctly rounded)",
                          value);
    } else if (field == "algo") {
      algo = value;
    } else if (field == "points" || field == "transform" || field == "channels" ||
               field == "radix") {
      algo_options += fmt::format(",{}", item);
    } else {
      throw usage_error(
          "contract '{}': there is no field '{}'; the fields are store, acc, order, walk, fma, "
          "round, subnormals, math, algo, and of algo: points, transform, channels, radix",
          text, field);
    }
  }
  if (algo.empty() && !algo_options.empty())
    throw usage_error("contract '{}': '{}' belongs to an algorithm, and there is no algo=", text,
                      algo_options.substr(1));
  if (!algo.empty()) c.algo = to_string(Algorithm::parse(algo + algo_options));
  if (c.exact()) {
    for (const std::string_view f : {"acc", "walk", "fma", "math", "algo"})
      for (const std::string_view s : seen)
        if (s == f)
          throw usage_error(
              "contract '{}': under order=exact there is one rounding, {} says nothing", text, f);
  }
  if (c.tensor_core()) check_tensor_core(c, text);
  return c;
}

std::string_view name(TensorCoreArch arch) { return kArchs[static_cast<std::size_t>(arch)]; }
std::string_view name(TensorCoreFormat format) {
  return kFormats[static_cast<std::size_t>(format)];
}

std::string to_string(Round round) { return std::string(kRounds[static_cast<std::size_t>(round)]); }

std::string to_string(const Contract& contract) {
  return fmt::format("{}{}", kPrefix, fmt::join(fields(contract), ","));
}

std::string short_name(const Contract& contract) {
  const bool exact = contract.exact();
  const auto own = fields(contract);
  const auto base = fields(exact ? Contract::exact_preset() : Contract::seq());
  std::string out = exact ? "exact" : "";
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i] != base[i])
      out +=
          (out.empty() ? "" : ",") +
          (own[i].starts_with("algo=") ? "algo=" + brief(Algorithm::parse(contract.algo)) : own[i]);
  return out.empty() ? "seq" : out;
}

}  // namespace etalon
