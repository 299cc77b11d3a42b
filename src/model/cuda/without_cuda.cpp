// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "model/cuda/cuda_runner.h"

namespace cheetah {

std::unique_ptr<Runner> make_cuda_runner(const Model&, Precision, int) {
  throw Error(gpu::cuda_available().reason);
}

}  // namespace cheetah
