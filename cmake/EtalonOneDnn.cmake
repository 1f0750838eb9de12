# oneDNN 3, for the vendor rows that ours are timed against. Found on the system or below
# ETALON_ONEDNN_ROOT, by default the virtual environment that ./etalon keeps in the checkout.
set(ETALON_ONEDNN_ROOT ${CMAKE_SOURCE_DIR}/.etalon/venv CACHE PATH "Where oneDNN 3 is installed")
if(ETALON_ENGINE_ONLY)
  set(ETALON_ONEDNN OFF)
endif()
if(ETALON_ONEDNN)
  find_package(dnnl 3 CONFIG QUIET HINTS ${ETALON_ONEDNN_ROOT})
  if(dnnl_FOUND)
    message(STATUS "oneDNN ${dnnl_VERSION}: ${dnnl_DIR}")
  else()
    message(STATUS "oneDNN 3 was not found below ${ETALON_ONEDNN_ROOT} or on the system: its vendor "
      "kernels are left out (./etalon installs it, or set ETALON_ONEDNN_ROOT)")
    set(ETALON_ONEDNN OFF)
  endif()
endif()

function(etalon_use_onednn target)
  if(ETALON_ONEDNN)
    target_link_libraries(${target} PRIVATE DNNL::dnnl)
    target_compile_definitions(${target} PRIVATE ETALON_ONEDNN)
  endif()
endfunction()
