// The messages of MIL.proto (numbers of fields) and the blob file of weights (MILBlob, storage
// format 2): a header of 64 bytes, then for each blob 64 bytes that begin with 0xdeadbeef: type,
// bytes, where its data lies. Source: the public specification of Core ML's model format.
#include "importers/formats/coreml/program.h"

#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"

namespace etalon::coreml {
namespace {

const PbSchema& schema() {
  static const PbSchema kSchema(R"(
Model specificationVersion 1 i description 2 Description mlProgram 502 Program
Description metadata 100 Metadata
Metadata userDefined 100 StringEntry
StringEntry key 1 s value 2 s
Program version 1 i functions 2 FunctionEntry
FunctionEntry key 1 s value 2 Function
Function inputs 1 Named opset 2 s blocks 3 BlockEntry
BlockEntry key 1 s value 2 Block
Block inputs 1 Named outputs 2 s operations 3 Operation
Operation type 1 s inputs 2 ArgumentEntry outputs 3 Named blocks 4 Block attributes 5 ValueEntry
ArgumentEntry key 1 s value 2 Argument
Argument arguments 1 Binding
Binding name 1 s value 2 Value
ValueEntry key 1 s value 2 Value
Named name 1 s type 2 Type
Type tensor 1 TensorType list 2 Nothing tuple 3 Nothing dictionary 4 Nothing state 5 Nothing
Nothing none 1000 i
TensorType dataType 1 i rank 2 i dimensions 3 Dimension
Dimension constant 1 Constant unknown 2 Unknown
Constant size 1 i
Unknown variadic 1 i
Value type 2 Type immediate 3 Immediate blob 5 BlobFile
BlobFile fileName 1 s offset 2 i
Immediate tensor 1 TensorValue tuple 2 Values list 3 Values
Values values 1 Value
TensorValue floats 1 Floats ints 2 Ints bools 3 Ints strings 4 Strings longInts 5 Ints doubles 6 Doubles bytes 7 Bytes
Floats values 1 f
Ints values 1 i
Strings values 1 s
Doubles values 1 d
Bytes values 1 s
)");
  return kSchema;
}

DType dtype_of(std::int64_t type) {
  switch (type) {
    case 1:
      return DType::boolean;
    case 10:
      return DType::f16;
    case 11:
      return DType::f32;
    case 12:
      return DType::f64;
    case 13:
      return DType::bf16;
    case 21:
      return DType::i8;
    case 22:
      return DType::i16;
    case 23:
      return DType::i32;
    case 24:
      return DType::i64;
    case 31:
      return DType::u8;
    case 32:
      return DType::u16;
    case 33:
      return DType::u32;
    default:
      throw bad_input("values of type {} are not supported", type);
  }
}

Ints dims_of(const PbMessage& type) {
  Ints dims;
  for (const PbMessage& d : type.messages("dimensions")) {
    const std::int64_t n = d.has("constant") ? d.message("constant").integer("size") : -1;
    if (n < -1 || n > (1LL << 40)) throw bad_input("an extent of {}", n);
    dims.push_back(n);
  }
  if (dims.size() > 8) throw bad_input("rank {}", dims.size());
  return dims;
}

class Program {
 public:
  Program(const std::string& path, std::string folder)
      : g(stem_of(path)), folder_(std::move(folder)) {}
  GraphBuilder g;

  void run(const PbMessage& function) {
    for (const PbMessage& input : function.messages("inputs")) {
      const std::string name = input.text("name");
      const ErrorScope where(fmt::format("value {}", printable(name)));
      const PbMessage type = input.message("type");
      if (!type.has("tensor")) throw bad_input("an input that is no tensor (a state)");
      const PbMessage tensor = type.message("tensor");
      Value v;
      v.id = g.input(name, dtype_of(tensor.integer("dataType")), dims_of(tensor));
      define(name, std::move(v));
    }
    const std::string opset = function.text("opset");
    for (const PbMessage& entry : function.messages("blocks")) {
      if (entry.text("key") != opset && function.count("blocks") > 1) continue;
      const PbMessage block = entry.message("value");
      for (const PbMessage& op : block.messages("operations")) operation(op);
      const auto outputs = block.texts("outputs");
      for (const std::string& name : outputs) g.output(emitted(name), name);
      return;
    }
    throw bad_input("its function has no block for the opset {}", printable(opset));
  }

