// Version 2: a dictionary of functions and variables, each under its uid, in protobuf (Dictionary,
// DictionaryValue, NDShape, Axis, NDArrayView). A block is a function made of others: its
// placeholders stand for its arguments, so that what is inside is read as if it were outside.
// Source: the public definitions CNTK.proto and PrimitiveOpType.h (numbers of fields and of
// functions).
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "importers/containers/pbtree.h"
#include "importers/formats/cntk.h"
#include "importers/formats/cntk/ops.h"
#include "importers/formats/cntk/primitive_ops.h"
#include "importers/formats/cntk/walk.h"

namespace etalon {
namespace cntk {
namespace {

const PbSchema& schema() {
  static const PbSchema kSchema(R"(
Dictionary version 1 i data 2 Entry
Entry key 1 s value 2 Value
Vector value 1 Value
Value type 2 i bool 3 i int 4 i size 5 i float 6 f double 7 d string 8 s shape 9 Shape axis 10 Axis vector 11 Vector dictionary 12 Dictionary array 13 Array
Shape dim 1 i
Axis index 1 i name 2 s ordered 3 i
Array type 1 i format 2 i shape 3 Shape floats 4 Floats doubles 5 Doubles
Floats value 1 f
Doubles value 1 d
)");
  return kSchema;
}

using Dictionary = std::map<std::string, PbMessage, std::less<>>;

Dictionary dictionary(const PbMessage& m) {
  Dictionary d;
  for (const PbMessage& e : m.messages("data")) {
    const std::string key = e.text("key");
    if (!d.emplace(key, e.message("value")).second)
      throw bad_input("the key {} stands twice in a dictionary", printable(key));
  }
  return d;
}

std::string text(const Dictionary& d, std::string_view key) {
  const auto at = d.find(key);
  return at == d.end() ? "" : at->second.text("string");
}

std::int64_t integer(const Dictionary& d, std::string_view key, std::int64_t otherwise) {
  const auto at = d.find(key);
  if (at == d.end()) return otherwise;
  for (const char* kind : {"bool", "int", "size"})
    if (at->second.has(kind)) return at->second.integer(kind);
  return 0;  // what is 0 is not written
}

std::vector<PbMessage> list(const Dictionary& d, std::string_view key) {
  const auto at = d.find(key);
  return at == d.end() ? std::vector<PbMessage>{} : at->second.message("vector").messages("value");
}

std::vector<std::string> texts(const Dictionary& d, std::string_view key) {
  std::vector<std::string> out;
  for (const PbMessage& v : list(d, key)) out.push_back(v.text("string"));
  return out;
}

// Numbers as they stand in `m`: kinds 1 to 3, shapes (7), axes (8) and vectors of those (9).
void numbers(const PbMessage& m, Ints& out, int depth) {
  switch (m.integer("type")) {
    case 1:
      out.push_back(m.integer("bool"));
      break;
    case 2:
      out.push_back(static_cast<std::int32_t>(m.integer("int")));
      break;
    case 3:
      out.push_back(m.integer("size"));
      break;
    case 7:
      for (const std::int64_t d : m.message("shape").integers("dim")) out.push_back(d);
      break;
    case 8:
      out.push_back(static_cast<std::int32_t>(m.message("axis").integer("index")));
      break;
    case 9:
      if (depth > 0) return;
      for (const PbMessage& v : m.message("vector").messages("value")) numbers(v, out, depth + 1);
      break;
    default:
      break;
  }
}

Attribute attribute(const PbMessage& m) {
  Attribute a;
  numbers(m, a.ints, 0);
  if (m.integer("type") == 4) a.number = static_cast<double>(m.number("float"));
  if (m.integer("type") == 5) {
    const Tensor t = m.tensor("double");
    if (t.numel() == 1) a.number = t.data<double>()[0];
  }
  a.text = m.text("string");
  return a;
}

struct Variable {
  std::string uid, name;
  std::int64_t kind = 0;  // 0 input, 2 parameter, 3 constant, 4 placeholder
  DType dtype = DType::f32;
  Ints shape;
  int dynamic = 0;
  Tensor value;
  std::string label() const { return name.empty() ? uid : name; }
};

Variable variable(const Dictionary& d) {
  Variable v;
  v.uid = text(d, "uid");
  v.name = text(d, "name");
  const ErrorScope where(fmt::format("value {}", printable(v.label())));
  v.kind = integer(d, "kind", 0);
  const std::int64_t type = integer(d, "data_type", 1);
  if (const auto at = d.find("shape"); at != d.end())
    v.shape = at->second.message("shape").integers("dim");
  if (v.shape.size() > 6) throw bad_input("a shape of rank {}", v.shape.size());
  v.dynamic = static_cast<int>(std::min<std::size_t>(list(d, "dynamic_axis").size(), 3));
  if (type == 2) v.dtype = DType::f64;
  if (v.kind != 2 && v.kind != 3) return v;
  const auto at = d.find("value");
  if (at == d.end()) return v;  // its initialiser alone: a note tells
  const PbMessage array = at->second.message("array");
  if (array.integer("format") != 0) throw bad_input("sparse weights are not supported");
  v.shape = array.message("shape").integers("dim");
  if (v.shape.size() > 6) throw bad_input("a shape of rank {}", v.shape.size());
  const std::int64_t element = array.integer("type");
  if (element == 1)
    v.value = array.message("floats").tensor("value");
  else if (element == 2)
    v.value = array.message("doubles").tensor("value");
  else
    throw bad_input("weights of type {} are not supported (1: float, 2: double)", element);
  v.dtype = v.value.dtype();
  std::int64_t count = 1;
  for (const std::int64_t n : v.shape) {
    if (n < 0 || (n > 0 && count > (1LL << 40) / n)) throw bad_input("an extent of {}", n);
    count *= n;
  }
  if (v.value.numel() != count)
    throw bad_input("{} elements, its shape asks for {}", v.value.numel(), count);
  return v;
}

class File : public Values {
 public:
  explicit File(const PbMessage& m) : root_(dictionary(m)) {
    if (text(root_, "type") != "CompositeFunction")
      throw bad_input("a dictionary of type '{}', expected a CompositeFunction",
                      printable(text(root_, "type")));
    for (const PbMessage& v : list(root_, "inputs")) {
      Variable made = variable(dictionary(v.message("dictionary")));
      const std::string uid = made.uid;
      order_.push_back(uid);
      if (!variables_.emplace(uid, std::move(made)).second)
        throw bad_input("the variable {} stands twice", printable(uid));
    }
    for (const PbMessage& f : list(root_, "primitive_functions")) {
      const Dictionary d = dictionary(f.message("dictionary"));
      const std::string uid = text(d, "uid");
      if (!functions_.emplace(uid, read(d)).second)
        throw bad_input("the function {} stands twice", printable(uid));
    }
  }

