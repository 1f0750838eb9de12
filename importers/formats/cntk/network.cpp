// Version 1: the nodes of a computation network one behind the other, each with the fields that its
// type and the version of the file say, then who reads whom, then groups of nodes. A node does not
// say how long it is, so a type that is not known ends the reading: it is refused by name.
//
// Strings are UTF-16 with a 0 behind them; a shape is a u32 count and u32 extents, fastest first; a
// matrix is column-major. Source: the public description of versions 1 to 28 in CNTK's serialisers.
#include <algorithm>
#include <set>

#include "importers/containers/bytes.h"
#include "importers/formats/cntk.h"
#include "importers/formats/cntk/ops.h"

namespace etalon {
namespace cntk {
namespace {

class Reader {
 public:
  explicit Reader(const Blob& file) : file_(file) {}
  std::uint64_t version = 1;

  template <class T>
  T take() {
    need(sizeof(T));
    const T v = load_le<T>(file_.bytes, at_);
    at_ += sizeof(T);
    return v;
  }
  bool flag() {
    const auto v = take<std::uint8_t>();
    if (v > 1) throw bad_input("byte {}: {} where 0 or 1 is wanted", at_ - 1, v);
    return v == 1;
  }
  std::string text() {
    const std::size_t begin = at_;
    std::string out;
    for (;;) {
      const auto c = take<std::uint16_t>();
      if (c == 0) return out;
      if (c < 0x80) {
        out += static_cast<char>(c);
      } else if (c < 0x800) {
        out += static_cast<char>(0xc0 | c >> 6);
        out += static_cast<char>(0x80 | (c & 0x3f));
      } else {
        out += static_cast<char>(0xe0 | c >> 12);
        out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (c & 0x3f));
      }
      if (out.size() > 65536) throw bad_input("byte {}: a name without an end", begin);
    }
  }
  bool mark(std::string_view wanted) {
    const std::size_t begin = at_;
    if (at_ + 2 * (wanted.size() + 1) > file_.bytes.size()) return false;
    if (text() == wanted) return true;
    at_ = begin;
    return false;
  }
  void expect(std::string_view wanted) {
    const std::size_t begin = at_;
    if (!mark(wanted)) throw bad_input("byte {}: expected the mark {}", begin, wanted);
  }
  // How many things of at least `bytes` each follow.
  std::size_t count(std::size_t bytes) {
    const auto n = take<std::uint64_t>();
    if (n > (file_.bytes.size() - at_) / bytes)
      throw bad_input("byte {}: {} things, {} bytes are left", at_ - 8, n,
                      file_.bytes.size() - at_);
    return static_cast<std::size_t>(n);
  }
  Ints shape() {
    const auto rank = take<std::uint32_t>();
    if (rank > 8) throw bad_input("byte {}: a shape of rank {}", at_ - 4, rank);
    Ints dims;
    for (std::uint32_t i = 0; i < rank; ++i) dims.push_back(take<std::uint32_t>());
    return dims;
  }
  // Older files say width, height and channels behind a mark of their own.
  Ints old_shape() {
    const auto rank = take<std::uint32_t>();
    if (rank > 8) {
      // [C, W, H] after the first two of them
      const auto high = take<std::uint32_t>();
      const Ints dims{rank, high, take<std::uint32_t>()};
      return dims;
    }
    at_ -= 4;
    return shape();
  }
  Ints flags() {
    Ints out;
    for (std::size_t n = count(1); n > 0; --n) out.push_back(flag() ? 1 : 0);
    return out;
  }
  Tensor matrix() {
    const std::size_t begin = at_;
    const auto kind = take<char>();
    if (kind != 'd') throw bad_input("byte {}: a matrix that is not dense", begin);
    expect("BMAT");
    const auto element = take<std::uint64_t>();
    text();
    take<std::int32_t>();
    const auto rows = take<std::uint64_t>(), cols = take<std::uint64_t>();
    if (element != 4 && element != 8)
      throw bad_input("byte {}: elements of {} bytes", begin, element);
    const std::uint64_t left = (file_.bytes.size() - at_) / element;
    if (rows > left || (rows > 0 && cols > left / rows))
      throw bad_input("byte {}: a matrix of {} x {}, {} elements are left", begin, rows, cols,
                      left);
    const std::uint64_t n = rows * cols;
    const Blob part{file_.bytes.subspan(at_, n * element), file_.keeper};
    at_ += n * element;
    expect("EMAT");
    return tensor_from_bytes({element == 4 ? DType::f32 : DType::f64,
                              {static_cast<std::int64_t>(cols), static_cast<std::int64_t>(rows)}},
                             part);
  }
  std::size_t at() const { return at_; }
  void back(std::size_t n) { at_ -= n; }