 private:
  void define(const std::string& name, Value v) {
    if (!values_.emplace(name, std::move(v)).second)
      throw bad_input("the value {} is made twice", printable(name));
  }
  Value& look(const std::string& name) {
    const auto at = values_.find(name);
    if (at == values_.end()) throw bad_input("nothing makes the value '{}'", printable(name));
    return at->second;
  }
  ValueId emitted(const std::string& name) {
    Value& v = look(name);
    if (v.id == kAbsent) {
      if (!v.constant) throw bad_input("the value {} is no tensor", printable(name));
      v.id = g.constant(name, v.constant.share());
    }
    return v.id;
  }

  Tensor blob(const PbMessage& m, const TensorType& type) {
    std::string name = m.text("fileName");
    constexpr std::string_view kBase = "@model_path/";
    if (!name.starts_with(kBase))
      throw bad_input("its weights lie in {}, expected a file under @model_path", printable(name));
    name.erase(0, kBase.size());
    auto at = files_.find(name);
    if (at == files_.end())
      at = files_.emplace(name, map_file(resolve_inside(folder_, name))).first;
    const Blob& file = at->second;
    const auto offset = static_cast<std::uint64_t>(m.integer("offset"));
    if (file.bytes.size() < 64 || offset > file.bytes.size() - 64)
      throw bad_input("a blob at {} of {} bytes of {}", offset, file.bytes.size(), printable(name));
    if (load_le<std::uint32_t>(file.bytes, offset) != 0xdeadbeef)
      throw bad_input("byte {} of {}: no blob begins there", offset, printable(name));
    const auto bytes = load_le<std::uint64_t>(file.bytes, offset + 8),
               begin = load_le<std::uint64_t>(file.bytes, offset + 16);
    if (begin > file.bytes.size() || bytes > file.bytes.size() - begin)
      throw bad_input("a blob of {} bytes at {} of {} bytes of {}", bytes, begin, file.bytes.size(),
                      name);
    return tensor_from_bytes(type, {file.bytes.subspan(begin, bytes), file.keeper});
  }

  // Numbers that stand in the message; one of them fills the whole shape.
  static Tensor immediate(const PbMessage& m, const TensorType& type) {
    const std::size_t want = claimed_bytes(type);
    std::vector<double> values;
    if (m.has("bytes")) {
      const PbMessage part = m.message("bytes");
      return tensor_from_bytes(type, part.has("values") ? part.blob("values") : Blob{});
    }
    if (m.has("floats")) {
      const Tensor t = m.message("floats").tensor("values");
      if (t.dtype() == type.dtype && t.numel() == type.shape.numel()) return t.reshaped(type.shape);
      for (std::int64_t i = 0; i < t.numel(); ++i) values.push_back(load_as_double(t, i));
    } else if (m.has("doubles")) {
      const Tensor t = m.message("doubles").tensor("values");
      for (std::int64_t i = 0; i < t.numel(); ++i) values.push_back(load_as_double(t, i));
    } else {
      for (const char* kind : {"ints", "longInts", "bools"})
        if (m.has(kind)) {
          const bool narrow = kind[0] == 'i';
          for (const std::int64_t v : m.message(kind).integers("values"))
            values.push_back(narrow ? static_cast<double>(static_cast<std::int32_t>(v))
                                    : static_cast<double>(v));
        }
    }
    const auto n = static_cast<std::size_t>(type.shape.numel());
    if (values.size() != n && !(n == 1 && values.empty()))
      throw bad_input("{} elements, its type {} asks for {} bytes", values.size(), to_string(type),
                      want);
    if (values.empty()) values.assign(n, 0);  // what is 0 is not written
    Tensor out = Tensor::uninitialized(type.dtype, type.shape);
    const auto bytes = out.mutable_bytes();
    for (std::size_t i = 0; i < n; ++i)
      store_from_double(type.dtype, bytes.data(), static_cast<std::int64_t>(i), values[i]);
    return out;
  }

