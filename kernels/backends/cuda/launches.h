// The launches that the .cu files offer to the runtime's table (runtime_api.cu).
#pragma once

#include "kernels/backends/cuda/api.h"
#include "kernels/gemm/cuda_task.h"

namespace etalon::cuda {

int launch_definition(const KernelCall& call, const UndecidedList& undecided, void* stream);
int launch_tiles(const KernelCall& call, void* stream);  // kernels/gemm/cuda_tile.h
int launch_products(const TileTask& t, void* stream);    // seq products that are no op's
int launch_move(const MoveTask& task, void* stream);
int launch_pairs(const KernelCall& call, void* stream);      // kernels/elementwise/cuda_pairs.h
int launch_depthwise(const KernelCall& call, void* stream);  // kernels/conv/cuda_depthwise.h
// kernels/activation/device_lanes.h
int launch_function(const KernelCall& call, const UndecidedList& undecided, void* stream);
// kernels/softmax/cuda_rows.h, kernels/normalization/cuda_rows.h
int launch_rows(const KernelCall& call, const UndecidedList& undecided, void* stream);
// kernels/recurrent/cuda_cells.h, and for seq cuda_scan.h
int launch_cells(const KernelCall& call, const CellMemory& memory, const UndecidedList& undecided,
                 void* stream);
int launch_scan(const KernelCall& call, const CellMemory& memory, const UndecidedList& undecided,
                void* stream);
// kernels/gemm/cuda_digits.h
int launch_digits(const KernelCall& call, const DigitMemory& memory, const UndecidedList& open,
                  const UndecidedList& undecided, void* stream);
// kernels/gemm/cuda_residues.h
int residue_facts(ResidueFacts* facts);
int launch_residues(const KernelCall& call, const ResidueMemory& memory, const UndecidedList& open,
                    const UndecidedList& undecided, void* stream);
// kernels/conv/cuda_digits.h
int launch_conv_digits(const KernelCall& call, const ConvDigitMemory& memory,
                       const UndecidedList& open, const UndecidedList& undecided, void* stream);
// kernels/gemm/cuda_wide.h
int launch_wide(const KernelCall& call, const WideMemory& memory, const UndecidedList& undecided,
                void* stream);
int launch_conv_wide(const KernelCall& call, const WideMemory& memory,
                     const UndecidedList& undecided, void* stream);
// kernels/conv/cuda_exact_winograd.h
int launch_exact_winograd(const KernelCall& call, double* memory, const UndecidedList& open,
                          const UndecidedList& undecided, void* stream);
// kernels/conv/cuda_fft.h
int launch_fft(const KernelCall& call, const FftMemory& memory, void* stream);
// kernels/conv/cuda_winograd.h
int launch_winograd(const KernelCall& call, float* memory, void* stream);

}  // namespace etalon::cuda
