// A module is a table with its settings and weights; containers hold theirs in `modules`. Torch7
// does not store the shape of a network's input: it is taken from the first weights, and the extent
// of images is tried against the linear layers. What is no network of known modules (a table of
// tensors) opens as its tensors, named by their path, with a note why.
//
// A table of several things (a checkpoint) with one network in it opens as that network.
//
// Conventions: dimensions count from 1; SpatialAveragePooling counts padding unless told otherwise,
// and sums where a file of before 2014 does not say `divide`; SpatialDropout scales at inference;
// LRN divides alpha by the window; old batch norms store the inverse deviation; convolutions by MM
// keep their weights as a matrix; Threshold gives its value where x <= threshold.
#include <algorithm>
#include <optional>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/t7.h"
#include "importers/formats/extents.h"
#include "importers/formats/torch7.h"
#include "importers/formats/torch7/gmodule.h"
#include "importers/formats/torch7/modules.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace torch7 {

std::int64_t whole(double v) {
  if (!(v >= -1e9 && v <= 1e9)) throw bad_input("the number {} is out of range", v);
  return static_cast<std::int64_t>(v);
}

namespace {

std::string short_name(std::string_view type) {
  const std::size_t dot = type.rfind('.');
  return std::string(type.substr(dot == std::string_view::npos ? 0 : dot + 1));
}

class Translator {
 public:
  explicit Translator(const std::string& name) : g(name) {}
  GraphBuilder g;

  // `fixed`: images are of this extent along each axis; else of any.
  void run(const T7Object& root, std::int64_t extent, bool fixed) {
    extent_ = extent;
    fixed_ = fixed;
    visits_ = 0;
    Values y;
    std::optional<GModule> net;
    if (short_name(root.type) == "gModule")
      net.emplace(
          root,
          [&](const T7Object& m, const Values& in, int number) {
            return module(m, in, fmt::format("node{}", number), 1);
          },
          tables_);
    if (net && net->input_count() > 1) {
      y = net->run([&](std::size_t i, const T7Object* reader, ValueId like) {
        const std::string name = fmt::format("input{}", i);
        if (reader == nullptr) return g.input(name, DType::f32, g.dims(like));
        return input(name, *reader);
      });
    } else {
      const std::size_t count = readers_of(root, 0);
      y = module(root, inputs_of(root, count == 1 ? "input" : "", 0), "", 0);
    }
    const Values all = tables_.flatten(y);
    if (all.empty()) throw bad_input("a network that gives no value");
    for (std::size_t i = 0; i < all.size(); ++i)
      g.output(all[i], all.size() == 1 ? "output" : fmt::format("output{}", i));
  }

 private:
  // The inputs that a network begins with: those of its first module, or of each beside it.
  static const T7Object* beside(const T7Object& m, int depth) {
    const T7Object* at = &m;
    for (; depth < 100; ++depth) {
      const std::string type = short_name(at->type);
      if (type == "ParallelTable") return at;
      if (type != "Sequential" && type != "DataParallelTable") return nullptr;
      at = part_of(*at, 0);
      if (at == nullptr) return nullptr;
    }
    return nullptr;
  }
  std::size_t readers_of(const T7Object& m, int depth) {
    count_visit();
    const T7Object* parts = depth > 100 ? nullptr : beside(m, depth);
    if (parts == nullptr) return 1;
    std::size_t n = 0;
    for (std::size_t i = 0; part_of(*parts, i) != nullptr; ++i)
      n += readers_of(*part_of(*parts, i), depth + 1);
    return n;
  }
  Values inputs_of(const T7Object& m, const std::string& name, int depth) {
    count_visit();
    if (const T7Object* parts = depth > 100 ? nullptr : beside(m, depth)) {
      Values out;
      for (std::size_t i = 0; part_of(*parts, i) != nullptr; ++i)
        out.push_back(tables_.pack(inputs_of(*part_of(*parts, i), name, depth + 1)));
      if (!out.empty()) return out;
    }
    const T7Object* first = find_first(m, 0);
    if (first == nullptr) throw bad_input("no layer with weights tells the shape of the input");
    return {input(name.empty() ? fmt::format("input{}", inputs_++) : name, *first)};
  }

