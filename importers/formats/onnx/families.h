// The families of translators, and what several of them read in the same way.
#pragma once

#include <span>

#include "importers/formats/onnx/node.h"

namespace etalon::onnx_format {

std::span<const TranslatorRow> window_family();       // Conv, pooling
std::span<const TranslatorRow> elementwise_family();  // arithmetic, logic, functions of one input
std::span<const TranslatorRow> layout_family();       // what moves elements
std::span<const TranslatorRow> reduce_family();       // reductions
std::span<const TranslatorRow> loss_family();         // losses
std::span<const TranslatorRow> indexing_family();     // gather, scatter, shapes, arg-max, top-k
std::span<const TranslatorRow> norm_family();         // normalisation, quantisation
std::span<const TranslatorRow> resize_family();       // Resize, Upsample
std::span<const TranslatorRow> recurrent_family();    // LSTM, GRU, RNN
// Ops that ONNX defines by simpler ones, and that are imported as those (body.h).
std::span<const TranslatorRow> function_family();   // windows, grids, gated and causal ones
std::span<const TranslatorRow> attention_family();  // Attention, RotaryEmbedding
std::span<const TranslatorRow> einsum_family();     // Einsum
std::span<const TranslatorRow> sampling_family();   // GridSample, TensorScatter, MaxUnpool
std::span<const TranslatorRow> signal_family();     // DFT, STFT
std::span<const TranslatorRow> region_family();     // RoiAlign
std::span<const TranslatorRow> tree_family();       // ensembles of trees
std::span<const TranslatorRow> control_family();    // If, Loop, Scan
std::span<const TranslatorRow> integer_family();    // products of integers and what scales them
// ONNX Runtime's own: the domain com.microsoft, and what it adds to ONNX's.
std::span<const TranslatorRow> fused_family();             // a node with what stands behind it
std::span<const TranslatorRow> quantised_family();         // QLinear*, QGemm, n-bit weights
std::span<const TranslatorRow> fused_attention_family();   // Attention, embeddings, rotation
std::span<const TranslatorRow> cached_attention_family();  // GroupQueryAttention, RotaryEmbedding
std::span<const TranslatorRow> quantised_lstm_family();    // DynamicQuantizeLSTM
std::span<const TranslatorRow> machine_learning_family();  // the domain ai.onnx.ml

// strides, pads and auto_pad as parameters of the engine's windows.
Fields window_fields(OnnxNode& n);

// Gives `op` input `i` as it stands, when this opset passes it as an input, or else the attribute
// as the parameter `field`.
void integers_or_input(OnnxNode& node, std::size_t i, std::string_view field, bool as_input,
                       Fields& fields, std::vector<ValueId>& inputs);

}  // namespace etalon::onnx_format
