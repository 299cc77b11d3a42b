// SPDX-License-Identifier: MIT
#include "gpu/nvtx.h"

#ifdef CHEETAH_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace cheetah::gpu {

#ifdef CHEETAH_NVTX
NvtxRange::NvtxRange(const char* name) { nvtxRangePushA(name); }
NvtxRange::~NvtxRange() { nvtxRangePop(); }
#else
NvtxRange::NvtxRange(const char*) {}
NvtxRange::~NvtxRange() = default;
#endif

}  // namespace cheetah::gpu
