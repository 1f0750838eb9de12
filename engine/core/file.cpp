#include "engine/core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"

namespace etalon {

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  // A pipe would be waited for until somebody writes into it.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw bad_input("{}: {}; check the path", path, std::strerror(errno));
  std::shared_ptr<MappedFile> file(new MappedFile, Delete{});
  file->path_ = path;
  struct stat st{};
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    ::close(fd);
    throw bad_input("{}: not a regular file; give the path of a file", path);
  }
  file->size_ = static_cast<std::size_t>(st.st_size);
  if (file->size_ != 0) {
    void* p = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      const int e = errno;
      ::close(fd);
      throw bad_input("{}: cannot be mapped: {}", path, std::strerror(e));
    }
    file->data_ = static_cast<const std::byte*>(p);
  }
  ::close(fd);
  MemoryBudget::add_file(path, file->size_);
  return file;
}

void MappedFile::forget(std::span<const std::byte> bytes,
                        const std::shared_ptr<const void>& keeper) {
  // The type of the deleter tells whose memory it is.
  if (std::get_deleter<Delete>(keeper) == nullptr) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Whole pages only: the first and the last may hold what is still wanted.
  auto* const data = const_cast<std::byte*>(bytes.data());
  const std::size_t lead = (page - reinterpret_cast<std::uintptr_t>(data) % page) % page;
  if (bytes.size() < lead) return;
  const std::size_t whole = (bytes.size() - lead) / page * page;
  if (whole > 0) ::madvise(data + lead, whole, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_text_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

namespace {

// Where a path leads: the file that a chain of symlinks names, whether it is there or not, or the
// descriptor of this process that /dev/stdout, /dev/fd/N and the like stand for.
struct Place {
  std::string path;
  int descriptor = -1;
  bool there = false;
  struct stat st{};
  // Pipes, terminals and devices cannot be replaced as a whole.
  bool in_place() const { return descriptor >= 0 || (there && !S_ISREG(st.st_mode)); }
};

Place place_of(const std::string& path) {
  namespace fs = std::filesystem;
  Place place{.path = path};
  place.there = ::stat(path.c_str(), &place.st) == 0;
  std::error_code ignored;
  const fs::path own = fs::canonical("/proc/self/fd", ignored);
  for (int links = 0; links < 40; ++links) {
    const fs::path at(place.path);
    const fs::path folder = at.has_parent_path() ? at.parent_path() : fs::path(".");
    const std::string name = at.filename();
    if (!own.empty() && fs::canonical(folder, ignored) == own && !name.empty() && name.size() < 8 &&
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      place.descriptor = std::stoi(name);
    if (place.descriptor >= 0 || !fs::is_symlink(at, ignored)) break;
    place.path = (folder / fs::read_symlink(at, ignored)).string();
  }
  return place;
}

[[noreturn]] void cannot_write(const std::string& path, int error) {
  throw bad_input("{}: cannot be written: {}; choose another place", path, std::strerror(error));
}

}  // namespace

void check_place(const std::string& path) {
  const Place place = place_of(path);
  if (place.there && S_ISDIR(place.st.st_mode)) cannot_write(path, EISDIR);
  if (place.descriptor >= 0) {
    const int flags = ::fcntl(place.descriptor, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) cannot_write(path, EBADF);
    return;
  }
  if (place.in_place()) {
    if (::access(place.path.c_str(), W_OK) != 0) cannot_write(path, errno);
    return;
  }
  const std::filesystem::path folder = std::filesystem::path(place.path).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) cannot_write(path, errno);
}

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  const Place place = place_of(path_);
  if (place.in_place()) {
    fd_ = place.descriptor >= 0 ? ::dup(place.descriptor)
                                : ::open(place.path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) cannot_write(path_, errno);
    return;
  }
  target_ = place.path;
  temporary_ = fmt::format("{}.part{}", target_, ::getpid());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
               place.there ? 0600 : 0644);
  if (fd_ < 0) cannot_write(path_, errno);
  // What takes the place of a file belongs to whom that belonged to, where one may give it away;
  // else everybody may read and write it who might before.
  if (place.there) {
    const bool same =
        ::fchown(fd_, place.st.st_uid, place.st.st_gid) == 0 || place.st.st_uid == ::geteuid();
    ::fchmod(fd_, place.st.st_mode & (same ? 07777 : 0666));
  }
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) {
    ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw bad_input("{}: writing stopped after {} bytes: {}{}", path_, position_,
                      std::strerror(errno),
                      temporary_.empty() ? "" : "; nothing is left under that name");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    position_ += static_cast<std::size_t>(n);
  }
}

void FileWriter::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void FileWriter::commit() {
  const int fd = fd_;
  fd_ = -1;
  const bool in_place = temporary_.empty();
  const bool flushed = ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS;
  int error = flushed ? 0 : errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && !in_place && ::rename(temporary_.c_str(), target_.c_str()) != 0) error = errno;
  if (error == 0) return;
  if (!in_place) ::unlink(temporary_.c_str());
  throw bad_input("{}: cannot be completed: {}{}", path_, std::strerror(error),
                  in_place ? "" : "; nothing is left under that name");
}

void write_file(const std::string& path, std::string_view text) {
  FileWriter writer(path);
  writer.write(text);
  writer.commit();
}

}  // namespace etalon
