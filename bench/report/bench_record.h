// Whether the field "bench" of a record is what its readers (--compare, --against, the report) take
// it for. A record is a file like any other: somebody's editor, another program, half a download.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace etalon {

// A bad-input Error names the first field of record["bench"] that is of another kind. What is
// absent, or not known here, is no fault.
void check_bench_record(const nlohmann::json& record);

}  // namespace etalon
