#include "importers/containers/pbjson.h"

#include <nlohmann/json.hpp>

#include "engine/core/error.h"

namespace etalon {
namespace {

using nlohmann::json;

std::string snake(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') {
      out.push_back('_');
      out.push_back(static_cast<char>(c + 32));
    } else {
      out.push_back(c);
    }
  }
  return out;
}

void quote(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte < 127 && c != '"' && c != '\\')
      out.push_back(c);
    else
      out += fmt::format("\\{:03o}", byte);
  }
  out.push_back('"');
}

class Writer {
 public:
  explicit Writer(bool (*is_bytes)(std::string_view, std::string_view)) : is_bytes_(is_bytes) {}
  std::string out;

  void message(const PbType& type, const json& value) {
    if (!value.is_object()) throw bad_input("a {} must be a JSON object", type.name);
    for (const auto& [key, v] : value.items()) {
      auto at = type.by_name.find(key);
      if (at == type.by_name.end()) at = type.by_name.find(snake(key));
      if (at == type.by_name.end()) continue;
      const PbField& f = type.fields[at->second];
      // A map is repeated messages of key and value.
      if (f.kind == 'm' && v.is_object() && f.type->by_name.contains("key") &&
          f.type->by_name.contains("value") && f.type->fields.size() == 2) {
        const PbField& inner = f.type->fields[f.type->by_name.at("value")];
        for (const auto& [k, e] : v.items()) {
          out += f.name + " { key: ";
          quote(out, k);
          out += " ";
          field(*f.type, inner, e);
          out += " }\n";
        }
        continue;
      }
      if (v.is_array())
        for (const json& e : v) field(type, f, e);
      else if (!v.is_null())
        field(type, f, v);
    }
  }

 private:
  void field(const PbType& type, const PbField& f, const json& v) {
    out += f.name;
    if (f.kind == 'm') {
      out += " {\n";
      message(*f.type, v);
      out += "}\n";
      return;
    }
    out += ": ";
    if (f.kind == 's') {
      const std::string text = v.is_string() ? v.get<std::string>() : v.dump();
      quote(out, is_bytes_(type.name, f.name) ? base64_decode(text) : text);
    } else if (v.is_string()) {
      const std::string text = v.get<std::string>();
      if (text.empty() || text.find_first_of(" \n\t\"'{}[]<>:#,;") != std::string::npos)
        throw bad_input("{} must be a number", f.name);
      out += text;
    } else if (v.is_boolean() || v.is_number()) {
      out += v.dump();
    } else {
      throw bad_input("{} must be a number, got {}", f.name, v.type_name());
    }
    out += "\n";
  }
  bool (*is_bytes_)(std::string_view, std::string_view);
};

}  // namespace

std::string text_of_json(const PbType& type, const json& value,
                         bool (*is_bytes)(std::string_view type, std::string_view field)) {
  Writer writer(is_bytes);
  writer.message(type, value);
  return std::move(writer.out);
}

std::string base64_decode(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    std::uint32_t v = 0;
    if (c >= 'A' && c <= 'Z')
      v = static_cast<std::uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      v = static_cast<std::uint32_t>(c - 'a') + 26;
    else if (c >= '0' && c <= '9')
      v = static_cast<std::uint32_t>(c - '0') + 52;
    else if (c == '+' || c == '-')
      v = 62;
    else if (c == '/' || c == '_')
      v = 63;
    else if (c == '=')
      break;
    else
      throw bad_input("a text in base64 holds a character that is none of its own");
    bits = bits << 6 | v;
    have += 6;
    if (have >= 8) {
      have -= 8;
      out.push_back(static_cast<char>(bits >> have & 0xff));
    }
  }
  return out;
}

}  // namespace etalon
