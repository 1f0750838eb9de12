#include "tests/op_cases.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/core/hash.h"
#include "engine/core/philox.h"
#include "engine/numerics/element.h"

namespace etalon {
namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::string_view cut(std::string_view& rest, char at) {
  const std::size_t end = std::min(rest.find(at), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

std::int64_t parse_integer(std::string_view text) {
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size())
    throw usage_error("'{}' is not an integer", text);
  return v;
}

CaseInput parse_input(std::string_view text) {
  CaseInput input;
  if (text == "-") return input;
  input.given = true;
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    throw usage_error("input '{}' is not dtype[extents]", text);
  input.type.dtype = parse_dtype(text.substr(0, open));
  std::string_view extents = text.substr(open + 1, close - open - 1);
  std::vector<std::int64_t> dims;
  while (!extents.empty()) {
    std::string_view e = cut(extents, ',');
    if (e.starts_with('b')) {
      if (input.batch_axis >= 0) throw usage_error("input '{}' has two batch axes", text);
      input.batch_axis = static_cast<int>(dims.size());
      e.remove_prefix(1);
    }
    dims.push_back(parse_integer(e));
  }
  input.type.shape = Shape(std::span<const std::int64_t>(dims));
  const std::string_view rest = text.substr(close + 1);
  if (rest.starts_with('='))
    input.data = rest;
  else if (rest.starts_with(':'))
    input.data = rest.substr(1);
  else if (!rest.empty())
    throw usage_error("input '{}': after the type comes ':generator' or '=elements'", text);
  return input;
}

constexpr double kSpecial[] = {kNan, kInfinity, -kInfinity};
constexpr double kFinite[] = {
    0.0, -0.0, 0x1p-149, -0x1.8p-140, 0x1p-126, -0x1.fffffcp-127, 0x1.fffffep127, -0x1p100};

double generate(std::string_view how, const Philox& random, std::uint64_t i) {
  const double x = static_cast<double>(random.uniform(2 * i));
  const std::uint32_t w = random.word(2 * i + 1);
  if (how == "noise") return x;
  if (how == "wide") return 20 * x;
  if (how == "positive") return 1.0 - (x + 1) / 2;
  if (how == "wild") return x * power_of_two(static_cast<int>(w % 61) - 30);
  if (how == "special" && w % 5 == 0) return kSpecial[(w >> 8) % std::size(kSpecial)];
  if ((how == "special" || how == "finite") && w % 3 == 0)
    return kFinite[(w >> 8) % std::size(kFinite)];
  if (how == "special" || how == "finite") return x;
  if (const std::size_t dots = how.find(".."); dots != std::string_view::npos) {
    const std::int64_t low = parse_integer(how.substr(0, dots)),
                       high = parse_integer(how.substr(dots + 2));
    return static_cast<double>(
        low + static_cast<std::int64_t>(w % static_cast<std::uint64_t>(high - low + 1)));
  }
  throw usage_error("there is no generator '{}'", how);
}

}  // namespace

OpCase parse_op_case(std::string_view line) {
  OpCase c;
  c.line = line;
  c.name = trim(cut(line, '|'));
  c.op = &get_op(trim(cut(line, '|')));
  c.params = parse_params(c.op->defaults(), trim(cut(line, '|')));
  std::string_view inputs = trim(line);
  while (!inputs.empty())
    if (const std::string_view part = cut(inputs, ' '); !part.empty())
      c.inputs.push_back(parse_input(part));
  if (c.name.empty() || c.inputs.empty())
    throw usage_error("a case is 'name | op | parameters | inputs', got '{}'", c.line);
  return c;
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<std::filesystem::path> files;
    for (const auto& entry :
         std::filesystem::directory_iterator(ETALON_SOURCE_DIR "/tests/op_cases"))
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    std::ranges::sort(files);
    std::vector<OpCase> cases;
    std::set<std::string> names;
    for (const auto& file : files) {
      std::ifstream in(file);
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        const ErrorScope where(fmt::format("{}:{}", file.filename().string(), number));
        const std::string_view text = trim(std::string_view(line).substr(0, line.find('#')));
        if (text.empty()) continue;
        cases.push_back(parse_op_case(text));
        if (!names.insert(cases.back().name).second)
          throw usage_error("the name {} is taken", cases.back().name);
      }
    }
    return cases;
  }();
  return all;
}

