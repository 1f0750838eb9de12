# Standard and third-party headers are parsed once per library instead of once per file: a quarter of
# the build's time. A compiler cache does better without, so a build with a launcher has none, and
# there a file that forgot an include is found.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(ETALON_PCH OFF CACHE BOOL "Precompiled standard and third-party headers")
else()
  set(ETALON_PCH ON CACHE BOOL "Precompiled standard and third-party headers")
endif()
set(ETALON_PCH_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory>
    <optional> <span> <string> <string_view> <vector> <fmt/format.h>)
function(etalon_precompile target)
  if(ETALON_PCH)
    # A header of this project, too, where nearly every file of the library reads it; one that few of
    # them read (nlohmann/json.hpp: 15 of 123 readers) costs the others more than it saves: GCC loads
    # the whole.
    list(TRANSFORM ARGN REPLACE "^[a-z].*" "${CMAKE_SOURCE_DIR}/\\0")
    target_precompile_headers(${target} PRIVATE ${ETALON_PCH_HEADERS} ${ARGN})
  endif()
endfunction()

# etalon_library(NAME FOLDER [PUBLIC ...] [PRIVATE ...] [PCH HEADERS...]): the library etalon_NAME from every .cpp below
# FOLDER, so that a new file needs no line here. main.cpp is a program, not part of a library.
include(GNUInstallDirs)
function(etalon_library name folder)
  cmake_parse_arguments(ARG "" "" "PUBLIC;PRIVATE;PCH" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "main\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "^bench/lab/wasm/")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "(^|[/_])(avx2|avx512|avx512bf16|amx)\\.cpp$")
  endif()
  if(NOT ETALON_ONEDNN)
    list(FILTER sources EXCLUDE REGEX "onednn[^/]*\\.cpp$|/onednn/")
  endif()
  etalon_isa_flags(${sources})
  if(sources)
    add_library(etalon_${name} STATIC ${sources})
    target_include_directories(etalon_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/etalon>)
    target_link_libraries(etalon_${name} PUBLIC ${ARG_PUBLIC} PRIVATE $<BUILD_INTERFACE:etalon_flags> ${ARG_PRIVATE})
    target_compile_features(etalon_${name} PUBLIC cxx_std_20)
    etalon_precompile(etalon_${name} ${ARG_PCH})
  else()
    add_library(etalon_${name} INTERFACE)
    target_link_libraries(etalon_${name} INTERFACE ${ARG_PUBLIC})
  endif()
  add_library(etalon::${name} ALIAS etalon_${name})
  set_target_properties(etalon_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY ETALON_LIBRARIES etalon_${name})
endfunction()

# etalon_protobuf(TARGET FILE.proto): compiles the schema into the target; includes as <FILE.pb.h>.
# Generated code is not held to this project's warnings.
function(etalon_protobuf target proto)
  get_filename_component(folder ${CMAKE_SOURCE_DIR}/${proto} DIRECTORY)
  get_filename_component(stem ${proto} NAME_WE)
  set(out ${CMAKE_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${out})
  add_custom_command(OUTPUT ${out}/${stem}.pb.cc ${out}/${stem}.pb.h
    COMMAND protobuf::protoc --cpp_out=${out} -I ${folder} ${CMAKE_SOURCE_DIR}/${proto}
    DEPENDS ${CMAKE_SOURCE_DIR}/${proto} VERBATIM)
  target_sources(${target} PRIVATE ${out}/${stem}.pb.cc)
  set_source_files_properties(${out}/${stem}.pb.cc PROPERTIES COMPILE_OPTIONS -w SKIP_PRECOMPILE_HEADERS ON)
  target_include_directories(${target} SYSTEM PRIVATE ${out})
endfunction()

# The program with its data files, and the libraries below the workbench with their headers, for
# find_package(etalon). tests/package is a project that uses them.
include(CMakePackageConfigHelpers)
function(etalon_install)
  set(config ${CMAKE_INSTALL_LIBDIR}/cmake/etalon)
  get_property(libraries GLOBAL PROPERTY ETALON_LIBRARIES)
  list(REMOVE_ITEM libraries etalon_bench)
  install(TARGETS ${libraries} EXPORT etalonTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT etalonTargets NAMESPACE etalon:: DESTINATION ${config})
  install(DIRECTORY engine kernels importers adversarial DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/etalon
          FILES_MATCHING PATTERN "*.h")
  configure_package_config_file(cmake/etalonConfig.cmake.in ${CMAKE_BINARY_DIR}/etalonConfig.cmake
                                INSTALL_DESTINATION ${config})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/etalonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/etalonConfig.cmake ${CMAKE_BINARY_DIR}/etalonConfigVersion.cmake
          DESTINATION ${config})
  if(TARGET etalon_cli)
    set_target_properties(etalon_cli PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    if(ETALON_ONEDNN)
      # CMake leaves paths below the source tree out, and .etalon/venv lies there.
      get_filename_component(dnnl_lib ${dnnl_DIR}/../.. ABSOLUTE)
      set_target_properties(etalon_cli PROPERTIES INSTALL_RPATH ${dnnl_lib})
    endif()
    install(TARGETS etalon_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    # Where bench/resources.h looks: the same paths as in the source tree.
    install(DIRECTORY bench/runners bench/shapes bench/demo bench/report bench/survey bench/lab
            DESTINATION ${CMAKE_INSTALL_DATADIR}/etalon/bench
            PATTERN "*.cpp" EXCLUDE PATTERN "*.h" EXCLUDE PATTERN "__pycache__" EXCLUDE)
  endif()
endfunction()
