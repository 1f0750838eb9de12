// How far apart the processors were that rows were timed on, from one repetition to the next.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace etalon::cli {

// Into bench["load"]["line_round_trip"]: least_s, median_s and most_s of what the rows' entries
// hold as line_round_trips_s, and `far`, the share beyond twice the least. Nothing where none holds
// any.
void sum_up_trips(nlohmann::json& bench);

// What a reader of times is told, without a full stop; empty where the processors stayed as they
// were.
std::string trips_text(const nlohmann::json& bench);

}  // namespace etalon::cli
