// SPDX-License-Identifier: MIT
#pragma once
// CUDA's status codes as Errors.
#include <cuda_runtime_api.h>

#include "base/error.h"
#include "gpu/stream.h"

namespace cheetah::gpu {

// Throws Error: "cudaErrorInvalidValue: invalid argument (memory.cpp:42)".
void check(cudaError_t status, SourceLocation at = SourceLocation::current());

// The same for a call that reports what earlier work did: adds the stream's last launches, newest first.
void check(cudaError_t status, Stream& stream, SourceLocation at = SourceLocation::current());

}  // namespace cheetah::gpu
