// SPDX-License-Identifier: MIT
#pragma once
// Products of a few dozen rows with weights in blocks, unpacked on their way to the tensor cores. Device
// pointers everywhere.
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/hopper_blocks.h"

namespace cheetah::gpu {

// x is not rounded. Numbers of W and their scale and offset are rounded to BF16; of Q8_0 and MXFP4 the
// numbers alone. Any number of rows: W is read again for every 64 of them; of MXFP4, whose unpacking leaves
// no registers for more sums, for every 32.
constexpr int64_t packed_rows(DType dtype) { return dtype == DType::kMXFP4 ? 32 : 64; }
bool is_packed(DType dtype);  // Q4_0, Q8_0, Q4_K, Q5_K, Q6_K or MXFP4
bool hopper_packed_fits(const HopperBlocksArgs& args, const DeviceInfo& device);
void hopper_packed_gemm(const HopperBlocksArgs& args, Stream& stream);

// Experts; args.w of packed_weight_map. W is read again for every 16 or 32 rows of an expert.
TensorMap packed_weight_map(const WeightMatrix& w);
bool can_map_packed(const WeightMatrix& w);  // whether the copy engine can read it
bool hopper_packed_experts_fit(const HopperGroupedArgs& args, const DeviceInfo& device);
void hopper_packed_experts(const HopperGroupedArgs& args, Stream& stream);

// Rows of W that have to lie one behind another for the copy engine to step over them: it steps in 16 bytes.
int packed_fold(int64_t row_bytes);
int packed_pitch(DType dtype);  // bytes that a row of a unit takes in shared memory

}  // namespace cheetah::gpu
