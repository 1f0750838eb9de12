#include "tests/fuzz/targets.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/core/memory_budget.h"
#include "importers/containers/bytes.h"
#include "importers/containers/hdf5.h"
#include "importers/containers/json.h"
#include "importers/containers/npy.h"
#include "importers/containers/pbtree.h"
#include "importers/containers/pickle.h"
#include "importers/containers/pickle_arrays.h"
#include "importers/containers/sstable.h"
#include "importers/containers/t7.h"
#include "importers/containers/zip.h"
#include "importers/formats/onnx.h"
#include "tests/fuzz/harnesses.h"

namespace etalon::fuzz {

namespace fs = std::filesystem;

std::vector<Target> targets() {
  std::vector<Target> out;
  for (const FormatRow& row : formats()) {
    bool guised = false;
    for (const Harness& h : kGuises) {
      if (h.format != row.name) continue;
      Target t{std::string(h.name), &row, split(h.files), std::string(h.open)};
      if (t.open.empty()) t.open = t.files[0];
      out.push_back(std::move(t));
      guised = guised || h.name == row.name;
    }
    if (guised) continue;
    const std::string file = "m" + split(row.endings)[0];
    out.push_back({std::string(row.name), &row, {file}, file});
  }
  for (const std::string_view name : kContainers)
    out.push_back({std::string(name), nullptr, {"m"}, "m"});
  return out;
}

namespace {

// Every byte of the content is looked at.
void read_container(const std::string& name, const Blob& bytes) {
  if (name == "container-zip") {
    const ZipReader zip(bytes);
    for (const ZipMember& m : zip.members()) static_cast<void>(zip.read(m));
  } else if (name == "container-npy") {
    static_cast<void>(hash_tensor(read_npy(bytes)));
  } else if (name == "container-pickle") {
    const Pickle pickle(bytes);
    for (const PickleValue& v : pickle.values()) static_cast<void>(numpy_array(v, nullptr));
  } else if (name == "container-hdf5") {
    const Hdf5File file(bytes);
    for (const auto& [path, dataset] : file.datasets(file.root()))
      static_cast<void>(hash_tensor(file.read(dataset)));
  } else if (name == "container-json") {
    static_cast<void>(parse_json(bytes.text()));
  } else if (name == "container-wire") {
    static_cast<void>(peek_fields(bytes.bytes));
  } else if (name == "container-sstable") {
    for (const TableEntry& e : read_sstable(bytes)) static_cast<void>(e.value.bytes.size());
  } else if (name == "container-snappy") {
    static_cast<void>(snappy_decompress(bytes.bytes));
  } else {
    static_cast<void>(read_t7(bytes));
  }
}

// What was opened may be converted: a network that came of hostile bytes is written, or refused.
void write_model(const Model& model, const std::string& path) {
  try {
    onnx_format_row().save(model, path);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::bad_input && e.kind() != ErrorKind::usage) throw;
  }
}

void read_model(const Target& target, const std::string& folder) {
  const std::string path = folder + target.open;
  const FormatRow& row = *target.row;
  FileView view;
  view.path = path;
  view.is_folder = fs::is_directory(path);
  if (!view.is_folder) {
    const Blob file = map_file(path);
    view.prefix = file.bytes.first(std::min(file.bytes.size(), kPrefixBytes));
    static_cast<void>(row.match(view));
  }
  const MemoryBudget budget;
  if (row.open != nullptr) {
    const Model model = row.open(path, {});
    for (const auto& [id, tensor] : model.graph->initializers)
      static_cast<void>(hash_tensor(tensor));
    if (!model.graph->nodes.empty()) write_model(model, folder + "converted.onnx");
  } else {
    for (const NamedTensor& t : row.load(path)) static_cast<void>(hash_tensor(t.tensor));
  }
}

// The folder is there but for the first input.
void write_part(const std::string& path, const Bytes& bytes) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  int fd = ::open(path.c_str(), kFlags, 0600);
  if (fd < 0) {
    fs::create_directories(fs::path(path).parent_path());
    fd = ::open(path.c_str(), kFlags, 0600);
  }
  const bool written =
      fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  if (fd >= 0) ::close(fd);
  if (!written) throw internal_error("{}: an input could not be written", path);
}

std::uint32_t length_at(const std::uint8_t* data) {
  std::uint32_t n = 0;
  std::memcpy(&n, data, 4);
  return n;
}

}  // namespace

// Lengths that say too much take what is there.
std::vector<Bytes> parts_of(const std::uint8_t* data, std::size_t size, std::size_t count) {
  std::vector<Bytes> out(count);
  const std::size_t head = 4 * (count - 1);
  if (size < head) return out;
  std::size_t at = head;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t left = size - at,
                      n = i + 1 == count ? left
                                         : std::min<std::size_t>(left, length_at(data + 4 * i));
    out[i].assign(data + at, data + at + n);
    at += n;
  }
  return out;
}

Bytes joined(const std::vector<Bytes>& parts) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto n = static_cast<std::uint32_t>(parts[i].size());
    const auto* b = reinterpret_cast<const std::uint8_t*>(&n);
    out.insert(out.end(), b, b + 4);
  }
  for (const Bytes& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

Bytes mutated(const Target& target, const Bytes& input, Draw& draw) {
  auto parts = parts_of(input.data(), input.size(), target.files.size());
  for (std::size_t changes = draw.one_in(3) ? 1 + draw.below(4) : 1; changes > 0; --changes)
    // What describes the model comes first and decides most.
    mutate(parts[draw.one_in(3) ? draw.below(parts.size()) : 0], draw);
  return joined(parts);
}

Outcome run_input(const Target& target, const std::string& folder, const Bytes& input) {
  Outcome outcome;
  try {
    if (target.row == nullptr) {
      // A buffer of its own size, so that the sanitizer sees a read past its end.
      const auto memory = std::make_shared<std::vector<std::byte>>(input.size());
      if (!input.empty()) std::memcpy(memory->data(), input.data(), input.size());
      read_container(target.name, {*memory, memory});
    } else {
      const auto parts = parts_of(input.data(), input.size(), target.files.size());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        write_part(folder + target.files[i], parts[i]);
      }
      read_model(target, folder);
    }
    outcome.opened = outcome.reached = true;
  } catch (const Error& e) {
    const std::string_view what = e.what();
    for (const char* inner : {": node ", ": layer ", ": tensor ", ": value ", ": member "})
      outcome.reached = outcome.reached || what.find(inner) != std::string_view::npos;
    if (e.kind() != ErrorKind::bad_input)
      outcome.finding = fmt::format("no bad-input error: {}", what);
    else if (what.find('\n') != std::string_view::npos)
      outcome.finding = fmt::format("an error of more than one line: {}", what);
  } catch (const std::exception& e) {
    outcome.finding = fmt::format("an exception of another kind: {}", e.what());
  }
  return outcome;
}

}  // namespace etalon::fuzz
