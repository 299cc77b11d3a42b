// SPDX-License-Identifier: MIT
#pragma once
// Tells the weights of two models of one shape apart without reading all of them.
#include <cstdint>

#include "model/weights.h"

namespace cheetah {

// Of some bytes of every matrix, spread over its whole length: a model that was trained further has another one.
uint64_t fingerprint_of(const ModelWeights& weights);

}  // namespace cheetah
