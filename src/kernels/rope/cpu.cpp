#include "kernels/rope/rope.h"

namespace cheetah {

void rope(const RopeArgs& args, const CpuContext&) { rope_reference(args); }

}  // namespace cheetah
