// SPDX-License-Identifier: MIT
// One block per token.
// bytes  each token's row of the table, and y    bound  memory
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/embed/embed_cuda.h"
#include "kernels/quant/cuda/weight_value.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ __launch_bounds__(kThreads) void embed_rows(
    const EmbedArgs<T> args, BlockShape shape, int64_t row_bytes) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int32_t fed = args.fed ? args.fed[blockIdx.x] : -1;
  const int32_t id = fed < 0 ? args.ids[blockIdx.x] : args.fed_ids[fed];
  if (fed >= 0 && threadIdx.x == 0) args.chosen[blockIdx.x] = id;
  const std::byte* row = args.table.data + id * row_bytes;
  T* y = args.y + blockIdx.x * args.y_stride;
  for (int64_t i = threadIdx.x; i < args.table.cols; i += kThreads)
    y[i] = narrow<T>(id < 0 ? 0.f : args.scale * weight_value(args.table.dtype, shape, row, i));
}

}  // namespace

template <class T>
void embed(const EmbedArgs<T>& args, Stream& stream) {
  const WeightMatrix& table = args.table;
  launch({.kernel = "embed",
             .grid = {args.count},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.count, table.rows, table.cols, static_cast<int64_t>(table.dtype)}},
      stream, embed_rows<T>, args, block_shape(table.dtype), row_bytes(table.dtype, table.cols));
}

template void embed<float>(const EmbedArgs<float>&, Stream&);
template void embed<Bf16>(const EmbedArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu
