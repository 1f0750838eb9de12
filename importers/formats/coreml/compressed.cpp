// Weights that stand compressed in the file (constexpr_*): whole numbers with scales of the tensor,
// its channels or its blocks, indices of tables, what is not zero behind a mask, and these one
// behind the other. They become the values that they stand for. Arguments of iOS 16 are attributes
// and count their bits themselves; since iOS 18 the types say them.
#include <algorithm>
#include <bit>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"
#include "importers/formats/coreml/program_values.h"

namespace etalon::coreml {
namespace {

constexpr std::int64_t kMostElements = 16;

// The elements of a tensor row-major, and for each the place of its block, of which an axis has as
// many as `counts` says.
class Blocks {
 public:
  Blocks(const Shape& whole, std::span<const std::int64_t> counts) {
    const int rank = whole.rank();
    if (counts.size() != static_cast<std::size_t>(rank))
      throw bad_input("blocks of rank {} for {}", counts.size(), to_string(whole));
    axes_.resize(counts.size());
    std::int64_t stride = 1;
    for (std::size_t a = counts.size(); a-- > 0;) {
      const std::int64_t n = whole[static_cast<int>(a)], c = counts[a];
      if (c < 1 || n % c != 0) throw bad_input("{} elements in {} blocks", n, c);
      axes_[a] = {.extent = n, .size = n / c, .count = c, .stride = stride};
      stride = checked_mul(stride, c);
    }
  }
  std::int64_t at() const { return at_; }
  void next() {
    for (std::size_t a = axes_.size(); a-- > 0;) {
      Axis& axis = axes_[a];
      if (++axis.index < axis.extent) {
        if (axis.index % axis.size == 0) at_ += axis.stride;
        return;
      }
      axis.index = 0;
      at_ -= (axis.count - 1) * axis.stride;
    }
  }