  // An input as the first module with weights reads it.
  ValueId input(const std::string& name, const T7Object& first) {
    const std::string type = short_name(first.type);
    const bool norm = type.ends_with("BatchNormalization");
    const T7Object* mean = norm ? first.find_object("running_mean") : nullptr;
    const std::int64_t c =
        mean != nullptr ? mean->tensor.numel() : whole(first.number("nInputPlane", 0));
    if (type.starts_with("Spatial")) {
      const std::int64_t n = fixed_ ? extent_ : -1;
      g.note(fmt::format(
          "the file does not say the shape of its input: {} channels as the first "
          "{} has them, {}",
          c, norm ? "batch norm" : "convolution",
          fixed_ ? fmt::format("{} along each axis, which fits the linear layers", extent_)
                 : std::string("any extent")));
      return g.input(name, DType::f32, {-1, c, n, n}, {1, c, extent_, extent_});
    }
    if (type.starts_with("Volumetric"))
      return g.input(name, DType::f32, {-1, c, -1, -1, -1}, {1, c, 16, 16, 16});
    if (type.starts_with("Temporal")) {
      const std::int64_t features = whole(first.number("inputFrameSize", 0));
      return g.input(name, DType::f32, {-1, -1, features}, {1, 16, features});
    }
    if (type == "LookupTable") return g.input(name, DType::f32, {-1, -1}, {1, 8});
    if (type == "OneHot") return g.input(name, DType::f32, {-1});
    if (norm) return g.input(name, DType::f32, {-1, c});
    if (type == "PartialLinear")
      return g.input(name, DType::f32, {-1, whole(first.number("inputsize", 0))});
    const T7Object* w = first.find_object(type == "LinearWeightNorm" ? "v" : "weight");
    if (w == nullptr || !w->tensor) throw bad_input("{} has no weight", printable(first.type));
    const Shape& shape = w->tensor.shape();
    if (shape.rank() == 2) {
      const bool columns = type.ends_with("Euclidean");
      return g.input(name, DType::f32, {-1, shape[columns ? 0 : 1]});
    }
    if (type == "Linear") return g.input(name, DType::f32, {-1, w->tensor.numel()});
    throw bad_input("the weights {} of {} do not tell an input's shape", to_string(shape),
                    printable(first.type));
  }

  const T7Object* find_first(const T7Object& m, int depth) {
    if (depth > 100) return nullptr;
    count_visit();
    const std::string type = short_name(m.type);
    constexpr std::string_view kRows[] = {
        "Linear",        "LinearNoBias", "LinearWeightNorm",  "LookupTable", "Cosine",
        "PartialLinear", "Euclidean",    "WeightedEuclidean", "OneHot"};
    const bool planes = (type.starts_with("Spatial") || type.starts_with("Volumetric")) &&
                        (m.find("nInputPlane") != nullptr || type.ends_with("BatchNormalization"));
    const bool steps = type.starts_with("Temporal") && m.find("inputFrameSize") != nullptr;
    if (planes || steps || type == "BatchNormalization" ||
        std::ranges::find(kRows, std::string_view(type)) != std::end(kRows))
      return &m;
    for (std::size_t i = 0; const T7Object* part = part_of(m, i); ++i)
      if (const T7Object* found = find_first(*part, depth + 1)) return found;
    return nullptr;
  }

  // Modules may be shared, and hold each other: what unfolds takes time.
  void count_visit() {
    constexpr int kMost = 1 << 14;
    if (++visits_ > kMost) throw bad_input("its modules unfold to more than {}", kMost);
  }

  Values module(const T7Object& m, const Values& in, const std::string& place, int depth);