 private:
  void need(std::size_t n) const {
    if (n > file_.bytes.size() - at_)
      throw bad_input("byte {}: the file ends inside a node; fetch it again", at_);
  }
  const Blob& file_;
  std::size_t at_ = 0;
};

struct Item {
  Function f;
  Ints shape;
  Tensor value;  // of a parameter, or of statistics
  bool is_input = false, is_sparse = false, inverse_deviation = false;
};

void set(Function& f, const char* key, Ints values) { f.attributes[key].ints = std::move(values); }

constexpr std::string_view kWithoutFields[] = {"Minus",
                                               "Plus",
                                               "GreaterEqual",
                                               "Equal",
                                               "NotEqual",
                                               "Less",
                                               "LessEqual",
                                               "Greater",
                                               "Exp",
                                               "Log",
                                               "Sqrt",
                                               "Floor",
                                               "Abs",
                                               "Negate",
                                               "Reciprocal",
                                               "ElementTimes",
                                               "RectifiedLinear",
                                               "Tanh",
                                               "Sigmoid",
                                               "Logistic",
                                               "SquareError",
                                               "ErrorPrediction",
                                               "Softmax",
                                               "LogSoftmax",
                                               "Cosine",
                                               "Sin",
                                               "Pass",
                                               "DynamicAxis",
                                               "PerDimMeanVarNormalization",
                                               "ClassificationError",
                                               "Clip",
                                               "If",
                                               "StableSigmoid",
                                               "Hardmax"};

// Window fields of versions from 5 on.
void window(Reader& r, Function& f) {
  set(f, "poolingWindowShape", r.shape());
  r.shape();  // the number of maps
  set(f, "strides", r.shape());
  set(f, "sharing", r.flags());
  set(f, "autoPadding", r.flags());
  set(f, "lowerPad", r.shape());
  set(f, "upperPad", r.shape());
  const auto kind = r.take<std::int32_t>();  // 0 none, 1 max, 2 average
  set(f, "poolingType", {kind - 1});
  if (r.take<std::int32_t>() != 1)
    set(f, "interleaved", {1});  // channels fastest: the layout before cuDNN
  r.take<std::uint64_t>();
  if (r.version >= 9) set(f, "transpose", {r.flag() ? 1 : 0});
  if (r.version >= 20) set(f, "outputShape", r.shape());
  if (r.version >= 21) set(f, "ceilOutDim", {r.flag() ? 1 : 0});
  if (r.version >= 23) set(f, "includePad", {r.flag() ? 1 : 0});
}

void batch_norm(Reader& r, Item& item) {
  Function& f = item.f;
  if (r.version < 6) throw bad_input("a batch norm of version {} is not read", r.version);
  set(f, "spatial", {r.flag() ? 1 : 0});
  r.take<double>();
  r.take<double>();
  r.take<std::int32_t>();
  if (r.version >= 19)
    r.flag();
  else
    r.take<std::uint64_t>();
  f.attributes["epsilon"].number = r.take<double>();
  r.flag();
  item.inverse_deviation = r.version < 13;
}

void input(Reader& r, Item& item) {
  const auto rows = r.take<std::uint64_t>();
  r.take<std::uint64_t>();
  item.shape = r.old_shape();
  std::int64_t n = 1;
  for (const std::int64_t d : item.shape) {
    if (d > 1 << 24 || n > 1 << 24) throw bad_input("an extent of {}", d);
    n *= d;
  }
  if (rows != 0 && rows != static_cast<std::uint64_t>(n))
    item.shape = {static_cast<std::int64_t>(rows)};
  if (r.version >= 8 && r.take<std::uint32_t>() == 1) r.text();
  if (r.version >= 10) r.take<float>();
  item.is_input = true;
}

void parameter(Reader& r, Item& item) {
  if (r.version >= 3) {
    r.take<float>();
    item.shape = r.shape();
  } else {
    r.flag();
    const auto rows = r.take<std::uint64_t>(), cols = r.take<std::uint64_t>();
    if (rows != 0)
      item.shape = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)};
    else
      item.shape = r.old_shape();
  }
  item.value = r.matrix();
  std::int64_t n = 1;
  for (const std::int64_t d : item.shape) {
    if (d != 0 && n > (1LL << 40) / d) throw bad_input("an extent of {}", d);
    n *= d;
  }
  if (n != item.value.numel())
    throw bad_input("{} elements, its shape asks for {}", item.value.numel(), n);
}

