// Tensors of PyTorch's files: storages in a zip (1.6 on) or behind one another (0.1.10 to 1.5, and
// later on request), and views of them by offset, size and strides.
//
// A contiguous tensor whose storage is aligned for it lies in the mapped file; others are copied.
// Copies of a whole file stay below kExpansion times its size: an expanded tensor (stride 0) may
// not ask for more. Quantised tensors are their integers, with NAME.scale and NAME.zero_point
// beside them; sparse ones NAME.indices and NAME.values; complex ones have a last axis (real,
// imaginary). Source: torch/serialization.py, torch/_utils.py.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "importers/containers/pickle.h"
#include "importers/containers/zip.h"
#include "importers/importers.h"

namespace etalon::pytorch_format {

struct StorageType {
  DType dtype = DType::f32;
  bool complex = false;
};
// "torch.FloatStorage", "FloatStorage"; a bad-input Error names what the engine does not hold.
StorageType storage_type(std::string_view name);

// A tensor by offset and strides, in elements of its storage. A complex element is two of `type`.
struct StridedView {
  TensorType type;
  std::size_t element_bytes = 0;
  std::int64_t offset = 0;
  Ints dims, strides;
};
// In place where it is contiguous; else a copy, which `budget` has to pay for.
Tensor strided_view(const Blob& storage, const StridedView& view, std::size_t& budget);

class Storages {
 public:
  virtual ~Storages() = default;
  // What `v` says, a call of torch._utils._rebuild_* or of a parameter; absent when it is none.
  std::optional<Tensor> tensor(const PickleValue& v, int depth = 0);
  // Appends `v` under `name`, and what belongs to it.
  bool append(const PickleValue& v, const std::string& name, TensorList& to, int depth = 0);
  const std::vector<std::string>& notes() const { return notes_; }

 protected:
  explicit Storages(std::size_t file_bytes) : budget_(file_bytes * kExpansion + (1 << 16)) {}
  // The bytes of a storage, by its persistent id.
  virtual Blob storage(const PickleValue& id, StorageType type) = 0;

 private:
  static constexpr std::size_t kExpansion = 1032;
  Tensor view(const PickleValue& storage, std::int64_t offset, const Ints& dims,
              const Ints& strides);
  std::size_t budget_;
  std::vector<std::string> notes_;
};

// NAME/data.pkl with NAME/data/0 ... beside it; `folder` is "NAME/".
class ZipStorages : public Storages {
 public:
  ZipStorages(const ZipReader& zip, const std::string& folder, std::size_t file_bytes);

 protected:
  Blob storage(const PickleValue& id, StorageType type) override;

 private:
  const ZipReader& zip_;
  std::map<std::string, const ZipMember*, std::less<>> members_;
};

// Magic, protocol and system in a pickle each, the object, the keys of its storages, and these.
class LegacyFile : public Storages {
 public:
  explicit LegacyFile(const Blob& file);
  const Pickle& pickle() const { return *pickle_; }

 protected:
  Blob storage(const PickleValue& id, StorageType type) override;

 private:
  std::unique_ptr<Pickle> pickle_;
  std::map<std::string, Blob, std::less<>> storages_;
};

bool is_legacy(std::span<const std::byte> prefix);

}  // namespace etalon::pytorch_format
