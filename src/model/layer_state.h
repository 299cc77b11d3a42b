// SPDX-License-Identifier: MIT
#pragma once
// What the parts of a transformer layer hand to each other, and the product they are made of. T is the type of the activations.
#include <cstdint>
#include <type_traits>

#include "model/weights.h"

namespace cheetah {

// Rows of a matrix in a buffer.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;  // elements between rows
  operator Rows<const T>() const requires(!std::is_const_v<T>) { return {data, stride}; }
};

// The same with several heads in each row.
template <class T>
struct HeadRows {
  T* data = nullptr;
  int64_t stride = 0;  // elements between rows
  int64_t step = 0;    // … and between the heads of a row
};

// What a product does with its sums besides storing them.
struct Finish {
  bool gated = false;  // silu(first half) * second half
  bool adds = false;   // to what is there
  bool exact = false;  // in F32 sums of F32 products, where the CPU would choose narrower ones
};

// Queries, keys and values as projected: heads side by side in each row.
template <class T>
struct Qkv {
  Rows<T> q, k, v;
};

// What becomes of them before attention.
struct QkvFinish {
  const float* q_norm = nullptr;  // [head_dim]: RMSNorm of each head, or none
  const float* k_norm = nullptr;
  bool rotates = false;
  bool local_rope = false;
};

// Everything that changes from one part of a layer to the next.
template <class T>
struct LayerState {
  int64_t rows = 0;  // all tokens, and from the last layer's middle on the wanted ones
  T* x = nullptr;    // [rows, hidden]: the residual stream
  Rows<const T> in;  // [rows, hidden]: what the next part takes, x or x after a norm
};

// Where attention's or the MLP's output goes.
template <class T>
struct Branch {
  Rows<T> y;          // [rows, hidden]
  bool adds = false;  // to what is there
};

// y = x W^T (+ bias) of a layer's weights.
template <class Ops, class Y>
void linear(Ops& ops, const Linear& layer, int64_t rows, Rows<const typename Ops::Number> x, Rows<Y> y,
    Finish finish = {}) {
  typename Ops::template GemmArgs<Y> args{.x = x.data,
      .x_stride = x.stride,
      .m = rows,
      .w = layer.w,
      .bias = layer.bias,
      .y = y.data,
      .y_stride = y.stride};
  ops.gemm(args, finish);
}

}  // namespace cheetah
