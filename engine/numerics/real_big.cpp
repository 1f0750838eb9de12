#include "engine/numerics/real_big_inl.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template class RealBig<4>;
template class RealBig<10>;
template class RealBig<36>;

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