  Model graph(const std::string& path) {
    GraphBuilder graph(stem_of(path));
    Ops ops(graph);
    const std::string root = text(root_, "root");
    const auto top = functions_.find(root);
    if (top == functions_.end())
      throw bad_input("its root '{}' is no function of it", printable(root));
    std::vector<std::string> outputs{root + "_Output_0"};
    if (top->second.op == "Combine") outputs = top->second.inputs;
    const Samples values = make_all(ops, *this, outputs);
    std::set<ValueId> given;
    for (const std::string& name : outputs) {
      const ValueId v = values.at(name).value;
      if (given.insert(v).second) ops.g.output(v, label(name));
    }
    ops.g.note(
        "a sample's axes are reversed: what CNTK calls [W,H,C] is [C,H,W] here, the same bytes; "
        "the batch stands before it, then the sequence");
    for (const auto& [uid, v] : variables_)
      if (v.kind == 0 && values.contains(uid) && v.dynamic > 1)
        ops.g.note(fmt::format("input {}: [batch, sequence, sample]; all sequences of one length",
                               v.label()));
    return finish_model(ops.g, path, "cntk", version(), "CNTK");
  }

  Model weights(const std::string& path, const std::string& why) const {
    Model model;
    model.path = path;
    model.format = "cntk";
    model.version = version();
    model.producer = "CNTK";
    model.notes.push_back(fmt::format("opened as its weights alone: {}", why));
    std::set<std::string> taken;
    for (const std::string& uid : order_) {
      const Variable& v = variables_.at(uid);
      if (!v.value) continue;
      const std::string name = taken.insert(v.label()).second ? v.label() : v.label() + "." + uid;
      Ints dims(v.shape.rbegin(), v.shape.rend());
      model.graph->initializers.emplace(model.graph->add_value(name),
                                        v.value.reshaped(Shape(dims)));
    }
    model.graph->finish();
    return model;
  }

 private:
  std::string version() const {
    return fmt::format("dictionary version {}", integer(root_, "version", 0));
  }

