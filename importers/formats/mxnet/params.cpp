// A list: u64 0x112, u64 0, u64 count, arrays, u64 count of names, names (u64 length, bytes).
// An array: u32 magic f993fac8 (V1), ..c9 (V2), ..ca (V3), or in V0 the rank at once. V2 and V3:
// i32 storage (0 dense, 1 row-sparse, 2 CSR), of a sparse one the shape of what is stored. Then
// shape (u32 rank, i64 extents; V0: u32 extents), device (two i32), element type (i32), of a sparse
// one types and shapes of its indices; the elements; the indices.
#include "importers/formats/mxnet/params.h"

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"

namespace etalon::mxnet {
namespace {

class Reader {
 public:
  explicit Reader(const Blob& file) : file_(file) {}
  std::size_t at = 0;

  template <class T>
  T take() {
    need(sizeof(T));
    const T v = load_le<T>(file_.bytes, at);
    at += sizeof(T);
    return v;
  }
  Blob bytes(std::size_t n) {
    need(n);
    const Blob b{file_.bytes.subspan(at, n), file_.keeper};
    at += n;
    return b;
  }
  std::size_t left() const { return file_.bytes.size() - at; }

 private:
  void need(std::size_t n) const {
    if (n > left())
      throw bad_input("byte {}: {} bytes must follow, {} remain; the file is cut short", at, n,
                      left());
  }
  const Blob& file_;
};

DType dtype_of_flag(std::int32_t flag) {
  switch (flag) {
    case 0:
      return DType::f32;
    case 1:
      return DType::f64;
    case 2:
      return DType::f16;
    case 3:
      return DType::u8;
    case 4:
      return DType::i32;
    case 5:
      return DType::i8;
    case 6:
      return DType::i64;
    case 7:
      return DType::boolean;
    case 8:
      return DType::i16;
    case 12:
      return DType::bf16;
    default:
      throw bad_input("element type number {} is not known", flag);
  }
}

Shape shape(Reader& r, std::uint32_t rank, bool narrow) {
  if (rank > static_cast<std::uint32_t>(kMaxRank))
    throw bad_input("rank {} is beyond {}", rank, kMaxRank);
  Ints dims;
  for (std::uint32_t i = 0; i < rank; ++i)
    dims.push_back(narrow ? std::int64_t{r.take<std::uint32_t>()} : r.take<std::int64_t>());
  for (const std::int64_t d : dims)
    if (d < 0) throw bad_input("an extent of {}", d);
  return Shape(dims);
}

Tensor elements(Reader& r, DType dtype, const Shape& s) {
  const TensorType type{dtype, s};
  return tensor_from_bytes(type, r.bytes(claimed_bytes(type)));
}

Tensor densified(const Shape& s, const Tensor& data, const std::vector<Tensor>& aux, bool rows,
                 std::size_t budget) {
  if (claimed_bytes({data.dtype(), s}) > budget)
    throw bad_input("a sparse array of {} in a file of {} bytes", to_string(s), budget / 64);
  Tensor out = Tensor::zeros(data.dtype(), s);
  auto to = out.mutable_bytes();
  const auto size = static_cast<std::size_t>(size_bytes(data.dtype()));
  const auto index = [&](std::size_t which, std::int64_t i, std::int64_t below) {
    const auto v = static_cast<std::int64_t>(load_as_double(aux[which], i));
    if (v < 0 || v >= below) throw bad_input("a sparse array names {} of {}", v, below);
    return v;
  };
  if (rows) {
    if (s.rank() < 1 || aux[0].numel() != (data.shape().rank() ? data.shape()[0] : 0))
      throw bad_input("{} rows are named for {}", aux[0].numel(), to_string(data.shape()));
    const std::int64_t width = s.product(1, s.rank());
    if (data.numel() != aux[0].numel() * width) throw bad_input("rows of another width");
    for (std::int64_t i = 0; i < aux[0].numel(); ++i)
      std::memcpy(to.data() + static_cast<std::size_t>(index(0, i, s[0]) * width) * size,
                  data.bytes().data() + static_cast<std::size_t>(i * width) * size,
                  static_cast<std::size_t>(width) * size);
    return out;
  }
  if (s.rank() != 2 || aux[0].numel() != s[0] + 1 || aux[1].numel() != data.numel())
    throw bad_input("a CSR array {} whose parts do not fit", to_string(s));
  for (std::int64_t row = 0; row < s[0]; ++row)
    for (std::int64_t i = index(0, row, data.numel() + 1); i < index(0, row + 1, data.numel() + 1);
         ++i)
      std::memcpy(to.data() + static_cast<std::size_t>(row * s[1] + index(1, i, s[1])) * size,
                  data.bytes().data() + static_cast<std::size_t>(i) * size, size);
  return out;
}

Tensor array(Reader& r, std::size_t file_bytes) {
  const auto magic = r.take<std::uint32_t>();
  const bool v1 = magic == 0xF993FAC8, newer = magic == 0xF993FAC9 || magic == 0xF993FACA;
  std::int32_t storage = 0;
  Shape stored, s;
  if (newer) {
    storage = r.take<std::int32_t>();
    if (storage < 0 || storage > 2) throw bad_input("storage {} is not known", storage);
    if (storage != 0) stored = shape(r, r.take<std::uint32_t>(), false);
  }
  const bool narrow = !v1 && !newer;
  const std::uint32_t rank = narrow ? magic : r.take<std::uint32_t>();
  if (rank == 0xffffffff) return Tensor::zeros(DType::f32, {0});
  s = shape(r, rank, narrow);
  // Rank 0 is an array that was never filled, before V3 made it a scalar.
  if (rank == 0 && magic != 0xF993FACA) return Tensor::zeros(DType::f32, {0});
  r.take<std::int32_t>();
  r.take<std::int32_t>();
  const DType dtype = dtype_of_flag(r.take<std::int32_t>());
  if (storage == 0) return elements(r, dtype, s);
  std::vector<TensorType> types;
  for (std::int32_t i = 0; i < storage; ++i) {
    const DType aux = dtype_of_flag(r.take<std::int32_t>());
    types.push_back({aux, shape(r, r.take<std::uint32_t>(), false)});
  }
  const Tensor data = elements(r, dtype, stored);
  std::vector<Tensor> aux;
  for (const TensorType& t : types) aux.push_back(elements(r, t.dtype, t.shape));
  return densified(s, data, aux, storage == 1, file_bytes * 64);
}

}  // namespace

TensorList read_params(const std::string& path) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  Reader r(file);
  if (r.take<std::uint64_t>() != kListMagic) throw bad_input("no list of MXNet's arrays");
  r.take<std::uint64_t>();
  const auto count = r.take<std::uint64_t>();
  if (count > r.left() / 4) throw bad_input("claims {} arrays in {} bytes", count, r.left());
  TensorList tensors;
  for (std::uint64_t i = 0; i < count; ++i) {
    const ErrorScope where(fmt::format("tensor {}", i));
    tensors.push_back({std::to_string(i), array(r, file.bytes.size())});
  }
  const auto names = r.take<std::uint64_t>();
  if (names != 0 && names != count) throw bad_input("{} names for {} arrays", names, count);
  for (std::uint64_t i = 0; i < names; ++i)
    tensors[i].name = std::string(r.bytes(r.take<std::uint64_t>()).text());
  return tensors;
}

}  // namespace etalon::mxnet
