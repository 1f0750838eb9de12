// Everything that the backend asks of a device, as one table of functions: the calls of the CUDA
// runtime and the launches of this program's kernels. The machine's own table is runtime_api();
// tests put another in its place that computes on the CPU (tests/host_device.h), so that memory,
// copies, sequence and every failure are tested where there is no GPU.
//
// Functions return the runtime's code, 0 for success. Work on a stream runs in the sequence it was
// put there and not before: what it reads must live, unchanged, until the stream is waited for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/backend/kernel.h"

namespace etalon::cuda {

struct DeviceFacts {
  std::string name;  // "NVIDIA H200"
  int major = 0, minor = 0;
  int driver = 0;  // 13000: the newest CUDA it serves
  std::size_t memory_bytes = 0;
};

// Where a launch lists the slices that it could not decide (device_definition.h): their number,
// which may be larger than there are places, and the first of them, in no sequence.
struct UndecidedList {
  std::int64_t* count = nullptr;
  std::int64_t* places = nullptr;
  std::int64_t capacity = 0;
};

// y[i] = the element that map[i] names: 0 is `fill`, k + 1 is element k of the sources, counted on
// from each to the next.
struct MoveTask {
  static constexpr int kMostSources = 64;
  std::byte* y = nullptr;
  std::int64_t count = 0;
  const std::uint32_t* map = nullptr;
  int element_bytes = 4;
  int sources = 0;
  std::array<const std::byte*, kMostSources> from{};
  std::array<std::uint32_t, kMostSources> first{};  // map's name of each source's element 0
  std::uint64_t fill = 0;
};

// What recurrent cells need beside their tensors (kernels/recurrent/cuda_cells.h, cuda_scan.h).
struct CellMemory {
  void* scratch = nullptr;
  const std::int64_t* lengths = nullptr;  // by row of the batch; nullptr: all steps
};

// What convolution by FFT needs beside its tensors (kernels/conv/cuda_fft.h).
struct FftMemory {
  void* spectra = nullptr;
  const double* roots = nullptr;  // cosines, then sines
  std::int64_t roots_n = 0;
};

// What a correctly rounded product in digits needs beside its tensors (kernels/gemm/cuda_digits.h).
struct DigitMemory {
  void* planes = nullptr;
  void* norms = nullptr;
};

// What a correctly rounded product in f64 needs beside its tensors where blocks share an output's k
// (kernels/gemm/cuda_wide.h).
struct WideMemory {
  void* sums = nullptr;
  // Where this is not null: only if it is above most_foreseen (kernels/gemm/cuda_residues.h).
  const std::uint32_t* forecast = nullptr;
  std::uint32_t most_foreseen = 0;
};

// What a correctly rounded product by residues needs (kernels/gemm/cuda_residues.h).
struct ResidueFacts {
  bool units = false;                  // the device is Hopper's
  bool code = false;                   // this program has their kernel
  std::int64_t least = 1536;           // of rows, columns, terms; smaller problems other rows take
  std::int64_t panel_bytes = 1 << 28;  // residues that are kept at a time
  // Of 2^24, the share of open outputs above which f64 units take the call; at 4096 cubed they take
  // as long as settling 1 in 500 and all before it. Usual data leave 1 in 1000.
  std::uint32_t most_foreseen = 1 << 16;
};
struct ResidueMemory {
  void* all = nullptr;
  std::int64_t panel_bytes = 0;
  std::uint32_t* forecast = nullptr;  // none: nobody else takes the call
  std::uint32_t most_foreseen = 0;
  WideMemory wide;  // if the forecast says so
};

// What a correctly rounded convolution in digits needs beside its tensors
// (kernels/conv/cuda_digits.h).
struct ConvDigitMemory {
  void* weights = nullptr;
  void* planes = nullptr;
  void* norms = nullptr;
  void* squares = nullptr;
  void* tops = nullptr;
};

struct Api {
  int (*device_count)(int* count);
  int (*describe)(DeviceFacts* facts);
  const char* (*text)(int code);

  int (*allocate)(void** p, std::size_t size);  // 2: there is no memory left
  int (*release)(void* p);
  int (*make_stream)(void** stream);
  int (*drop_stream)(void* stream);
  int (*wait_for_stream)(void* stream);
  int (*to_device)(void* to, const void* from, std::size_t size, void* stream);
  int (*to_host)(void* to, const void* from, std::size_t size, void* stream);
  int (*on_device)(void* to, const void* from, std::size_t size, void* stream);
  int (*clear)(void* p, std::size_t size, void* stream);

  int (*make_event)(void** event);
  int (*drop_event)(void* event);
  int (*record)(void* event, void* stream);
  int (*wait_for_event)(void* event);
  int (*milliseconds)(float* elapsed, void* from, void* to);

  // Between the two, work on the stream is written down and not done. Nothing may be allocated or
  // waited for meanwhile.
  int (*begin_capture)(void* stream);
  int (*end_capture)(void* stream, void** graph);
  int (*launch_graph)(void* graph, void* stream);
  int (*drop_graph)(void* graph);

  // Kernels; the tensors of the call lie on the device, its integer inputs on the host.
  int (*definition)(const KernelCall& call, const UndecidedList& undecided, void* stream);
  int (*tiles)(const KernelCall& call, void* stream);
  int (*move)(const MoveTask& task, void* stream);
  // Two operands by elements (kernels/elementwise/cuda_pairs.h), depthwise convolution
  // (kernels/conv/cuda_depthwise.h).
  int (*pairs)(const KernelCall& call, void* stream);
  int (*depthwise)(const KernelCall& call, void* stream);
  // kernels/activation/device_lanes.h; the list is empty for a function that decides everything.
  int (*function)(const KernelCall& call, const UndecidedList& undecided, void* stream);
  // Softmax, normalisations over rows, local response (kernels/backends/cuda/row_block.h).
  int (*rows)(const KernelCall& call, const UndecidedList& undecided, void* stream);
  int (*cells)(const KernelCall& call, const CellMemory& memory, const UndecidedList& undecided,
               void* stream);
  int (*digits)(const KernelCall& call, const DigitMemory& memory, const UndecidedList& open,
                const UndecidedList& undecided, void* stream);
  int (*residue_facts)(ResidueFacts* facts);
  int (*residues)(const KernelCall& call, const ResidueMemory& memory, const UndecidedList& open,
                  const UndecidedList& undecided, void* stream);
  int (*conv_digits)(const KernelCall& call, const ConvDigitMemory& memory,
                     const UndecidedList& open, const UndecidedList& undecided, void* stream);
  int (*wide)(const KernelCall& call, const WideMemory& memory, const UndecidedList& undecided,
              void* stream);
  int (*conv_wide)(const KernelCall& call, const WideMemory& memory, const UndecidedList& undecided,
                   void* stream);
  // kernels/conv/cuda_exact_winograd.h; and the exact_winograd_share above which windows are
  // summed.
  int (*exact_winograd)(const KernelCall& call, double* memory, const UndecidedList& open,
                        const UndecidedList& undecided, void* stream);
  double most_winograd_share;
  int (*fft)(const KernelCall& call, const FftMemory& memory, void* stream);
  // Memory for transforms and sums: kernels/conv/cuda_winograd.h.
  int (*winograd)(const KernelCall& call, float* memory, void* stream);
  // f32 to f64, and back, rounded to nearest.
  int (*widen)(double* to, const float* from, std::int64_t count, void* stream);
  int (*narrow)(float* to, const double* from, std::int64_t count, void* stream);
};

// nullptr in a program that was built without CUDA.
const Api* runtime_api();

}  // namespace etalon::cuda
