#include "importers/containers/t7.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "engine/core/error.h"
#include "engine/numerics/fp.h"
#include "engine/ops/params.h"

namespace etalon {
namespace {

constexpr int kMaxDepth = 200;

enum class Form { binary64, binary32, ascii };

std::optional<DType> dtype_of_name(std::string_view name) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"Float", DType::f32},    {"Double", DType::f64},  {"Int", DType::i32},
      {"Long", DType::i64},     {"Short", DType::i16},   {"Char", DType::i8},
      {"Byte", DType::u8},      {"Cuda", DType::f32},    {"CudaDouble", DType::f64},
      {"CudaLong", DType::i64}, {"CudaInt", DType::i32}, {"CudaShort", DType::i16},
      {"CudaChar", DType::i8},  {"CudaByte", DType::u8}, {"CudaHalf", DType::f16},
      {"Half", DType::f16}};
  for (const auto& [word, dtype] : kTypes)
    if (name == word) return dtype;
  return std::nullopt;
}

class Reader {
 public:
  Reader(const Blob& file, Form form) : file_(file), form_(form) {}

  T7File run() {
    out_.root = value(0);
    return std::move(out_);
  }
  bool at_end() const { return left() == 0; }

 private:
  std::size_t left() const { return file_.bytes.size() - at_; }
  [[noreturn]] void fail(std::string_view what) const {
    throw bad_input("byte {}: {}; the file is damaged or no .t7", at_, what);
  }
  template <class T>
  T raw() {
    if (left() < sizeof(T)) fail("the file ends inside a value");
    const T v = load_le<T>(file_.bytes, at_);
    at_ += sizeof(T);
    return v;
  }
  std::string word() {
    const std::string_view text = file_.text();
    while (at_ < text.size() && (text[at_] == ' ' || text[at_] == '\n')) ++at_;
    const std::size_t begin = at_;
    while (at_ < text.size() && text[at_] != ' ' && text[at_] != '\n') ++at_;
    if (begin == at_) fail("the file ends inside a value");
    return std::string(text.substr(begin, at_ - begin));
  }
  double real() {
    if (form_ != Form::ascii) return raw<double>();
    return real_word();
  }
  double real_word() {
    const std::string w = word();
    double v = 0;
    const auto r = std::from_chars(w.data(), w.data() + w.size(), v);
    if (r.ec != std::errc() || r.ptr != w.data() + w.size()) fail("no number where one must stand");
    return v;
  }
  std::int64_t whole(bool is_long) {
    if (form_ == Form::ascii) {
      const std::string w = word();
      std::int64_t v = 0;
      const auto r = std::from_chars(w.data(), w.data() + w.size(), v);
      if (r.ec != std::errc() || r.ptr != w.data() + w.size())
        fail("no number where one must stand");
      return v;
    }
    if (is_long && form_ == Form::binary64) return raw<std::int64_t>();
    return raw<std::int32_t>();
  }
  std::string text() {
    const std::int64_t n = whole(false);
    if (form_ == Form::ascii && left() > 0) ++at_;  // the line's end
    if (n < 0 || static_cast<std::uint64_t>(n) > left()) fail("a text longer than the file");
    std::string s(file_.text().substr(at_, static_cast<std::size_t>(n)));
    at_ += static_cast<std::size_t>(n);
    return s;
  }

  // The object of an index; `is_new` where its content follows.
  std::shared_ptr<T7Object> indexed(bool& is_new) {
    const std::int64_t index = whole(false);
    const auto at = by_index_.find(index);
    is_new = at == by_index_.end();
    if (!is_new) return at->second;
    auto object = std::make_shared<T7Object>();
    out_.objects.push_back(object);
    by_index_.emplace(index, object);
    return object;
  }

  T7Value value(int depth) {
    if (depth > kMaxDepth) fail("objects nest deeper than any model");
    T7Value v;
    const std::int64_t type = whole(false);
    bool is_new = false;
    switch (type) {
      case 0:
        break;
      case 1:
        v.kind = T7Value::Kind::number;
        v.number = real();
        break;
      case 2:
        v.kind = T7Value::Kind::text;
        v.text = text();
        break;
      case 5:
        v.kind = T7Value::Kind::boolean;
        v.number = whole(false) != 0 ? 1 : 0;
        break;
      case 3:
        v.kind = T7Value::Kind::object;
        v.object = indexed(is_new);
        if (is_new) {
          v.object->type = "table";
          table(*v.object, depth);
        }
        break;
      case 4:
        v.kind = T7Value::Kind::object;
        v.object = indexed(is_new);
        if (is_new) object(*v.object, depth);
        break;
      case 6:  // before a function could hold itself: without an index
      case 7:
      case 8:
        v.kind = T7Value::Kind::function;
        is_new = true;
        if (type == 6)
          out_.objects.push_back(v.object = std::make_shared<T7Object>());
        else
          v.object = indexed(is_new);
        if (is_new) {
          v.object->type = "function";
          text();            // bytecode, which nobody reads
          value(depth + 1);  // upvalues
        }
        break;
      default:
        fail("a value of no known type");
    }
    return v;
  }