// The fields behind the type and the name of a node.
void fields(Reader& r, Item& item) {
  Function& f = item.f;
  const auto zero_based = [](std::int64_t axis) { return axis - 1; };
  if (std::find(std::begin(kWithoutFields), std::end(kWithoutFields), f.op) !=
      std::end(kWithoutFields))
    return;
  if (f.op == "InputValue" || f.op == "SparseInputValue") {
    item.is_sparse = f.op == "SparseInputValue";
    return input(r, item);
  }
  if (f.op == "LearnableParameter") return parameter(r, item);
  if (f.op == "Mean" || f.op == "InvStdDev") {
    r.flag();
    item.value = r.matrix();
    item.shape = {item.value.numel()};
    return;
  }
  if (f.op == "CrossEntropyWithSoftmax") {
    if (r.take<std::uint32_t>() > 2) r.back(4);  // younger files leave it out
    return;
  }
  if (f.op == "Times" || f.op == "TransposeTimes") {
    set(f, "outputRank",
        {r.version >= 3 ? static_cast<std::int64_t>(r.take<std::uint64_t>() & 0xff) : 1});
    if (r.version >= 12 && f.op == "Times") r.take<std::int32_t>();
    return;
  }
  if (f.op == "Dropout") {
    if (r.version >= 16) {
      if (r.version == 16)
        r.take<std::uint32_t>();
      else
        r.take<std::uint64_t>();
      r.take<std::uint64_t>();
    }
    return;
  }
  if (f.op == "Convolution") {
    if (r.version < 5) throw bad_input("a convolution of version {} is not read", r.version);
    window(r, f);
    r.flag();
    if (r.version >= 18) set(f, "dilation", r.shape());
    return;
  }
  if (f.op == "Pooling") return window(r, f);
  if (f.op == "Reshape") {
    set(f, "beginAxis", {zero_based(r.take<std::int32_t>())});
    const std::int64_t end = r.take<std::int32_t>();
    set(f, "endAxis", {end == 0 ? 0 : zero_based(end)});
    set(f, "newShape", r.shape());
    return;
  }
  if (f.op == "ReduceElements") {
    Ints axes;
    const std::uint32_t n = r.version >= 27 ? r.take<std::uint32_t>() : 1;
    if (n > 8) throw bad_input("{} axes", n);
    for (std::uint32_t i = 0; i < n; ++i) axes.push_back(zero_based(r.take<std::int32_t>()));
    f.attributes["reductionOpName"].text = r.text();
    const bool keep = r.version < 24 || r.flag();
    if (std::count(axes.begin(), axes.end(), -1) != 0)
      set(f, "axis", {2147483646});
    else
      set(f, "axisVec", axes);
    set(f, "reductionKeepDimensions", {keep ? 1 : 0});
    return;
  }
  if (f.op == "BatchNormalization") return batch_norm(r, item);
  if (f.op == "RowStack") {
    set(f, "axis", {r.version >= 3 ? zero_based(r.take<std::int32_t>()) : 0});
    return;
  }
  if (f.op == "Slice") {
    const std::int32_t n = r.version >= 22 ? r.take<std::int32_t>() : 1;
    if (n < 0 || n > 8) throw bad_input("{} axes", n);
    Ints axes, begins, ends, steps;
    for (std::int32_t i = 0; i < n; ++i) {
      begins.push_back(static_cast<std::int64_t>(r.take<std::uint64_t>()));
      ends.push_back(static_cast<std::int64_t>(r.take<std::uint64_t>()));
      axes.push_back(r.version >= 3 ? zero_based(r.take<std::int32_t>()) : 0);
      steps.push_back(r.version >= 27 ? r.take<std::int32_t>() : 1);
    }
    set(f, "axisVec", axes);
    set(f, "beginIndexVec", begins);
    set(f, "endIndexVec", ends);
    set(f, "sliceStridesVec", steps);
    return;
  }
  if (f.op == "TransposeDimensions") {
    f.op = "TransposeAxes";
    const std::int64_t one = r.version >= 3 ? r.take<std::int32_t>() : 1,
                       two = r.version >= 3 ? r.take<std::int32_t>() : 2;
    if (r.version >= 25 && one == 0 && two == 0) {
      Ints perm;
      for (std::size_t n = r.count(8); n > 0; --n)
        perm.push_back(static_cast<std::int64_t>(r.take<std::uint64_t>() & 0xff));
      set(f, "axisVec", perm);
    } else {
      set(f, "axis1", {zero_based(one)});
      set(f, "axis2", {zero_based(two)});
    }
    return;
  }
  throw bad_input(
      "byte {}: a node of type {}, whose fields are not known: the weights behind it cannot be "
      "found",
      r.at(), printable(f.op));
}

