// SPDX-License-Identifier: MIT
#pragma once
// A model's weights on the device.
#include <span>
#include <vector>

#include "kernels/gemm/gemm_cuda.h"
#include "model/cuda/placement.h"
#include "model/model.h"
#include "model/weights.h"

namespace cheetah {

// The pointer tables that grouped products take.
struct DeviceLayerTables {
  gpu::WeightMatrices k_up, v_up;               // MLA, one a head
  gpu::WeightMatrices gate_up, gate, up, down;  // one an expert; gate and up only where gate_up is empty
};

struct DeviceRope {
  const float* inv_freq = nullptr;
  const float* long_inv_freq = nullptr;
};

// Owns the copies. weights() has the shape of the host's, with device pointers; matrices that are multiplied
// by the same rows (q, k, v; gate, up) are put side by side where their types allow it, and joined.
class DeviceWeights {
 public:
  DeviceWeights(const ModelWeights& host, const ModelTraits& traits, const DevicePlace& place);

  const ModelWeights& weights() const { return weights_; }
  const DeviceLayerTables& tables(size_t layer) const { return tables_[layer]; }
  const DeviceRope& rope() const { return rope_; }
  const DeviceRope& local_rope() const { return local_rope_; }

 private:
  void plan(const ModelTraits& traits);
  void translate(const ModelTraits& traits);
  void make_tables(const ModelTraits& traits);
  gpu::WeightMatrices table_of(
      const std::vector<WeightMatrix>& matrices, const std::vector<const float*>& biases);
  DeviceRope upload_rope(const RopeTraits& rope);
  const std::byte* keep(std::span<const std::byte> bytes);  // a small array of our own

  DevicePlace place_;
  ModelWeights weights_;  // without `owned`
  Placement placement_;
  gpu::DeviceBuffer block_;
  std::vector<gpu::DeviceBuffer> kept_;
  std::vector<DeviceLayerTables> tables_;
  DeviceRope rope_, local_rope_;
};

// Copies every placed piece into `block` through pinned memory, reading the next while the last one travels.
void upload_pieces(const Placement& placement, const gpu::DeviceBuffer& block, gpu::Stream& stream);

}  // namespace cheetah
