// The table: ONNX op to translator, one row each, by family.
#include <array>
#include <vector>

#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {
namespace {

const std::vector<const TranslatorRow*>& table() {
  static const std::vector<const TranslatorRow*> kTable = [] {
    std::vector<const TranslatorRow*> rows;
    for (const auto family : {window_family(),          elementwise_family(),
                              layout_family(),          reduce_family(),
                              indexing_family(),        norm_family(),
                              resize_family(),          recurrent_family(),
                              function_family(),        attention_family(),
                              integer_family(),         control_family(),
                              einsum_family(),          sampling_family(),
                              signal_family(),          loss_family(),
                              fused_family(),           quantised_family(),
                              fused_attention_family(), cached_attention_family(),
                              quantised_lstm_family(),  machine_learning_family(),
                              region_family(),          tree_family()})
      for (const TranslatorRow& row : family) rows.push_back(&row);
    return rows;
  }();
  return kTable;
}

// Domains, longest first: what no row of theirs knows is refused with the advice.
struct DomainRow {
  std::string_view prefix, why;
};
constexpr DomainRow kDomains[] = {
    {"com.microsoft.nchwc.",
     ": it is laid out for the machine that saved it; save the model at optimisation level "
     "ORT_ENABLE_EXTENDED or below"},
    {"com.ms.internal.nhwc.",
     ": it belongs to one execution provider; save the model with the CPU provider"},
    {"com.microsoft.",
     ": it is ONNX Runtime's own, and no meaning of it is known here; save the model at "
     "optimisation level ORT_ENABLE_BASIC or take the model before it was optimised"},
    {"ai.onnx.ml.", ": of classical machine learning only some operators are read (docs/formats)"},
    {"ai.onnx.training.", ": it belongs to training; export the model for inference"},
    {"ai.onnx.preview.training.", ": it belongs to training; export the model for inference"},
    {"ai.onnx.preview.", ": its meaning may still change; export the model at a released opset"},
};

struct RefusalRow {
  std::string_view types;  // between spaces
  std::string_view why;
};
constexpr RefusalRow kRefusals[] = {
    {" SequenceConstruct SequenceAt SequenceEmpty SequenceErase SequenceInsert SequenceLength "
     "SplitToSequence ConcatFromSequence SequenceMap ",
     ": sequences are not tensors"},
    {" StringConcat StringNormalizer StringSplit RegexFullMatch TfIdfVectorizer LabelEncoder ",
     ": texts are not tensors"},
    {" Optional OptionalGetElement OptionalHasElement ", ": optional values are not tensors"},
    {" RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial ",
     ": no version of ONNX defines its generator, so its bits are nobody's"},
    {" Gradient Momentum Adagrad Adam ", ": it belongs to training"},
};

}  // namespace

const TranslatorRow* find_translator(std::string_view type) {
  for (const TranslatorRow* row : table())
    if (row->type == type) return row;
  return nullptr;
}

std::string_view refusal_of(std::string_view type) {
  for (const DomainRow& row : kDomains)
    if (type.starts_with(row.prefix)) return row.why;
  if (type.find(' ') != std::string_view::npos) return "";
  for (const RefusalRow& row : kRefusals)
    if (row.types.find(fmt::format(" {} ", type)) != std::string_view::npos) return row.why;
  if (type.find('.') != std::string_view::npos) return ": its domain has no public meaning here";
  return "";
}

}  // namespace etalon::onnx_format
