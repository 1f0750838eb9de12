// The machine's roofs in a record of `etalon bench`, and each row's share of them.
//
// A roof is what a short measurement gave, or what a row reached where that is more: beside other
// programs the measurement comes out too low, and nothing runs faster than the machine can. Not
// counted are algorithms that need fewer multiplications than the direct form, whose operations a
// row counts (Winograd, FFT): their share may lie above one.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bench/micro/peak.h"

namespace etalon::cli {

// An entry of bench["peaks"].
nlohmann::json peak_json(int threads, const Peak& peak);
// The higher of both records' measurements into the first's.
void merge_peaks(nlohmann::json& into, const nlohmann::json& other);
// Raises bench["peaks"] to what rows of as many threads reached, then writes `of_peak` into each
// row and each of its peers, and the first of the peaks into bench["peak"].
void settle_peaks(nlohmann::json& bench);
void print_peaks(const nlohmann::json& bench);

}  // namespace etalon::cli
