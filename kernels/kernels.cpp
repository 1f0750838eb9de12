#include "kernels/kernels.h"

#include "kernels/activation/glibc.h"
#include "kernels/activation/rows.h"
#include "kernels/activation/vector_rows.h"
#ifdef ETALON_CUDA
#include "kernels/backends/cuda/rows.h"
#endif
#include "kernels/conv/openblas.h"
#include "kernels/conv/rows.h"
#include "kernels/elementwise/rows.h"
#include "kernels/gemm/openblas.h"
#include "kernels/gemm/rows.h"
#include "kernels/indexing/rows.h"
#include "kernels/integer/rows.h"
#include "kernels/loss/rows.h"
#include "kernels/matmul/rows.h"
#include "kernels/movement/rows.h"
#include "kernels/normalization/rows.h"
#include "kernels/ordering/rows.h"
#include "kernels/own_layout.h"
#include "kernels/pool/rows.h"
#include "kernels/quantize/rows.h"
#include "kernels/recurrent/rows.h"
#include "kernels/reduce/rows.h"
#include "kernels/resize/rows.h"
#include "kernels/selection/rows.h"
#include "kernels/softmax/rows.h"
#include "kernels/softmax/vector_rows.h"
#ifdef ETALON_ONEDNN
#include "kernels/activation/onednn.h"
#include "kernels/activation/onednn_eltwise.h"
#include "kernels/backends/onednn/onednn.h"
#include "kernels/conv/onednn.h"
#include "kernels/gemm/onednn.h"
#include "kernels/normalization/onednn.h"
#include "kernels/pool/onednn.h"
#include "kernels/softmax/onednn.h"
#endif

namespace etalon {

const Registry& all_kernels() {
  static const Registry registry = [] {
    Registry r;
    r.add(conv_rows());
    r.add(gemm_rows());
    r.add(matmul_rows());
    r.add(elementwise_rows());
    r.add(reduce_rows());
    r.add(movement_rows());
    r.add(indexing_rows());
    r.add(ordering_rows());
    r.add(resize_rows());
    r.add(quantize_rows());
    r.add(integer_rows());
    r.add(tflite_rows());
    r.add(tflite_fixed_rows());
    r.add(tflite_lstm_rows());
    r.add(tflite_sixteen_rows());
    r.add(tflite_hybrid_rows());
    r.add(code_rows());
    r.add(activation_vector_rows());
    r.add(activation_rows());
    r.add(pool_rows());
    r.add(normalization_rows());
    r.add(recurrent_rows());
    r.add(softmax_vector_rows());
    r.add(selection_rows());
    r.add(detection_rows());
    r.add(softmax_rows());
    r.add(loss_rows());
    r.add(glibc_rows());
    r.add(openblas_conv_rows());
    r.add(openblas_gemm_rows());
#ifdef ETALON_CUDA
    r.add(cuda::rows());
#endif
#ifdef ETALON_ONEDNN
    r.add(onednn_eltwise_rows());
    r.add(onednn_conv_rows());
    r.add(onednn_gemm_rows());
    r.add(onednn_matmul_rows());
    r.add(onednn_pool_rows());
    r.add(onednn_softmax_rows());
    r.add(onednn_normalization_rows());
    r.add(onednn_activation_rows());
#endif
    return r;
  }();
  return registry;
}

std::unique_ptr<OwnLayoutRun> run_in_own_layout([[maybe_unused]] const KernelRow& row,
                                                [[maybe_unused]] const KernelCall& call) {
#ifdef ETALON_ONEDNN
  if (row.name.starts_with("onednn.")) return onednn::own_layout_run(call);
#endif
  return nullptr;
}

std::optional<LibraryMemory> library_memory([[maybe_unused]] const KernelRow& row,
                                            [[maybe_unused]] const KernelCall& call) {
#ifdef ETALON_ONEDNN
  if (row.name.starts_with("onednn.")) return onednn::memory_of(call);
#endif
  return std::nullopt;
}

std::string library_implementation([[maybe_unused]] const KernelRow& row,
                                   [[maybe_unused]] const KernelCall& call) {
#ifdef ETALON_ONEDNN
  if (row.name.starts_with("onednn.")) return onednn::implementation_of(call);
#endif
  return {};
}

}  // namespace etalon
