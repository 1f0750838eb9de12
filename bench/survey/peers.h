// Whose functions are surveyed: a vendor's rows of this program (glibc, onednn), or a Python
// library in a process of its own (numpy, pytorch, onnxruntime), which gets and gives blocks in
// files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "bench/survey/functions.h"
#include "engine/ops/op.h"

namespace etalon {

class SurveyPeer {
 public:
  virtual ~SurveyPeer() = default;
  virtual std::string name() const = 0;     // "numpy"
  virtual std::string version() const = 0;  // "numpy 2.3.1 (Python 3.11.2)"
  virtual bool has(const SurveyedFunction& f) const = 0;
  virtual void compute(const SurveyedFunction& f, std::span<const float> x, std::span<float> y) = 0;
};

// glibc, onednn, numpy, pytorch, onnxruntime; a Python library may name its interpreter:
// numpy@/usr/bin/python3. Throws a missing Error where it is not to be had, a usage Error for
// another word.
std::unique_ptr<SurveyPeer> make_survey_peer(const std::string& text, int threads);

// The op of a surveyed function ("gelu" of gelu_tanh) and its parameters.
std::pair<const OpRow*, Params> op_of(const SurveyedFunction& f);

// One vendor row or one of ours over arrays of one length, prepared once: what is timed.
class ElementwiseRow {
 public:
  // Null when no row of that prefix takes the function.
  static std::unique_ptr<ElementwiseRow> make(const SurveyedFunction& f, const std::string& prefix,
                                              std::int64_t count, int threads, Isa isa);
  virtual ~ElementwiseRow() = default;
  virtual std::span<float> x() = 0;
  virtual std::span<const float> y() const = 0;
  virtual void run() = 0;
  virtual std::string kernel() const = 0;
  virtual std::string version() const = 0;
};

}  // namespace etalon
