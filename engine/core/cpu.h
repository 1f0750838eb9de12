// Which instruction set a kernel may use on this machine.
#pragma once

#include <string>
#include <string_view>

namespace etalon {

// Ordered: each includes the ones before it. sse2 is the baseline of x86-64 (on another processor,
// the portable code). avx2 means AVX2 with FMA and F16C; avx512 means F, BW, DQ and VL; amx adds
// the int8 and bf16 tiles.
enum class Isa { sse2, avx2, avx512, amx };

std::string_view name(Isa isa);
Isa parse_isa(std::string_view text);  // usage Error that lists the names
Isa detect_isa();                      // what this machine has, asked once
std::string cpu_model();               // "Intel(R) Xeon(R) ...", from the operating system

}  // namespace etalon
