# lab.wasm: the lab's questions answered in a browser, from the sources that answer them here. Built
# with cmake/wasm.cmake as toolchain; only what a convolution reads is compiled.
if(NOT EMSCRIPTEN)
  return()
endif()
set(lab_sources
  engine/backend/definition.cpp engine/backend/registry.cpp
  engine/core/cpu.cpp engine/core/dtype.cpp engine/core/error.cpp engine/core/file.cpp engine/core/hash.cpp
  engine/core/memory_budget.cpp engine/core/nearest.cpp engine/core/shape.cpp engine/core/tensor.cpp engine/core/threads.cpp
  engine/core/processor.cpp engine/core/thread_pool.cpp
  engine/ops/conv.cpp engine/ops/conv_channels_last.cpp engine/ops/conv_transpose.cpp engine/ops/col2im.cpp engine/ops/infer_inputs.cpp
  engine/ops/params.cpp
  engine/ops/window.cpp bench/compare/ulp.cpp kernels/conv/algorithm_cost.cpp
  kernels/conv/algorithms.cpp kernels/conv/rows.cpp kernels/conv/tiles.cpp kernels/conv/twiddles.cpp
  kernels/conv/winograd_matrices.cpp)
file(GLOB lab_globbed CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
  engine/numerics/*.cpp engine/numerics/elementary/*.cpp bench/lab/*.cpp bench/lab/wasm/*.cpp)
list(FILTER lab_globbed EXCLUDE REGEX "(^|[/_])(avx2|avx512|avx512bf16|amx)\\.cpp$|bench/lab/site\\.cpp")
add_executable(lab ${lab_sources} ${lab_globbed})
set_target_properties(lab PROPERTIES SUFFIX .wasm)
target_include_directories(lab PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(lab PRIVATE etalon_flags fmt::fmt xxhash::header nlohmann::header)
# No script is made: bench/lab/site holds the few lines that load it.
target_link_options(lab PRIVATE -fwasm-exceptions -O2 -sSTANDALONE_WASM --no-entry -sALLOW_MEMORY_GROWTH
                    -sINITIAL_MEMORY=64MB -sTOTAL_STACK=2MB -sWARN_ON_UNDEFINED_SYMBOLS=1)
