// Version 1: the nodes of a computation network one behind the other, each with the fields that its
// type and the version of the file say, then who reads whom, then groups of nodes. A node does not
// say how long it is, so a type that is not known ends the reading: it is refused by name.
//
// Strings are UTF-16 with a 0 behind them; a shape is a u32 count and u32 extents, fastest first; a
// matrix is column-major. Source: the public description of versions 1 to 28 in CNTK's serialisers.
#include "importers/formats/cntk/network_file.h"

#include <algorithm>

#include "importers/containers/bytes.h"

namespace etalon::cntk {
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

void batch_norm(Reader& r, NetworkItem& item) {
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

void input(Reader& r, NetworkItem& item) {
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

void parameter(Reader& r, NetworkItem& item) {
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

void delay(Reader& r, NetworkItem& item, bool is_double) {
  const std::int64_t steps = r.take<std::int32_t>();
  set(item.f, "offset", {steps});
  if (r.version > 3) {
    set(item.f, "shape", r.shape());
  } else {
    r.take<std::uint64_t>();  // rows
    r.take<std::uint64_t>();  // columns
  }
  if (r.version >= 2)
    item.f.attributes["initial"].number = is_double ? r.take<double>() : r.take<float>();
}

// The fields behind the type and the name of a node.
void fields(Reader& r, NetworkItem& item, bool is_double) {
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
  if (is_delay(f)) return delay(r, item, is_double);
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
    if (end != 0) set(f, "endAxis", {zero_based(end)});  // 0: to the last axis
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

}  // namespace

NetworkFile read_network(const Blob& file) {
  NetworkFile net;
  Reader r(file);
  r.expect("BCN");
  if (r.mark("BVersion")) {
    r.version = r.take<std::uint64_t>();
    r.expect("EVersion");
  }
  if (r.version < 1 || r.version > 28)
    throw bad_input("version {} of the network; 1 to 28 are known", r.version);
  net.version = r.version;
  const std::size_t n = r.count(4);
  r.expect("BNodeList");
  for (std::size_t i = 0; i < n; ++i) {
    NetworkItem item;
    const bool is_double = r.version >= 7 && r.text() == "double";
    item.f.op = r.text();
    item.f.uid = r.text();
    const ErrorScope where(fmt::format("node {}", printable(item.f.uid)));
    fields(r, item, is_double);
    const std::string name = item.f.uid;
    net.order.push_back(name);
    if (!net.items.emplace(name, std::move(item)).second) throw bad_input("it stands twice");
  }
  r.expect("ENodeList");
  r.expect("BRelation");
  for (std::size_t i = 0; i < n; ++i) {
    const std::string name = r.text();
    const auto at = net.items.find(name);
    if (at == net.items.end())
      throw bad_input("the inputs of {}, which is no node", printable(name));
    for (std::size_t k = r.count(2); k > 0; --k) at->second.f.inputs.push_back(r.text());
  }
  r.expect("ERelation");
  r.expect("BRootNodes");
  for (const char* group : {"Feature", "Label", "Criterion", "Criteria", "NodesReqMultiSeqHandling",
                            "Eval", "Output", "Pair"}) {
    const std::string key =
        std::string(group).starts_with("Nodes") ? group : std::string(group) + "Nodes";
    if (!r.mark("B" + key)) continue;
    for (std::size_t k = r.count(2); k > 0; --k) {
      const std::string name = r.text();
      if (key == "OutputNodes") net.outputs.push_back(name);
      if (key == "EvalNodes") net.evaluated.push_back(name);
    }
    r.expect("E" + key);
  }
  r.expect("ERootNodes");
  r.expect("ECN");
  return net;
}

}  // namespace etalon::cntk