class Network {
 public:
  explicit Network(const Blob& file) {
    Reader r(file);
    r.expect("BCN");
    if (r.mark("BVersion")) {
      r.version = r.take<std::uint64_t>();
      r.expect("EVersion");
    }
    if (r.version < 1 || r.version > 28)
      throw bad_input("version {} of the network; 1 to 28 are known", r.version);
    version = r.version;
    const std::size_t n = r.count(4);
    r.expect("BNodeList");
    for (std::size_t i = 0; i < n; ++i) {
      Item item;
      if (r.version >= 7) r.text();
      item.f.op = r.text();
      item.f.uid = r.text();
      const ErrorScope where(fmt::format("node {}", printable(item.f.uid)));
      fields(r, item);
      const std::string name = item.f.uid;
      order_.push_back(name);
      if (!items_.emplace(name, std::move(item)).second) throw bad_input("it stands twice");
    }
    r.expect("ENodeList");
    r.expect("BRelation");
    for (std::size_t i = 0; i < n; ++i) {
      const std::string name = r.text();
      const auto at = items_.find(name);
      if (at == items_.end())
        throw bad_input("the inputs of {}, which is no node", printable(name));
      for (std::size_t k = r.count(2); k > 0; --k) at->second.f.inputs.push_back(r.text());
    }
    r.expect("ERelation");
    r.expect("BRootNodes");
    for (const char* group : {"Feature", "Label", "Criterion", "Criteria",
                              "NodesReqMultiSeqHandling", "Eval", "Output", "Pair"}) {
      const std::string key =
          std::string(group).starts_with("Nodes") ? group : std::string(group) + "Nodes";
      if (!r.mark("B" + key)) continue;
      for (std::size_t k = r.count(2); k > 0; --k) {
        const std::string name = r.text();
        if (key == "OutputNodes") outputs_.push_back(name);
        if (key == "EvalNodes") evaluated_.push_back(name);
      }
      r.expect("E" + key);
    }
    r.expect("ERootNodes");
    r.expect("ECN");
  }
  std::uint64_t version = 1;

  Model graph(const std::string& path) {
    Ops ops(stem_of(path));
    const auto& outputs = outputs_.empty() ? evaluated_ : outputs_;
    if (outputs.empty()) throw Unsupported("a network without a list of outputs");
    for (const std::string& name : outputs) make(ops, name);
    std::set<ValueId> given;
    for (const std::string& name : outputs)
      if (given.insert(values_.at(name).value).second) ops.g.output(values_.at(name).value, name);
    ops.g.note(
        "a sample's axes are reversed: what CNTK calls [W,H,C] is [C,H,W] here, the same bytes; "
        "nodes of training (labels, criteria, errors) are left out");
    return finish_model(ops.g, path, "cntk-v1", fmt::format("version {}", version), "CNTK");
  }

  Model weights(const std::string& path, const std::string& why) const {
    Model model;
    model.path = path;
    model.format = "cntk-v1";
    model.version = fmt::format("version {}", version);
    model.producer = "CNTK";
    model.notes.push_back(fmt::format("opened as its weights alone: {}", why));
    for (const std::string& name : order_) {
      const Item& item = items_.at(name);
      if (!item.value) continue;
      const Ints dims(item.shape.rbegin(), item.shape.rend());
      model.graph->initializers.emplace(model.graph->add_value(name),
                                        item.value.reshaped(Shape(dims)));
    }
    model.graph->finish();
    return model;
  }

 private:
  // A kernel kept as a matrix [maps, taps]: the bytes are [O][C][kh][kw] all the same.
  Sample kernel(Ops& ops, const Item& conv, const std::string& name) const {
    const auto at = items_.find(name);
    const Ints taps = conv.f.list("poolingWindowShape");
    if (at == items_.end() || !at->second.value || at->second.shape.size() != 2 ||
        taps.size() < 2 || taps.size() > 4)
      return values_.at(name);
    Ints shape = taps;
    std::int64_t n = 1;
    for (const std::int64_t t : taps) n *= std::clamp<std::int64_t>(t, 1, 1 << 20);
    if (n < 1 || at->second.value.numel() % n != 0)
      throw bad_input("{} weights for windows of {}", at->second.value.numel(), n);
    shape.push_back(at->second.value.numel() / n);
    return ops.constant(name, at->second.value, shape);
  }

