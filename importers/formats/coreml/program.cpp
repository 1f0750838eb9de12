#include "importers/formats/coreml/program.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"
#include "importers/formats/coreml/scope.h"
#include "importers/formats/scalar.h"

namespace etalon::coreml {
namespace {

const PbMessage* feature_of(const std::vector<PbMessage>& features, const std::string& name) {
  const auto found =
      std::ranges::find_if(features, [&](const PbMessage& f) { return f.text("name") == name; });
  return found == features.end() ? nullptr : &*found;
}

using Named = std::map<std::string, ValueId>;

// The inputs of a function, those that `given` has taken from there. Free extents are tried at
// those that the description has.
void declare(Scope& scope, const PbMessage& function, const std::vector<PbMessage>& features,
             const Named& given) {
  for (const PbMessage& input : function.messages("inputs")) {
    const std::string name = input.text("name");
    const ErrorScope where(fmt::format("value {}", printable(name)));
    if (const auto at = given.find(name); at != given.end()) {
      Value value;
      value.id = at->second;
      scope.define(name, std::move(value));
      continue;
    }
    const PbMessage type = input.message("type");
    const bool state = type.has("state");
    const PbMessage holder = state ? type.message("state").message("wrapped") : type;
    if (!holder.has("tensor")) throw bad_input("an input that is no tensor");
    const PbMessage tensor = holder.message("tensor");
    const PbMessage* feature = feature_of(features, name);
    Ints nominal;
    if (feature != nullptr) {
      const PbMessage kind = feature->message("type"), image = kind.message("image");
      nominal = kind.message("array").integers("shape");
      if (kind.has("image")) {
        const bool grey = image.integer("colorSpace") == 10 || image.integer("colorSpace") == 40;
        nominal = {1, grey ? 1 : 3, image.integer("height"), image.integer("width")};
        scope.g.note(fmt::format("input {} is an image ({}): feed its channels, 0 to 255", name,
                                 grey                                ? "grey"
                                 : image.integer("colorSpace") == 30 ? "blue, green, red"
                                                                     : "red, green, blue"));
      }
    }
    const ValueId v = scope.g.input(name, stored_type(tensor.integer("dataType")).dtype,
                                    dims_of(tensor), nominal);
    if (state) {
      scope.define_state(name, v);
      scope.g.note(
          "states are inputs, and outputs that end in .next: feed zeros first, then what came out");
    } else {
      Value value;
      value.id = v;
      scope.define(name, std::move(value));
    }
  }
}

// Its outputs, and those of states, by their names in sequence.
std::vector<std::pair<std::string, ValueId>> run_function(GraphBuilder& g, Constants& constants,
                                                          const PbMessage& function,
                                                          const std::vector<PbMessage>& features,
                                                          const Named& given) {
  Scope scope(g, constants);
  declare(scope, function, features, given);
  const std::string opset = function.text("opset");
  for (const PbMessage& entry : function.messages("blocks")) {
    if (entry.text("key") != opset && function.count("blocks") > 1) continue;
    const PbMessage block = entry.message("value");
    scope.run(block);
    std::vector<std::pair<std::string, ValueId>> out;
    for (const std::string& name : block.texts("outputs")) {
      if (scope.look(name).label)
        g.note(fmt::format("the label {} is that of the greatest probability, no part of the graph",
                           printable(name)));
      else
        out.emplace_back(name, scope.tensor(name));
    }
    for (const auto& [name, value] : scope.states()) out.emplace_back(name + ".next", value);
    return out;
  }
  throw bad_input("its function has no block for the opset {}", printable(opset));
}

// The function that is run where nobody asks for another.
PbMessage chosen_function(GraphBuilder& g, const PbMessage& model,
                          std::vector<PbMessage>& features) {
  const PbMessage description = model.message("description");
  features = description.messages("input");
  const std::string chosen = description.text("defaultFunctionName", "main");
  PbMessage main;
  std::string others;
  const auto functions = model.message("mlProgram").messages("functions");
  for (const PbMessage& f : functions)
    if (f.text("key") == chosen || functions.size() == 1)
      main = f.message("value");
    else
      others += (others.empty() ? "" : ", ") + printable(f.text("key"));
  if (main.count("blocks") == 0)
    throw bad_input("an ML program without a function {}", printable(chosen));
  for (const PbMessage& f : description.messages("functions"))
    if (f.text("name") == chosen) features = f.messages("input");
  if (functions.size() > 1)
    g.note(fmt::format("of {} functions of the program {} is read, not {}", functions.size(),
                       printable(chosen), others));
  return main;
}

// A program, or those of a pipeline one behind the other.
std::vector<PbMessage> programs(const PbMessage& model) {
  if (model.has("mlProgram")) return {model};
  PbMessage pipeline = model.message("pipeline");
  for (const char* kind : {"pipelineClassifier", "pipelineRegressor"})
    if (model.has(kind)) pipeline = model.message(kind).message("pipeline");
  std::vector<PbMessage> out;
  if (pipeline.count("models") != 0) out = pipeline.messages("models");
  for (const PbMessage& m : out)
    if (!m.has("mlProgram"))
      throw bad_input("a pipeline of an ML program and a model of another kind is not supported");
  return out;
}

}  // namespace

void Scope::define(const std::string& name, Value v) {
  if (!values_.emplace(name, std::move(v)).second)
    throw bad_input("the value {} is made twice", printable(name));
}

void Scope::define_state(const std::string& name, ValueId first) {
  Value v;
  v.state = name;
  define(name, std::move(v));
  states_[name] = first;
}

Value& Scope::look(const std::string& name) {
  const auto at = values_.find(name);
  if (at == values_.end()) throw bad_input("nothing makes the value '{}'", printable(name));
  return at->second;
}

ValueId Scope::tensor(const std::string& name) {
  Value& v = look(name);
  if (v.id == kAbsent) {
    if (!v.constant) throw bad_input("the value {} is no tensor", printable(name));
    v.id = g.constant(name, v.constant.share());
  }
  return v.id;
}

void Scope::run(const PbMessage& block) {
  for (const PbMessage& op : block.messages("operations")) operation(op);
}

Arguments Scope::arguments(const PbMessage& m) {
  Arguments in;
  for (const PbMessage& entry : m.messages("inputs"))
    for (const PbMessage& binding : entry.message("value").messages("arguments"))
      in[entry.text("key")].push_back(binding.has("value")
                                          ? constants_.read(binding.message("value"))
                                          : look(binding.text("name")).share());
  for (const PbMessage& entry : m.messages("attributes"))
    if (entry.text("key") != "name" && !in.contains(entry.text("key")))
      in[entry.text("key")].push_back(constants_.read(entry.message("value")));
  return in;
}

void Scope::operation(const PbMessage& m) {
  const std::string type = printable(m.text("type"));
  const auto outputs = m.messages("outputs");
  const std::string name = outputs.empty() ? type : outputs[0].text("name");
  const ErrorScope where(fmt::format("node {}", printable(name)));
  Arguments in = arguments(m);
  if (type == "const") {
    const auto val = in.find("val");
    if (val == in.end() || val->second.size() != 1 || outputs.size() != 1)
      throw bad_input("a constant without a value");
    define(name, std::move(val->second[0]));
    return;
  }
  Operation op(g, type, name, std::move(in));
  std::vector<Value> made;
  if (auto own = special(m, op)) {
    made = std::move(*own);
  } else {
    for (const ValueId v : translate(op)) {
      made.emplace_back().id = v;
      if (const Tensor* t = g.constant_of(v)) made.back().constant = t->share();
    }
  }
  if (made.size() < outputs.size())
    throw bad_input("{} gives {} values, {} are named", type, made.size(), outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    define(outputs[i].text("name"), std::move(made[i]));
}

Value Value::share() const {
  Value v;
  v.id = id;
  if (constant) v.constant = constant.share();
  v.texts = texts;
  for (const Value& part : parts) v.parts.push_back(part.share());
  v.state = state;
  v.label = label;
  return v;
}

const Value* Operation::find(std::string_view key) const {
  const auto at = inputs_.find(key);
  return at == inputs_.end() || at->second.empty() ? nullptr : &at->second[0];
}

bool Operation::has(std::string_view key) const { return find(key) != nullptr; }

ValueId Operation::made(Value& v, std::string_view key) {
  if (v.id == kAbsent) {
    if (!v.constant) throw bad_input("{} is no tensor", key);
    v.id = g.constant(part(key), v.constant.share());
  }
  return v.id;
}

ValueId Operation::value(std::string_view key) {
  const auto at = inputs_.find(key);
  if (at == inputs_.end() || at->second.empty()) throw bad_input("{} has no {}", type, key);
  return made(at->second[0], key);
}

std::vector<ValueId> Operation::values(std::string_view key) {
  std::vector<ValueId> out;
  const auto at = inputs_.find(key);
  if (at == inputs_.end()) throw bad_input("{} has no {}", type, key);
  for (Value& v : at->second) {
    if (v.parts.empty()) out.push_back(made(v, key));
    for (Value& part : v.parts) out.push_back(made(part, key));
  }
  if (out.empty()) throw bad_input("{} has no {}", type, key);
  return out;
}

const Tensor* Operation::constant(std::string_view key) const {
  const Value* v = find(key);
  return v == nullptr || !v->constant ? nullptr : &v->constant;
}

Ints Operation::integers(std::string_view key, Ints otherwise) const {
  if (!has(key)) return otherwise;
  const Tensor* t = constant(key);
  if (t == nullptr || is_floating(t->dtype()) || t->numel() > 64)
    throw bad_input("{} must be constant integers", key);
  Ints out;
  for (std::int64_t i = 0; i < t->numel(); ++i)
    out.push_back(static_cast<std::int64_t>(load_as_double(*t, i)));
  return out;
}

Ints Operation::each_integer(std::string_view key) const {
  Ints out;
  const auto add = [&](const Value& v) {
    if (!v.constant || v.constant.numel() != 1 || is_floating(v.constant.dtype()))
      throw bad_input("{} must be constant integers", key);
    out.push_back(static_cast<std::int64_t>(load_as_double(v.constant, 0)));
  };
  if (const auto at = inputs_.find(key); at != inputs_.end())
    for (const Value& v : at->second) {
      if (v.parts.empty()) add(v);
      for (const Value& part : v.parts) add(part);
    }
  return out;
}

std::int64_t Operation::integer(std::string_view key, std::int64_t otherwise) const {
  const Ints v = integers(key, {otherwise});
  if (v.size() != 1) throw bad_input("{} must be one integer", key);
  return v[0];
}

bool Operation::flag(std::string_view key, bool otherwise) const {
  return integer(key, otherwise ? 1 : 0) != 0;
}

float Operation::number(std::string_view key, float otherwise) const {
  if (!has(key)) return otherwise;
  const Tensor* t = constant(key);
  if (t == nullptr || t->numel() != 1) throw bad_input("{} must be one constant number", key);
  return static_cast<float>(load_as_double(*t, 0));
}

std::string Operation::text(std::string_view key, std::string_view otherwise) const {
  const Value* v = find(key);
  return v == nullptr || v->texts.empty() ? std::string(otherwise) : v->texts[0];
}

ValueId Operation::cast(std::string_view role, ValueId v, DType to) const {
  if (g.known(v) && g.dtype(v) == to) return v;
  return g.op("cast", part(role), {v}, {{"to", std::string(etalon::name(to))}});
}

ValueId Operation::ints(std::string_view role, const Ints& values) const {
  return g.constant(part(role), ints_tensor(values));
}

ValueId Operation::scalar(std::string_view role, ValueId like, double value) const {
  return g.constant(part(role), scalar_of(g.dtype(like), value));
}

ValueId Operation::element(std::string_view role, ValueId vector, std::int64_t at) const {
  return g.op("slice", part(role), {vector},
              {{"starts", Ints{at}}, {"ends", Ints{at + 1}}, {"axes", Ints{0}}});
}

bool holds_program(const Blob& file) {
  const PbMessage m = PbMessage::from_wire(program_schema().type("Model"), file);
  if (m.has("mlProgram")) return true;
  for (const char* kind : {"pipeline", "pipelineClassifier", "pipelineRegressor"}) {
    const PbMessage pipeline = std::string_view(kind) == "pipeline"
                                   ? m.message(kind)
                                   : m.message(kind).message("pipeline");
    if (!m.has(kind) || pipeline.count("models") == 0) continue;
    return std::ranges::any_of(pipeline.messages("models"),
                               [](const PbMessage& inner) { return inner.has("mlProgram"); });
  }
  return false;
}

Model open_program(const Blob& file, const std::string& path, const std::string& folder) {
  const PbMessage m = PbMessage::from_wire(program_schema().type("Model"), file);
  GraphBuilder g(stem_of(path));
  Constants constants(folder);
  Named made;
  std::string opset;
  const std::vector<PbMessage> models = programs(m);
  for (const PbMessage& model : models) {
    std::vector<PbMessage> features;
    const PbMessage function = chosen_function(g, model, features);
    opset = function.text("opset");
    for (const auto& [name, value] : run_function(g, constants, function, features, made)) {
      if (models.size() == 1) g.output(value, name);
      made[name] = value;
    }
  }
  if (models.size() > 1) {
    g.note(fmt::format("a pipeline of {} programs is read as one graph", models.size()));
    for (const PbMessage& f : m.message("description").messages("output"))
      if (const auto at = made.find(f.text("name")); at != made.end())
        g.output(at->second, at->first);
  }
  std::string producer;
  for (const PbMessage& e : m.message("description").message("metadata").messages("userDefined"))
    if (e.text("key").ends_with("coremltools.version")) producer = "coremltools " + e.text("value");
  return finish_model(g, path, "coreml",
                      fmt::format("specification {}, ML program, opset {}",
                                  m.integer("specificationVersion"), printable(opset)),
                      producer);
}

}  // namespace etalon::coreml
