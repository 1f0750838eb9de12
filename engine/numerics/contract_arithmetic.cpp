#include "engine/numerics/contract_arithmetic.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template class ContractArithmetic<NativeF32Ops>;
template class ContractArithmetic<SoftOps>;

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