 private:
  struct Axis {
    std::int64_t extent = 1, size = 1, count = 1, stride = 1, index = 0;
  };
  std::vector<Axis> axes_;
  std::int64_t at_ = 0;
};

const Tensor& constant(const Operation& o, std::string_view key) {
  const Tensor* t = o.constant(key);
  if (t == nullptr) throw bad_input("{} without constant {}", o.type, key);
  return *t;
}

// (q - zero) * scale, rounded once.
Tensor scaled(const Tensor& q, const Tensor& scale, Ints scales, const Tensor* zero, Ints zeros) {
  Blocks s(q.shape(), scales), z(q.shape(), zeros);
  Tensor out = Tensor::uninitialized(scale.dtype(), q.shape());
  const auto bytes = out.mutable_bytes();
  for (std::int64_t i = 0; i < q.numel(); ++i, s.next(), z.next())
    store_from_double(
        out.dtype(), bytes.data(), i,
        (load_as_double(q, i) - (zero == nullptr ? 0 : load_as_double(*zero, z.at()))) *
            load_as_double(scale, s.at()));
  return out;
}

Ints ones(const Shape& shape) { return Ints(static_cast<std::size_t>(shape.rank()), 1); }
Ints counts_of(const Tensor& t) { return {t.shape().dims().begin(), t.shape().dims().end()}; }

Tensor scaled_in_blocks(const Operation& o, const Tensor& q) {
  const Tensor& scale = constant(o, "scale");
  const Tensor* zero = o.has("offset") ? &constant(o, "offset") : nullptr;
  return scaled(q, scale, counts_of(scale), zero,
                zero == nullptr ? ones(q.shape()) : counts_of(*zero));
}

// iOS 16: one of each, or one for each index of an axis.
Tensor scaled_along_axis(const Operation& o) {
  const Tensor& q = constant(o, "quantized_data");
  const Tensor& scale = constant(o, "scale");
  const Tensor* zero = o.constant("zero_point");
  const auto counts = [&](const Tensor* t) {
    Ints out = ones(q.shape());
    if (t == nullptr || t->numel() == 1) return out;
    const int axis = normalize_axis(o.integer("axis", 0), q.shape().rank());
    if (t->numel() != q.shape()[axis])
      throw bad_input("{} scales or zero points for {} channels", t->numel(), q.shape()[axis]);
    out[static_cast<std::size_t>(axis)] = t->numel();
    return out;
  };
  return scaled(q, scale, counts(&scale), zero, counts(zero));
}

// Of a table [blocks of each axis.., entries, elements of an entry]; the elements of an entry lie
// along `axis`.
Tensor looked_up(const Tensor& indices, const Tensor& table, std::int64_t along) {
  const int rank = indices.shape().rank();
  const Ints all = counts_of(table);
  if (table.shape().rank() != rank + 2)
    throw bad_input("a table {} for indices {}", to_string(table.shape()),
                    to_string(indices.shape()));
  const auto depth = static_cast<std::size_t>(rank);
  const std::int64_t entries = all[depth], width = all[depth + 1];
  // What a file's size justifies: an index of a bit stands for few elements.
  if (width < 1 || width > kMostElements)
    throw bad_input("a table whose entries have {} elements, at most {} are read", width,
                    kMostElements);
  const int axis = width == 1 || rank == 0 ? 0 : normalize_axis(along, rank);
  const std::int64_t inner = rank == 0 ? 1 : indices.shape().product(axis + 1, rank);
  Ints dims = counts_of(indices);
  if (rank > 0)
    dims[static_cast<std::size_t>(axis)] = checked_mul(dims[static_cast<std::size_t>(axis)], width);
  claimed_bytes({table.dtype(), Shape(dims)});
  Blocks group(indices.shape(), std::span(all).first(depth));
  Tensor out = Tensor::uninitialized(table.dtype(), Shape(dims));
  const auto bytes = out.mutable_bytes();
  for (std::int64_t i = 0; i < indices.numel(); ++i, group.next()) {
    const auto v = static_cast<std::int64_t>(load_as_double(indices, i));
    if (v < 0 || v >= entries) throw bad_input("a table of {} entries is asked for {}", entries, v);
    const std::int64_t to = i / inner * width * inner + i % inner;
    for (std::int64_t e = 0; e < width; ++e)
      store_from_double(out.dtype(), bytes.data(), to + e * inner,
                        load_as_double(table, (group.at() * entries + v) * width + e));
  }
  return out;
}

std::int64_t vector_axis(const Operation& o) { return o.integer("vector_axis", 0); }

// The mask has a byte for each element.
Tensor dense(const Tensor& data, const Tensor& mask) {
  Tensor out = Tensor::zeros(data.dtype(), mask.shape());
  const auto bytes = out.mutable_bytes();
  const auto size = static_cast<std::size_t>(size_bytes(data.dtype()));
  std::size_t next = 0;
  for (std::size_t i = 0; i < mask.bytes().size(); ++i) {
    if (mask.bytes()[i] == std::byte{0}) continue;
    if (next == static_cast<std::size_t>(data.numel()))
      throw bad_input("a mask of more elements than the {} there are", data.numel());
    std::copy_n(data.bytes().data() + next++ * size, size, bytes.data() + i * size);
  }
  if (next != static_cast<std::size_t>(data.numel()))
    throw bad_input("a mask of {} elements for {}", next, data.numel());
  return out;
}

Tensor kept(const Tensor& from, const Tensor& mask) {
  const auto size = static_cast<std::size_t>(size_bytes(from.dtype()));
  const auto count =
      std::ranges::count_if(mask.bytes(), [](std::byte b) { return b != std::byte{0}; });
  Tensor out = Tensor::uninitialized(from.dtype(), {count});
  std::byte* to = out.mutable_bytes().data();
  for (std::size_t i = 0; i < mask.bytes().size(); ++i)
    if (mask.bytes()[i] != std::byte{0}) to = std::copy_n(from.bytes().data() + i * size, size, to);
  return out;
}

const Tensor& mask_of(const Operation& o, std::string_view key) {
  const Tensor& mask = constant(o, key);
  if (mask.dtype() != DType::u8) throw bad_input("a mask of type {}", name(mask.dtype()));
  return mask;
}

// Each element of the mask as often as a table's entry has elements.
Tensor widened(const Tensor& mask, std::int64_t width, std::int64_t along) {
  Tensor table = Tensor::zeros(DType::u8, {2 * width});
  std::fill_n(table.mutable_bytes().begin() + width, width, std::byte{1});
  Ints dims(static_cast<std::size_t>(mask.shape().rank()), 1);
  dims.insert(dims.end(), {2, width});
  return looked_up(mask, table.reshaped(Shape(dims)), along);
}

Shape shape_given(const Operation& o) {
  const Ints dims = o.integers("shape");
  return Shape(std::span(dims));
}

std::vector<Tensor> values_of(const Operation& o) {
  std::vector<Tensor> out;
  if (o.type == "constexpr_affine_dequantize") {
    out.push_back(scaled_along_axis(o));
  } else if (o.type == "constexpr_blockwise_shift_scale") {
    out.push_back(scaled_in_blocks(o, constant(o, "data")));
  } else if (o.type == "constexpr_lut_to_dense") {
    const Tensor &indices = constant(o, "indices"), &table = constant(o, "lut");
    if (!o.has("shape")) {
      out.push_back(looked_up(indices, table, vector_axis(o)));
      return out;
    }
    const Shape shape = shape_given(o);
    const auto entries = static_cast<std::uint64_t>(table.numel());
    if (!std::has_single_bit(entries) || entries < 2 || entries > 256)
      throw bad_input("a table of {} values", entries);
    Ints dims = ones(shape);
    dims.insert(dims.end(), {table.numel(), 1});
    out.push_back(looked_up(unpacked(indices.bytes(), std::countr_zero(entries), false, shape),
                            table.reshaped(Shape(dims)), 0));
  } else if (o.type == "constexpr_sparse_to_dense") {
    const Tensor& data = constant(o, "nonzero_data");
    out.push_back(o.has("shape")
                      ? dense(data, unpacked(mask_of(o, "mask").bytes(), 1, false, shape_given(o)))
                      : dense(data, mask_of(o, "mask")));
  } else if (o.type == "constexpr_lut_to_sparse") {
    const Tensor &mask = mask_of(o, "indices_mask"), &table = constant(o, "lut");
    const std::int64_t width = table.shape().rank() == 0 ? 0 : table.shape().dim(-1);
    if (width < 1 || width > kMostElements) throw bad_input("a table {}", to_string(table.shape()));
    out.push_back(widened(mask, width, vector_axis(o)));
    out.push_back(
        kept(looked_up(dense(constant(o, "indices_nonzero_data"), mask), table, vector_axis(o)),
             out[0]));
  } else if (o.type == "constexpr_sparse_blockwise_shift_scale") {
    const Tensor& mask = mask_of(o, "data_mask");
    out.push_back(mask.share());
    out.push_back(kept(scaled_in_blocks(o, dense(constant(o, "nonzero_data"), mask)), mask));
  }
  return out;
}

}  // namespace

std::vector<ValueId> translate_compressed(Operation& o) {
  std::vector<ValueId> made;
  if (!o.type.starts_with("constexpr_")) return made;
  for (Tensor& t : values_of(o)) made.push_back(o.g.constant(o.name, std::move(t)));
  if (!made.empty())
    o.g.note(
        "compressed weights are read as the values that they stand for: (q - zero) * scale, "
        "rounded "
        "once to their type, entries of tables, zeros where a mask has none");
  return made;
}

}  // namespace etalon::coreml
