# The CUDA kernels: off by default. The compiler comes from CMAKE_CUDA_COMPILER (a system CUDA 12.4 or
# newer, or cmake/cuda_from_wheels.sh). One binary: it starts without a GPU and says what is missing.
if(ETALON_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # SASS for sm_80 and sm_90a, PTX for newer devices; one pass makes sm_80's SASS and the PTX.
    set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc 13 has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA_STANDARD 20)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/kernels/*.cu)
  add_library(etalon_cuda STATIC ${sources})
  # --fmad=false: a product and a sum are fused where the definition says fma, nowhere else.
  # FMT_*: fmt 9 switches its constexpr off under nvcc, which its consteval strings then miss.
  # 20091: tables of constants lie on the device; the host never calls the functions that read them.
  target_compile_options(etalon_cuda PRIVATE --fmad=false --expt-relaxed-constexpr -diag-suppress=20091 --threads=2
                         -Xcompiler=-ffp-contract=off,-fopenmp)
  target_compile_definitions(etalon_cuda PRIVATE FMT_CONSTEVAL= FMT_USE_CONSTEXPR=1)
  # Launches call functions of the kernels' library, which calls the launches.
  target_link_libraries(etalon_cuda PUBLIC etalon_kernels)
  # The library alone can be built, without the engine that it names: does CUDA code compile?
  set_target_properties(etalon_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static EXPORT_NAME cuda OPTIMIZE_DEPENDENCIES ON)
  set_property(GLOBAL APPEND PROPERTY ETALON_LIBRARIES etalon_cuda)
  # Only these two know of it: a compiler cache serves all others from a build without CUDA.
  set_property(SOURCE kernels/kernels.cpp kernels/backends/cuda/device.cpp APPEND PROPERTY
               COMPILE_DEFINITIONS ETALON_CUDA)
  target_link_libraries(etalon_kernels PUBLIC etalon_cuda)
endif()
