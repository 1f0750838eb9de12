// The processor that a thread runs on.
#pragma once

namespace etalon {

// Its number, or -1 where the system does not say.
int current_processor();

// Moves the calling thread to another processor, if it may run on one. Where it may run afterwards
// is what it was before.
void leave_processor(int processor);

}  // namespace etalon