Tensor case_input(const OpCase& c, std::size_t i) {
  const CaseInput& input = c.inputs[i];
  if (!input.given) return {};
  Tensor t = Tensor::uninitialized(input.type.dtype, input.type.shape);
  const auto bytes = t.mutable_bytes();
  if (input.data.starts_with('=')) {
    std::string_view rest = std::string_view(input.data).substr(1);
    std::int64_t n = 0;
    while (!rest.empty() && n < t.numel())
      store_from_double(bytes, t.dtype(), n++,
                        std::strtod(std::string(cut(rest, ',')).c_str(), nullptr));
    if (!rest.empty() || n != t.numel())
      throw usage_error("case {}: {} elements are listed for {}", c.name, n, to_string(input.type));
    return t;
  }
  const Hash128 seed = hash_bytes(std::as_bytes(std::span(c.name)));
  const Philox random{seed.low, i};
  for (std::int64_t k = 0; k < t.numel(); ++k)
    store_from_double(bytes, t.dtype(), k,
                      generate(input.data, random, static_cast<std::uint64_t>(k)));
  return t;
}

std::vector<Tensor> case_inputs(const OpCase& c) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) tensors.push_back(case_input(c, i));
  return tensors;
}

std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> p;
  for (const Tensor& t : tensors) p.push_back(t ? &t : nullptr);
  return p;
}

Tensor slice_row(const Tensor& tensor, int axis, std::int64_t index) {
  const Shape& shape = tensor.shape();
  Tensor row = Tensor::uninitialized(tensor.dtype(), shape.with_dim(axis, 1));
  const auto inner = static_cast<std::size_t>(shape.product(axis + 1, shape.rank())) *
                     static_cast<std::size_t>(size_bytes(tensor.dtype()));
  const auto extent = static_cast<std::size_t>(shape[axis]);
  const auto outer = static_cast<std::size_t>(shape.product(0, axis));
  const auto to = row.mutable_bytes();
  for (std::size_t o = 0; o < outer; ++o)
    std::memcpy(to.data() + o * inner,
                tensor.bytes().data() + (o * extent + static_cast<std::size_t>(index)) * inner,
                inner);
  return row;
}

}  // namespace etalon

using namespace etalon;

TEST_CASE("op cases: a line says op, parameters and elements") {
  const OpCase c = parse_op_case("a.b | gemm | trans_b=true alpha=0.5 | f32[b3,4] f32[2,4]:wild -");
  CHECK(c.op->name == "gemm");
  CHECK(to_string(c.params) == "alpha=0.5 beta=1 trans_a=false trans_b=true");
  REQUIRE(c.inputs.size() == 3);
  CHECK(c.inputs[0].batch_axis == 0);
  CHECK(c.inputs[1].data == "wild");
  CHECK_FALSE(c.inputs[2].given);
  // The elements do not depend on what else the line says.
  const OpCase same = parse_op_case("a.b | gemm | | f32[3,4] f32[4,2]");
  CHECK(hash_tensor(case_input(c, 0)) == hash_tensor(case_input(same, 0)));
  CHECK(hash_tensor(case_input(c, 0)) !=
        hash_tensor(case_input(parse_op_case("a.c | gemm | | f32[3,4] f32[4,2]"), 0)));
  const Tensor listed = case_input(parse_op_case("l | relu | | f32[3]=-0,nan,0x1p-149"), 0);
  CHECK(std::memcmp(listed.bytes().data(), "\0\0\0\x80\0\0\xc0\x7f\1\0\0\0", 12) == 0);
}

TEST_CASE("op cases: a wrong line is refused") {
  for (const auto& [line, says] :
       {std::pair{"a | nope | | f32[1]", "no op 'nope'"},
        {"a | gemm | gamma=1 | f32[1,1] f32[1,1]", "no parameter 'gamma'"},
        {"a | gemm | alpha=x | f32[1,1] f32[1,1]", "not a number"},
        {"a | gemm | alpha=1 alpha=1 | f32[1,1]", "given twice"},
        {"a | gemm | trans_a=1 | f32[1,1]", "neither true nor false"},
        {"a | conv | strides=2 | f32[1,1,1]", "not a list"},
        {"a | relu | | f99[1]", "f99"},
        {"a | relu | | f32[x]", "not an integer"},
        {"a | relu | | f32[1]noise", "':generator'"},
        {"a | relu |", "name | op"}})
    CHECK_THROWS_WITH_AS(parse_op_case(line), doctest::Contains(says), Error);
  CHECK_THROWS_WITH_AS(case_input(parse_op_case("a | relu | | f32[2]=1"), 0),
                       doctest::Contains("1 elements are listed"), Error);
  CHECK_THROWS_WITH_AS(case_input(parse_op_case("a | relu | | f32[2]:loud"), 0),
                       doctest::Contains("generator 'loud'"), Error);
}
