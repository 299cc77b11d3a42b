// SPDX-License-Identifier: MIT
#pragma once
// Named ranges in Nsight Systems' timeline; nothing when built with CHEETAH_NVTX=OFF.

namespace cheetah::gpu {

class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
  ~NvtxRange();
};

}  // namespace cheetah::gpu
