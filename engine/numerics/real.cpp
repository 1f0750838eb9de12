#include "engine/numerics/real.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template class RealBig<4>;
template class RealBig<10>;
template class RealBig<36>;

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
