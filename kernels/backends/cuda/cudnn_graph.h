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

// What a part is told or asked, by the numbers of the library's C interface.
enum GraphAttribute : int {
  kConvolutionSums = 100,
  kConvolutionMode = 101,
  kDilations = 102,
  kStrides = 103,
  kPaddingBehind = 104,
  kPaddingBefore = 105,
  kSpatialAxes = 106,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsConfigs = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kGraphEngines = 802,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorExtents = 902,
  kTensorStrides = 903,
  kTensorName = 906,
  kPackNames = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
  kEngineNumericalNotes = 1303,
  kEngineBehaviourNotes = 1305
};

class GraphPart {
 public:
  explicit GraphPart(GraphKind kind);
  ~GraphPart();
  GraphPart(GraphPart&& other) noexcept : d_(std::exchange(other.d_, nullptr)) {}
  GraphPart& operator=(GraphPart&&) = delete;
  Descriptor get() const { return d_; }

  template <class T>
  void set(GraphAttribute attribute, GraphType type, std::int64_t count, const T* values) {
    set_bytes(attribute, type, count, static_cast<const void*>(values));
  }
  void set(GraphAttribute attribute, std::span<const std::int64_t> values);
  void set(GraphAttribute attribute, std::int64_t value) { set(attribute, std::span(&value, 1)); }
  void set(GraphAttribute attribute, const GraphPart& part);
  // Throws what the library says, with `what` it was.
  void finish(const char* what);
  // The library's status: what it does not offer is no error.
  int try_finish();

  std::int64_t number(GraphAttribute attribute) const;
  // At most `most` values of 32 bits.
  std::vector<int> values(GraphAttribute attribute, GraphType type, std::int64_t most) const;
  // Fills parts that were made for it; those that came.
  std::size_t parts(GraphAttribute attribute, std::span<const GraphPart> into) const;

 private:
  void set_bytes(GraphAttribute attribute, GraphType type, std::int64_t count, const void* values);
  Descriptor d_ = nullptr;
};

}  // namespace etalon::cuda::dnn
