#include "engine/numerics/real_f64.h"

#include "engine/numerics/real_f64_inl.h"
