#include "engine/core/processor.h"

#ifdef __linux__
#include <sched.h>
#endif

namespace etalon {

#ifdef __linux__
int current_processor() { return sched_getcpu(); }

void leave_processor(int processor) {
  cpu_set_t before, others;
  if (sched_getaffinity(0, sizeof before, &before) != 0) return;
  others = before;
  CPU_CLR(static_cast<unsigned>(processor), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof before, &before);
}
#else
int current_processor() { return -1; }
void leave_processor(int) {}
#endif

}  // namespace etalon
