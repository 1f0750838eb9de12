// Files: mapped for reading, replaced as a whole for writing.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace etalon {

// A read-only mapping of a regular file; the bytes live as long as the object.
class MappedFile {
 public:
  // Throws a bad-input Error when the file is missing, a directory, or not readable.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Lets go of the pages that lie wholly inside `bytes`, which were copied: resident memory falls,
  // and who reads them again gets them from the system's cache. Nothing happens where `keeper` is
  // no mapped file.
  static void forget(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keeper);

 private:
  struct Delete {
    void operator()(const MappedFile* file) const { delete file; }
  };
  MappedFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

std::string read_text_file(const std::string& path);

// Throws a bad-input Error where a FileWriter could not write: no such folder, no right to. Nothing
// is made or changed.
void check_place(const std::string& path);

// Writes under a temporary name beside `path`, and renames only when all is on disk: a full disk,
// a thrown Error or Ctrl-C leaves nothing under the final name and no temporary file behind. A
// symlink is followed, and a file that is replaced keeps its mode. What is no regular file (a pipe,
// a device) is written into as it stands.
class FileWriter {
 public:
  explicit FileWriter(std::string path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  std::size_t position() const { return position_; }
  void commit();

 private:
  std::string path_, target_;
  std::string temporary_;  // empty: written in place
  int fd_ = -1;
  std::size_t position_ = 0;
};

void write_file(const std::string& path, std::string_view text);

}  // namespace etalon
