#pragma once
// Which models a decode step may run as one kernel (kernels/decode_chain), and how they look to it.
#include <string>

#include "kernels/decode_chain/decode_chain.h"
#include "model/cuda/device_weights.h"

namespace cheetah {

// Empty, or what keeps this architecture from it.
std::string why_no_chain(const ModelTraits& traits);

// A matrix as the kernel takes it: empty where its scales are not of rows.
gpu::ChainMatrix chain_matrix(const WeightMatrix& w);
// The model as the kernel takes it; what of it does not fit the device gpu::why_no_chain tells.
gpu::ChainModel chain_model_of(const ModelTraits& traits, const DeviceWeights& weights);

}  // namespace cheetah
