// The lab in WebAssembly: one function, a question in, an answer out, both UTF-8 and ended by NUL.
// Memory for the question comes from malloc, which the module exports.
#include <emscripten.h>

#include <string>

#include "bench/lab/answer.h"

extern "C" EMSCRIPTEN_KEEPALIVE const char* etalon_answer(const char* question) {
  static std::string reply;
  reply = etalon::lab::answer(question);
  return reply.c_str();
}