  void convert_variance(Ops& ops, const Item& item, std::vector<Sample>& in) const {
    const Tensor* t = in.size() > 4 ? ops.g.constant_of(in[4].value) : nullptr;
    if (t == nullptr || t->dtype() != DType::f32)
      throw Unsupported("a batch norm whose statistics are computed");
    const double eps = item.f.number("epsilon", 0);
    Tensor variance = Tensor::uninitialized(DType::f32, t->shape());
    auto to = variance.mutable_data<float>();
    const auto from = t->data<float>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto r = static_cast<double>(from[i]);
      to[i] = static_cast<float>(1 / (r * r) - eps);
    }
    in[4].value = ops.g.constant(item.f.uid + ".variance", std::move(variance));
    ops.g.note(
        "batch norm of an old version keeps 1 / deviation: the variance is its inverse square less "
        "epsilon, in double, rounded to f32");
  }

  void make(Ops& ops, const std::string& output) {
    std::vector<std::string> stack{output};
    std::set<std::string> open;
    while (!stack.empty()) {
      const std::string name = stack.back();
      if (values_.contains(name)) {
        stack.pop_back();
        continue;
      }
      const auto at = items_.find(name);
      if (at == items_.end()) throw bad_input("no node is called {}", printable(name));
      const Item& item = at->second;
      const ErrorScope where(fmt::format("node {}", printable(name)));
      bool ready = true;
      const bool leaf = item.is_input || static_cast<bool>(item.value);
      if (!leaf)
        for (const std::string& w : item.f.inputs)
          if (!values_.contains(w)) ready = false;
      if (!ready) {
        if (!open.insert(name).second) throw Unsupported("a loop over a sequence (recurrence)");
        for (const std::string& w : item.f.inputs)
          if (!values_.contains(w)) {
            if (open.contains(w)) throw Unsupported("a loop over a sequence (recurrence)");
            stack.push_back(w);
          }
        continue;
      }
      if (item.is_input) {
        if (item.is_sparse) ops.g.note(fmt::format("input {} is sparse there, dense here", name));
        values_[name] = ops.input(name, DType::f32, item.shape, 1);
      } else if (item.value) {
        Ints shape = item.shape;
        // A bias is a column: its last axis is of matrices alone.
        if (shape.size() == 2 && shape[1] == 1 && item.f.op == "LearnableParameter")
          shape.pop_back();
        values_[name] = ops.constant(name, item.value, shape);
      } else {
        values_[name] = translate(ops, item);
      }
      open.erase(name);
      stack.pop_back();
    }
  }

  Sample translate(Ops& ops, const Item& item) {
    std::vector<Sample> in;
    for (const std::string& w : item.f.inputs) in.push_back(values_.at(w));
    if (item.f.list("interleaved") == Ints{1})
      throw Unsupported("windows over images whose channels are fastest (HWC)");
    if (item.f.op == "Convolution" && !in.empty()) in[0] = kernel(ops, item, item.f.inputs[0]);
    if (item.f.op == "BatchNormalization" && item.inverse_deviation)
      convert_variance(ops, item, in);
    if (item.f.op == "PerDimMeanVarNormalization") {
      if (in.size() != 3) throw bad_input("{} inputs, expected 3", in.size());
      Function f = item.f;
      f.op = "Minus";
      f.uid = item.f.uid + ".centred";
      const Sample centred = ops.translate(f, {in[0], in[1]});
      f.op = "ElementTimes";
      f.uid = item.f.uid;
      return ops.translate(f, {centred, in[2]});
    }
    if (item.f.op == "Logistic" || item.f.op == "SquareError" || item.f.op == "If")
      throw Unsupported(fmt::format("the function {}", item.f.op));
    return ops.translate(item.f, in);
  }

  std::map<std::string, Item> items_;
  std::vector<std::string> order_, outputs_, evaluated_;
  std::map<std::string, Sample> values_;
};

Model open(const std::string& path, std::span<const std::string>) {
  const Blob blob = map_file(path);
  const ErrorScope scope(path);
  Network network(blob);
  try {
    return network.graph(path);
  } catch (const Unsupported& why) {
    std::string text = why.what();
    if (text.starts_with(path + ": ")) text.erase(0, path.size() + 2);
    return network.weights(path, text);
  }
}

bool match(const FileView& file) {
  return file.text().starts_with(std::string_view("B\0C\0N\0\0\0", 8));
}

}  // namespace
}  // namespace cntk

const FormatRow& cntk_network_format() {
  static const FormatRow row{.name = "cntk-v1",
                             .endings = ".dnn .cmf",
                             .summary = "CNTK 1 network (BCN).",
                             .match = cntk::match,
                             .open = cntk::open};
  return row;
}

}  // namespace etalon