  Function read(const Dictionary& d) {
    Function f;
    f.uid = text(d, "uid");
    f.name = text(d, "name");
    const ErrorScope where(fmt::format("node {}", printable(f.uid)));
    f.inputs = texts(d, "inputs");
    const std::int64_t op = integer(d, "op", 0);
    f.op = op >= 0 && op < static_cast<std::int64_t>(kPrimitiveOps.size())
               ? std::string(kPrimitiveOps[static_cast<std::size_t>(op)])
               : fmt::format("number {}", op);
    if (const auto at = d.find("attributes"); at != d.end())
      for (const auto& [key, value] : dictionary(at->second.message("dictionary")))
        f.attributes.emplace(key, attribute(value));
    if (f.op == "Block") {
      const auto keys = texts(d, "block_function_composite_arguments_map_keys"),
                 values = texts(d, "block_function_composite_arguments_map_values");
      if (keys.size() != values.size())
        throw bad_input("{} placeholders for {} arguments", keys.size(), values.size());
      for (std::size_t i = 0; i < keys.size(); ++i) aliases_[keys[i]] = values[i];
      const auto inner = d.find("block_function_composite");
      if (inner == d.end()) throw bad_input("a block without what it is made of");
      const std::string root = text(dictionary(inner->second.message("dictionary")), "root");
      block_roots_[f.uid] = root;
      blocks_[root] = f.uid;
    }
    return f;
  }

  std::string label(const std::string& output) const {
    const std::string uid = output.substr(0, output.rfind("_Output_"));
    const auto at = functions_.find(uid);
    return at == functions_.end() || at->second.name.empty() ? uid : at->second.name;
  }

  struct Output {
    const Function* f = nullptr;
    std::size_t index = 0;
  };
  // Whose output `name` is; nothing where it is a variable.
  Output output_of(const std::string& name) const {
    constexpr std::string_view kOutput = "_Output_";
    const std::size_t cut = name.rfind(kOutput);
    if (cut == std::string::npos) return {};
    const auto at = functions_.find(name.substr(0, cut));
    if (at == functions_.end()) return {};
    std::size_t index = 0;
    const char* begin = name.data() + cut + kOutput.size();
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(begin, end, index);
    if (error != std::errc{} || stop != end) return {};
    return {&at->second, index};
  }
  const Function* maker(const std::string& name) const { return output_of(name).f; }

  // The other name of a value: of a placeholder, of what a block gives, of what is combined.
  std::string other_name(const std::string& name) const {
    if (const auto alias = aliases_.find(name); alias != aliases_.end()) return alias->second;
    const Output o = output_of(name);
    if (o.f == nullptr) return {};
    if (const auto root = block_roots_.find(o.f->uid); root != block_roots_.end())
      return fmt::format("{}_Output_{}", root->second, o.index);
    if (o.f->op == "Combine" && o.index < o.f->inputs.size()) return o.f->inputs[o.index];
    return {};
  }

  bool is_number(const std::string& name, float wanted) const {
    const auto at = variables_.find(name);
    return at != variables_.end() && at->second.value && at->second.value.numel() == 1 &&
           at->second.value.dtype() == DType::f32 && at->second.value.data<float>()[0] == wanted;
  }

  // The steps that flags of 0 and 1 choose: from `begin` to `end`, as a slice counts them (0: to
  // the last one).
  struct Steps {
    std::int64_t begin = 0, end = 0;
  };
  // Flags as Sequence.first, last and slice write them: zeros that a delay begins or ends with
  // ones, those turned, and the product of two.
  std::optional<Steps> chosen(const std::string& flags) const {
    const Function* f = maker(flags);
    if (f == nullptr || f->inputs.size() != 2) return {};
    if (f->op == "ElementTimes") {
      const auto one = ends(f->inputs[0]), two = ends(f->inputs[1]);
      if (!one || !two) return {};
      const bool first = one->end == 0 && two->begin == 0,
                 second = two->end == 0 && one->begin == 0;
      if (!first && !second) return {};
      return Steps{one->begin + two->begin, one->end + two->end};
    }
    return ends(flags);
  }
  std::optional<Steps> ends(const std::string& flags) const {
    const Function* f = maker(flags);
    if (f == nullptr || f->inputs.size() != 2) return {};
    const bool turned = f->op == "Minus" && is_number(f->inputs[0], 1);
    const Function* shift = turned ? maker(f->inputs[1]) : f;
    if (shift == nullptr || shift->inputs.size() != 2 || !is_delay(*shift) ||
        !is_number(shift->inputs[1], 1))
      return {};
    const Function* zeros = maker(shift->inputs[0]);
    if (zeros == nullptr || zeros->inputs.empty() || !is_number(zeros->inputs[0], 0) ||
        (zeros->op != "ReconcileDynamicAxis" && zeros->op != "ElementTimes"))
      return {};
    const std::int64_t n = Ops::delay_steps(*shift);
    if (shift->op == "PastValue") return turned ? Steps{n, 0} : Steps{0, n};
    return turned ? Steps{0, -n} : Steps{-n, 0};
  }

