#include "kernels/norm/norm.h"

namespace cheetah {

void rms_norm(const NormArgs& args, const CpuContext&) { rms_norm_reference(args); }
void layer_norm(const NormArgs& args, const CpuContext&) { layer_norm_reference(args); }

}  // namespace cheetah
