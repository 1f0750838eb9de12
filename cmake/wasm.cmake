# Toolchain: WebAssembly (Debian package emscripten), for the pages of `etalon lab` and for the
# hashes on record under Node. Exceptions are WebAssembly's own: no script is generated.
include(/usr/share/emscripten/cmake/Modules/Platform/Emscripten.cmake)
set(CMAKE_CXX_FLAGS_INIT "-fwasm-exceptions -Wno-unused-private-field -Wno-shorten-64-to-32")
