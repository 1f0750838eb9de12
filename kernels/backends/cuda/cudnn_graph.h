// Descriptors of cuDNN 9's graph interface: a thing of one kind, attributes set by number, finished
// once. Numbers are those of the library's C interface, which it has kept since version 8.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backends/cuda/cudnn_calls.h"

namespace etalon::cuda::dnn {

enum GraphKind : int {
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristics = 4,
  kPlan = 5,
  kConvolutionForward = 10,
  kOperationGraph = 15,
  kVariantPack = 16,
  kGraphTensor = 17
};
enum GraphType : int {
  kOfHandle = 0,
  kOfDataType = 1,
  kOfInt64 = 3,
  kOfFloat = 4,
  kOfPointer = 6,
  kOfConvolutionMode = 7,
  kOfHeuristicsMode = 8,
  kOfNumericalNote = 11,
  kOfGraphPart = 15,
  kOfBehaviourNote = 19
};

class GraphPart {
 public:
  explicit GraphPart(GraphKind kind);
  ~GraphPart();
  GraphPart(GraphPart&& other) noexcept : d_(std::exchange(other.d_, nullptr)) {}
  GraphPart& operator=(GraphPart&&) = delete;
  Descriptor get() const { return d_; }

  template <class T>
  void set(int attribute, GraphType type, std::int64_t count, const T* values) {
    set_bytes(attribute, type, count, static_cast<const void*>(values));
  }
  void set(int attribute, std::span<const std::int64_t> values);
  void set(int attribute, std::int64_t value) { set(attribute, std::span(&value, 1)); }
  void set(int attribute, const GraphPart& part);
  // Throws what the library says, with `what` it was.
  void finish(const char* what);
  // The library's status: what it does not offer is no error.
  int try_finish();

  std::int64_t number(int attribute) const;
  // At most `most` values of 32 bits.
  std::vector<int> values(int attribute, GraphType type, std::int64_t most) const;
  // Fills parts that were made for it; those that came.
  std::size_t parts(int attribute, std::span<const GraphPart> into) const;

 private:
  void set_bytes(int attribute, GraphType type, std::int64_t count, const void* values);
  Descriptor d_ = nullptr;
};

}  // namespace etalon::cuda::dnn
