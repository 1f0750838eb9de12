// What a failed CUDA call means, in one sentence: the call, what is the matter, what to do. Plain
// C++ over the runtime's published codes, so that every sentence is tested where there is no GPU.
#pragma once

#include <string>
#include <string_view>

namespace etalon::cuda {

// `text` is the runtime's own (cudaGetErrorString), used where nothing better is known.
std::string failure_sentence(int code, std::string_view call, std::string_view text);

// Throws a `missing` Error (exit code 4) with that sentence unless code is 0. Tensors on the host
// are as they were: results are copied back only after everything before succeeded.
void require_success(int code, std::string_view call, std::string_view text);

}  // namespace etalon::cuda
