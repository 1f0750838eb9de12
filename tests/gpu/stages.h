// The stages of gpu_evidence (evidence.cpp says what each shows).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/gpu/record.h"

namespace etalon {

// stages_equal.cpp: hashes beside the CPU's
void run_rows(Record& record);
void run_functions(Record& record);
void run_sizes(Record& record);
void run_networks(Record& record);
void run_tensor_cores(Record& record, std::uint64_t cases);
bool run_sanitized();

// Beside the vendors' libraries: stages_vendors.cpp, stages_times.cpp
void run_vendors(Record& record);
// Of shapes whose `OP NAME` has one of the words in it; without words of all.
void run_times(Record& record, std::span<char* const> words);

double median(std::vector<double> v);

}  // namespace etalon
