// SPDX-License-Identifier: MIT
#include <string_view>

#include "base/format.h"
#include "gpu/check.cuh"

namespace cheetah::gpu {
namespace {

std::string describe(cudaError_t status, SourceLocation at) {
  std::string_view file = at.file_name();
  if (const size_t slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return format("{}: {} ({}:{})", cudaGetErrorName(status), cudaGetErrorString(status), file, at.line());
}

}  // namespace

void check(cudaError_t status, SourceLocation at) {
  if (status != cudaSuccess) throw Error(describe(status, at), at);
}

void check(cudaError_t status, Stream& stream, SourceLocation at) {
  if (status == cudaSuccess) return;
  const std::string launches = stream.log().text();
  throw Error(
      describe(status, at) + (launches.empty() ? "" : "; last launches, newest first:\n" + launches), at);
}

}  // namespace cheetah::gpu
