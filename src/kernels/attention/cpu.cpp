#include "kernels/attention/attention.h"

namespace cheetah {

void attention(const AttentionArgs& args, const CpuContext&) { attention_reference(args); }

}  // namespace cheetah
