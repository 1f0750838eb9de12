// The part that every JSON record has in common, and writing a record.
//
// {"etalon": {"version", "commit"}, "machine": {"cpu", "isa", "cores", "os", "compiler"},
//  "command": "..."}; a command adds its own fields (docs/records.md). A number that is not finite
// is written as a string, "inf" or "nan", because JSON has no such numbers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "engine/core/cpu.h"

namespace etalon {

// `isa` is the cap in force; `command_line` what the user typed.
nlohmann::json base_record(std::string_view command_line, Isa isa);

// Numbers that are not finite become texts, at every depth.
void spell_non_finite(nlohmann::json& value);

// From here on standard output belongs to the record ("--json -"): what is printed for people goes
// to stderr.
void keep_stdout_for_record();

// Writes the record, indented, whole or not at all. "-" is standard output.
void write_record(const std::string& path, const nlohmann::json& record);

}  // namespace etalon
