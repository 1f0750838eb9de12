#include "kernels/backends/cuda/cudnn_graph.h"

#include <algorithm>

namespace etalon::cuda::dnn {
namespace {

// How many came; `most` may be 0.
std::int64_t read(Descriptor d, GraphAttribute attribute, GraphType type, std::int64_t most,
                  void* to) {
  std::int64_t count = 0;
  call("cudnnBackendGetAttribute", d, attribute, static_cast<int>(type), most, &count, to);
  return count;
}

}  // namespace

GraphPart::GraphPart(GraphKind kind) {
  call("cudnnBackendCreateDescriptor", static_cast<int>(kind), &d_);
}

GraphPart::~GraphPart() {
  if (d_ != nullptr) cudnn().function<int(Descriptor)>("cudnnBackendDestroyDescriptor")(d_);
}

void GraphPart::set_bytes(GraphAttribute attribute, GraphType type, std::int64_t count,
                          const void* values) {
  call("cudnnBackendSetAttribute", d_, attribute, static_cast<int>(type), count, values);
}

void GraphPart::set(GraphAttribute attribute, std::span<const std::int64_t> values) {
  set(attribute, kOfInt64, std::ssize(values), values.data());
}

void GraphPart::set(GraphAttribute attribute, const GraphPart& part) {
  set(attribute, kOfGraphPart, 1, &part.d_);
}

void GraphPart::finish(const char* what) { require(try_finish(), what); }

int GraphPart::try_finish() {
  return cudnn().function<int(Descriptor)>("cudnnBackendFinalize")(d_);
}

std::int64_t GraphPart::number(GraphAttribute attribute) const {
  std::int64_t value = 0;
  read(d_, attribute, kOfInt64, 1, &value);
  return value;
}

std::vector<int> GraphPart::values(GraphAttribute attribute, GraphType type,
                                   std::int64_t most) const {
  std::vector<int> list(static_cast<std::size_t>(most));
  const std::int64_t count = read(d_, attribute, type, most, list.data());
  list.resize(static_cast<std::size_t>(std::min(count, most)));
  return list;
}

std::size_t GraphPart::parts(GraphAttribute attribute, std::span<const GraphPart> into) const {
  std::vector<Descriptor> list;
  for (const GraphPart& part : into) list.push_back(part.d_);
  const std::int64_t most = std::ssize(list);
  return static_cast<std::size_t>(
      std::min(read(d_, attribute, kOfGraphPart, most, static_cast<void*>(list.data())), most));
}

}  // namespace etalon::cuda::dnn
