// SPDX-License-Identifier: MIT
#pragma once
// Which models a decode step may run as one kernel (kernels/decode_chain), and how they look to it.
#include <memory>

#include "kernels/decode_chain/decode_chain.h"
#include "model/cuda/device_weights.h"

namespace cheetah {

// What the transformer does in BF16: all layers, and where makes_logits the final norm and the head too.
struct ModelChain {
  std::unique_ptr<gpu::DecodeChain> kernel;  // none: this model or this card takes the long way
  bool makes_logits = false;
};
ModelChain make_chain(const ModelTraits& traits, const DeviceWeights& weights, const DevicePlace& place);

}  // namespace cheetah