  void table(T7Object& to, int depth) {
    const std::int64_t n = whole(false);
    if (n < 0 || static_cast<std::uint64_t>(n) > left()) fail("a table longer than the file");
    for (std::int64_t i = 0; i < n; ++i) {
      T7Value key = value(depth + 1);
      to.entries.emplace_back(std::move(key), value(depth + 1));
    }
  }

  void object(T7Object& to, int depth) {
    to.type = text();
    // Files before 2012 have no version: the text is the class at once.
    if (to.type.starts_with("V ")) to.type = text();
    const std::string_view name = to.type;
    if (name.starts_with("torch.") && name.ends_with("Tensor")) {
      tensor(to, depth);
    } else if (name.starts_with("torch.") && name.ends_with("Storage")) {
      storage(to, name.substr(6, name.size() - 13));
    } else if (name == "tds.Hash" || name == "tds.Vec") {
      const bool pairs = name == "tds.Hash";
      const std::int64_t n = whole(true);
      if (n < 0 || static_cast<std::uint64_t>(n) > left()) fail("a list longer than the file");
      for (std::int64_t i = 0; i < n; ++i) {
        T7Value key;
        key.kind = T7Value::Kind::number;
        key.number = static_cast<double>(i + 1);
        if (pairs) key = value(depth + 1);
        to.entries.emplace_back(std::move(key), value(depth + 1));
      }
    } else {
      const T7Value content = value(depth + 1);
      if (content.object && content.object.get() != &to) {
        // Many objects may name one table as theirs.
        copied_ += content.object->entries.size() * 64;
        if (copied_ > file_.bytes.size() * 16 + 4096) fail("objects larger than the file");
        to.entries = content.object->entries;
      }
    }
  }

  void storage(T7Object& to, std::string_view element) {
    const auto dtype = dtype_of_name(element);
    if (!dtype) fail("a storage of no known element type");
    const std::int64_t n = whole(true);
    if (n < 0 || static_cast<std::uint64_t>(n) > left()) fail("a storage longer than the file");
    // A long is as wide as the writer's.
    const bool narrow = *dtype == DType::i64 && form_ == Form::binary32;
    // Bytes are bytes in the ascii form too, behind the end of the line.
    const bool plain = size_bytes(*dtype) == 1;
    if (form_ == Form::ascii && plain && left() > 0) ++at_;
    if ((form_ != Form::ascii || plain) && !narrow) {
      const TensorType type{*dtype, Shape{n}};
      const std::size_t size = claimed_bytes(type);
      if (size > left()) fail("a storage longer than the file");
      to.tensor = tensor_from_bytes(type, {file_.bytes.subspan(at_, size), file_.keeper});
      at_ += size;
      return;
    }
    Tensor t = Tensor::uninitialized(*dtype, {n});
    visit_dtype(*dtype, [&](auto tag) {
      using T = decltype(tag);
      for (T& e : t.mutable_data<T>()) {
        if constexpr (std::is_same_v<T, Float16>)
          e = to_float16(static_cast<float>(real_word()));
        else if constexpr (std::is_floating_point_v<T>)
          e = static_cast<T>(real_word());
        else if constexpr (std::is_integral_v<T>)
          e = static_cast<T>(narrow ? raw<std::int32_t>() : whole(false));
        else
          fail("a storage of no known element type");
      }
    });
    to.tensor = std::move(t);
  }

