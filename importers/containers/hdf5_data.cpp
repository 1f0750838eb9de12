#include <zlib.h>

#include "importers/containers/hdf5_file.h"

namespace etalon {

using namespace hdf5;

std::vector<std::byte> Hdf5File::Impl::unfiltered(const Chunk& c,
                                                  const std::vector<Filter>& pipeline,
                                                  std::size_t chunk_bytes) const {
  const auto raw = at(c.address, c.bytes);
  std::vector<std::byte> data(raw.begin(), raw.end());
  for (std::size_t i = pipeline.size(); i-- > 0;) {
    if (i < 32 && (c.skipped >> i & 1U) != 0) continue;
    const Filter& f = pipeline[i];
    if (f.id == 3) {
      if (data.size() < 4) throw bad_input("an HDF5 chunk without its checksum");
      const auto stored = load_le<std::uint32_t>(data, data.size() - 4);
      data.resize(data.size() - 4);
      if (fletcher32(data) != stored)
        throw bad_input("an HDF5 chunk fails its Fletcher-32 check; fetch the file again");
    } else if (f.id == 1) {
      if (chunk_bytes / kMaxExpansion > data.size() + 64)
        throw bad_input("an HDF5 chunk claims {} bytes out of {} packed ones, which cannot be",
                        chunk_bytes, data.size());
      // A later checksum stands behind the data when it was added before deflating.
      std::vector<std::byte> out(chunk_bytes + 4);
      uLongf made = out.size();
      if (uncompress(reinterpret_cast<Bytef*>(out.data()), &made,
                     reinterpret_cast<const Bytef*>(data.data()), data.size()) != Z_OK)
        throw bad_input("an HDF5 chunk does not inflate; fetch the file again");
      out.resize(made);
      data = std::move(out);
    } else {
      const std::size_t size = f.values.empty() ? 1 : f.values[0];
      if (size > 1 && size <= data.size()) {
        const std::size_t count = data.size() / size;
        std::vector<std::byte> out(data);
        for (std::size_t b = 0; b < size; ++b)
          for (std::size_t e = 0; e < count; ++e) out[e * size + b] = data[b * count + e];
        data = std::move(out);
      }
    }
  }
  if (data.size() != chunk_bytes)
    throw bad_input("an HDF5 chunk has {} bytes, {} are expected; the file is damaged", data.size(),
                    chunk_bytes);
  return data;
}

std::uint32_t Hdf5File::Impl::fletcher32(std::span<const std::byte> data) {
  std::uint32_t a = 0, b = 0;
  std::size_t words = data.size() / 2, at_byte = 0;
  while (words > 0) {
    const std::size_t run = std::min<std::size_t>(words, 360);
    words -= run;
    for (std::size_t i = 0; i < run; ++i, at_byte += 2) {
      a += std::to_integer<std::uint32_t>(data[at_byte]) << 8 |
           std::to_integer<std::uint32_t>(data[at_byte + 1]);
      b += a;
    }
    a = (a & 0xffff) + (a >> 16);
    b = (b & 0xffff) + (b >> 16);
  }
  if (data.size() % 2 != 0) {
    a += std::to_integer<std::uint32_t>(data.back()) << 8;
    b += a;
    a = (a & 0xffff) + (a >> 16);
    b = (b & 0xffff) + (b >> 16);
  }
  a = (a & 0xffff) + (a >> 16);
  b = (b & 0xffff) + (b >> 16);
  return b << 16 | a;
}

Blob Hdf5File::Impl::elements(const Hdf5Object& o) const {
  const std::int64_t count = Shape(o.dims).numel();
  const auto bytes = static_cast<std::size_t>(checked_mul(count, o.type.size));
  std::optional<Layout> l;
  std::vector<Filter> pipeline;
  std::span<const std::byte> fill;
  for (const Message& m : messages(o.address)) {
    if (m.type == kLayout) l = layout(m.data, static_cast<int>(o.dims.size()));
    if (m.type == kFilters) pipeline = filters(m.data);
    if (m.type == kFillValue) {
      Cursor c = over(m.data);
      const int version = c.u8();
      bool defined;
      if (version == 3) {
        defined = (c.u8() & 0x20) != 0;
      } else {
        c.skip(2);
        defined = c.u8() != 0;
      }
      if (defined && c.remaining() >= 4) {
        const std::uint32_t size = c.u32();
        if (size == o.type.size) fill = c.take(size);
      }
    }
  }
  if (!l) throw bad_input("a dataset without a layout");
  if (bytes == 0) return {{}, file.keeper};
  if (l->kind == 0) {
    if (l->compact.size() < bytes) throw bad_input("a compact dataset is cut short");
    return {l->compact.first(bytes), file.keeper};
  }
  if (l->kind == 1 && l->address != kUndefined) {
    if (l->bytes != kUndefined && l->bytes < bytes)
      throw bad_input("a dataset of {} bytes has {} in the file", bytes, l->bytes);
    return {at(l->address, bytes), file.keeper};
  }
  allocate(bytes);
  auto memory =
      std::make_shared<Tensor>(Tensor::zeros(DType::u8, {static_cast<std::int64_t>(bytes)}));
  const auto out = memory->mutable_bytes();
  if (!fill.empty() && std::ranges::any_of(fill, [](std::byte b) { return b != std::byte{0}; }))
    for (std::size_t i = 0; i < bytes; ++i) out[i] = fill[i % fill.size()];
  if (l->kind == 2) assemble(o, *l, pipeline, out);
  return {memory->bytes(), memory};
}

void Hdf5File::Impl::assemble(const Hdf5Object& o, const Layout& l,
                              const std::vector<Filter>& pipeline, std::span<std::byte> out) const {
  const std::size_t size = o.type.size, rank = o.dims.size();
  std::size_t chunk_bytes = size;
  for (const std::uint64_t n : l.chunk)
    chunk_bytes = static_cast<std::size_t>(
        checked_mul(static_cast<std::int64_t>(chunk_bytes), static_cast<std::int64_t>(n)));
  std::size_t packed = 0;
  for (const Chunk& c : chunks(l, o.dims, size, !pipeline.empty())) {
    packed += c.bytes;
    if (c.bytes > file.bytes.size() || packed > file.bytes.size())
      throw bad_input("the chunks of a dataset claim more bytes than the file has");
    const std::vector<std::byte> data = unfiltered(c, pipeline, chunk_bytes);
    for (std::size_t i = 0; i < rank; ++i)
      if (c.offset[i] >= static_cast<std::uint64_t>(o.dims[i]) || c.offset[i] % l.chunk[i] != 0)
        throw bad_input("an HDF5 chunk lies outside its dataset");
    if (rank == 0) {
      std::memcpy(out.data(), data.data(), size);
      continue;
    }
    // Runs along the last axis.
    std::vector<std::uint64_t> index(rank, 0), extent(rank);
    for (std::size_t i = 0; i < rank; ++i)
      extent[i] =
          std::min<std::uint64_t>(l.chunk[i], static_cast<std::uint64_t>(o.dims[i]) - c.offset[i]);
    for (bool more = true; more;) {
      std::uint64_t to = 0, from = 0;
      for (std::size_t i = 0; i < rank; ++i) {
        to = to * static_cast<std::uint64_t>(o.dims[i]) + c.offset[i] + index[i];
        from = from * l.chunk[i] + index[i];
      }
      std::memcpy(out.data() + to * size, data.data() + from * size, extent[rank - 1] * size);
      more = false;
      for (std::size_t i = rank - 1; i-- > 0;) {
        if (++index[i] < extent[i]) {
          more = true;
          break;
        }
        index[i] = 0;
      }
    }
  }
}

}  // namespace etalon
