// Names the instruction set a translation unit is compiled for.
//
// An inline function of a header is emitted in every file that uses it, and the linker keeps one
// copy. If that copy came from a file compiled for AVX-512, a machine without it would stop at an
// illegal instruction. So inline numerics live in `namespace etalon { inline namespace
// ETALON_ISA_NAMESPACE {`: the copies have different names and are never merged. The price:
// functions defined in .cpp files must not take the types of such a namespace. nvcc's files have
// one too: the number systems they take along (*_inl.h) are their own.
#pragma once

#if defined(__CUDACC__)
#define ETALON_ISA_NAMESPACE isa_cuda
#elif defined(__AVX512F__)
#define ETALON_ISA_NAMESPACE isa_avx512
#elif defined(__AVX2__)
#define ETALON_ISA_NAMESPACE isa_avx2
#else
#define ETALON_ISA_NAMESPACE isa_base
#endif
