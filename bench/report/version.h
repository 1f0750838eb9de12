// What this build is. The definitions are generated (cmake/EtalonVersion.cmake).
#pragma once

#include <string_view>

namespace etalon {

std::string_view version();     // "0.1.0"
std::string_view commit();      // "16a45eb24cc9", "-dirty" after it when files were changed
std::string_view compiler();    // "GNU 12.2.0"
std::string_view build_type();  // "Release"
std::string_view source_dir();  // where the checkout lay when this was built

}  // namespace etalon
