// Marks what compiles for the CPU and, under nvcc, for the GPU too: one source, one meaning.
#pragma once

#if defined(__CUDACC__)
#define ETALON_HD __host__ __device__
#else
#define ETALON_HD
#endif
