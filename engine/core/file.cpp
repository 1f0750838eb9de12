#include "engine/core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

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

FileWriter::FileWriter(std::string path)
    : path_(std::move(path)), temporary_(fmt::format("{}.part{}", path_, ::getpid())) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0)
    throw bad_input("{}: cannot be written: {}; choose another place", path_, std::strerror(errno));
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlink(temporary_.c_str());
  }
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw bad_input("{}: writing stopped after {} bytes: {}; nothing is left under that name",
                      path_, position_, std::strerror(errno));
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
  const bool closed = ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS;
  const int flush_error = errno;
  if (::close(fd) != 0 || !closed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int e = closed ? errno : flush_error;
    ::unlink(temporary_.c_str());
    throw bad_input("{}: cannot be completed: {}; nothing is left under that name", path_,
                    std::strerror(e));
  }
}

void write_file(const std::string& path, std::string_view text) {
  FileWriter writer(path);
  writer.write(text);
  writer.commit();
}

}  // namespace etalon
