// Ensembles of decision trees, walked by gathers: each sample stands at a node of each tree, and as
// often as the deepest tree has levels it goes on to one of the two behind it; leaves lead to
// themselves. What the leaves weigh is then summed.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "importers/containers/bytes.h"
#include "importers/formats/onnx/body.h"

namespace etalon::onnx_format {
namespace {

constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                       "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
constexpr std::string_view kOps[] = {"less_or_equal", "less",  "greater_or_equal",
                                     "greater",       "equal", "equal"};
constexpr std::int64_t kMostLevels = 4096;

// The nodes of all trees in one list.
struct Trees {
  Ints features, yes, no, modes, missing;  // yes and no: places in the list; mode -1: a leaf
  std::vector<float> values;
  Ints roots;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> at;  // (tree, node) to place
  std::int64_t levels = 0;
};

void measure(Trees& t) {
  // Levels below a place, from the leaves up; a place that is met while open lies in a circle.
  std::vector<std::int64_t> depth(t.yes.size(), -1), open(t.yes.size(), 0);
  for (const std::int64_t root : t.roots) {
    std::vector<std::int64_t> stack{root};
    while (!stack.empty()) {
      const auto i = static_cast<std::size_t>(stack.back());
      if (t.modes[i] < 0) depth[i] = 0;
      if (depth[i] >= 0) {
        stack.pop_back();
        continue;
      }
      const auto a = static_cast<std::size_t>(t.yes[i]), b = static_cast<std::size_t>(t.no[i]);
      if (depth[a] >= 0 && depth[b] >= 0) {
        depth[i] = 1 + std::max(depth[a], depth[b]);
        stack.pop_back();
        continue;
      }
      if (open[i]++ > 0) throw bad_input("a tree whose nodes lie in a circle");
      for (const std::size_t child : {a, b})
        if (depth[child] < 0) {
          if (open[child] > 0) throw bad_input("a tree whose nodes lie in a circle");
          stack.push_back(static_cast<std::int64_t>(child));
        }
    }
    t.levels = std::max(t.levels, depth[static_cast<std::size_t>(root)]);
  }
  if (t.levels > kMostLevels) throw bad_input("a tree of {} levels", t.levels);
}

Trees read_trees(OnnxNode& n) {
  Trees t;
  const Ints trees = n.integers("nodes_treeids"), nodes = n.integers("nodes_nodeids"),
             yes = n.integers("nodes_truenodeids"), no = n.integers("nodes_falsenodeids");
  t.features = n.integers("nodes_featureids");
  t.values = n.numbers("nodes_values");
  t.missing = n.integers("nodes_missing_value_tracks_true");
  n.ignore("nodes_hitrates");
  const std::vector<std::string> modes = n.texts("nodes_modes");
  const std::size_t count = trees.size();
  if (count == 0 || nodes.size() != count || yes.size() != count || no.size() != count ||
      t.features.size() != count || t.values.size() != count || modes.size() != count ||
      (!t.missing.empty() && t.missing.size() != count))
    throw bad_input("the lists of its nodes are of different lengths");
  MemoryBudget::charge(count * 128);
  for (std::size_t i = 0; i < count; ++i) {
    if (!t.at.emplace(std::pair{trees[i], nodes[i]}, static_cast<std::int64_t>(i)).second)
      throw bad_input("node {} of tree {} stands twice", nodes[i], trees[i]);
    if (i == 0 || trees[i] != trees[i - 1]) t.roots.push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto mode = std::ranges::find(kModes, modes[i]);
    const bool leaf = modes[i] == "LEAF";
    if (!leaf && mode == std::end(kModes)) throw bad_input("a node by {}", printable(modes[i]));
    t.modes.push_back(leaf ? -1 : mode - std::begin(kModes));
    const auto child = [&](std::int64_t id) {
      if (leaf) return static_cast<std::int64_t>(i);
      const auto at = t.at.find({trees[i], id});
      if (at == t.at.end()) throw bad_input("node {} of tree {} is not there", id, trees[i]);
      return at->second;
    };
    t.yes.push_back(child(yes[i]));
    t.no.push_back(child(no[i]));
    if (leaf) t.features[i] = 0;
    if (t.features[i] < 0) throw bad_input("feature {}", t.features[i]);
  }
  measure(t);
  return t;
}

// Places [samples, trees] of the leaves.
ValueId leaves(Body& b, const Trees& t, ValueId x) {
  const ValueId roots = b.ints(t.roots);
  const ValueId samples = b.extents(x, 0, 1);
  ValueId at = b.op("expand", {roots, b.concat({samples, b.extents(roots, 0, 1)}, 0)});
  const ValueId features = b.ints(t.features), yes = b.ints(t.yes), no = b.ints(t.no);
  const ValueId values =
      b.n.constant_value("values", Tensor::of<float>({static_cast<std::int64_t>(t.values.size())},
                                                     std::span<const float>(t.values)));
  Ints used;
  for (const std::int64_t m : t.modes)
    if (m >= 0 && std::ranges::find(used, m) == used.end()) used.push_back(m);
  const ValueId modes = used.size() > 1 ? b.ints(t.modes) : kAbsent;
  const bool tracks = std::ranges::any_of(t.missing, [](std::int64_t m) { return m != 0; });
  const ValueId missing = tracks ? b.ints(t.missing) : kAbsent;
  const auto of = [&](ValueId list) {
    return b.op("gather", {list, at}, {{"axis", std::int64_t{0}}});
  };
  for (std::int64_t level = 0; level < t.levels; ++level) {
    const ValueId v = b.op("gather_elements", {x, of(features)}, {{"axis", std::int64_t{1}}});
    const ValueId limit = of(values);
    ValueId goes = kAbsent;
    for (const std::int64_t m : used) {
      ValueId by = b.op(kOps[m], {v, limit});
      if (kModes[m] == "BRANCH_NEQ") by = b.op("not", {by});
      goes = goes == kAbsent ? by : b.where(b.op("equal", {of(modes), b.integer(m)}), by, goes);
    }
    if (tracks)
      goes = b.op(
          "or",
          {goes, b.op("and", {b.op("is_nan", {v}), b.op("equal", {of(missing), b.integer(1)})})});
    at = b.where(goes, of(yes), of(no));
  }
  return at;
}

// What each leaf adds to each target.
struct Weights {
  Ints ids;  // that any leaf names
  ValueId table = kAbsent;
  bool positive = true;
};

Weights read_weights(Body& b, const Trees& t, std::string_view kind, std::int64_t targets) {
  OnnxNode& n = b.n;
  const auto list = [&](const char* what) { return n.integers(fmt::format("{}_{}", kind, what)); };
  const Ints trees = list("treeids"), nodes = list("nodeids"), ids = list("ids");
  const std::vector<float> weights = n.numbers(fmt::format("{}_weights", kind));
  if (trees.size() != weights.size() || nodes.size() != weights.size() ||
      ids.size() != weights.size() || weights.empty())
    throw bad_input("the lists of its leaves' weights are of different lengths");
  const auto count = static_cast<std::int64_t>(t.yes.size());
  Weights w;
  MemoryBudget::charge(static_cast<std::size_t>(checked_mul(count, targets)) * sizeof(float));
  Tensor table = Tensor::zeros(DType::f32, {count, targets});
  auto to = table.mutable_data<float>();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto at = t.at.find({trees[i], nodes[i]});
    if (at == t.at.end()) throw bad_input("node {} of tree {} is not there", nodes[i], trees[i]);
    if (ids[i] < 0 || ids[i] >= targets) throw bad_input("target {} of {}", ids[i], targets);
    to[static_cast<std::size_t>(at->second * targets + ids[i])] += weights[i];
    w.positive = w.positive && weights[i] >= 0;
    if (std::ranges::find(w.ids, ids[i]) == w.ids.end()) w.ids.push_back(ids[i]);
  }
  w.table = n.constant_value("weights", std::move(table));
  return w;
}

ValueId summed(Body& b, const Trees& t, const Weights& w, std::string_view reduction) {
  const ValueId x = b.cast(b.n.required(0), DType::f32);
  const ValueId all = b.op("gather", {w.table, leaves(b, t, x)}, {{"axis", std::int64_t{0}}});
  return b.reduce(reduction, all, {1}, false);
}

ValueId plus_base(Body& b, ValueId scores, const std::vector<float>& base, std::int64_t targets) {
  if (base.empty()) return scores;
  if (static_cast<std::int64_t>(base.size()) != targets)
    throw bad_input("{} base values of {} targets", base.size(), targets);
  return b.add(scores, b.n.constant_value("base", Tensor::of<float>({targets}, std::span(base))));
}

ValueId transformed(Body& b, ValueId scores) {
  const std::string by = b.n.text("post_transform", "NONE");
  if (by == "NONE") return scores;
  if (by == "LOGISTIC") return b.op("sigmoid", {scores});
  if (by == "SOFTMAX") return b.op("softmax", {scores}, {{"axis", std::int64_t{-1}}});
  throw bad_input("post_transform is '{}'; NONE, LOGISTIC and SOFTMAX are read", printable(by));
}

void no_exact_lists(const OnnxNode& n) {
  for (const char* key :
       {"nodes_values_as_tensor", "base_values_as_tensor", "target_weights_as_tensor",
        "class_weights_as_tensor", "nodes_hitrates_as_tensor"})
    if (n.has_attribute(key)) throw bad_input("trees of f64; convert the model with f32");
}

void tree_regressor(OnnxNode& n) {
  Body b(n);
  no_exact_lists(n);
  const std::int64_t targets = n.integer("n_targets", 1);
  if (targets < 1 || targets > 1 << 20) throw bad_input("{} targets", targets);
  const Trees t = read_trees(n);
  const std::string how = n.text("aggregate_function", "SUM");
  if (how != "SUM" && how != "AVERAGE" && !((how == "MIN" || how == "MAX") && targets == 1))
    throw bad_input("aggregate_function is '{}' of {} targets", printable(how), targets);
  const Weights w = read_weights(b, t, "target", targets);
  const ValueId y = summed(b, t, w,
                           how == "MIN"   ? "reduce_min"
                           : how == "MAX" ? "reduce_max"
                                          : "reduce_sum");
  const ValueId mean =
      how == "AVERAGE" ? b.div(y, b.number(static_cast<float>(t.roots.size()))) : y;
  n.give(0, transformed(b, plus_base(b, mean, n.numbers("base_values"), targets)));
  n.note(
      fmt::format("{} trees of at most {} levels are walked by gathers", t.roots.size(), t.levels));
}

// Two classes of which the leaves weigh one: its score s stands beside 1 - s where all weights are
// positive (the second class from 1/2 on), else beside -s (from 0 on), as ONNX Runtime has it.
void one_of_two(Body& b, ValueId s, bool positive, const Ints& labels) {
  OnnxNode& n = b.n;
  const ValueId second = b.op("greater", {s, b.number(positive ? 0.5F : 0.0F)});
  n.give(0, b.where(b.squeeze(second, {1}), b.integer(labels[1]), b.integer(labels[0])));
  const std::string by = n.text("post_transform", "NONE");
  if (by != "NONE" && by != "LOGISTIC")
    throw bad_input("post_transform is '{}' of one score for two classes", printable(by));
  if (positive) {
    n.give(1, b.concat({b.sub(b.number(1), s), s}, 1));
    return;
  }
  const ValueId both = b.concat({b.op("neg", {s}), s}, 1);
  n.give(1, by == "LOGISTIC" ? b.op("sigmoid", {both}) : both);
}

void tree_classifier(OnnxNode& n) {
  Body b(n);
  no_exact_lists(n);
  const Ints labels = n.integers("classlabels_int64s");
  if (labels.size() < 2)
    throw bad_input(
        "attribute classlabels_int64s has {} entries; labels that are texts are no tensors: "
        "convert the model with integer labels",
        labels.size());
  const auto classes = static_cast<std::int64_t>(labels.size());
  const Trees t = read_trees(n);
  const Weights w = read_weights(b, t, "class", classes);
  const std::vector<float> base = n.numbers("base_values");
  ValueId scores = summed(b, t, w, "reduce_sum");
  n.note(
      fmt::format("{} trees of at most {} levels are walked by gathers", t.roots.size(), t.levels));
  if (classes == 2 && w.ids.size() == 1) {
    if (base.size() > 1) throw bad_input("{} base values of one score", base.size());
    ValueId one = b.part(scores, 1, w.ids[0], w.ids[0] + 1);
    if (!base.empty()) one = b.add(one, b.number(base[0]));
    return one_of_two(b, one, w.positive, labels);
  }
  scores = plus_base(b, scores, base, classes);
  const ValueId best = b.op("arg_max", {scores}, {{"axis", std::int64_t{1}}, {"keepdims", false}});
  n.give(0, b.op("gather", {b.ints(labels), best}));
  n.give(1, transformed(b, scores));
}

constexpr TranslatorRow kRows[] = {
    {"ai.onnx.ml.TreeEnsembleRegressor", tree_regressor},
    {"ai.onnx.ml.TreeEnsembleClassifier", tree_classifier},
};

}  // namespace

std::span<const TranslatorRow> tree_family() { return kRows; }

}  // namespace etalon::onnx_format
