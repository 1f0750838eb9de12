// The .param is text: a magic number, counts of layers and values, then a layer a line: type, name,
// how many values it reads and makes, their names, and settings as id=value (arrays as
// -23300-id=count,values). Samples have no batch there; here one stands before them. Settings and
// the sequence of weights are each layer's own. Source: ncnn's public documentation ("param and
// model file spec", "operators").
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "engine/core/error.h"
#include "importers/formats/companion.h"
#include "importers/formats/ncnn.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon {
namespace ncnn {
namespace {

constexpr std::int64_t kUsualSide = 224;
constexpr std::int64_t kSides[] = {227, 299, 256, 384, 320, 416, 300, 512, 640, 112, 32, 28};

double parse_number(std::string_view text) {
  double v = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size())
    throw bad_input("'{}' is no number", printable(text));
  return v;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  while (!line.empty()) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos) break;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return out;
}

std::size_t count(std::string_view word, std::size_t most) {
  const double n = parse_number(word);
  if (!(n >= 0) || n > static_cast<double>(most) || n != std::floor(n))
    throw bad_input("a count of {}", printable(word));
  return static_cast<std::size_t>(n);
}

class Network {
 public:
  // side: of an image whose extents the file does not say; 0 leaves them free.
  Network(std::string_view text, const std::string& path, const Blob& weights, std::int64_t side)
      : g(stem_of(path)), weights_(weights), side_(side) {
    std::size_t line = 0;
    const auto next = [&](std::string_view& out) {
      while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        out = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        ++line;
        if (!words(out).empty()) return true;
      }
      return false;
    };
    std::string_view l;
    if (!next(l) || words(l)[0] != "7767517") throw bad_input("line 1: expected 7767517");
    if (!next(l) || words(l).size() != 2) throw bad_input("line 2: expected two counts");
    while (next(l)) {
      const ErrorScope where(fmt::format("line {}", line));
      layer(words(l));
    }
    for (const auto& [name, v] : values_)
      if (!read_.contains(name) && !inputs_.contains(name)) g.output(v, name);
    if (weights_.left() != 0)
      throw bad_input("{} bytes of weights are left over: they belong to another network",
                      weights_.left());
    if (weights_.widened) g.note("f16 weights and weights of tables are widened to f32");
    g.note("samples have no batch there; here a batch stands before them");
  }
  GraphBuilder g;

 private:
  void layer(const std::vector<std::string_view>& w) {
    if (w.size() < 4) throw bad_input("a layer of {} words", w.size());
    const std::size_t in = count(w[2], w.size()), out = count(w[3], w.size());
    if (in + out > w.size() - 4) throw bad_input("{} inputs and {} outputs", in, out);
    Layer l{.g = g,
            .type = printable(w[0]),
            .name = std::string(w[1]),
            .params = {},
            .inputs = {},
            .outputs = out,
            .read = nullptr};
    const ErrorScope where(fmt::format("node {}", printable(l.name)));
    for (std::size_t i = 4 + in + out; i < w.size(); ++i) setting(w[i], l);
    if (l.type == "Input") {
      if (in != 0 || out != 1) throw bad_input("{} inputs and {} outputs", in, out);
      return input(l, std::string(w[4]));
    }
    for (std::size_t i = 0; i < in; ++i) {
      const std::string name(w[4 + i]);
      const auto at = values_.find(name);
      if (at == values_.end()) throw bad_input("nothing makes the value '{}'", printable(name));
      l.inputs.push_back(at->second);
      read_.insert(name);
    }
    std::set<int> looked_at;
    l.read = &looked_at;
    const auto made = translate(l, weights_);
    l.refuse_overlooked();
    if (made.size() < out)
      throw bad_input("{} gives {} values, {} are named", l.type, made.size(), out);
    for (std::size_t i = 0; i < out; ++i) define(std::string(w[4 + in + i]), made[i]);
  }

  void define(const std::string& name, ValueId v) {
    if (!values_.emplace(name, v).second)
      throw bad_input("the value {} is made twice", printable(name));
  }

  static void setting(std::string_view word, Layer& l) {
    const std::size_t cut = word.find('=');
    if (cut == word.npos) throw bad_input("'{}' is no setting", printable(word));
    int id = 0;
    const std::string_view key = word.substr(0, cut);
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size())
      throw bad_input("'{}' is no setting", printable(word));
    std::vector<double> values;
    for (std::string_view rest = word.substr(cut + 1); !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      values.push_back(parse_number(rest.substr(0, comma)));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    if (id <= -23300) {
      id = -23300 - id;
      if (values.empty() || values[0] != static_cast<double>(values.size() - 1))
        throw bad_input("setting {}: an array whose count is wrong", id);
      values.erase(values.begin());
    } else if (id < 0 || values.empty()) {
      throw bad_input("setting {}: {} values", id, values.size());
    }
    // Lists of floats may be written as the integers of their bits.
    if (word.find_first_of(".eE") == word.npos) l.written_as_integers.insert(id);
    l.params[id] = std::move(values);
  }

  void input(const Layer& l, const std::string& name) {
    const std::int64_t w = l.integer(0, 0), h = l.integer(1, 0), d = l.integer(11, 0),
                       c = l.integer(2, 0);
    Ints dims{-1}, nominal{1};
    const auto add = [&](std::int64_t n, std::int64_t usual) {
      if (n < 0 || n > 1 << 24) throw bad_input("an extent of {}", n);
      dims.push_back(n == 0 ? -1 : n);
      nominal.push_back(n == 0 ? usual : n);
    };
    if (w == 0 && h == 0 && c == 0) {
      add(3, 3);
      add(side_, kUsualSide);
      add(side_, kUsualSide);
      g.note(fmt::format(
          "the file does not say the shape of {}: an image of 3 channels, {}", name,
          side_ == 0 ? "any extent" : fmt::format("{0} x {0}, which fits its layers", side_)));
    } else {
      if (c > 0) add(c, c);
      if (d > 0) add(d, d);
      if (h > 0) add(h, h);
      add(w, 224);
    }
    define(name, g.input(name, DType::f32, dims, nominal));
    inputs_.insert(name);
  }

  Weights weights_;
  std::int64_t side_;
  std::map<std::string, ValueId> values_;
  std::set<std::string> read_, inputs_;
};

