# The library etalon_version: version and commit of this build. A script asks git at every build and
# rewrites one small file only when the answer changed, so that a commit recompiles nothing else.
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit "unknown")
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit "${described}")
  endif()
  set(text "#include \"bench/report/version.h\"
namespace etalon {
std::string_view version() { return \"${VERSION}\"; }
std::string_view commit() { return \"${commit}\"; }
std::string_view compiler() { return \"${COMPILER}\"; }
std::string_view build_type() { return \"${BUILD_TYPE}\"; }
std::string_view source_dir() { return \"${SOURCE}\"; }
}  // namespace etalon
")
  set(old "")
  if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} old)
  endif()
  if(NOT old STREQUAL text)
    file(WRITE ${OUTPUT} "${text}")
  endif()
  return()
endif()

set(ETALON_VERSION_FILE ${CMAKE_BINARY_DIR}/version.cpp)
set(ETALON_VERSION_COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${ETALON_VERSION_FILE}
    -DVERSION=${PROJECT_VERSION} "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -DBUILD_TYPE=${CMAKE_BUILD_TYPE} -P ${CMAKE_CURRENT_LIST_FILE})
execute_process(COMMAND ${ETALON_VERSION_COMMAND})
add_custom_target(etalon_version_text COMMAND ${ETALON_VERSION_COMMAND} BYPRODUCTS ${ETALON_VERSION_FILE})
add_library(etalon_version STATIC ${ETALON_VERSION_FILE})
add_dependencies(etalon_version etalon_version_text)
target_include_directories(etalon_version PRIVATE ${CMAKE_SOURCE_DIR})
add_library(etalon::version ALIAS etalon_version)