  void tensor(T7Object& to, int depth) {
    const std::int64_t rank = whole(false);
    if (rank < 0 || rank > kMaxRank) fail("a tensor of no possible rank");
    Ints dims, strides;
    for (std::int64_t i = 0; i < rank; ++i) dims.push_back(whole(true));
    for (std::int64_t i = 0; i < rank; ++i) strides.push_back(whole(true));
    const std::int64_t offset = checked_add(whole(true), -1);
    const T7Value data = value(depth + 1);
    const auto dtype = dtype_of_name(std::string_view(to.type).substr(6, to.type.size() - 12));
    if (!dtype) fail("a tensor of no known element type");
    if (rank == 0 || !data.object) {
      to.tensor = Tensor::zeros(*dtype, {0});
      return;
    }
    const Tensor& all = data.object->tensor;
    if (!all || all.dtype() != *dtype) fail("a tensor whose storage is of another type");
    const Shape shape(dims);
    std::int64_t last = offset, first = offset;
    bool dense = true;
    std::int64_t expect = 1;
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (dims[i] > 1 && strides[i] != expect) dense = false;
      expect = checked_mul(expect, std::max<std::int64_t>(dims[i], 1));
      const std::int64_t reach = checked_mul(std::max<std::int64_t>(dims[i] - 1, 0), strides[i]);
      (reach < 0 ? first : last) = checked_add(reach < 0 ? first : last, reach);
    }
    if (shape.numel() == 0) {
      to.tensor = Tensor::zeros(*dtype, shape);
      return;
    }
    if (first < 0 || last >= all.numel()) fail("a tensor that reaches beyond its storage");
    const auto size = static_cast<std::size_t>(size_bytes(*dtype));
    if (dense) {
      const auto bytes = all.bytes().subspan(static_cast<std::size_t>(offset) * size,
                                             static_cast<std::size_t>(shape.numel()) * size);
      to.tensor =
          tensor_from_bytes({*dtype, shape}, {bytes, std::make_shared<Tensor>(all.share())});
      return;
    }
    // Expanded tensors (strides of 0) would be more than the file holds.
    copied_ += claimed_bytes({*dtype, shape});
    if (copied_ > file_.bytes.size() * 16) fail("strided tensors larger than the file");
    Tensor t = Tensor::uninitialized(*dtype, shape);
    std::byte* to_bytes = t.mutable_bytes().data();
    Ints index(dims.size(), 0);
    for (std::int64_t n = 0; n < shape.numel(); ++n) {
      std::int64_t at = offset;
      for (std::size_t i = 0; i < dims.size(); ++i) at += index[i] * strides[i];
      std::memcpy(to_bytes + static_cast<std::size_t>(n) * size,
                  all.bytes().data() + static_cast<std::size_t>(at) * size, size);
      for (std::size_t i = dims.size(); i-- > 0;) {
        if (++index[i] < dims[i]) break;
        index[i] = 0;
      }
    }
    to.tensor = std::move(t);
  }

  const Blob& file_;
  Form form_;
  std::size_t at_ = 0, copied_ = 0;
  std::map<std::int64_t, std::shared_ptr<T7Object>> by_index_;
  T7File out_;
};

}  // namespace

T7File::~T7File() {
  for (const auto& o : objects) o->entries.clear();
}

const T7Value* T7Object::find(std::string_view key) const {
  for (const auto& [k, v] : entries)
    if (k.kind == T7Value::Kind::text && k.text == key) return &v;
  return nullptr;
}

const T7Object* T7Object::find_object(std::string_view key) const {
  const T7Value* v = find(key);
  return v == nullptr ? nullptr : v->object.get();
}

double T7Object::number(std::string_view key, double otherwise) const {
  const T7Value* v = find(key);
  return v != nullptr && v->kind == T7Value::Kind::number ? v->number : otherwise;
}

bool T7Object::flag(std::string_view key, bool otherwise) const {
  const T7Value* v = find(key);
  return v != nullptr && v->kind == T7Value::Kind::boolean ? v->number != 0 : otherwise;
}

std::vector<const T7Value*> T7Object::list() const {
  std::map<double, const T7Value*> by_number;
  for (const auto& [k, v] : entries)
    if (k.kind == T7Value::Kind::number && k.number == k.number) by_number[k.number] = &v;
  std::vector<const T7Value*> out;
  for (double i = 1;; ++i) {
    const auto at = by_number.find(i);
    if (at == by_number.end()) return out;
    out.push_back(at->second);
  }
}

bool looks_like_t7(std::span<const std::byte> prefix) {
  if (prefix.size() < 12) return false;
  const auto type = load_le<std::int32_t>(prefix, 0);
  const auto second = load_le<std::int32_t>(prefix, 4);
  if (type == 4 && second >= 1 && second < 64) {  // an object: index 1, "V 1"
    const auto length = load_le<std::int32_t>(prefix, 8);
    return length > 0 && length < 100;
  }
  if (type == 3) return second >= 1 && second < 64;
  const std::string_view text(reinterpret_cast<const char*>(prefix.data()), prefix.size());
  return text.starts_with("4\n1\n3\nV 1\n") || text.starts_with("3\n1\n");
}

T7File read_t7(const Blob& file) {
  if (file.bytes.size() < 4)
    throw bad_input(
        "{} bytes, where a .t7 begins with a number of 4; the file is cut short, fetch it again",
        file.bytes.size());
  const char c = file.text()[0];
  if (c >= '0' && c <= '9') return Reader(file, Form::ascii).run();
  // Nothing in the file says how wide the writer's longs were: with the wrong width it breaks.
  try {
    return Reader(file, Form::binary64).run();
  } catch (const Error&) {
    try {
      // Of longs read at half their width a tensor without elements remains, and the rest behind
      // it.
      Reader narrow(file, Form::binary32);
      T7File out = narrow.run();
      if (narrow.at_end()) return out;
    } catch (const Error&) {
      // The first error is the likelier one.
    }
    throw;
  }
}

}  // namespace etalon
