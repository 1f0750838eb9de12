// Marks what compiles for the CPU and, under nvcc, for the GPU too: one source, one meaning.
#pragma once

#if defined(__CUDACC__)
#define ETALON_HD __host__ __device__
#else
#define ETALON_HD
#endif

// For code that is called often from templates and need not be fast on each call: compiled once in
// a file instead of at every place, which keeps the build of the definitions short.
#if defined(__CUDACC__)
#define ETALON_NOINLINE __noinline__
#else
#define ETALON_NOINLINE [[gnu::noinline]]
#endif

// A table of constants at namespace scope that both sides may index.
#if defined(__CUDACC__)
#define ETALON_TABLE static constexpr __device__
#else
#define ETALON_TABLE inline constexpr
#endif

// A function whose text a file of its own compiles for everyone on the CPU and each .cu file for
// itself.
#if defined(__CUDACC__)
#define ETALON_APART inline __noinline__
#else
#define ETALON_APART
#endif
