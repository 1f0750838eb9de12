// What both of CNTK's formats come down to: functions over named values, with their attributes.
//
// CNTK counts axes of a sample from the fastest one (column-major); here a sample has its axes
// reversed, so that the same bytes are row-major: [W,H,C] is [C,H,W], which is also how CNTK's
// Python shows them. Dynamic axes stand before: the batch, then the sequence.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "importers/formats/translate.h"

namespace etalon::cntk {

// What has no meaning here; the file then opens as its weights.
class Unsupported : public Error {
 public:
  explicit Unsupported(std::string_view what) : Error(ErrorKind::bad_input, what) {}
};

struct Attribute {
  Ints ints;  // of a bool, an integer, a shape, an axis, and lists of those
  double number = 0;
  std::string text;
};

struct Function {
  std::string uid, name, op;  // "Convolution"
  std::vector<std::string> inputs;
  std::map<std::string, Attribute, std::less<>> attributes;

  bool has(std::string_view key) const { return attributes.find(key) != attributes.end(); }
  Ints list(std::string_view key) const {
    const auto at = attributes.find(key);
    return at == attributes.end() ? Ints{} : at->second.ints;
  }
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const {
    const Ints v = list(key);
    return v.empty() ? otherwise : v[0];
  }
  double number(std::string_view key, double otherwise) const {
    const auto at = attributes.find(key);
    return at == attributes.end() ? otherwise : at->second.number;
  }
  std::string text(std::string_view key) const {
    const auto at = attributes.find(key);
    return at == attributes.end() ? "" : at->second.text;
  }
};

inline bool is_delay(const Function& f) { return f.op == "PastValue" || f.op == "FutureValue"; }

inline Ints reversed(Ints v) {
  std::reverse(v.begin(), v.end());
  return v;
}

// A value and how many of its first axes are dynamic.
struct Sample {
  ValueId value = kAbsent;
  int dynamic = 0;
};

class Ops {
 public:
  explicit Ops(GraphBuilder& graph) : g(graph) {}
  GraphBuilder& g;

  Sample input(const std::string& name, DType dtype, Ints shape, int dynamic);
  // Shapes as CNTK has them, fastest axis first.
  Sample constant(const std::string& name, const Tensor& value, const Ints& shape);
  Sample translate(const Function& f, const std::vector<Sample>& in);
  // x with a sample's extents `sample` behind the first `taken` axes of `like`: constants and
  // values without those axes are repeated along them. (ops_sequences.cpp)
  ValueId spread(const std::string& name, Sample x, ValueId like, int taken, const Ints& sample);
  // What a delay gives before the first step.
  Sample initial(const Function& f, const std::vector<Sample>& in);
  static std::int64_t delay_steps(const Function& f);

 private:
  int rank(Sample s) const { return g.rank(s.value) - s.dynamic; }
  // Axis a of CNTK as one of the value.
  std::int64_t axis(Sample s, std::int64_t a) const;
  Ints shape(Sample s) const;  // of the sample, CNTK's way round
  std::vector<Sample> aligned(const std::vector<Sample>& in);
  Sample elementwise(std::string_view op, const std::string& name, const std::vector<Sample>& in,
                     const Fields& fields = {});
  Sample reduce(const Function& f, Sample x);
  Sample slice(const Function& f, Sample x);
  Sample reshape(const Function& f, Sample x);
  Sample transposed(const Function& f, Sample x);
  Sample one_hot(const Function& f, Sample x);
  Sample pad(const Function& f, Sample x);
  Sample cosine(const std::string& name, Sample a, Sample b);
  Sample crop(const Function& f, Sample x, Sample like);
  // ops_sequences.cpp
  std::optional<Sample> sequence(const Function& f, const std::vector<Sample>& in);
  Sample delayed(const Function& f, const std::vector<Sample>& in);
  Sample reconciled(const Function& f, Sample x, Sample like);
  Sample steps(const Function& f, Sample x);
  // ops_layers.cpp
  Sample all_steps(const std::string& name, Sample x);
  Sample as_sequence(const std::string& name, Sample y, Sample like);
  Sample window(const Function& f, const std::vector<Sample>& in, bool convolution);
  Sample times(const Function& f, Sample a, Sample b, bool transposed);
  Sample batch_norm(const Function& f, const std::vector<Sample>& in);
  Sample rnn_stack(const Function& f, Sample x, Sample weights);
};

}  // namespace etalon::cntk
