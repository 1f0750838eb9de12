// The stages of gpu_evidence (evidence.cpp says what each shows). Those with `equal` make it false
// where a hash differs.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/gpu/record.h"

namespace etalon {

// stages_equal.cpp: hashes beside the CPU's
void run_rows(Record& record, bool& equal);
void run_sizes(Record& record, bool& equal);
void run_networks(Record& record, bool& equal);
void run_tensor_cores(Record& record, std::uint64_t tiles, bool& equal);
bool run_sanitized();

// stages_vendors.cpp: beside the vendors' libraries
void run_vendors(Record& record);
void run_times(Record& record);

double median(std::vector<double> v);

}  // namespace etalon