  Value constant(const PbMessage& m, int depth) {
    Value v;
    if (depth > 4) throw bad_input("lists nest too deep");
    const PbMessage now = m.message("immediate");
    for (const char* kind : {"tuple", "list"})
      if (now.has(kind)) {
        for (const PbMessage& part : now.message(kind).messages("values"))
          v.parts.push_back(constant(part, depth + 1));
        return v;
      }
    const PbMessage type = m.message("type").message("tensor");
    if (now.message("tensor").has("strings")) {
      v.texts = now.message("tensor").message("strings").texts("values");
      return v;
    }
    if (type.integer("dataType") == 2) {
      v.texts = {""};
      return v;
    }
    const Ints dims = dims_of(type);
    for (const std::int64_t d : dims)
      if (d < 0) throw bad_input("a constant of unknown extent");
    const TensorType t{dtype_of(type.integer("dataType")), Shape(std::span(dims))};
    if (m.has("blob")) {
      v.constant = blob(m.message("blob"), t);
    } else {
      v.constant = immediate(now.message("tensor"), t);
    }
    return v;
  }

  void operation(const PbMessage& m) {
    const std::string type = printable(m.text("type"));
    const auto outputs = m.messages("outputs");
    const std::string name = outputs.empty() ? type : outputs[0].text("name");
    const ErrorScope where(fmt::format("node {}", printable(name)));
    if (m.count("blocks") != 0) throw bad_input("{} (control flow) is not supported", type);
    std::map<std::string, std::vector<Value>, std::less<>> in;
    for (const PbMessage& entry : m.messages("inputs"))
      for (const PbMessage& binding : entry.message("value").messages("arguments"))
        in[entry.text("key")].push_back(binding.has("value") ? constant(binding.message("value"), 0)
                                                             : look(binding.text("name")).share());
    for (const PbMessage& entry : m.messages("attributes"))
      if (entry.text("key") != "name" && !in.contains(entry.text("key")))
        in[entry.text("key")].push_back(constant(entry.message("value"), 0));
    if (type == "const") {
      const auto val = in.find("val");
      if (val == in.end() || val->second.size() != 1 || outputs.size() != 1)
        throw bad_input("a constant without a value");
      define(name, std::move(val->second[0]));
      return;
    }
    Operation op(g, type, name, std::move(in));
    const auto made = translate(op);
    if (made.size() < outputs.size())
      throw bad_input("{} gives {} values, {} are named", type, made.size(), outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Value v;
      v.id = made[i];
      if (const Tensor* t = g.constant_of(made[i])) v.constant = t->share();
      define(outputs[i].text("name"), std::move(v));
    }
  }

  std::string folder_;
  std::map<std::string, Value> values_;
  std::map<std::string, Blob> files_;
};

}  // namespace

Value Value::share() const {
  Value v;
  v.id = id;
  if (constant) v.constant = constant.share();
  v.texts = texts;
  for (const Value& part : parts) v.parts.push_back(part.share());
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
    v.id = g.constant(fmt::format("{}.{}", name, key), v.constant.share());
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

Model open_program(const Blob& file, const std::string& path, const std::string& folder) {
  const PbMessage m = PbMessage::from_wire(schema().type("Model"), file);
  const PbMessage program = m.message("mlProgram");
  PbMessage main;
  const auto functions = program.messages("functions");
  for (const PbMessage& f : functions)
    if (f.text("key") == "main" || functions.size() == 1) main = f.message("value");
  if (main.count("blocks") == 0) throw bad_input("an ML program without a function main");
  Program p(path, folder);
  if (functions.size() > 1)
    p.g.note(fmt::format("of {} functions of the program, main is read", functions.size()));
  p.run(main);
  std::string producer;
  for (const PbMessage& e : m.message("description").message("metadata").messages("userDefined"))
    if (e.text("key").ends_with("coremltools.version")) producer = "coremltools " + e.text("value");
  return finish_model(p.g, path, "coreml",
                      fmt::format("specification {}, ML program, opset {}",
                                  m.integer("specificationVersion"), printable(main.text("opset"))),
                      producer);
}

}  // namespace etalon::coreml
