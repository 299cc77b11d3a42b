// SPDX-License-Identifier: MIT
// Tiles of latent rows (MLA): a key's first numbers are its value.
#include "kernels/attention/cuda/mma_attention.cuh"

namespace cheetah::gpu::mma {

void launch_latent(const AttentionArgs<Bf16>& args, Tile tile, const Share& share, Stream& stream) {
  if (tile == Tile::kFew) return launch_tiles<LatentFew>(args, share, stream);
  if (tile == Tile::kMany) return launch_tiles<LatentMany>(args, share, stream);
  launch_tiles<LatentManyLow>(args, share, stream);
}

}  // namespace cheetah::gpu::mma
