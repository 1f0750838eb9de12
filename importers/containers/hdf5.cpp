#include "importers/containers/hdf5.h"

#include "importers/containers/hdf5_file.h"
#include "importers/containers/npy.h"

namespace etalon {

using namespace hdf5;

Hdf5File::Hdf5File(Blob file) : impl_(std::make_unique<Impl>()) {
  impl_->file = std::move(file);
  impl_->open();
}
Hdf5File::~Hdf5File() = default;

const Hdf5Value* Hdf5Object::attribute(std::string_view attribute_name) const {
  const auto found = attributes.find(attribute_name);
  return found == attributes.end() ? nullptr : &found->second;
}

Hdf5Object Hdf5File::root() const { return impl_->object("/", impl_->root); }

std::optional<Hdf5Object> Hdf5File::find(const Hdf5Object& group, std::string_view path) const {
  const auto address = impl_->resolve(path, group, 0);
  if (!address) return std::nullopt;
  return impl_->object(group.name + (group.name.ends_with('/') ? "" : "/") + std::string(path),
                       *address);
}

Hdf5Object Hdf5File::child(const Hdf5Object& group, std::string_view name) const {
  auto found = find(group, name);
  if (!found) throw bad_input("{}: no object '{}' in it", printable(group.name), printable(name));
  return std::move(*found);
}

Tensor Hdf5File::read(const Hdf5Object& o) const {
  const ErrorScope scope(printable(o.name));
  if (o.is_group) throw bad_input("a group where a dataset is expected");
  if (o.type.kind == Hdf5Type::Kind::string || o.type.kind == Hdf5Type::Kind::variable_string)
    throw bad_input("texts where numbers are expected");
  return array_from_bytes(Impl::descr(o.type), false, o.dims, impl_->elements(o));
}

std::vector<std::pair<std::string, Hdf5Object>> Hdf5File::datasets(const Hdf5Object& group) const {
  std::vector<std::pair<std::string, Hdf5Object>> out;
  std::set<std::uint64_t> visited;
  const std::function<void(const Hdf5Object&, const std::string&, int)> walk =
      [&](const Hdf5Object& g, const std::string& prefix, int depth) {
        if (depth > kMaxDepth) throw bad_input("HDF5 groups nest too deep");
        if (!visited.insert(g.address).second) return;
        for (const auto& [name, address] : g.children) {
          Hdf5Object o = impl_->object(g.name + (g.name.ends_with('/') ? "" : "/") + name, address);
          if (o.is_group) {
            walk(o, prefix + name + "/", depth + 1);
          } else if (o.type.kind != Hdf5Type::Kind::string &&
                     o.type.kind != Hdf5Type::Kind::variable_string) {
            out.emplace_back(prefix + name, std::move(o));
          }
        }
      };
  walk(group, "", 0);
  return out;
}

bool is_hdf5(std::span<const std::byte> prefix) {
  for (std::size_t at = 0; at + 8 <= prefix.size(); at = at == 0 ? 512 : at * 2)
    if (Blob{prefix.subspan(at, 8), nullptr}.text() == kSignature) return true;
  return false;
}

}  // namespace etalon
