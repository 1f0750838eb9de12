#include "importers/containers/xml.h"

#include <cctype>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon {
namespace {

constexpr int kMaxDepth = 64;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  XmlElement document() {
    misc();
    XmlElement root = element(0);
    misc();
    if (at_ != text_.size()) fail("something behind the outermost element");
    return root;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw bad_input("line {}: {}", line_, what);
  }
  bool ended() const { return at_ >= text_.size(); }
  bool looking_at(std::string_view s) const { return text_.substr(at_, s.size()) == s; }
  void step(std::size_t n) {
    for (std::size_t end = at_ + n; at_ < end && !ended(); ++at_)
      if (text_[at_] == '\n') ++line_;
  }
  void skip_past(std::string_view mark) {
    const std::size_t end = text_.find(mark, at_);
    if (end == std::string_view::npos) fail("something that begins here never ends");
    step(end + mark.size() - at_);
  }
  void space() {
    while (!ended() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) step(1);
  }
  // Space, comments, processing instructions.
  void misc() {
    for (;;) {
      space();
      if (looking_at("<?"))
        skip_past("?>");
      else if (looking_at("<!--"))
        skip_past("-->");
      else
        break;
    }
    if (looking_at("<!")) fail("a document type, which no model file needs");
  }
  std::string name() {
    const std::size_t begin = at_;
    while (!ended() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                        std::string_view("_-.:").find(text_[at_]) != std::string_view::npos))
      step(1);
    if (at_ == begin) fail("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string value() {
    const char quote = ended() ? '\0' : text_[at_];
    if (quote != '"' && quote != '\'') fail("expected a value in quotes");
    step(1);
    std::string out;
    while (!ended() && text_[at_] != quote) {
      if (text_[at_] != '&') {
        out += text_[at_];
        step(1);
        continue;
      }
      const std::size_t end = text_.find(';', at_);
      if (end == std::string_view::npos || end - at_ > 10) fail("an entity without an end");
      const std::string_view entity = text_.substr(at_ + 1, end - at_ - 1);
      if (entity == "lt")
        out += '<';
      else if (entity == "gt")
        out += '>';
      else if (entity == "amp")
        out += '&';
      else if (entity == "quot")
        out += '"';
      else if (entity == "apos")
        out += '\'';
      else if (entity.starts_with('#'))
        out += '?';
      else
        fail("an entity that XML itself does not have");
      step(end + 1 - at_);
    }
    if (ended()) fail("a value without an end");
    step(1);
    return out;
  }
  static std::string trimmed(std::string_view s) {
    constexpr std::string_view kWhite = " \t\r\n";
    const std::size_t begin = s.find_first_not_of(kWhite);
    if (begin == std::string_view::npos) return {};
    return std::string(s.substr(begin, s.find_last_not_of(kWhite) - begin + 1));
  }
  XmlElement element(int depth) {
    if (depth > kMaxDepth) fail("elements nest deeper than 64 levels");
    if (ended() || text_[at_] != '<') fail("expected an element");
    XmlElement e;
    e.line = line_;
    step(1);
    e.name = name();
    for (;;) {
      space();
      if (looking_at("/>")) {
        step(2);
        return e;
      }
      if (looking_at(">")) break;
      const std::string key = name();
      space();
      if (!looking_at("=")) fail("expected =");
      step(1);
      space();
      if (e.find(key) != nullptr) fail("an attribute twice");
      e.attributes.emplace_back(key, value());
    }
    step(1);
    for (;;) {
      const std::size_t next = text_.find('<', at_);
      if (next == std::string_view::npos) fail("an element without an end");
      if (e.children.empty() && e.text.empty()) e.text = trimmed(text_.substr(at_, next - at_));
      step(next - at_);
      if (looking_at("<!--")) {
        skip_past("-->");
      } else if (looking_at("<![CDATA[")) {
        skip_past("]]>");
      } else if (looking_at("<?")) {
        skip_past("?>");
      } else if (looking_at("</")) {
        step(2);
        if (name() != e.name) fail("the end of another element");
        space();
        if (!looking_at(">")) fail("expected >");
        step(1);
        return e;
      } else {
        e.children.push_back(element(depth + 1));
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0, line_ = 1;
};

}  // namespace

const std::string* XmlElement::find(std::string_view wanted) const {
  for (const auto& [key, value] : attributes)
    if (key == wanted) return &value;
  return nullptr;
}

const std::string& XmlElement::attribute(std::string_view wanted) const {
  if (const std::string* v = find(wanted)) return *v;
  throw bad_input("line {}: the element {} has no {}", line, printable(name), wanted);
}

const XmlElement* XmlElement::child(std::string_view wanted) const {
  for (const XmlElement& c : children)
    if (c.name == wanted) return &c;
  return nullptr;
}

XmlElement parse_xml(std::string_view text) { return Parser(text).document(); }

}  // namespace etalon
