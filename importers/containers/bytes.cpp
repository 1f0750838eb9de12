#include "importers/containers/bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/core/file.h"

namespace etalon {
namespace fs = std::filesystem;

Blob map_file(const std::string& path) {
  auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  return {bytes, std::move(file)};
}

std::size_t claimed_bytes(const TensorType& type) {
  return static_cast<std::size_t>(checked_mul(type.shape.numel(), size_bytes(type.dtype)));
}

namespace {

// Piece by piece, and of a mapped file each piece is let go: a large file that is not aligned for
// its elements is in memory once, not twice.
void copy_and_forget(std::span<std::byte> to, const Blob& blob) {
  constexpr std::size_t kPiece = std::size_t{8} << 20;
#if defined(MADV_HUGEPAGE)
  if (to.size() >= 2 * kPiece) {  // fewer page faults; a system without large pages ignores it
    constexpr std::size_t kPage = 4096;
    const std::size_t before =
        (kPage - reinterpret_cast<std::uintptr_t>(to.data()) % kPage) % kPage;
    ::madvise(to.data() + before, (to.size() - before) / kPage * kPage, MADV_HUGEPAGE);
  }
#endif
  for (std::size_t at = 0; at < to.size(); at += kPiece) {
    const std::size_t n = std::min(kPiece, to.size() - at);
    std::memcpy(to.data() + at, blob.bytes.data() + at, n);
    if (to.size() >= kPiece) MappedFile::forget(blob.bytes.subspan(at, n), blob.keeper);
  }
}

}  // namespace

Tensor tensor_from_bytes(const TensorType& type, const Blob& blob) {
  const std::size_t want = claimed_bytes(type);
  if (blob.bytes.size() != want)
    throw bad_input("{} needs {} bytes and the file has {} for it; fetch the file again",
                    to_string(type), want, blob.bytes.size());
  if (type.dtype == DType::boolean)
    for (std::size_t i = 0; i < want; ++i)
      if (blob.bytes[i] > std::byte{1})
        throw bad_input("element {} of {} is the byte {}; a bool is 0 or 1", i, to_string(type),
                        std::to_integer<int>(blob.bytes[i]));
  const auto address = reinterpret_cast<std::uintptr_t>(blob.bytes.data());
  if (address % static_cast<std::size_t>(size_bytes(type.dtype)) == 0)
    return Tensor::view(type.dtype, type.shape, blob.bytes, blob.keeper);
  const auto copy = [type, blob] {
    Tensor made = Tensor::uninitialized(type.dtype, type.shape);
    copy_and_forget(made.mutable_bytes(), blob);
    return made;
  };
  return want < Tensor::kDeferredBytes ? copy() : Tensor::deferred(type.dtype, type.shape, copy);
}

std::optional<DType> find_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  return std::nullopt;
}

std::string resolve_inside(const std::string& folder, const std::string& relative) {
  const fs::path given(relative);
  bool climbs = given.empty() || given.is_absolute() || relative.find('\0') != std::string::npos ||
                relative.find('\\') != std::string::npos;
  for (const auto& part : given) climbs = climbs || part == "..";
  if (climbs)
    throw bad_input("the file names '{}' as a part of itself; a part must lie in its own folder",
                    printable(relative));
  std::error_code failed;
  const fs::path base = fs::canonical(folder.empty() ? "." : folder, failed);
  if (failed) throw bad_input("the folder {} cannot be read: {}", folder, failed.message());
  const fs::path real = fs::canonical(base / given, failed);
  if (failed)
    throw bad_input("its part '{}' cannot be read: {}; put it beside the file", printable(relative),
                    failed.message());
  const auto [b, r] = std::mismatch(base.begin(), base.end(), real.begin(), real.end());
  if (b != base.end())
    throw bad_input("its part '{}' leads out of the folder through a link; copy it into the folder",
                    printable(relative));
  return real.string();
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string stem_of(const std::string& path) { return fs::path(path).stem().string(); }

bool has_ending(std::string_view path, std::string_view ending) {
  if (path.size() < ending.size()) return false;
  path.remove_prefix(path.size() - ending.size());
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(path, ending, {}, lower, lower);
}

std::string printable(std::string_view text) {
  const auto plain = [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; };
  if (text.size() <= 120 && std::ranges::all_of(text, plain)) return std::string(text);
  std::string out;
  for (const char c : text.substr(0, 120)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f)
      out += fmt::format("\\x{:02x}", u);
    else
      out += c;
  }
  if (text.size() > 120) out += "...";
  return out;
}

}  // namespace etalon
