// SPDX-License-Identifier: MIT
#include "kernels/embed/embed.h"

#include "kernels/quant/quant.h"

namespace cheetah {

void embed(const EmbedArgs& args, const CpuContext& context) {
  const int64_t hidden = args.table.cols;
  const int64_t bytes = row_bytes(args.table.dtype, hidden);
  const auto tokens = static_cast<int64_t>(args.ids.size());
  constexpr int64_t kTokensAtOnce = 8;  // a few microseconds of copying: worth waking a worker for
  context.pool.parallel_for(tokens, kTokensAtOnce, [&](int64_t begin, int64_t end, int) {
    for (int64_t token = begin; token < end; ++token) {
      float* y = args.y + token * args.y_stride;
      const int64_t row = args.ids[static_cast<size_t>(token)];
      dequantize_row(args.table.dtype, args.table.data + row * bytes, y, hidden);
      if (args.scale == 1.f) continue;
      for (int64_t i = 0; i < hidden; ++i) y[i] *= args.scale;
    }
  });
}

}  // namespace cheetah