// Whether some Input names no extent at all.
bool says_no_extents(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto w = words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (w.empty() || w[0] != "Input") continue;
    if (std::none_of(w.begin(), w.end(), [](std::string_view s) {
          return s.starts_with("0=") || s.starts_with("1=") || s.starts_with("2=");
        }))
      return true;
  }
  return false;
}

Model open(const std::string& path, std::span<const std::string> with) {
  const std::string param = companion(path, with, {".param"}),
                    bin = companion(path, with, {".bin"});
  const std::string& main = param.empty() ? path : param;
  const Blob file = map_file(main);
  const ErrorScope scope(main);
  if (bin.empty() || bin == main)
    throw bad_input(
        "its weights are not there: the .bin of the same stem lies beside it, or --with names it");
  const Blob weights = map_file(bin);
  const auto read = [&](std::int64_t side) {
    Network network(file.text(), main, weights, side);
    return finish_model(network.g, path, "ncnn", "param 7767517", "ncnn");
  };
  if (!says_no_extents(file.text())) return read(0);
  try {
    return read(0);
  } catch (const Error&) {
    // Layers that fit one extent alone say which: one of those that networks are made for.
    std::vector<Model> fit;
    for (const std::int64_t side : kSides) {
      try {
        fit.push_back(read(side));
      } catch (const Error&) {
        continue;
      }
      if (fit.size() > 1) break;
    }
    if (fit.size() == 1) return std::move(fit[0]);
    throw;
  }
}

bool match(const FileView& file) {
  return !file.is_folder && file.text().starts_with("7767517") && file.text().size() > 8 &&
         (file.text()[7] == '\n' || file.text()[7] == '\r' || file.text()[7] == ' ');
}

}  // namespace

std::span<const std::byte> Weights::take(std::size_t bytes) {
  if (bytes > left())
    throw bad_input("{} bytes of weights at byte {} of the .bin, {} are left", bytes, at_, left());
  const auto out = file_.bytes.subspan(at_, bytes);
  at_ += bytes;
  return out;
}

Tensor Weights::plain(std::int64_t n) {
  if (n < 0 || n > static_cast<std::int64_t>(left()))
    throw bad_input("{} weights at byte {} of the .bin, {} bytes are left", n, at_, left());
  return tensor_from_bytes({DType::f32, {n}},
                           {take(static_cast<std::size_t>(n) * 4), file_.keeper});
}

Tensor Weights::tagged(std::int64_t n, const Shape& shape) {
  Tensor out = tagged_codes(n, shape);
  if (out.dtype() != DType::f32) throw bad_input("int8 weights without their scales");
  return out;
}

Tensor Weights::tagged_codes(std::int64_t n, const Shape& shape) {
  if (n != shape.numel()) throw bad_input("{} weights for {}", n, to_string(shape));
  if (n > static_cast<std::int64_t>(left()) * 4)
    throw bad_input("{} weights, {} bytes are left", n, left());
  const auto tag = load_le<std::uint32_t>(take(4), 0);
  const auto count = static_cast<std::size_t>(n);
  if (tag == 0 || tag == 0x0002C056) return plain(n).reshaped(shape);
  if (tag == 0x01306B47) {
    const auto bytes = take(count * 2);
    if (count % 2 != 0) take(2);
    widened = true;
    return as_f32(tensor_from_bytes({DType::f16, shape}, {bytes, file_.keeper}));
  }
  if (tag == 0x000D4B38) {
    const auto bytes = take(count);
    take((4 - count % 4) % 4);
    return tensor_from_bytes({DType::i8, shape}, {bytes, file_.keeper});
  }
  // 256 values, then a byte a weight.
  const auto table = take(1024), indices = take(count);
  take((4 - count % 4) % 4);
  Tensor out = Tensor::uninitialized(DType::f32, shape);
  auto to = out.mutable_data<float>();
  for (std::size_t i = 0; i < count; ++i)
    to[i] = load_le<float>(table, 4 * std::to_integer<std::size_t>(indices[i]));
  widened = true;
  return out;
}

const std::vector<double>* Layer::find(int id) const {
  if (read != nullptr) read->insert(id);
  const auto at = params.find(id);
  return at == params.end() ? nullptr : &at->second;
}

void Layer::refuse_overlooked() const {
  for (const auto& [id, values] : params) {
    // 30 and 31 choose the device's and the kernels' features.
    if (id == 30 || id == 31 || read == nullptr || read->contains(id)) continue;
    for (const double v : values)
      if (v != 0) throw bad_input("{}: the setting {}={} is not supported", type, id, v);
  }
}

std::int64_t Layer::integer(int id, std::int64_t otherwise) const {
  const auto* at = find(id);
  if (at == nullptr) return otherwise;
  if (at->size() != 1) throw bad_input("setting {}: {} values where one stands", id, at->size());
  const double v = (*at)[0];
  if (!(std::abs(v) <= 1e12)) throw bad_input("setting {}: {} is out of range", id, v);
  return static_cast<std::int64_t>(v);
}

float Layer::number(int id, float otherwise) const {
  const auto* at = find(id);
  if (at == nullptr) return otherwise;
  if (at->size() != 1) throw bad_input("setting {}: {} values where one stands", id, at->size());
  return static_cast<float>((*at)[0]);
}

Ints Layer::integers(int id) const {
  Ints out;
  if (const auto* at = find(id))
    for (const double v : *at) {
      if (!(std::abs(v) <= 1e12)) throw bad_input("setting {}: {} is out of range", id, v);
      out.push_back(static_cast<std::int64_t>(v));
    }
  return out;
}

std::vector<float> Layer::numbers(int id) const {
  std::vector<float> out;
  if (const auto* at = find(id))
    for (const double v : *at) {
      const bool bits =
          written_as_integers.contains(id) && std::abs(v) >= 1 << 23 && std::abs(v) < 2147483648.0;
      out.push_back(bits ? std::bit_cast<float>(static_cast<std::int32_t>(v))
                         : static_cast<float>(v));
    }
  return out;
}

ValueId Layer::input(std::size_t i) const {
  if (i >= inputs.size()) throw bad_input("{} has no input {}", type, i);
  return inputs[i];
}

std::int64_t Layer::axis(std::int64_t a) const {
  const int r = g.rank(input()) - 1;
  if (a < -r || a >= r) throw bad_input("axis {} of a sample of rank {}", a, r);
  return (a < 0 ? a + r : a) + 1;
}

}  // namespace ncnn

const FormatRow& ncnn_format() {
  static const FormatRow row{.name = "ncnn",
                             .endings = ".param",
                             .summary = "ncnn network, with its .bin.",
                             .match = ncnn::match,
                             .open = ncnn::open,
                             .takes_more = true};
  return row;
}

}  // namespace etalon