  // Steps of a sequence that do not hang on its elements: what is gathered, and which.
  std::optional<Steps> gathered(const Function& gather) const {
    if (gather.op != "GatherPacked" || gather.inputs.size() != 2) return {};
    const Function* index = maker(gather.inputs[1]);
    if (index == nullptr || index->op != "PackedIndex" || index->inputs.size() != 2) return {};
    const Function* where = maker(index->inputs[1]);
    if (where == nullptr || where->op != "Where" || where->inputs.size() != 1) return {};
    return chosen(where->inputs[0]);
  }
  // Whether what is gathered is one step, and no sequence any more.
  bool is_step(const Function& gather) const {
    const Function* where = maker(maker(gather.inputs[1])->inputs[1]);
    return where->integer("newSequenceAxisLengthScalingFactor", -1) == 0 &&
           where->integer("newSequenceAxisLengthAdditiveFactor", -1) == 1;
  }

  Sample leaf(Ops& ops, const std::string& name) const {
    const auto at = variables_.find(name);
    if (at == variables_.end()) throw bad_input("nothing makes the value '{}'", printable(name));
    const Variable& v = at->second;
    const ErrorScope where(fmt::format("value {}", printable(v.label())));
    if (v.kind == 0) {
      if (v.dynamic > 2) throw Unsupported("an input of several sequence axes");
      if (v.dynamic == 0) throw Unsupported("an input without a batch");
      return ops.input(v.label(), v.dtype, v.shape, v.dynamic);
    }
    if (!v.value)
      throw Unsupported(v.kind == 4 ? "a placeholder that nothing fills"
                                    : "a weight that has only its initialiser");
    return ops.constant(v.label(), v.value, v.shape);
  }

  std::vector<std::string> wants(const std::string& name) const override {
    if (std::string other = other_name(name); !other.empty()) return {std::move(other)};
    const Function* f = maker(name);
    if (f == nullptr) return {};
    if (gathered(*f)) return {f->inputs[0]};
    return f->inputs;
  }

  const Function* function(const std::string& name) const override {
    return other_name(name).empty() ? maker(name) : nullptr;
  }

  Sample make(Ops& ops, const std::string& name, const std::vector<Sample>& in) override {
    if (!other_name(name).empty()) return in[0];
    const Output o = output_of(name);
    if (o.f == nullptr) return leaf(ops, name);
    Function named = *o.f;
    if (const auto block = blocks_.find(named.uid); block != blocks_.end() && named.name.empty())
      named.name = functions_.at(block->second).name;
    const ErrorScope where(
        fmt::format("node {}", printable(named.name.empty() ? named.uid : named.name)));
    if (o.index > 0) throw Unsupported(fmt::format("output {} of {}", o.index, named.op));
    if (const auto steps = gathered(named)) {
      named.attributes["step"].ints = {is_step(named) ? 1 : 0};
      named.attributes["beginIndex"].ints = {steps->begin};
      named.attributes["endIndex"].ints = {steps->end};
      named.op = "SequenceSlice";
    }
    return ops.translate(named, in);
  }

  Dictionary root_;
  std::map<std::string, Variable> variables_;
  std::vector<std::string> order_;
  std::map<std::string, Function> functions_;
  std::map<std::string, std::string> aliases_, blocks_, block_roots_;
};

Model open(const std::string& path, std::span<const std::string>) {
  const Blob blob = map_file(path);
  const ErrorScope scope(path);
  File file(PbMessage::from_wire(schema().type("Dictionary"), blob));
  return graph_or_weights(file, path);
}

// The dictionary's version, then an entry with one of the keys of a composite function.
bool match(const FileView& file) {
  const auto fields = peek_fields(file.prefix, 2);
  if (fields.size() < 2 || fields[0].number != 1 || fields[0].wire != 0 || fields[0].value > 100 ||
      fields[1].number != 2 || fields[1].wire != 2)
    return false;
  const auto entry = peek_fields(fields[1].payload, 1);
  if (entry.empty() || entry[0].number != 1 || entry[0].wire != 2) return false;
  const std::string_view key{reinterpret_cast<const char*>(entry[0].payload.data()),
                             entry[0].payload.size()};
  for (const std::string_view known :
       {"version", "uid", "type", "root", "inputs", "name", "primitive_functions", "state"})
    if (key == known) return true;
  return false;
}

}  // namespace
}  // namespace cntk

const FormatRow& cntk_format() {
  static const FormatRow row{.name = "cntk",
                             .endings = ".model .cmf .dnn",
                             .summary = "CNTK 2 model: a dictionary of functions.",
                             .match = cntk::match,
                             .open = cntk::open};
  return row;
}

}  // namespace etalon
