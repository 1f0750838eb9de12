# What every target of this project is compiled with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# -O2: hot loops are written with intrinsics, so -O3 costs build time and gains nothing.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# A compiler that may reorder, contract or assume finite values decides bits that the contract decides.
foreach(variable CMAKE_CXX_FLAGS CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE} CMAKE_CUDA_FLAGS)
  string(TOUPPER "${variable}" variable_upper)
  foreach(text "${${variable}}" "${${variable_upper}}")
    if(text MATCHES "-Ofast|-ffast-math|-funsafe-math-optimizations|-fassociative-math|-freciprocal-math|-ffinite-math-only|-fno-signed-zeros|-fno-rounding-math|--use_fast_math|-use_fast_math|-ffp-contract=fast")
      message(FATAL_ERROR "${variable} holds '${CMAKE_MATCH_0}', which lets the compiler change "
        "results; this project's bits are defined by its contract: remove the flag.")
    endif()
  endforeach()
endforeach()
if(DEFINED ENV{CXXFLAGS} AND "$ENV{CXXFLAGS}" MATCHES "-Ofast|-ffast-math|-funsafe-math|-ffinite-math")
  message(FATAL_ERROR "CXXFLAGS holds '${CMAKE_MATCH_0}', which lets the compiler change results: unset it.")
endif()

add_library(etalon_flags INTERFACE)
target_compile_options(etalon_flags INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wno-missing-field-initializers
  # libstdc++ 12's stable_sort calls a function of its own that it deprecates; clang says so.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  $<$<BOOL:${ETALON_WERROR}>:-Werror>
  # GCC 12 reports false positives from inlined std::string and std::vector code at -O2.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-dangling-reference>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  get_target_property(flags etalon_flags INTERFACE_COMPILE_OPTIONS)
  string(REPLACE " -Wno-dangling-reference" "" flags "${flags}")
  string(REPLACE ";-Wno-dangling-reference" "" flags "${flags}")
  set_target_properties(etalon_flags PROPERTIES INTERFACE_COMPILE_OPTIONS "${flags}")
endif()
# With precompiled headers GCC 12 also finds overreads in std::string's own copies of literals.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  target_compile_options(etalon_flags INTERFACE -Wno-stringop-overread)
endif()
# Rows in vectors are of x86-64; elsewhere nothing calls what refuses for them.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(etalon_flags INTERFACE -Wno-unused-function)
endif()
# Format strings are checked where clang compiles them, which CI does: a tenth of the build's time here.
target_compile_definitions(etalon_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:FMT_CONSTEVAL=>)
if(ETALON_SANITIZE)
  target_compile_options(etalon_flags INTERFACE -fsanitize=${ETALON_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(etalon_flags INTERFACE -fsanitize=${ETALON_SANITIZE})
endif()

# A file is compiled for the instruction set that its name ends with: avx2.cpp, lanes_avx512.cpp.
# Such files keep their inline code in a namespace named for the set, or the linker could merge an
# AVX-512 copy of a shared inline function into the code that runs on a machine without it.
set(ETALON_FLAGS_avx2 -mavx2 -mfma -mf16c)
# prefer-vector-width and the no-slp flag: GCC 12.2 miscompiled a 512-bit kernel when it vectorised
# code around the intrinsics (docs/adr/0004); explicit vectors need neither vectoriser.
set(ETALON_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
    -fno-tree-vectorize)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12's own avx512fintrin.h initialises "undefined" vectors with themselves (GCC bug 105593).
  list(APPEND ETALON_FLAGS_avx512 -Wno-uninitialized)
endif()
if(ETALON_SANITIZE MATCHES undefined)
  # Each load through a pointer is checked by the address sanitizer, and by the processor where it has
  # to be aligned; arrays of registers are indexed by constants. Left are the checks that an integer can
  # still break: those of pointers were half of the time and of the two gigabytes that clang takes for
  # the tiles of gemm, the others a sixth of what remained for a convolution's. A quarter was where each
  # instruction of a tile comes from: a report names the function, without the line.
  foreach(isa avx2 avx512)
    list(APPEND ETALON_FLAGS_${isa} -fno-sanitize=undefined -fsanitize=signed-integer-overflow,shift -g0)
  endforeach()
endif()
set(ETALON_FLAGS_avx512bf16 ${ETALON_FLAGS_avx512} -mavx512bf16)
# Every processor with AMX has the byte permutations and the integer dot products (cpu.cpp asks).
set(ETALON_FLAGS_amx ${ETALON_FLAGS_avx512} -mavx512vbmi -mavx512vnni -mavx512ifma -mamx-tile -mamx-int8)
# Vectors of orders run in whatever rounding mode, and with subnormal operands read as zeros, while a
# RoundingScope lives. Otherwise Clang 19 folded (0 + a + b) + 0 to 0 + a + b, which is -0 where the
# sum is negative and flushed, and -(a * b) to -a * b, which are two numbers when rounded downward.
set(ETALON_FLAGS_order -frounding-math)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND ETALON_FLAGS_order -fdenormal-fp-math=dynamic)
endif()
function(etalon_isa_flags)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
  endif()
  foreach(file ${ARGN})
    if(file MATCHES "(^|[/_])(avx2|avx512|avx512bf16|amx)\\.cpp$")
      set(flags ${ETALON_FLAGS_${CMAKE_MATCH_2}})
      if(file MATCHES "/order_[a-z0-9]+\\.cpp$")
        list(APPEND flags ${ETALON_FLAGS_order})
        # So that the gate has a second compiler's optimisation of them.
        if(ETALON_SANITIZE)
          list(APPEND flags -O1)
        endif()
      endif()
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${flags}" SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
