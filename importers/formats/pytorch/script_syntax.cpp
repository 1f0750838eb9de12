#include "importers/formats/pytorch/script_syntax.h"

#include <cctype>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"

namespace etalon::pytorch_format {
namespace {

constexpr int kMaxDepth = 64;

struct Token {
  enum class Kind { word, number, text, mark, end };
  Kind kind = Kind::end;
  std::string text;
};

// One logical line: its indentation and tokens. A line goes on while a bracket is open.
struct Line {
  int indent = 0, number = 0;
  std::vector<Token> tokens;
};

bool word_begin(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool word_part(char c) { return word_begin(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : s_(source) {}

  std::vector<Line> lines() {
    std::vector<Line> out;
    while (at_ < s_.size()) {
      Line line;
      line.number = number_;
      while (at_ < s_.size() && s_[at_] == ' ') ++at_, ++line.indent;
      int open = 0;
      while (at_ < s_.size() && (s_[at_] != '\n' || open > 0)) token(line, open);
      if (at_ < s_.size()) ++at_, ++number_;
      if (!line.tokens.empty()) out.push_back(std::move(line));
    }
    return out;
  }

 private:
  void token(Line& line, int& open) {
    const char c = s_[at_];
    if (c == '\n') {
      ++number_, ++at_;
      return;
    }
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
      return;
    }
    if (c == '#') {
      while (at_ < s_.size() && s_[at_] != '\n') ++at_;
      return;
    }
    const std::size_t begin = at_;
    if (word_begin(c)) {
      while (at_ < s_.size() && word_part(s_[at_])) ++at_;
      line.tokens.push_back({Token::Kind::word, std::string(s_.substr(begin, at_ - begin))});
      return;
    }
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (digit || (c == '.' && at_ + 1 < s_.size() &&
                  std::isdigit(static_cast<unsigned char>(s_[at_ + 1])) != 0)) {
      while (at_ < s_.size() &&
             (word_part(s_[at_]) || s_[at_] == '.' ||
              ((s_[at_] == '-' || s_[at_] == '+') && (s_[at_ - 1] == 'e' || s_[at_ - 1] == 'E'))))
        ++at_;
      line.tokens.push_back({Token::Kind::number, std::string(s_.substr(begin, at_ - begin))});
      return;
    }
    if (c == '"' || c == '\'') {
      std::string text;
      for (++at_; at_ < s_.size() && s_[at_] != c && s_[at_] != '\n'; ++at_) {
        if (s_[at_] == '\\' && at_ + 1 < s_.size()) ++at_;
        text += s_[at_];
      }
      if (at_ == s_.size() || s_[at_] != c) throw bad_input("line {}: a text without end", number_);
      ++at_;
      line.tokens.push_back({Token::Kind::text, std::move(text)});
      return;
    }
    if (c == '(' || c == '[' || c == '{') ++open;
    if (c == ')' || c == ']' || c == '}') --open;
    if (open < 0) throw bad_input("line {}: a bracket that was not opened", number_);
    ++at_;
    if (c == '-' && at_ < s_.size() && s_[at_] == '>') ++at_;
    line.tokens.push_back({Token::Kind::mark, std::string(s_.substr(begin, at_ - begin))});
  }

  std::string_view s_;
  std::size_t at_ = 0;
  int number_ = 1;
};

class ExprParser {
 public:
  ExprParser(const Line& line, std::size_t at) : line_(line), at_(at) {}

  Expr expression() {
    if (++depth_ > kMaxDepth) throw bad_input("line {}: nested too deeply", line_.number);
    Expr e = atom();
    for (int parts = 0;; ++parts) {
      if (parts > kMaxDepth) throw bad_input("line {}: nested too deeply", line_.number);
      if (take(".")) {
        Expr a{Expr::Kind::attribute, word(), {}, {}};
        a.items.push_back(std::move(e));
        e = std::move(a);
      } else if (take("(")) {
        Expr call{Expr::Kind::call, "", {}, {}};
        call.items.push_back(std::move(e));
        while (!take(")")) {
          std::string keyword;
          if (peek().kind == Token::Kind::word && at_ + 1 < line_.tokens.size() &&
              line_.tokens[at_ + 1].text == "=" &&
              line_.tokens[at_ + 1].kind == Token::Kind::mark) {
            keyword = word();
            take("=");
          }
          call.items.push_back(expression());
          call.keywords.push_back(std::move(keyword));
          if (!take(",") && !is(")")) fail("a comma");
        }
        e = std::move(call);
      } else if (take("[")) {
        Expr s{Expr::Kind::subscript, "", {}, {}};
        s.items.push_back(std::move(e));
        while (!take("]")) {
          s.items.push_back(expression());
          if (!take(",") && !is("]")) fail("a comma");
        }
        e = std::move(s);
      } else {
        --depth_;
        return e;
      }
    }
  }

  bool take(std::string_view mark) {
    if (!is(mark)) return false;
    ++at_;
    return true;
  }
  bool is(std::string_view mark) const {
    return peek().kind == Token::Kind::mark && peek().text == mark;
  }
  std::string word() {
    if (peek().kind != Token::Kind::word) fail("a name");
    return line_.tokens[at_++].text;
  }
  const Token& peek() const {
    static const Token end;
    return at_ < line_.tokens.size() ? line_.tokens[at_] : end;
  }
  std::size_t at() const { return at_; }
  bool done() const { return at_ == line_.tokens.size(); }
  [[noreturn]] void fail(std::string_view expected) const {
    throw bad_input("line {}: expected {}, got '{}'", line_.number, expected,
                    printable(peek().text));
  }

 private:
  Expr atom() {
    const Token& t = peek();
    switch (t.kind) {
      case Token::Kind::word:
        return {Expr::Kind::name, word(), {}, {}};
      case Token::Kind::text:
        ++at_;
        return {Expr::Kind::text, t.text, {}, {}};
      case Token::Kind::number:
        ++at_;
        return {t.text.find_first_of(".eE") == std::string::npos ? Expr::Kind::integer
                                                                 : Expr::Kind::number,
                t.text,
                {},
                {}};
      default:
        break;
    }
    if (take("-")) {
      Expr e{Expr::Kind::negative, "", {}, {}};
      e.items.push_back(expression());
      return e;
    }
    if (take("{")) return dictionary();
    const bool list = is("[");
    if (!list && !is("(")) fail("a value");
    ++at_;
    Expr e{list ? Expr::Kind::list : Expr::Kind::tuple, "", {}, {}};
    bool comma = false;
    while (!take(list ? "]" : ")")) {
      e.items.push_back(expression());
      if (take(","))
        comma = true;
      else if (!is(list ? "]" : ")"))
        fail("a comma");
    }
    if (!list && e.items.size() == 1 && !comma) {
      Expr inner = std::move(e.items[0]);
      return inner;
    }
    return e;
  }

  Expr dictionary() {
    Expr e{Expr::Kind::dict, "", {}, {}};
    while (!take("}")) {
      e.items.push_back(expression());
      if (!take(":")) fail(":");
      e.items.push_back(expression());
      if (!take(",") && !is("}")) fail("a comma");
    }
    return e;
  }

  const Line& line_;
  std::size_t at_;
  int depth_ = 0;
};

class Parser {
 public:
  explicit Parser(std::vector<Line> lines) : lines_(std::move(lines)) {}

  ScriptFile file() {
    ScriptFile out;
    while (at_ < lines_.size()) {
      const Line& line = lines_[at_];
      const std::string first = line.tokens[0].text;
      if (first == "def") {
        function(out, "");
      } else if (first == "class") {
        ExprParser p(line, 1);
        const std::string name = p.word();
        const bool tuple = p.take("(") && p.word() == "NamedTuple";
        ++at_;
        while (at_ < lines_.size() && lines_[at_].indent > line.indent) {
          if (lines_[at_].tokens[0].text == "def") {
            function(out, name + ".");
            continue;
          }
          // Values of attributes stand in the pickle.
          if (tuple) out.tuples[name].push_back(lines_[at_].tokens[0].text);
          ++at_;
        }
      } else {
        ++at_;
      }
    }
    return out;
  }

 private:
  void function(ScriptFile& out, const std::string& prefix) {
    const Line& line = lines_[at_];
    ExprParser p(line, 1);
    const std::string name = p.word();
    ScriptFunction f;
    if (!p.take("(")) p.fail("(");
    while (!p.take(")")) {
      f.parameters.push_back(p.word());
      std::string type;
      if (p.take(":")) {
        const std::size_t begin = p.at();
        p.expression();
        for (std::size_t i = begin; i < p.at(); ++i) type += line.tokens[i].text;
      }
      f.types.push_back(std::move(type));
      f.has_default.push_back(p.take("="));
      f.defaults.push_back(f.has_default.back() ? p.expression() : Expr{});
      if (!p.take(",") && !p.is(")")) p.fail("a comma");
    }
    ++at_;
    f.body = block(line.indent, 0);
    out.functions.insert_or_assign(prefix + name, std::move(f));
  }

  std::vector<Statement> block(int indent, int depth) {
    if (depth > kMaxDepth) throw bad_input("line {}: nested too deeply", lines_[at_].number);
    std::vector<Statement> out;
    while (at_ < lines_.size() && lines_[at_].indent > indent) {
      const Line& line = lines_[at_];
      Statement s;
      s.line = line.number;
      const std::string& first = line.tokens[0].text;
      if (first == "return") {
        s.kind = Statement::Kind::give_back;
        ExprParser p(line, 1);
        s.value = values(p);
        ++at_;
      } else if (first == "if") {
        s.kind = Statement::Kind::branch;
        ExprParser p(line, 1);
        s.value = p.expression();
        if (!p.take(":")) p.fail(":");
        ++at_;
        s.body = block(line.indent, depth + 1);
        if (at_ < lines_.size() && lines_[at_].indent == line.indent &&
            lines_[at_].tokens[0].text == "else") {
          ++at_;
          s.otherwise = block(line.indent, depth + 1);
        }
      } else if (first == "pass") {
        ++at_;
      } else if (first == "for" || first == "while") {
        ExprParser p(line, 1);
        s.kind = first == "for" ? Statement::Kind::counted : Statement::Kind::repeated;
        if (first == "for") {
          s.targets = {p.word()};
          if (p.word() != "in") p.fail("in");
        }
        s.value = p.expression();
        if (!p.take(":")) p.fail(":");
        ++at_;
        s.body = block(line.indent, depth + 1);
      } else if (first == "with" || first == "assert" || first == "break" || first == "continue") {
        s.kind = Statement::Kind::other;
        s.targets = {first};
        ++at_;
        block(line.indent, depth + 1);
      } else {
        simple(line, s);
        ++at_;
      }
      out.push_back(std::move(s));
    }
    return out;
  }

  // "a, b, = f(x)", "a : T = x", "f(x)".
  static void simple(const Line& line, Statement& s) {
    ExprParser p(line, 0);
    s.value = values(p);
    if (p.take(":")) p.expression();
    if (!p.take("=")) {
      s.kind = Statement::Kind::expression;
    } else {
      s.kind = Statement::Kind::assign;
      const bool several = s.value.kind == Expr::Kind::tuple;
      for (const Expr& e : several ? s.value.items : std::vector<Expr>{s.value}) {
        if (e.kind != Expr::Kind::name) {
          s.kind = Statement::Kind::other;
          s.targets = {"an assignment to a part"};
          return;
        }
        s.targets.push_back(e.text);
      }
      if (several) s.targets.emplace_back();  // told apart from one name
      s.value = values(p);
    }
    if (!p.done()) p.fail("the end of the line");
  }

  static Expr values(ExprParser& p) {
    Expr first = p.expression();
    if (!p.is(",")) return first;
    Expr tuple{Expr::Kind::tuple, "", {}, {}};
    tuple.items.push_back(std::move(first));
    while (p.take(",")) {
      if (p.done() || p.is("=")) break;
      tuple.items.push_back(p.expression());
    }
    return tuple;
  }

  std::vector<Line> lines_;
  std::size_t at_ = 0;
};

}  // namespace

ScriptFile parse_script(std::string_view source) { return Parser(Lexer(source).lines()).file(); }

}  // namespace etalon::pytorch_format