  Tables tables_;
  std::int64_t extent_ = 0;
  bool fixed_ = false;
  int visits_ = 0, inputs_ = 0;
};

// A class of nn or cudnn by its name there; the class of OneHot that char-rnn brings has no
// package.
std::string_view known_name(std::string_view type) {
  for (const std::string_view package : {"nn.", "cudnn."})
    if (type.starts_with(package)) return type.substr(package.size());
  return type == "OneHot" ? type : "";
}

Values Translator::module(const T7Object& m, const Values& in, const std::string& place,
                          int depth) {
  const std::string type = short_name(m.type);
  const std::string name = place.empty() ? type : place + "." + type;
  const ErrorScope where("node " + printable(name));
  if (depth > 100) throw bad_input("modules nest deeper than any network");
  count_visit();
  if (in.empty()) throw bad_input("a module without input");
  std::vector<const T7Object*> parts;
  if (const T7Object* list = m.find_object("modules"))
    for (const T7Value* v : list->list()) {
      if (!v->object) throw bad_input("a part that is no module");
      parts.push_back(v->object.get());
    }
  const auto run = [&](const T7Object& inner, const Values& values, const std::string& at) {
    return module(inner, values, at, depth + 1);
  };
  const std::string_view known = known_name(m.type);
  for (const auto& rows :
       {layer_rows(), container_rows(), norm_rows(), table_rows(), move_rows(), window_rows()})
    for (const ModuleRow& row : rows) {
      if (row.name != known) continue;
      if (!row.tables && std::ranges::any_of(in, Tables::is_table))
        throw bad_input("{} on a table within a table", type);
      std::vector<int> used(parts.size());
      const auto apply = [&](std::size_t i, const Values& values) {
        const int again = used.at(i)++;
        const std::string part = fmt::format("{}{}{}", place, place.empty() ? "" : ".", i + 1);
        return run(*parts[i], values, again == 0 ? part : fmt::format("{}_{}", part, again));
      };
      return row.translate({g, m, type, name, place, in, parts, apply, run, tables_});
    }
  throw bad_input("the module {} is not supported", printable(m.type));
}

// The networks in a value: modules that stand in no other one.
void find_networks(const T7Value& v, std::set<const T7Object*>& seen, int depth,
                   std::vector<const T7Object*>& out) {
  if (!v.object || depth > 8 || v.kind != T7Value::Kind::object || out.size() > 1 ||
      !seen.insert(v.object.get()).second)
    return;
  const T7Object& o = *v.object;
  const bool package = o.type.starts_with("nn.") || o.type.starts_with("cudnn.");
  if (package && !o.type.ends_with("Criterion")) out.push_back(&o);
  if (o.type != "table" && !o.type.starts_with("tds.")) return;
  for (const auto& [key, value] : o.entries) find_networks(value, seen, depth + 1, out);
}

// Every tensor below a value, by the path of keys to it.
void collect(const T7Value& v, const std::string& path, std::set<const T7Object*>& seen, int depth,
             TensorList& out) {
  if (!v.object || depth > 200 || v.kind != T7Value::Kind::object) return;
  const T7Object& o = *v.object;
  if (o.tensor) {
    if (o.type.ends_with("Tensor") && o.tensor.numel() > 0 && seen.insert(&o).second)
      out.push_back({path.empty() ? "tensor" : path, o.tensor.share()});
    return;
  }
  if (!seen.insert(&o).second) return;
  for (const auto& [key, value] : o.entries) {
    const std::string part = key.kind == T7Value::Kind::text     ? printable(key.text)
                             : key.kind == T7Value::Kind::number ? fmt::format("{}", key.number)
                                                                 : "key";
    collect(value, path.empty() ? part : path + "." + part, seen, depth + 1, out);
  }
}

Model open(const std::string& path, std::span<const std::string>) {
  const Blob blob = map_file(path);
  const ErrorScope scope(path);
  const T7File file = read_t7(blob);
  std::size_t room = 4 * blob.bytes.size();
  for (const auto& object : file.objects)
    if (object->type == "nn.WeightNorm") restore_weights(*object, room);
  std::string why;
  const T7Object* root = file.root.object.get();
  std::vector<const T7Object*> networks;
  std::set<const T7Object*> searched;
  find_networks(file.root, searched, 0, networks);
  if (networks.size() == 1) {
    const T7Object& network = *networks[0];
    const auto finished = [&](Translator& t) {
      if (&network != root) t.g.note("the file holds a table; this is the one network in it");
      return finish_model(t.g, path, "torch7", "", "torch7");
    };
    try {
      Translator t(stem_of(path));
      t.run(network, 224, false);
      return finished(t);
    } catch (const Error& e) {
      why = e.what();
    }
    for (const std::int64_t extent : kUsualExtents) {
      Translator t(stem_of(path));
      try {
        t.run(network, extent, true);
        return finished(t);
      } catch (const Error&) {
        // The next extent.
      }
    }
    if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);
  }
  Model model;
  model.path = path;
  model.format = "torch7";
  std::set<const T7Object*> seen;
  TensorList tensors;
  collect(file.root, "", seen, 0, tensors);
  std::set<std::string> names;
  for (NamedTensor& t : tensors) {
    std::string name = t.name;
    for (int i = 1; !names.insert(name).second; ++i) name = fmt::format("{}_{}", t.name, i);
    model.graph->initializers.emplace(model.graph->add_value(name), std::move(t.tensor));
  }
  model.notes.push_back(why.empty()
                            ? fmt::format("no network: the file holds {}, given as its tensors",
                                          root == nullptr ? "a plain value" : printable(root->type))
                            : "given as its tensors, for as a network: " + why);
  return model;
}

}  // namespace
}  // namespace torch7

const FormatRow& torch7_format() {
  static const FormatRow row{
      .name = "torch7",
      .endings = ".t7",
      .summary = "Torch7: nn and cudnn modules, or the tensors of any object.",
      .match =
          [](const FileView& f) {
            return !f.is_folder && (has_ending(f.path, ".t7") || looks_like_t7(f.prefix));
          },
      .open = torch7::open};
  return row;
}

}  // namespace etalon
