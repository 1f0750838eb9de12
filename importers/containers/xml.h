// XML as model files use it: elements, attributes, text; no document types, no entities but the
// five that the language has, so that nothing in a file is larger than it looks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace etalon {

struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;
  std::string text;  // before its first child, as it stands, without white space around it
  std::size_t line = 0;

  // nullptr where it has none.
  const std::string* find(std::string_view attribute) const;
  const std::string& attribute(std::string_view attribute) const;  // a bad-input Error where none
  const XmlElement* child(std::string_view name) const;
};

// A bad-input Error names the line. Elements nest at most 64 deep.
XmlElement parse_xml(std::string_view text);

}  // namespace etalon
