// SPDX-License-Identifier: MIT
#pragma once
// What lies between the projection of queries, keys and values and attention, in one kernel: the norms of
// queries and keys, their rotation, and the writing of keys and values into the cache.
#include "kernels/attention/attention_cuda.h"
#include "kernels/rope/rope_cuda.h"

namespace cheetah::gpu {

template <class T>
struct FinishQkvArgs {
  T* q = nullptr;  // [rows, heads, key_dim], in place
  int64_t q_stride = 0;
  int64_t heads = 0;
  KvWriteArgs<T> write;  // keys as projected; its batch gives rows and positions
  // RMSNorm of each head of q and k: [key_dim] on the device, or none.
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  float eps = 1e-6f;
  float weight_offset = 0.f;
  RopeAngles angles;  // half 0: no rotation
};

// Whether a head fits a warp's registers; else norm, rope and write_kv do the same in three steps.
template <class T>
bool finish_qkv_fits(const FinishQkvArgs<T>& args);
template <class T>
void finish_qkv(const FinishQkvArgs<T>& args, Stream& stream);

}  // namespace cheetah::gpu
